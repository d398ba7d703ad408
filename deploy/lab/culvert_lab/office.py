"""The whole of Culvert in the lab, alice enrolled: where tests and benchmarks begin."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path

from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.demo import Joined, join
from culvert_lab.lab import Lab
from culvert_lab.process import Finished, Running
from culvert_lab.progress import Progress
from culvert_lab.topology import Site

CULVERT = str(parts.PROGRAMS / "culvert")
LOGS = parts.ROOT / "build/office-logs"


@dataclass(slots=True)
class Office:
    """The lab with all parts up, alice's laptop enrolled and one code proven."""

    lab: Lab
    joined: Joined
    daemon: Running
    totp_uri: str

    async def culvert(self, *argv: str, stdin: str = "") -> Finished:
        """The command line on the laptop."""
        return await self.lab.run(Site.LAPTOP, [CULVERT, *argv], stdin=stdin, seconds=30.0)

    async def fetch(self, name: str = net.WIKI_NAME, seconds: float = 10.0) -> Finished:
        """The page by curl; its resolver is culvertd."""
        argv = ["curl", "-sS", "--max-time", str(seconds), f"http://{name}/"]
        return await self.lab.run(Site.LAPTOP, argv, seconds=seconds + 5)

    async def add_resource(self, name: str, **fields: object) -> str:
        """Publish another name on the wiki's server; gives its FQDN."""
        fqdn = f"{name}.{net.ZONE}"
        await parts.create_resource(self.joined.admin, name=name, fqdn=fqdn, **fields)
        await parts.wait_published(self.lab, self.joined.bind, fqdn)
        return fqdn


@contextlib.asynccontextmanager
async def open_office(
    work: Path = parts.ROOT / "build/lab", settings: Mapping[str, str] | None = None
) -> AsyncGenerator[Office]:
    """Up, joined, enrolled; and all of it gone afterwards, but for the logs in LOGS. `settings` are the controller's."""
    async with Lab(work) as lab:
        joined = await join(lab, Progress(), settings)
        daemon = await laptop.start_daemon(lab)
        uri = await laptop.enrol(lab, await parts.invite(joined.admin))
        await laptop.prove_code(lab, uri)
        try:
            yield Office(lab, joined, daemon, uri)
        finally:
            shutil.rmtree(LOGS, ignore_errors=True)
            shutil.copytree(lab.work / "logs", LOGS)
