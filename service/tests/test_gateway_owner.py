"""A controller owns its gateway: loses it, takes it back, and repairs drift."""

from __future__ import annotations

import asyncio
import datetime

import grpc.aio
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason
from culvert_service.pki import issuance
from culvert_service.pki.authority import Authority
from finsy.proto import p4r
from sqlalchemy import text

from .conftest import World, serving, until
from .switch import Switch

pytestmark = pytest.mark.slow


async def test_a_silent_owner_makes_its_gateway_unreachable(world: World, switch: Switch) -> None:
    epoch = (await world.rest("GET", "/gateways/gw-berlin"))["epoch"]
    device = await world.enrol()
    await device.prove()
    async with world.database.begin() as session:
        await session.execute(
            text(
                "UPDATE gateway_leases SET holder = 'feedfacefeedface', epoch = epoch + 1,"
                " ends_at = now() + interval '1 minute'"
            )
        )
        await session.execute(text("UPDATE gateway_health SET epoch = epoch + 1"))
        await session.execute(text("NOTIFY culvert_gateways"))
    await until(lambda: world.rest("GET", "/gateways/gw-berlin"), lambda found: found["epoch"] > epoch)

    async def outcome() -> Reason | None:
        try:
            opened = await device.open()
        except CulvertError as error:
            return error.reason
        await device.close(opened.tunnel.tunnel_id)
        return None

    # The row is there before this controller has read it: until then its own link serves.
    await until(outcome, lambda reason: reason is Reason.GATEWAY_DOWN)
    assert await world.rest("GET", "/tunnels") == []
    async with world.database.begin() as session:
        await session.execute(text("UPDATE gateway_leases SET ends_at = now()"))
    await world.online("gw-berlin", wanted="offline")
    await world.online("gw-berlin")
    await device.open()


async def test_an_owner_that_was_replaced_lets_go(world: World, switch: Switch) -> None:
    async with world.database.begin() as session:
        await session.execute(
            text(
                "UPDATE gateway_leases SET holder = 'another', holder_name = 'another', epoch = epoch + 1,"
                " ends_at = now() + interval '2 seconds'"
            )
        )
    found = await until(
        lambda: world.rest("GET", "/gateways/gw-berlin"), lambda found: found["owner"] == "another"
    )
    assert (found["state"], found["reason"]) == ("offline", "not connected yet")
    taken = await until(
        lambda: world.rest("GET", "/gateways/gw-berlin"), lambda found: found["state"] == "online"
    )
    assert taken["epoch"] == found["epoch"] + 1


async def test_a_write_that_comes_after_a_new_owners_is_no_refusal(world: World, switch: Switch) -> None:
    """The caller hears of the next gateway, not of election ids."""
    other, port = Switch(), free_port()
    await world.add_gateway("gw-paris", port, 2)
    async with serving(world, other, "gw-paris", port):
        await world.online("gw-paris")
        await world.add_resource("git", ["gw-berlin", "gw-paris"], address="10.20.0.10")
        device = await world.enrol()
        await device.prove()
        assert (await device.open("git.corp.example")).tunnel.gateway.name == "gw-berlin"
        switch.has_another_primary = True
        await world.add_resource("docs", ["gw-berlin", "gw-paris"], address="10.20.0.10")
        assert (await device.open("docs.corp.example")).tunnel.gateway.name == "gw-paris"
        switch.has_another_primary = False
        await world.online("gw-berlin")


async def test_an_offline_gateways_reason_is_in_words(world: World) -> None:
    async def no_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 another service\r\n")
        writer.close()

    async def reason(name: str) -> str:
        return str((await world.rest("GET", f"/gateways/{name}"))["reason"])

    async with await asyncio.start_server(no_tls, "127.0.0.1", 0) as other:
        await world.add_gateway("gw-away", free_port())
        await world.add_gateway("gw-other", other.sockets[0].getsockname()[1], 2)
        await until(lambda: reason("gw-away"), lambda why: why == "nothing listens at its P4Runtime address")
        await until(lambda: reason("gw-other"), lambda why: why.startswith("TLS with it fails"))


@pytest.mark.parametrize(
    ("apart", "words"),
    [
        (datetime.timedelta(days=400), "its certificate has expired"),
        (datetime.timedelta(days=-1), "its certificate is not valid yet"),
    ],
)
async def test_a_certificate_out_of_its_time_is_told(
    world: World, apart: datetime.timedelta, words: str
) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    authority = Authority.load(world.settings.state_dir, "gateway")
    key = ec.generate_private_key(ec.SECP256R1())
    made = datetime.datetime.now(datetime.UTC) - apart
    certificate = issuance.prepare(
        issuance.GATEWAY, key.public_key(), "gw-berlin", ["gw-berlin"], authority._certificate, made
    ).redeem(authority._key, authority._certificate)
    pems = [
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        certificate.public_bytes(serialization.Encoding.PEM),
    ]
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(pems[0], pems[1])]))
    await server.start()
    await until(
        lambda: world.rest("GET", "/gateways/gw-berlin"), lambda found: str(found["reason"]).startswith(words)
    )
    await server.stop(0)


async def test_repairing_a_catch_all_entry_keeps_the_others(world: World) -> None:
    """To P4Runtime a read of an entry without match fields is one of the whole table (section 11.1)."""
    switch, port = Switch(), free_port()
    await world.add_gateway("gw-six", port, address6="2001:db8:1::1")
    async with serving(world, switch, "gw-six", port):
        await world.online("gw-six")
        before = {key: entry.SerializeToString(deterministic=True) for key, entry in switch.entries.items()}
        routes = [entry for entry in switch.entries.values() if entry.table_id == switch.table("route")]
        (everything,) = [entry for entry in routes if not entry.match]
        switch.silent = True
        await world.online("gw-six", wanted="offline")
        everything.action.action.params[0].value = b"\x63"
        switch.writes.clear()
        switch.silent = False
        await world.online("gw-six")
    (update,) = [
        update
        for request in switch.writes
        for update in request.updates
        if update.entity.HasField("table_entry")
    ]
    assert (update.type, len(update.entity.table_entry.match)) == (p4r.Update.MODIFY, 0)
    after = {key: entry.SerializeToString(deterministic=True) for key, entry in switch.entries.items()}
    assert after == before


async def test_drift_is_repaired_and_shown(
    world: World, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await world.rest("GET", "/gateways/gw-berlin"))["drift"]["repaired"] == 0
    before = dict(switch.entries)
    monkeypatch.setattr("culvert_service.gateways.link._RECONCILE_SECONDS", 0.05)
    gone = next(key for key, entry in before.items() if entry.table_id == switch.table("own_address"))
    del switch.entries[gone]
    # Any move of the link begins the next reconciliation.
    switch.silent = True
    await world.online("gw-berlin", wanted="offline")
    switch.silent = False
    await world.online("gw-berlin")
    # A difference found when a gateway comes online is no drift.
    assert (switch.entries, (await world.rest("GET", "/gateways/gw-berlin"))["drift"]["repaired"]) == (
        before,
        0,
    )
    del switch.entries[gone]
    found = await until(
        lambda: world.rest("GET", "/gateways/gw-berlin"), lambda found: found["drift"]["repaired"]
    )
    assert {name: found["drift"][name] for name in ("repaired", "missing", "foreign", "changed")} == {
        "repaired": 1,
        "missing": 1,
        "foreign": 0,
        "changed": 0,
    }
    assert found["drift"]["last_at"]
    assert switch.entries == before
