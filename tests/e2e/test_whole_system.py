"""Every part dies once in the midst of a change: what was up stays up, and what was changed comes to be.

laptop ══════════ tunnel ══════════ gateway ── wiki
   controller ──┬── Postgres
   dns-updater ─┘── BIND
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
import signal
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import pytest_asyncio
from culvert_db.embedded import EmbeddedPostgres
from culvert_lab import bind9, parts
from culvert_lab import topology as net
from culvert_lab.errors import StepError
from culvert_lab.office import Office, open_office
from culvert_lab.process import Running
from culvert_lab.topology import Site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MARK = ("TXT", f'"{parts.TXT}"')


class Database(EmbeddedPostgres):
    """No part's own: it dies and restarts alone. Its URL has a password, as most have; this server does not ask for it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.password = secrets.token_urlsafe()
        self._lock = directory / "data/postmaster.pid"

    @property
    def url(self) -> str:
        return super().url.replace("@", f":{self.password}@", 1)

    async def die(self) -> None:
        os.kill(int(self._lock.read_text().split("\n", 1)[0]), signal.SIGKILL)
        await self.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Database]:
    server = Database(tmp_path_factory.mktemp("pg"))
    async with server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CULVERT_DATABASE_URL", server.url)
            yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(postgres: Database) -> AsyncGenerator[Office]:
    async with open_office() as office:
        yield office


async def use(office: Office) -> None:
    """The tunnel, by the address behind it: no name server is asked."""
    argv = ["curl", "-sS", "--max-time", "10", f"http://{net.WIKI_ADDRESS}/"]
    while True:
        found = await office.lab.run(Site.LAPTOP, argv, seconds=15.0)
        assert found.code == 0, found.stderr
        await asyncio.sleep(0.2)


async def disagreement(office: Office) -> object:
    """Differences between zone and profiles, and between gateway and tunnels; None if there are none."""
    admin, bind = office.joined.admin, office.joined.bind
    try:
        resources = await admin.get("/resources")
        tunnels = await admin.get("/tunnels")
        entries = (await admin.get(f"/gateways/{parts.GATEWAY}/entries"))["entries"]
    except (StepError, httpx.HTTPError) as error:
        return error
    zone = await office.lab.inside(Site.LAPTOP).run(bind.transfer)
    wanted = {it["fqdn"]: {("A", net.WIKI_ADDRESS), MARK} for it in resources}
    if (found := {name: records for name, records in zone.items() if MARK in records}) != wanted:
        return wanted, found
    if stray := [entry for entry in entries if entry["standing"] != "held"]:
        return stray
    # Each tunnel has one SA pair, its policies, and the policy for answers to probes.
    counted = sum(entry["table"].startswith(("sad_", "spd_")) for entry in entries)
    return None if counted == 5 * len(tunnels) else (tunnels, entries)


async def agreed(office: Office, tunnel: str) -> None:
    deadline = time.monotonic() + 60
    while (found := await disagreement(office)) is not None:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.1)
    assert [it["id"] for it in await office.joined.admin.get("/tunnels")] == [tunnel]


async def killed(program: Running) -> str:
    """All that it said."""
    program.kill()
    await program.stop()
    return program.text()


def known(office: Office, postgres: Database) -> set[str]:
    """Secrets that no log may hold."""
    token = (office.joined.controller.state / "admin-token").read_text().strip()
    totp = parse_qs(urlsplit(office.totp_uri).query)["secret"][0]
    return {postgres.password, office.joined.bind.tsig_secret, token, totp}


async def test_each_part_dies_once_and_nothing_is_lost_and_no_log_holds_a_secret(
    office: Office, postgres: Database
) -> None:
    lab, admin = office.lab, office.joined.admin
    found = await office.culvert("open", await office.add_resource("vault"))
    assert found.code == 0, found.stderr
    [tunnel] = [it["id"] for it in await admin.get("/tunnels")]
    using = asyncio.create_task(use(office))

    async def change(added: str, *, gone: str | None = None) -> None:
        await parts.create_resource(admin, name=added, fqdn=f"{added}.{net.ZONE}")
        if gone is not None:
            await admin.delete(f"/resources/{gone}")

    await change("one")
    said = await killed(office.joined.controller.program)
    controller = await parts.start_controller(lab)
    office.joined = dataclasses.replace(office.joined, controller=controller)
    await agreed(office, tunnel)

    admin = controller.admin
    await change("two", gone="one")
    said += await killed(office.joined.updater)
    await change("three")
    office.joined = dataclasses.replace(
        office.joined, updater=await parts.start_dns_updater(lab, office.joined.bind)
    )
    await agreed(office, tunnel)

    await change("four", gone="two")
    await postgres.die()
    await postgres.start()
    await agreed(office, tunnel)
    await change("five", gone="three")
    await agreed(office, tunnel)

    await change("six", gone="four")
    await office.joined.bind.program.stop()
    await change("seven", gone="five")
    office.joined = dataclasses.replace(office.joined, bind=await bind9.start_again(lab, office.joined.bind))
    await agreed(office, tunnel)
    assert not using.done(), using
    using.cancel()
    said += "".join(log.read_text(errors="replace") for log in (lab.work / "logs").iterdir())
    assert "the database" in said
    assert [secret for secret in known(office, postgres) if secret in said] == []
