"""P4Runtime as a controller sees it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import finsy as fy
import pytest
import sluice_entries as entries
from finsy.proto import p4r
from gateway_target import PROGRAM
from sluice_entries import TUNNEL, read
from sluice_rig import Controller

pytestmark = pytest.mark.slow

PROTO = fy.GRPCStatusCode


async def raw(switch: fy.Switch, request: Any) -> Any:
    """A request as it is, with the election id of `switch`."""
    client: Any = switch._p4client
    return await client.request(request)


async def refused(switch: fy.Switch, *updates: Any) -> list[tuple[PROTO, str]]:
    """The refusals of a batch's updates, `OK` for those that were not refused."""
    with pytest.raises(fy.P4ClientError) as refusal:
        await switch.write(updates)
    assert refusal.value.code == PROTO.UNKNOWN
    details = refusal.value.details
    ok = (PROTO.OK, "")
    return [
        (details[at].canonical_code, details[at].message) if at in details else ok
        for at in range(len(updates))
    ]


async def becomes(switch: fy.Switch, *, primary: bool) -> None:
    """Waits for the arbitration update that makes this client primary or backup."""
    deadline = time.monotonic() + 5
    while switch.is_primary != primary:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def update(switch: fy.Switch, entity: Any) -> p4r.Update:
    return next(iter(fy.p4entity.encode_updates([entity], switch.p4info)))  # type: ignore[attr-defined]


def decoded(switch: fy.Switch, entry: fy.P4TableEntry) -> fy.P4TableEntry:
    return fy.P4TableEntry.decode(entry.encode(switch.p4info), switch.p4info)


