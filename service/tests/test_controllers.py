"""Several controllers on one Postgres and one gateway: who writes it, and what becomes of its tunnels when that one goes.

admin ── one ──┐                ┌── one ──┐
admin ── two ──┴── Postgres ────┴── two ──┴── sluice
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import finsy
import pytest
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason
from culvert_service.config import Settings
from culvert_service.controllers import calls
from culvert_service.gateways import remote
from sqlalchemy import text

from .agreement import agreed
from .conftest import (
    PATIENCE_SECONDS,
    Device,
    World,
    administering,
    authority,
    next_event,
    profile_that,
    refused,
    running,
    settings_in,
    until,
)
from .gateway_process import needs_root, sluice, unpack
from .test_live import watching
from .test_restart import exchange
from .wire import Wires

pytestmark = pytest.mark.slow
CONTROLLER = Path(sys.executable).with_name("culvert-controller")


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> tuple[Settings, Settings]:
    """Two controllers with one state, as of one organisation."""
    one = settings_in(tmp_path, database_url=database_url, controller_name="one")
    return one, settings_in(tmp_path, database_url=database_url, controller_name="two")


@asynccontextmanager
async def process(settings: Settings, modules: str = "") -> AsyncGenerator[asyncio.subprocess.Process]:
    """A controller that can be killed, ready to serve. `modules`: a folder with modules in place of this checkout's."""
    environment = os.environ | {
        "CULVERT_STATE_DIR": str(settings.state_dir),
        "CULVERT_REST_LISTEN": settings.rest_listen,
        "CULVERT_AGENT_LISTEN": settings.agent_listen,
        "CULVERT_DATABASE_URL": settings.database_url.get_secret_value() if settings.database_url else "",
        "CULVERT_MANAGED_ZONES": ",".join(settings.managed_zones),
        "CULVERT_CONTROLLER_NAME": settings.controller_name,
        "PYTHONPATH": modules,
    }
    with settings.state_dir.with_name(f"{settings.controller_name}.log").open("ab") as log:
        child = await asyncio.create_subprocess_exec(CONTROLLER, "serve", env=environment, stderr=log)
    try:
        await until(lambda: _listens(settings.rest_listen), bool, 120)
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(ConnectionRefusedError):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        return True
    return False


@asynccontextmanager
async def behind(world: World, wires: Wires, directory: Path) -> AsyncGenerator[None]:
    """sluice as gw-berlin, with the wiki behind it."""
    port = free_port()
    await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
    await world.add_gateway("gw-berlin", port)
    await world.add_wiki(["gw-berlin"])
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), directory / "gateway")
    async with sluice(directory / "gateway", wires.names, port):
        await world.online("gw-berlin")
        yield


async def owned(world: World, name: str) -> int:
    """Waits until that controller has brought the gateway to its desired state; the epoch."""
    found = await until(
        lambda: world.rest("GET", "/gateways/gw-berlin"),
        lambda found: (found["owner"], found["state"]) == (name, "online"),
        20,
    )
    return int(found["epoch"])


async def tunnel_entries(world: World) -> int:
    return int((await world.rest("GET", "/gateways/gw-berlin/entries"))["tunnel_entries"])


async def entries(world: World) -> list[object]:
    return list((await world.rest("GET", "/gateways/gw-berlin/entries"))["entries"])


