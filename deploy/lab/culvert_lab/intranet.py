"""The intranet behind the gateway: one web server, which knows nothing of tunnels."""

from __future__ import annotations

import json
import sys
import urllib.request

from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.topology import WIKI_ADDRESS, Site


async def start(
    lab: Lab,
    *,
    name: str = "web",
    site: Site = Site.INTRANET,
    address: str = WIKI_ADDRESS,
    port: int = 80,
) -> Running:
    """Start the web server, whose log is NAME.log. Raises ProgramError."""
    program = await lab.start(name, site, [sys.executable, "-m", "culvert_lab.web", address, str(port)])
    await program.ready("^ready")
    return program


async def resent(lab: Lab) -> int:
    """Bytes of the newest download that the server's TCP sent again because they were lost on the way."""
    newest = (await lab.inside(Site.INTRANET).run(_downloads))[-1]
    # A repeat that the receiver called a duplicate (RFC 2883) was needless: nothing had been lost.
    return newest["resent_bytes"] if newest["resent_segments"] > newest["needless_segments"] else 0


def _downloads() -> list[dict[str, int]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{WIKI_ADDRESS}/downloads", timeout=5.0) as answer:
        found: list[dict[str, int]] = json.load(answer)
    return found
