"""`make demo`, as a newcomer runs it: the whole first page, its verdict, the console, and nothing left behind."""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from culvert_lab import parts, topology

BUILD = parts.ROOT / "build"
KEYS = {
    "first_page_ms",
    "dns_held_ms",
    "tunnel_setup_ms",
    "esp_packets",
    "cleartext_packets",
    "bytes_lost_at_rekey",
    "entries_left",
}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_first_page_opens_and_nothing_is_left_behind() -> None:
    results = [BUILD / name for name in ("demo.json", "demo.png", "demo.svg")]
    for result in results:
        result.unlink(missing_ok=True)
    demo = subprocess.run(
        [parts.PROGRAMS / "culvert-lab", "demo", "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr

    figures = json.loads(results[0].read_text())
    assert figures.keys() >= KEYS
    assert figures["cleartext_packets"] == figures["bytes_lost_at_rekey"] == figures["entries_left"] == 0
    assert figures["esp_packets"] > 100
    assert 0 < figures["tunnel_setup_ms"] < figures["dns_held_ms"] < figures["first_page_ms"]
    assert all(result.stat().st_size > 1000 for result in results[1:])

    _nothing_is_left()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_stays_up_and_leads_to_the_console() -> None:
    argv = [parts.PROGRAMS / "culvert-lab", "demo"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        said = ""
        while "Ctrl-C" not in said and (line := demo.stdout.readline()):
            said += line
        try:
            link = re.search(r"https://127\.0\.0\.1:8443/console/setup#token=\S+", said)
            assert link is not None, said
            trusted = ssl.create_default_context(
                cafile=BUILD / "lab/controller/run/controller/infrastructure-ca.pem"
            )
            assert "<title>Culvert" in httpx.get(link[0].partition("#")[0], verify=trusted).text
        finally:
            demo.send_signal(signal.SIGINT)
            said += demo.stdout.read()
    assert demo.returncode == 0, said
    _nothing_is_left()


def _nothing_is_left() -> None:
    assert not [site for site in topology.Site if (Path("/run/netns") / site.value).exists()]
    assert not (BUILD / "lab").exists()
    programs = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in programs.splitlines() if "culvertd" in line or "release/sluice" in line]
