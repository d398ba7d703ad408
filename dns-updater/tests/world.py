"""The database as an administrator fills it, and updaters that read it: in this process, or as daemons to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from culvert_db import Database, DnsLease, DnsRecord, DnsZone, DnsZoneStatus, Resource
from culvert_dns_updater.keeper import Means
from culvert_dns_updater.store import Store
from culvert_dns_updater.tsig_key import KeyDirectory
from culvert_dns_updater.updater import Updater
from sqlalchemy import delete, make_url, select

from .name_server import KEY_NAME, ZONE, NameServer

PASSWORD = "of-the-updater"
# The limit of one exchange, long enough for a loaded machine.
TIMEOUT = 20.0
_DAEMON = "import sys; from culvert_dns_updater.cli import main; sys.exit(main(sys.argv[1:]))"
_LIMITS = {"idle_seconds": 60, "soft_packets": 0, "soft_bytes": 0, "soft_seconds": 0}


@dataclass(frozen=True, slots=True)
class World:
    """`database_url` is the owner's; updaters use the URL of their own role."""

    database_url: str
    database: Database
    directory: Path

    @property
    def updater_url(self) -> str:
        url = make_url(self.database_url)
        own = url.set(username=f"{url.database}_dns", password=PASSWORD)
        return own.render_as_string(hide_password=False)

    async def publish_to(self, server: NameServer, name: str = "corp", /, **fields: object) -> int:
        """A zone's row; its number."""
        values = {"origin": ZONE, "server": server.address, "port": server.port, "key": KEY_NAME, **fields}
        async with self.database.begin() as session:
            zone = DnsZone(name=name, **values)
            session.add(zone)
        return zone.id

    async def put(self, addresses: Mapping[str, str]) -> None:
        """Resources by name: made, or moved, in one transaction. Addresses are separated by spaces."""
        async with self.database.begin() as session:
            found = await session.scalars(select(Resource).where(Resource.fqdn.in_(addresses)))
            present = {resource.fqdn: resource for resource in found}
            for fqdn, address in addresses.items():
                if fqdn in present:
                    present[fqdn].targets = _at(address)
                else:
                    owner = "bob@corp.example"
                    session.add(Resource(name=fqdn, fqdn=fqdn, targets=_at(address), owner=owner, **_LIMITS))

    async def delete(self, names: Iterable[str]) -> None:
        async with self.database.begin() as session:
            await session.execute(delete(Resource).where(Resource.fqdn.in_(list(names))))

    async def records(self) -> dict[tuple[str, str], DnsRecord]:
        async with self.database() as session:
            return {(row.name, row.type): row for row in await session.scalars(select(DnsRecord))}

    async def status(self) -> DnsZoneStatus:
        async with self.database() as session:
            return (await session.scalars(select(DnsZoneStatus))).one()

    async def holder(self) -> str | None:
        async with self.database() as session:
            return await session.scalar(select(DnsLease.holder))

    @contextlib.asynccontextmanager
    async def updater(
        self, server: NameServer, patience: float = TIMEOUT, holder: str = "test"
    ) -> AsyncGenerator[Updater]:
        store = Store(self.updater_url, holder, lease_seconds=60)
        try:
            yield Updater(Means(store, KeyDirectory(server.key_dir), patience))
        finally:
            await store.close()

    @contextlib.asynccontextmanager
    async def running(
        self, server: NameServer, poll: float = 3600, lease_seconds: float = 60
    ) -> AsyncGenerator[Updater]:
        async with self.updater(server) as updater:
            task = asyncio.create_task(updater.run(poll, lease_seconds))
            try:
                yield updater
            finally:
                updater.stop()
                async with asyncio.timeout(60):
                    await task

    async def daemon(
        self, server: NameServer, *command: str, **environment: str
    ) -> asyncio.subprocess.Process:
        """`culvert-dns-updater run`, or another command; it logs to DIRECTORY/updater.log."""
        env = os.environ | {
            "CULVERT_DNS_DATABASE_URL": self.updater_url,
            "CULVERT_DNS_KEY_DIR": str(server.key_dir),
            "CULVERT_DNS_TIMEOUT_SECONDS": str(TIMEOUT),
            "CULVERT_DNS_LEASE_SECONDS": "3",
            **environment,
        }
        with (self.directory / "updater.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-c", _DAEMON, *(command or ("run",)), env=env, stderr=log
            )

    def log(self) -> str:
        return (self.directory / "updater.log").read_text()


def _at(addresses: str) -> list[dict[str, Any]]:
    return [{"prefix": str(ip_network(address))} for address in addresses.split()]


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110  another process's state
            await asyncio.sleep(0.02)
