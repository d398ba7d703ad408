"""No text of window and dialogs is cut, in any state and language, on a screen of 1024 × 600 points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCREEN = {"name": "low", "x": 0, "y": 0, "width": 1024, "height": 600, "logicalDpi": 96, "dpr": 1}


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["en_GB.UTF-8", "de_DE.UTF-8"])
def test_no_text_is_cut(tmp_path: Path, locale: str) -> None:
    screens = tmp_path / "screens.json"
    screens.write_text(json.dumps({"screens": [SCREEN]}))
    ran = subprocess.run(
        [sys.executable, "-m", "tests.cut_texts"],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"LC_ALL": locale, "QT_QPA_PLATFORM": f"offscreen:configfile={screens}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