class TestArbitration:
    async def test_the_higher_election_id_writes(self, controller: Controller) -> None:
        async with controller(initial_election_id=10) as first:
            assert first.is_primary
            async with controller(initial_election_id=20) as second:
                assert second.is_primary
                await becomes(first, primary=False)
                with pytest.raises(fy.P4ClientError) as refusal:
                    await first.insert(entries.ports())
                assert refusal.value.code == PROTO.PERMISSION_DENIED
                await second.insert(entries.ports())
                assert len(await read(first, fy.P4TableEntry())) == 2, "backups read"
            # finsy bids again as soon as it hears that no one is primary.
            await becomes(first, primary=True)

    async def test_each_higher_bidder_takes_over(self, controller: Controller) -> None:
        async with AsyncExitStack() as stack:
            switches: list[fy.Switch] = []
            for election_id in range(1, 9):
                bidder = await stack.enter_async_context(controller(initial_election_id=election_id))
                assert bidder.is_primary
                for before in switches:
                    await becomes(before, primary=False)
                switches.append(bidder)
            await switches[-1].insert(entries.ports())
            assert len(await read(switches[0], fy.P4TableEntry("port_role"))) == 2

    async def test_an_election_id_in_use_is_refused(self, controller: Controller) -> None:
        async with controller(initial_election_id=10) as first, controller(initial_election_id=10) as second:
            assert first.is_primary
            assert not second.is_primary
            assert second.election_id < 10, "finsy went below, told that the id exists"

    async def test_another_device_or_role_is_not_served(self, controller: Controller) -> None:
        for change in ({"device_id": 2}, {"role_name": "x", "role_config": p4r.DigestListAck()}):
            with pytest.raises(fy.P4ClientError) as refusal:
                async with controller(**change):
                    pass
            assert refusal.value.code in (PROTO.NOT_FOUND, PROTO.INVALID_ARGUMENT)

    async def test_packet_out_is_answered_with_an_error(self, controller: Controller) -> None:
        async with controller() as switch:
            client = switch._p4client
            assert client is not None
            errors: asyncio.Queue[p4r.StreamError] = asyncio.Queue()
            switch._stream_error_message = lambda message: errors.put_nowait(message.error)  # type: ignore[method-assign]
            await client.send(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x")))
            error = await asyncio.wait_for(errors.get(), 2)
            assert error.canonical_code == PROTO.UNIMPLEMENTED
            assert error.WhichOneof("details") == "packet_out"


class TestPipelineConfig:
    async def test_there_is_none_at_first(self, controller: Controller) -> None:
        async with controller(p4info=None, p4blob=None) as switch:
            reply = await raw(switch, p4r.GetForwardingPipelineConfigRequest(device_id=1))
            assert not reply.HasField("config")
            with pytest.raises(fy.P4ClientError) as refusal:
                await raw(switch, p4r.WriteRequest(device_id=1))
            assert refusal.value.is_pipeline_missing

    async def test_every_response_type(self, controller: Controller) -> None:
        async with controller() as switch:
            kind = p4r.GetForwardingPipelineConfigRequest.ResponseType
            fields = {
                kind.ALL: (True, True),
                kind.COOKIE_ONLY: (False, False),
                kind.P4INFO_AND_COOKIE: (True, False),
                kind.DEVICE_CONFIG_AND_COOKIE: (False, True),
            }
            for response_type, (p4info, blob) in fields.items():
                request = p4r.GetForwardingPipelineConfigRequest(device_id=1, response_type=response_type)
                reply = await raw(switch, request)
                assert isinstance(reply, p4r.GetForwardingPipelineConfigResponse)
                assert reply.config.cookie.cookie == switch.p4info.p4cookie
                assert reply.config.HasField("p4info") == p4info
                assert reply.config.p4_device_config == (PROGRAM.read_bytes() if blob else b"")

    async def test_the_cookie_keeps_entries_over_a_reconnect(self, controller: Controller) -> None:
        async with controller() as switch:
            await switch.insert(entries.ports())
        async with controller() as switch:
            assert len(await read(switch, fy.P4TableEntry())) == 2
        async with controller(p4force=True) as switch:
            assert await read(switch, fy.P4TableEntry()) == []

    async def test_a_bad_program_changes_nothing(self, controller: Controller) -> None:
        async with controller() as switch:
            await switch.insert(entries.ports())
            good = switch.p4info.get_pipeline_config()
            wider = p4r.ForwardingPipelineConfig.FromString(good.SerializeToString())
            wider.p4info.tables[0].match_fields[0].bitwidth = 10
            no_json = p4r.ForwardingPipelineConfig(p4info=good.p4info, p4_device_config=b"{}")
            action = p4r.SetForwardingPipelineConfigRequest.Action
            for config, how, code, text in [
                (wider, action.VERIFY_AND_COMMIT, PROTO.INVALID_ARGUMENT, "port_role': match field 'port'"),
                (no_json, action.VERIFY_AND_COMMIT, PROTO.INVALID_ARGUMENT, "p4_device_config"),
                (good, action.COMMIT, PROTO.INVALID_ARGUMENT, "can't be given with COMMIT"),
                (None, action.COMMIT, PROTO.NOT_FOUND, "no config is saved"),
                (None, action.VERIFY, PROTO.INVALID_ARGUMENT, "config is not set"),
            ]:
                request = p4r.SetForwardingPipelineConfigRequest(device_id=1, action=how, config=config)
                with pytest.raises(fy.P4ClientError) as refusal:
                    await raw(switch, request)
                assert refusal.value.code == code
                assert text in refusal.value.message
            verify = p4r.SetForwardingPipelineConfigRequest(device_id=1, action=action.VERIFY, config=good)
            await raw(switch, verify)
            assert len(await read(switch, fy.P4TableEntry())) == 2


class TestTables:
    async def test_entries_are_read_back_as_written(self, gateway: fy.Switch) -> None:
        written = [*entries.tunnel(), *entries.site()]
        await gateway.insert(entries.tunnel())
        found = await read(gateway, fy.P4TableEntry())
        assert sorted(map(repr, found)) == sorted(repr(decoded(gateway, entry)) for entry in written)

    async def test_reads_are_filtered(self, gateway: fy.Switch) -> None:
        await gateway.insert(entries.tunnel())

        async def count(*asked: fy.P4TableEntry) -> int:
            return len(await read(gateway, *asked))

        assert await count(fy.P4TableEntry("port_role")) == 3
        assert await count(fy.P4TableEntry("port_role", match=fy.Match(port=2, vlan=0))) == 1
        assert await count(fy.P4TableEntry("port_role", match=fy.Match(port=4, vlan=0))) == 0
        assert (
            await count(fy.P4TableEntry("spd_in", priority=10), fy.P4TableEntry("spd_in", priority=11)) == 1
        )
        assert await count(fy.P4TableEntry("sad_in", is_default_action=True)) == 1

    async def test_metadata_is_kept_with_its_entry(self, gateway: fy.Switch) -> None:
        entry = TUNNEL.sad_in()
        entry.metadata = b"tunnel 5"
        await gateway.insert([entry])
        found = await read(gateway, fy.P4TableEntry("sad_in"))
        assert [it.metadata for it in found] == [b"tunnel 5"]
        await gateway.delete([entry])
        await gateway.insert([TUNNEL.sad_in()])
        assert [it.metadata for it in await read(gateway, fy.P4TableEntry("sad_in"))] == [b""]

    async def test_a_batch_goes_on_after_an_error(self, gateway: fy.Switch) -> None:
        results = await refused(
            gateway,
            +TUNNEL.sad_in(),
            +TUNNEL.sad_in(),
            -TUNNEL.spd_out(),
            ~TUNNEL.sad_out(),
            +TUNNEL.spd_in(),
        )
        codes = [code for code, _ in results]
        assert codes == [PROTO.OK, PROTO.ALREADY_EXISTS, PROTO.NOT_FOUND, PROTO.NOT_FOUND, PROTO.OK]
        assert "table 'GatewayIngress.open.sad_in'" in results[1][1]
        assert len(await read(gateway, fy.P4TableEntry("spd_in"))) == 1

    async def test_modify_gives_another_action(self, gateway: fy.Switch) -> None:
        await gateway.insert([TUNNEL.spd_out()])
        await gateway.modify([TUNNEL.but(number=4).spd_out()])
        found = await read(gateway, fy.P4TableEntry("spd_out"))
        assert [entry.action.args["sa_id"] for entry in found] == [9]
        await gateway.delete([TUNNEL.spd_out()])
        assert await read(gateway, fy.P4TableEntry("spd_out")) == []

    async def test_bad_updates_name_their_place(self, gateway: fy.Switch) -> None:
        good = update(gateway, +TUNNEL.sad_in())

        def bent(change: str, value: bytes) -> p4r.Update:
            bad = p4r.Update.FromString(good.SerializeToString())
            if change == "match":
                bad.entity.table_entry.match[0].exact.value = value
            else:
                bad.entity.table_entry.action.action.params[1].value = value
            return bad

        table = "table 'GatewayIngress.open.sad_in'"
        results = await refused(
            gateway,
            bent("match", b"\1" + bytes(16)),
            bent("match", b""),
            bent("param", b"\1\0\0\0\0"),
            p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=p4r.TableEntry(table_id=5))),
            p4r.Update(type=p4r.Update.INSERT),
            p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(extern_entry=p4r.ExternEntry())),
            ~fy.P4TableEntry("sad_in", is_default_action=True, action=fy.Action("bad_spi")),
        )
        assert results[0] == (
            PROTO.INVALID_ARGUMENT,
            f"{table}: match field 'dst': the value does not fit 128 bits",
        )
        assert results[1][0] == PROTO.INVALID_ARGUMENT
        assert "action 'GatewayIngress.open.open': parameter 'slot'" in results[2][1]
        assert [code for code, _ in results[3:]] == [
            PROTO.NOT_FOUND,
            PROTO.INVALID_ARGUMENT,
            PROTO.UNIMPLEMENTED,
            PROTO.PERMISSION_DENIED,
        ]

    async def test_all_can_be_deleted_at_once(self, gateway: fy.Switch) -> None:
        await gateway.insert([*entries.tunnel(), fy.P4DigestEntry("bad_spi_t", max_list_size=1)])
        await gateway.delete_all()
        assert await read(gateway, fy.P4TableEntry(), fy.P4DigestEntry()) == []

    async def test_many_entries(self, gateway: fy.Switch) -> None:
        many = [TUNNEL.but(number=n, spi_in=0x10000 + n).sad_in() for n in range(1, 1501)]
        await gateway.insert(many)
        found = [entry["spi"] for entry in await read(gateway, fy.P4TableEntry("sad_in"))]
        assert sorted(found) == [0x10000 + n for n in range(1, 1501)]
        await gateway.delete(many)


