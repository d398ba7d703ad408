"""The intranet behind the gateway: one web server, which knows nothing of tunnels."""

from __future__ import annotations

import sys

from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.topology import WIKI_ADDRESS, Site


async def start(
    lab: Lab, *, site: Site = Site.INTRANET, address: str = WIKI_ADDRESS, port: int = 80
) -> Running:
    """Start the web server. Raises ProgramError."""
    program = await lab.start("web", site, [sys.executable, "-m", "culvert_lab.web", address, str(port)])
    await program.ready("^ready")
    return program
