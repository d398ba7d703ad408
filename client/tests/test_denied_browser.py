"""A real browser on a denied name: the reason, the code, and then the page that was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


def test_the_reason_is_shown_and_the_code_opens_the_page() -> None:
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "client.tests.denied_browser"]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    seen = json.loads(ended.stdout)
    assert seen["evil"] == ["rejected", "rejected"]
    assert seen["code after evil"] == 0
    assert seen["heading"] == "A code is needed before tunnels can be opened."
    assert seen["wrong"].startswith("The code is wrong.")
    assert seen["opened"] == "the wiki: /guide?part=2"
    assert seen["address"] == "http://wiki.corp.example/guide?part=2"
    assert "/guide?part=2" in seen["visits"]
    assert seen["next"] == "the wiki: /next"
    assert seen["kept"].endswith("<h1>the wiki: /kept</h1>")
    assert seen["refused"] == "No policy lets alice reach git.corp.example."
    assert seen["links"][0] == "mailto:bob@corp.example?subject=Access%20to%20git.corp.example"