class TestCounters:
    async def test_cells_are_read_and_set(self, gateway: fy.Switch) -> None:
        await gateway.modify(
            [fy.P4CounterEntry("drops", index=3, data=fy.P4CounterData(packet_count=5, byte_count=7))]
        )
        found = await read(gateway, fy.P4CounterEntry("drops"))
        assert len(found) == 32
        assert [(it.packet_count, it.byte_count) for it in found if it.index == 3] == [(5, 7)]
        beyond = await refused(
            gateway,
            ~fy.P4CounterEntry("drops", index=32, data=fy.P4CounterData(packet_count=1, byte_count=1)),
        )
        assert beyond[0][0] == PROTO.OUT_OF_RANGE

    async def test_direct_counters_belong_to_entries(self, gateway: fy.Switch) -> None:
        entry = TUNNEL.sad_in()
        asked = fy.P4DirectCounterEntry("sad_in", table_entry=fy.P4TableEntry("sad_in", match=entry.match))
        with pytest.raises(fy.P4ClientError) as refusal:
            await read(gateway, asked)
        assert refusal.value.details[0].canonical_code == PROTO.NOT_FOUND
        await gateway.insert([entry])
        asked.data = fy.P4CounterData(packet_count=3, byte_count=4)
        await gateway.modify([asked])
        with_counter = fy.P4TableEntry("sad_in", counter_data=fy.P4CounterData())
        found = await read(gateway, asked, with_counter, fy.P4TableEntry("sad_in"))
        assert [it.packet_count for it in found[:1]] == [3]
        assert [it.counter_data for it in found[1:]] == [fy.P4CounterData(byte_count=4, packet_count=3), None]
