"""The controller on Postgres as operators run it: Debian's and the newest release, standbys, PgBouncer."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from culvert_db import create_engine
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason
from culvert_service.config import ConfigurationError
from culvert_service.controller.database import open_database
from postgres_servers import DEBIAN, PGBOUNCER, RELEASES, Server, pair, pgbouncer, switch_over
from sqlalchemy import text

from .conftest import Device, World, next_event, running, serving, settings_in, until
from .copying import copy
from .switch import Switch
from .test_database_away import by_driver, ready, under_use
from .test_faults import opens

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
needs_pgbouncer = pytest.mark.skipif(PGBOUNCER is None, reason="needs PgBouncer")
_OF_GATEWAYS = ("culvert_service.gateways.link", "culvert_service.tunnels.failover", "finsy")
on_each_release = pytest.mark.parametrize("programs", RELEASES, ids=lambda it: it.parent.name)


@asynccontextmanager
async def wiki(
    folder: Path, at: Switch | None = None, /, **settings: object
) -> AsyncGenerator[tuple[World, Device]]:
    """A controller, and a device that may open the wiki."""
    switch, port = at or Switch(), free_port()
    async with running(settings_in(folder, agent_calls_per_second=1000, **settings)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await world.add_gateway("gw-berlin", port)
        async with serving(world, switch, "gw-berlin", port):
            await world.online("gw-berlin")
            await world.add_wiki(["gw-berlin"])
            device = await world.enrol()
            await device.prove()
            yield world, device


def told(caplog: pytest.LogCaptureFixture) -> collections.Counter[tuple[str, str]]:
    """Count the warnings of each part, without those of gateways' links; none has a traceback."""
    warnings = [
        record
        for record in caplog.records
        if record.levelname in ("WARNING", "ERROR") and not record.name.startswith(_OF_GATEWAYS)
    ]
    assert [record.getMessage() for record in warnings if record.exc_info] == []
    return collections.Counter((it.getMessage(), str(getattr(it, "work", ""))) for it in warnings)