@needs_root
async def test_a_gateway_has_one_owner_until_it_stops(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> None:
    async with AsyncExitStack() as rest, AsyncExitStack() as first:
        one = await first.enter_async_context(running(settings[0]))
        await rest.enter_async_context(behind(one, wires, tmp_path))
        two = await rest.enter_async_context(running(settings[1]))
        epoch = await owned(two, "one")
        assert epoch == await owned(one, "one")
        elsewhere = await two.admin.get("/api/v1/gateways/gw-berlin/entries")
        assert (elsewhere.status_code, elsewhere.json()["reason"]) == (421, "GATEWAY_ELSEWHERE")
        assert elsewhere.json()["remedy"] == "Ask the controller one."
        device = await one.enrol()
        await device.prove()
        await device.open()
        held = await entries(one)
        await first.aclose()
        assert await owned(two, "two") > epoch
        assert await entries(two) == held
        assert len(await two.rest("GET", "/tunnels")) == 1


@needs_root
async def test_each_tells_what_the_others_gateways_carry(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> None:
    async with AsyncExitStack() as both:
        one = await both.enter_async_context(running(settings[0]))
        await both.enter_async_context(behind(one, wires, tmp_path))
        two = await both.enter_async_context(running(settings[1]))
        await owned(two, "one")
        device = await one.enrol()
        await device.prove()
        opened, enough = await device.open(), asyncio.Event()
        async with watching(two, "traffic") as stream:
            carrying = asyncio.create_task(exchange(wires, opened.sas, enough))
            rate = await stream.until("changed", opened.tunnel.tunnel_id)
            assert min(rate["from_device"], rate["to_device"]) > 0
            enough.set()
            assert await carrying
            await stream.until("gone", opened.tunnel.tunnel_id)


@needs_root
async def test_when_the_owner_dies_its_tunnels_live_on_under_another(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> None:
    async with AsyncExitStack() as rest:
        async with running(settings[0]) as one:
            await rest.enter_async_context(behind(one, wires, tmp_path))
        child = await rest.enter_async_context(process(settings[0]))
        two = await rest.enter_async_context(running(settings[1]))
        one = await rest.enter_async_context(administering(settings[0], two.database))
        epoch = await owned(one, "one")
        device = await one.enrol()
        await device.prove()
        opened = await device.open()
        child.send_signal(signal.SIGKILL)
        assert await owned(two, "two") > epoch
        assert [tunnel["id"] for tunnel in await two.rest("GET", "/tunnels")] == [opened.tunnel.tunnel_id]
        other = await two.enrol()
        await other.prove()
        tunnels = [opened, await other.open()]
        await agreed(two, {it.tunnel.tunnel_id for it in tunnels})


@pytest.fixture
async def both(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> AsyncGenerator[tuple[World, World]]:
    """Two controllers, of which the first owns the gateway."""
    # Both have one event loop: while the second is made, the first does not renew its lease.
    first, second = (one.model_copy(update={"lease_seconds": 12}) for one in settings)
    async with running(first) as one, behind(one, wires, tmp_path), running(second) as two:
        assert await owned(two, "one") == await owned(one, "one")
        yield one, two


@needs_root
async def test_a_device_may_call_any_controller(both: tuple[World, World]) -> None:
    one, two = both
    device = await two.enrol()
    refusal = await refused(device.open())
    assert refusal.reason is Reason.CODE_NEEDED
    await device.prove()
    opened = await device.open()
    tunnel_id = opened.tunnel.tunnel_id
    assert len(opened.sas.inbound.key) == 36
    assert await tunnel_entries(one) == 5
    again = await device.open()
    assert (again.tunnel.tunnel_id, again.sas.generation) == (tunnel_id, 2)
    renewed = await device.renew(tunnel_id, 2)
    await device.activate(tunnel_id, renewed.generation)
    await until(lambda: tunnel_entries(one), lambda count: count == 5)
    assert (await refused(device.renew(tunnel_id, 1))).reason is Reason.GENERATION_STALE
    other = await one.enrol()
    await other.prove()
    assert (await refused(other.renew(tunnel_id, renewed.generation))).reason is Reason.TUNNEL_UNKNOWN
    await device.close(tunnel_id)
    assert (await tunnel_entries(one), await two.rest("GET", "/tunnels")) == (0, [])


async def test_a_device_is_online_at_every_controller_while_it_watches_one(
    settings: tuple[Settings, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("culvert_service.watch.presence._TELL_SECONDS", 0.3)
    async with running(settings[0]) as one, running(settings[1]) as two:
        await one.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        device = await two.enrol()

        async def seen() -> tuple[set[bool], str]:
            shown = [await world.rest("GET", f"/devices/{device.id}") for world in (one, two)]
            return {one["online"] for one in shown}, shown[0]["last_seen_at"]

        assert (await seen())[0] == {False}
        await next_event(device.watch(), "profile")
        online, since = await seen()
        assert online == {True}
        await until(seen, lambda now: now[1] > since)
        # The device moves to the other controller. The later end of its stream here must not mark it offline.
        moved = device.at(settings[0].agent_listen)
        await next_event(moved.watch(), "profile")
        await device.channel.close()
        await until(seen, lambda now: now[1] > since)
        await asyncio.sleep(1.5)
        assert (await seen())[0] == {True}
        await moved.channel.close()
        await until(seen, lambda now: now[0] == {False})
        # A controller that has died is believed for a while, and no longer.
        async with one.database.begin() as session:
            await session.execute(
                text("UPDATE devices SET watched_by = 'dead', watched_until = now() + interval '1 minute'")
            )
        assert (await seen())[0] == {True}
        async with one.database.begin() as session:
            await session.execute(text("UPDATE devices SET watched_until = now()"))
        assert (await seen())[0] == {False}


@needs_root
async def test_any_controller_closes_tunnels_before_it_says_so(both: tuple[World, World]) -> None:
    one, two = both
    devices = [await one.enrol() for _ in range(12)]
    await asyncio.gather(*(device.prove() for device in devices))
    await asyncio.gather(*(device.open() for device in devices))
    assert await tunnel_entries(one) == 60
    assert await two.rest("POST", f"/devices/{devices[0].id}/revoke") == {"tunnels_closed": 1}
    assert await tunnel_entries(one) == 55
    await devices[1].at(two.settings.agent_address).leave()
    assert await tunnel_entries(one) == 50
    assert (await one.rest("GET", f"/devices/{devices[1].id}"))["state"] == "revoked"
    assert (await refused(devices[1].leave())).reason is Reason.DEVICE_REVOKED
    assert await two.rest("DELETE", "/resources/wiki") == {"tunnels_closed": 10}
    assert await tunnel_entries(one) == 0


def _channel_of_nobody(_holder: str) -> str:
    return "nobody_listens"


_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid()
"""


@needs_root
@pytest.mark.parametrize("asks_again", [True, False])
async def test_a_lost_call_to_remove_entries_is_made_good_soon(
    both: tuple[World, World], monkeypatch: pytest.MonkeyPatch, asks_again: bool
) -> None:
    """Long before the owner's next reconciliation: the policy of a closed tunnel may take the packets of the next one."""
    one, two = both
    device = await one.enrol()
    await device.prove()
    opened = (await device.open()).tunnel
    # A reconciliation that is due already is over.
    await asyncio.sleep(1)
    if not asks_again:
        monkeypatch.setattr(remote, "_ASKED", 0)
    with monkeypatch.context() as lost:
        lost.setattr(calls, "_channel", _channel_of_nobody)
        await two.rest("DELETE", f"/tunnels/{opened.tunnel_id}")
        # The call is lost as often as it is made.
        assert await tunnel_entries(one) == 5
    if not asks_again:
        async with one.database.begin() as session:
            await session.execute(text(_END_OTHERS))
    await until(lambda: tunnel_entries(one), lambda count: count == 0, 8)


@needs_root
async def test_the_log_names_the_device_on_every_controller(both: tuple[World, World]) -> None:
    _, two = both
    device = await two.enrol()
    await device.prove()
    await device.open()
    lines = await two.rest("GET", "/audit?action=tunnel.open")
    assert [(line["actor"], line["source"]) for line in lines] == [(device.id, "127.0.0.1")]


@needs_root
async def test_a_call_replayed_through_the_database_is_refused(
    both: tuple[World, World], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = both
    heard: list[str] = []

    def hear(*told: str) -> None:
        heard.append(told[3])

    async with one.database() as session:
        [holder] = await session.scalars(text("SELECT holder FROM gateway_leases"))
        connection = await session.connection()
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await connection.commit()
        await driver.add_listener(f"culvert_to_{holder}", hear)
        device = await two.enrol()
        await device.prove()
        tunnel = (await device.open()).tunnel
        await asyncio.wait_for(_heard(heard), PATIENCE_SECONDS)
        for payload in list(heard):
            await driver.execute("SELECT pg_notify($1, $2)", f"culvert_to_{holder}", payload)
        await device.renew(tunnel.tunnel_id, 1)
        await connection.invalidate()
    assert "a repeated call was ignored" in caplog.messages
    opened = await two.rest("GET", "/audit?action=tunnel.open")
    assert len(opened) == 1


async def _heard(heard: list[str]) -> None:
    while not heard:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@needs_root
async def test_a_change_at_a_controller_reaches_streams_of_another(both: tuple[World, World]) -> None:
    one, two = both
    device = await two.enrol()
    events = device.watch()
    assert (await next_event(events, "profile")).profile.code_valid_until == 0
    # As a device that has changed its controller does: the stream is at one, the call at the other.
    elsewhere = device.at(one.settings.agent_address)
    await elsewhere.prove()
    await profile_that(events, lambda found: found.code_valid_until)
    opened = (await elsewhere.open()).tunnel
    await one.rest("DELETE", f"/tunnels/{opened.tunnel_id}")
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert (closed.tunnel_id, closed.why.reason) == (opened.tunnel_id, int(Reason.CLOSED_BY_ADMIN))
    await one.rest("DELETE", "/resources/wiki")
    await profile_that(events, lambda found: not found.resources)
    await one.rest("POST", f"/devices/{device.id}/revoke")
    with pytest.raises(CulvertError) as ended:
        await next_event(events, "tunnel_closed")
    assert ended.value.reason is Reason.DEVICE_REVOKED


@needs_root
async def test_a_lost_notification_is_found_by_its_number(
    both: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = both
    device = await two.enrol()
    events = device.watch()
    await next_event(events, "profile")
    await device.prove()
    await next_event(events, "profile")
    opened = (await device.open()).tunnel
    monkeypatch.setattr("culvert_service.watch.repository.PUSHES_CHANNEL", "nobody_listens")
    await one.rest("DELETE", f"/tunnels/{opened.tunnel_id}")
    assert (await next_event(events, "tunnel_closed")).tunnel_closed.tunnel_id == opened.tunnel_id


@needs_root
async def test_a_device_hears_at_its_next_controller_what_it_missed(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> None:
    async with AsyncExitStack() as rest, AsyncExitStack() as first:
        one = await first.enter_async_context(running(settings[0]))
        await rest.enter_async_context(behind(one, wires, tmp_path))
        two = await rest.enter_async_context(running(settings[1]))
        device = await one.enrol()
        await device.prove()
        opened = (await device.open()).tunnel
        await one.rest("DELETE", f"/tunnels/{opened.tunnel_id}")
        elsewhere = device.at(two.settings.agent_address)
        two.devices.append(elsewhere)
        await first.aclose()
        closed = (await next_event(elsewhere.watch(), "tunnel_closed")).tunnel_closed
        assert closed.tunnel_id == opened.tunnel_id


@needs_root
async def test_the_owner_outbids_a_higher_election_id(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> None:
    async with running(settings[0]) as one, behind(one, wires, tmp_path):
        epoch = await owned(one, "one")
        credentials = authority(one, "infrastructure").issue_p4runtime_client()
        options = finsy.SwitchOptions(
            device_id=1,
            initial_election_id=1000,
            channel_credentials=finsy.GRPCCredentialsTLS(
                cacert=authority(one, "gateway").pem,
                cert=credentials.certificate.pem,
                private_key=credentials.key_pem,
                target_name_override="gw-berlin",
            ),
        )
        address = (await one.rest("GET", "/gateways/gw-berlin"))["p4runtime"]
        async with finsy.Switch("stranger", address, options) as stranger:
            await until(lambda: one.rest("GET", "/gateways/gw-berlin"), lambda found: found["epoch"] == 1001)
            await owned(one, "one")
            assert not stranger.is_primary
        assert epoch < 1000


async def owners(world: World) -> dict[str, str]:
    return {one["name"]: one["owner"] for one in await world.rest("GET", "/gateways")}


@needs_root
async def test_gateways_are_shared_out_and_their_tunnels_run_on(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> None:
    async with AsyncExitStack() as rest, AsyncExitStack() as second:
        one = await rest.enter_async_context(running(settings[0]))
        for number in (7, 8):
            await one.add_gateway(f"gw-{number}", free_port(), number)
        await rest.enter_async_context(behind(one, wires, tmp_path))
        device = await one.enrol()
        await device.prove()
        tunnel = (await device.open()).tunnel
        epoch, held = await owned(one, "one"), await entries(one)
        two = await second.enter_async_context(running(settings[1]))
        assert await owned(two, "two") == epoch + 1
        assert await entries(two) == held
        assert [found["id"] for found in await two.rest("GET", "/tunnels")] == [tunnel.tunnel_id]
        # The device still calls the first one, which has to know by then.
        assert await owned(one, "two") == epoch + 1
        await device.renew(tunnel.tunnel_id, 1)
        # Two and one is as even as it gets.
        assert await owners(one) == {"gw-7": "one", "gw-8": "one", "gw-berlin": "two"}
        await second.aclose()
        await until(lambda: owners(one), lambda found: set(found.values()) == {"one"})


async def test_owners_keep_their_gateways_over_an_outage(settings: tuple[Settings, Settings]) -> None:
    """When the database comes back, all leases have ended, and the first controller there would take all gateways."""
    first, second = (it.model_copy(update={"lease_seconds": 2}) for it in settings)
    async with running(first) as one:
        for number in (7, 8):
            await one.add_gateway(f"gw-{number}", free_port(), number)
        async with running(second) as two:

            async def standings() -> dict[str, tuple[str, int]]:
                return {it["name"]: (it["owner"], it["epoch"]) for it in await two.rest("GET", "/gateways")}

            await until(lambda: owners(two), lambda found: sorted(found.values()) == ["one", "two"])
            await asyncio.sleep(3)
            before = await standings()
            for _ in range(3):
                # Neither can renew, as while the database is away: both are in this loop.
                time.sleep(3)  # noqa: ASYNC251
                await asyncio.sleep(2.5)
                assert await standings() == before


@needs_root
async def test_no_opening_is_refused_while_a_gateway_changes_controllers(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> None:
    often = {"lease_seconds": 12, "agent_calls_per_second": 1000}
    first, second = (one.model_copy(update=often) for one in settings)
    async with AsyncExitStack() as rest, AsyncExitStack() as joined:
        one = await rest.enter_async_context(running(first))
        await one.add_gateway("gw-7", free_port(), 7)
        await rest.enter_async_context(behind(one, wires, tmp_path))
        at_one = await one.enrol()
        await at_one.prove()
        await at_one.open()
        async with clicking(at_one):
            two = await joined.enter_async_context(running(second))
            at_two = at_one.at(two.settings.agent_address)
            async with clicking(at_two):
                await owned(two, "two")
                await owned(one, "two")
            await at_two.channel.close()
            await joined.aclose()
            await owned(one, "one")


@asynccontextmanager
async def clicking(device: Device) -> AsyncGenerator[None]:
    """Opens the wiki again and again; a refusal is the context's."""

    async def click() -> None:
        while not over.is_set():
            await device.open()
            clicks.append(device)
            await asyncio.sleep(0.01)

    over, clicks = asyncio.Event(), list[Device]()
    async with asyncio.TaskGroup() as group:
        group.create_task(click())
        yield
        over.set()
    assert clicks
