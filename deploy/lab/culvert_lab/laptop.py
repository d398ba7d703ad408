"""What a person does at the laptop: open a page, download a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from culvert_lab.download import Download
from culvert_lab.errors import StepError
from culvert_lab.lab import Lab
from culvert_lab.process import Finished
from culvert_lab.topology import Site
from culvert_lab.visit import Visit

BROWSER_SECONDS = 90.0
DOWNLOAD_SECONDS = 300.0


async def open_page(lab: Lab, url: str, picture: Path | None = None) -> Visit:
    """Open it in Chromium. A page that does not open is a Visit with an error. Raises StepError when Chromium fails."""
    argv = [sys.executable, "-m", "culvert_lab.browser", url, *([str(picture)] if picture else [])]
    return Visit(**_answer(await lab.run(Site.LAPTOP, argv, seconds=BROWSER_SECONDS), "Chromium"))


async def download(lab: Lab, url: str) -> Download:
    """Fetch known bytes and check them. Raises StepError when the program fails, not when the download does."""
    argv = [sys.executable, "-m", "culvert_lab.download", url]
    return Download(**_answer(await lab.run(Site.LAPTOP, argv, seconds=DOWNLOAD_SECONDS), "The download"))


def _answer(found: Finished, who: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(found.stdout)
    except json.JSONDecodeError:
        raise StepError(f"{who} did not answer (status {found.code}):\n{found.stderr[-1500:]}") from None
    return answer