@on_each_release
async def test_after_a_switchover_the_new_primary_is_used(
    tmp_path: Path, programs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(tmp_path, programs) as (first, second):
        both = f"postgresql://culvert@127.0.0.1:{first.port},127.0.0.1:{second.port}/postgres"
        async with wiki(tmp_path, database_url=both) as (world, device):
            async with under_use(world, device) as use:
                await switch_over(first, second)
                await ready(world)
                made = use.made
                await until(lambda: asyncio.sleep(0, use.made), lambda now: now > made + 4)
            assert set(use.refused) <= {"DATABASE_DOWN", "GATEWAY_DOWN", "GATEWAY_REFUSED"}
            await world.online("gw-berlin")
            await opens(device)
    assert max(told(caplog).values(), default=0) <= 3


class Address:
    """A virtual address, which leads to one server and later to another. What is connected already stays so."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, server), copy(server_reader, writer))


async def test_a_database_address_that_leads_to_a_standby_is_one_outage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(tmp_path, RELEASES[-1]) as (first, second):
        address = Address(first.port)
        async with await asyncio.start_server(address, "127.0.0.1", 0) as relay:
            port = relay.sockets[0].getsockname()[1]
            url = f"postgresql://culvert@127.0.0.1:{port}/postgres"
            async with wiki(tmp_path, database_url=url) as (world, device):
                # The address stays at the old primary, which is a standby already.
                await switch_over(first, second)
                refused = await until(
                    lambda: world.anyone.get("/readyz"),
                    lambda answer: answer.json()["checks"] == {"database": "it is read-only"},
                )
                assert refused.status_code == 503
                heard = set[str]()
                for _ in range(10):
                    heard.add((await world.admin.get("/api/v1/tunnels")).json()["reason"])
                    heard.add((await world.admin.delete("/api/v1/resources/wiki")).json()["reason"])
                    with pytest.raises(CulvertError) as down:
                        await device.open()
                    heard.add(down.value.reason.name)
                assert heard == {Reason.DATABASE_DOWN.name}
                assert max(told(caplog).values()) <= 3
                address.port = second.port
                await ready(world)
                await world.online("gw-berlin")
                await opens(device)


@pytest.mark.long
@on_each_release
async def test_too_many_connections_at_the_server_are_database_down(
    tmp_path: Path, programs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path / "server", programs)
    await server.make("--encoding=UTF8")
    await server.start("max_connections=12", "superuser_reserved_connections=2", "max_wal_senders=0")
    try:
        async with wiki(tmp_path, database_url=server.url()) as (world, device):
            await _many_at_once(world)
            await ready(world)
            await opens(device)
    finally:
        await server.stop()
    told(caplog)


async def _many_at_once(world: World) -> None:
    paths = ["/api/v1/tunnels", "/api/v1/resources", "/api/v1/users"] * 20
    answers = await asyncio.gather(*(world.admin.get(path) for path in paths))
    reasons = {answer.json()["reason"] for answer in answers if not answer.is_success}
    assert reasons <= {"DATABASE_DOWN"}, reasons


@pytest.mark.long
@needs_pgbouncer
@on_each_release
async def test_behind_a_pooler_of_transactions(
    tmp_path: Path, programs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path / "server", programs)
    await server.make("--encoding=UTF8")
    await server.start()
    try:
        async with pgbouncer(tmp_path / "pooler", server, "transaction", default_pool_size=40) as port:
            pooled = f"postgresql://culvert@127.0.0.1:{port}/postgres"
            with pytest.raises(
                ConfigurationError, match=r"pool_mode=transaction.* Remedy: name the server itself"
            ):
                async with open_database(settings_in(tmp_path, database_url=pooled)):
                    pass
            elsewhere = {"database_url": pooled, "database_direct_url": server.url("template1")}
            with pytest.raises(ConfigurationError, match="lead to different databases"):
                async with open_database(settings_in(tmp_path, **elsewhere)):
                    pass
            urls = {"database_url": pooled, "database_direct_url": server.url()}
            async with wiki(tmp_path, **urls) as (world, device):
                events = device.watch()
                await next_event(events, "profile")
                async with under_use(world, device) as use:
                    await _many_at_once(world)
                    made = use.made
                    await until(lambda: asyncio.sleep(0, use.made), lambda now: now > made + 20)
                assert use.refused == []
                await opens(device)
                await _hears(world)
    finally:
        await server.stop()
    assert told(caplog) == {}


async def _hears(world: World) -> None:
    """A notification comes to the controller: a zone that Culvert keeps is managed from now on."""
    zone = {"name": "lab", "origin": "lab.example", "server": "127.0.0.1", "port": 53, "key": "k"}
    await world.rest("POST", "/dns/zones", zone)

    async def managed() -> list[str]:
        return (await world.rest("GET", "/controller"))["managed_zones"]

    await until(managed, lambda zones: "lab.example" in str(zones))


@pytest.mark.long
@needs_pgbouncer
async def test_behind_a_pooler_of_sessions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(tmp_path / "server", RELEASES[0])
    await server.make("--encoding=UTF8")
    await server.start()
    try:
        async with pgbouncer(tmp_path / "pooler", server, "session", default_pool_size=60) as port:
            url = f"postgresql://culvert@127.0.0.1:{port}/postgres"
            async with wiki(tmp_path, database_url=url) as (world, device):
                await _many_at_once(world)
                await opens(device)
                await _hears(world)
    finally:
        await server.stop()
    assert told(caplog) == {}


# Nepal is 5:45 ahead of UTC.
_OTHERWISE = {
    "timezone": "'Asia/Kathmandu'",
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "'sql_standard'",
    "bytea_output": "'escape'",
    "default_transaction_isolation": "'serializable'",
    "standard_conforming_strings": "off",
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("programs", "options"),
    [
        (RELEASES[-1], ("--locale=C",)),
        (RELEASES[0], ("--locale=C",)),
        # As people sort in a dictionary: letters' cases, signs and accents count last.
        pytest.param(
            RELEASES[0],
            ("--locale-provider=icu", "--icu-locale=de-u-ka-shifted"),
            marks=pytest.mark.skipif(not DEBIAN, reason="the embedded release has no ICU"),
        ),
    ],
    ids=["newest", "C", "German"],
)
async def test_however_a_database_is_set_it_behaves_alike(
    tmp_path: Path, programs: Path, options: tuple[str, ...]
) -> None:
    server = Server(tmp_path / "server", programs)
    await server.make("--encoding=UTF8", *options)
    await server.start()
    try:
        await by_driver(
            server.url(),
            *(f"ALTER DATABASE postgres SET {name} = {value}" for name, value in _OTHERWISE.items()),
        )
        async with wiki(tmp_path, database_url=server.url()) as (world, device):
            await opens(device)
            names = ["ÄRGER", "Zoe", "a-b", "ab", "ärgerlich", "ΣΊΣΥΦΟΣ", "100%"]
            for name in names:
                await world.rest("POST", "/policies", {"name": name, "user": "alice", "resources": ["wiki"]})

            async def found(q: str) -> list[str]:
                return [one["name"] for one in await world.rest("GET", f"/policies?q={quote(q)}")]

            assert await found("ärger") == ["ÄRGER", "ärgerlich"]
            assert await found("ÄRGERL") == ["ärgerlich"]
            assert await found("σίσυ") == ["ΣΊΣΥΦΟΣ"]
            assert await found("%") == ["100%"]
            assert await found("a-B") == ["a-b"]
            paged, path = list[str](), "/api/v1/policies?limit=3"
            while path:
                answer = await world.admin.get(path)
                paged += [one["name"] for one in answer.json()]
                path = answer.links.get("next", {}).get("url", "")
            assert paged == sorted([*names, "alice to wiki"])
            await _lists_alike(world)
    finally:
        await server.stop()


async def _lists_alike(world: World) -> None:
    """Also those that have no pages."""
    names = ["ba", "b-c", "bb", "b-a"]
    for name in names:
        await world.rest("POST", "/users", {"name": name, "email": f"{name}@corp.example"})
        await world.add_resource(name, ["gw-berlin"], address="10.20.0.10", users=[])
    await world.rest("POST", "/groups", {"name": "all", "members": names})
    for name in names:
        await world.rest("POST", "/policies", {"name": name, "group": "all", "resources": names})
    zone = {"name": "lab", "origin": "lab.example", "server": "127.0.0.1", "port": 53, "key": "k"}
    await world.rest("POST", "/dns/zones", zone | {"resources": names})
    gateway = await world.rest("GET", "/gateways/gw-berlin")
    assert [name for name in gateway["alone_for"] if name != "wiki"] == sorted(names)
    assert (await world.rest("GET", "/groups/all"))["members"] == sorted(names)
    assert (await world.rest("GET", "/policies/ba"))["resources"] == sorted(names)
    assert (await world.rest("GET", "/groups/all/use"))["policies_deleted"] == sorted(names)
    assert (await world.rest("GET", "/dns/zones/lab"))["resources"] == sorted(names)


@pytest.mark.long
@needs_pgbouncer
async def test_a_pooler_may_have_two_connections_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More openings than that at once, at a gateway that is put right again and again meanwhile."""
    monkeypatch.setattr("culvert_service.gateways.link._RECONCILE_SECONDS", 0.05)
    server = Server(tmp_path / "server", RELEASES[0])
    await server.make("--encoding=UTF8")
    await server.start()
    switch = Switch()
    try:
        async with pgbouncer(tmp_path / "pooler", server, "transaction", default_pool_size=2) as port:
            pooled = f"postgresql://culvert@127.0.0.1:{port}/postgres"
            urls = {"database_url": pooled, "database_direct_url": server.url()}
            async with wiki(tmp_path, switch, **urls) as (world, device):
                names = [f"n{number}" for number in range(12)]
                for name in names:
                    await world.add_resource(name, ["gw-berlin"], address="10.20.0.10")
                async with drifting(world, switch) as repairs, under_use(world, device) as use:
                    for _ in range(3):
                        opened = await asyncio.gather(*(device.open(f"{it}.corp.example") for it in names))
                        ids = [one.tunnel.tunnel_id for one in opened]
                        await asyncio.gather(*(device.renew(it, 1) for it in ids))
                        await asyncio.gather(*(device.activate(it, 2) for it in ids))
                        await asyncio.gather(*(device.close(it) for it in ids))
                    before = await repairs()
                    await until(repairs, lambda now: now > before + 2)
                assert use.refused == []
    finally:
        await server.stop()


@asynccontextmanager
async def drifting(world: World, switch: Switch) -> AsyncGenerator[Callable[[], Awaitable[int]]]:
    """The gateway loses a route, each time that it has it again. Gives the number of times that it was put right."""

    async def lose() -> None:
        while True:
            for key in [key for key in switch.entries if key[0] == switch.table("route")]:
                del switch.entries[key]
            await asyncio.sleep(0.01)

    async def repairs() -> int:
        return (await world.rest("GET", "/gateways/gw-berlin"))["drift"]["repaired"]

    losing = asyncio.create_task(lose())
    try:
        yield repairs
    finally:
        losing.cancel()


@pytest.mark.long
@needs_pgbouncer
async def test_while_others_hold_all_of_a_poolers_connections_calls_hear_why(tmp_path: Path) -> None:
    server = Server(tmp_path / "server", RELEASES[0])
    await server.make("--encoding=UTF8")
    await server.start()
    try:
        waits = {"default_pool_size": 2, "query_wait_timeout": 1}
        async with pgbouncer(tmp_path / "pooler", server, "transaction", **waits) as port:
            pooled = f"postgresql://culvert@127.0.0.1:{port}/postgres"
            urls = {"database_url": pooled, "database_direct_url": server.url()}
            async with wiki(tmp_path, **urls) as (world, device):
                others = create_engine(pooled, pool_size=2, pooled=True)
                async with others.connect() as one, others.connect() as two:
                    for each in (one, two):
                        await each.execute(text("SELECT 1"))
                    await until(lambda: world.anyone.get("/readyz"), lambda answer: answer.status_code == 503)
                    answer = await world.admin.get("/api/v1/tunnels")
                    assert (answer.status_code, answer.json()["reason"]) == (503, "DATABASE_DOWN")
                    with pytest.raises(CulvertError) as down:
                        await device.open()
                    assert down.value.reason is Reason.DATABASE_DOWN
                await others.dispose()
                await ready(world)
                await opens(device)
    finally:
        await server.stop()
