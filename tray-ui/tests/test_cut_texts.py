"""No text of window and dialogs is cut, in any state and language, on low screens, in points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCREENS = {
    "1024 x 600": {"width": 1024, "height": 600, "dpr": 1},
    "1366 x 768 at 200 %": {"width": 683, "height": 384, "dpr": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("size", SCREENS)
@pytest.mark.parametrize("locale", ["en_GB.UTF-8", "de_DE.UTF-8"])
def test_no_text_is_cut(tmp_path: Path, locale: str, size: str) -> None:
    screens = tmp_path / "screens.json"
    screen = {"name": "low", "x": 0, "y": 0, "logicalDpi": 96, **SCREENS[size]}
    screens.write_text(json.dumps({"screens": [screen]}))
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
