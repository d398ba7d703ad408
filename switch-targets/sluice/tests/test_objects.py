"""Registers, value sets, idle timeouts, translated types and counted misses over P4Runtime, with packets beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import finsy as fy
import pytest
from finsy.proto import p4d, p4r
from gateway_wires import Wire
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from sluice_rig import Controller

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
PROTO = fy.GRPCStatusCode
SRC, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
DST = "02:00:00:00:00:99"
WAN, LAN = 1, 2


class Objects:
    """The switch that runs objects.p4, spoken to in protobuf: names are looked up in its P4Info."""

    def __init__(self, switch: fy.Switch) -> None:
        self.switch = switch
        info = switch.p4info.get_pipeline_config().p4info
        named = [*info.tables, *info.actions, *info.registers, *info.value_sets, *info.digests]
        self.ids = {it.preamble.alias: it.preamble.id for it in named}

    async def write(self, *entities: tuple[int, Any]) -> list[tuple[int, str]]:
        """The code and text of each update."""
        updates = [p4r.Update(type=cast(Any, kind), entity=entity) for kind, entity in entities]
        try:
            await self.switch.write(updates)
        except fy.P4ClientError as error:
            found = error.details
            return [
                (int(found[at].canonical_code), found[at].message) if at in found else (0, "")
                for at in range(len(updates))
            ]
        return [(0, "")] * len(updates)

    async def code(self, kind: int, entity: Any) -> int:
        return (await self.write((kind, entity)))[0][0]

    async def done(self, kind: int, *entities: Any) -> None:
        for code, text in await self.write(*((kind, entity) for entity in entities)):
            assert code == 0, text

    async def read(self, *entities: Any) -> list[Any]:
        client: Any = self.switch._p4client
        request = p4r.ReadRequest(device_id=1, entities=entities)
        return [entity async for reply in client.request_iter(request) for entity in reply.entities]

    async def refusal(self, entity: Any) -> int:
        with pytest.raises(fy.P4ClientError) as refused:
            await self.read(entity)
        return int(refused.value.details[0].canonical_code)

    def register(self, name: str, index: int | None = None, value: bytes | None = None) -> Any:
        entry = p4r.RegisterEntry(register_id=self.ids[name] if name else 0)
        if index is not None:
            entry.index.index = index
        if value is not None:
            entry.data.bitstring = value
        return p4r.Entity(register_entry=entry)

    def members(self, *members: dict[int, Any]) -> Any:
        entry = p4r.ValueSetEntry(value_set_id=self.ids["members"])
        for member in members:
            made = entry.members.add()
            for field, (kind, *values) in member.items():
                match = made.match.add(field_id=field)
                names = {"exact": ["value"], "ternary": ["value", "mask"], "range": ["low", "high"]}[kind]
                for name, value in zip(names, values, strict=True):
                    setattr(getattr(match, kind), name, value)
        return p4r.Entity(value_set_entry=entry)

    def table(self, name: str, **fields: Any) -> Any:
        return p4r.Entity(table_entry=p4r.TableEntry(table_id=self.ids[name] if name else 0, **fields))

    def action(self, name: str, *params: bytes) -> Any:
        made = p4r.Action(action_id=self.ids[name])
        for number, value in enumerate(params, start=1):
            made.params.add(param_id=number, value=value)
        return p4r.TableAction(action=made)

    def flow(self, source: str = SRC, vrf: str | None = "red", **fields: Any) -> Any:
        entity = self.table("flow", match=[exact(1, mac(source))], **fields)
        if vrf is not None:
            entity.table_entry.action.CopyFrom(self.action("set_vrf", vrf.encode()))
        return entity

    def route(self, vrf: str, port: int, special: bytes | None = None) -> Any:
        match = [exact(1, vrf.encode())]
        if special is not None:
            match.append(
                p4r.FieldMatch(field_id=2, ternary=p4r.FieldMatch.Ternary(value=special, mask=b"\1"))
            )
        return self.table("vrf_route", match=match, priority=1, action=self.action("send", short(port)))


def exact(field: int, value: bytes) -> Any:
    return p4r.FieldMatch(field_id=field, exact=p4r.FieldMatch.Exact(value=value))


def mac(address: str) -> bytes:
    return bytes.fromhex(address.replace(":", ""))


def short(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8))


def frame(source: str = SRC, kind: int = 0x1234) -> Packet:
    return Ether(src=source, dst=DST, type=kind) / Raw(bytes(86))


INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE


@pytest.fixture
async def objects(controller: Controller) -> AsyncIterator[Objects]:
    program = {"p4info": PROGRAMS / "objects.p4info.txtpb", "p4blob": PROGRAMS / "objects.json"}
    async with controller(**program) as switch:
        yield Objects(switch)


class TestLoading:
    async def test_a_p4info_of_another_program_is_refused_with_its_place(self, objects: Objects) -> None:
        good = objects.switch.p4info.get_pipeline_config()
        verify = p4r.SetForwardingPipelineConfigRequest.VERIFY

        async def refusal(change: Callable[[Any], object]) -> tuple[int, str]:
            config = p4r.ForwardingPipelineConfig.FromString(good.SerializeToString())
            change(config)
            client: Any = objects.switch._p4client
            request = p4r.SetForwardingPipelineConfigRequest(device_id=1, action=verify, config=config)
            with pytest.raises(fy.P4ClientError) as refused:
                await client.request(request)
            return int(refused.value.code), refused.value.message

        def wide(config: Any) -> None:
            json = config.p4_device_config.replace(b'"bitwidth" : 128', b'"bitwidth" : 129')
            config.p4_device_config = json

        def structured(config: Any) -> None:
            config.p4info.registers[0].type_spec.struct.name = "seen_t"

        def masked_name(config: Any) -> None:
            [route] = [table for table in config.p4info.tables if table.preamble.alias == "vrf_route"]
            route.match_fields[1].type_name.name = "vrf_t"
            route.match_fields[1].ClearField("bitwidth")

        register, members = "register 'ObjectsIngress.seen'", "value set 'ObjectsParser.members'"
        cases: list[tuple[Callable[[Any], object], int, str]] = [
            (wide, PROTO.INVALID_ARGUMENT, "p4_device_config: register_arrays[1].bitwidth"),
            (structured, PROTO.INVALID_ARGUMENT, f"{register}: type_spec"),
            (
                lambda config: setattr(config.p4info.registers[0].type_spec.bitstring.bit, "bitwidth", 32),
                PROTO.INVALID_ARGUMENT,
                f"{register}: type_spec",
            ),
            (
                lambda config: setattr(config.p4info.value_sets[0].match[1], "bitwidth", 47),
                PROTO.INVALID_ARGUMENT,
                f"{members}: match field 2 'src'",
            ),
            (masked_name, PROTO.INVALID_ARGUMENT, "table 'ObjectsIngress.vrf_route': match field 'special'"),
            (
                lambda config: setattr(config.p4info.tables[1], "idle_timeout_behavior", 1),
                PROTO.INVALID_ARGUMENT,
                "table 'ObjectsIngress.vrf_route': the P4Info has an idle timeout",
            ),
        ]
        for change, code, text in cases:
            found = await refusal(change)
            assert found[0] == code, found
            assert text in found[1], found


class TestRegisters:
    async def test_packets_and_clients_share_the_cells(self, objects: Objects, wan: Wire) -> None:
        await objects.done(MODIFY, objects.register("seen", WAN, b"\xff\xff"))
        wan.send(frame())
        await asyncio.sleep(0.2)
        [cell] = await objects.read(objects.register("seen", WAN))
        assert cell.register_entry.data == p4d.P4Data(bitstring=b"\1\0\0")
        [total] = await objects.read(objects.register("total"))
        assert total.register_entry.data.bitstring == b"\x64"
        assert total.register_entry.index.index == 0

    async def test_an_array_is_read_and_written_whole(self, objects: Objects) -> None:
        await objects.done(MODIFY, objects.register("seen", value=b"\0\0\7"))
        found = await objects.read(objects.register("seen"))
        assert [it.register_entry.index.index for it in found] == list(range(2000))
        assert {it.register_entry.data.bitstring for it in found} == {b"\7"}, "canonical"
        assert len(await objects.read(objects.register(""))) == 2001

    async def test_the_widest_value_fits(self, objects: Objects) -> None:
        await objects.done(MODIFY, objects.register("total", 0, b"\xff" * 16))
        [cell] = await objects.read(objects.register("total", 0))
        assert cell.register_entry.data.bitstring == b"\xff" * 16

    async def test_refusals(self, objects: Objects) -> None:
        register = objects.register
        wrong = register("seen", 0)
        wrong.register_entry.data.bool = True
        unknown = register("seen", 0, b"\1")
        unknown.register_entry.register_id = 5
        for kind, entity, code in [
            (INSERT, register("seen", 0, b"\1"), PROTO.INVALID_ARGUMENT),
            (DELETE, register("seen", 0), PROTO.INVALID_ARGUMENT),
            (MODIFY, register("seen", -1, b"\1"), PROTO.INVALID_ARGUMENT),
            (MODIFY, register("seen", 2000, b"\1"), PROTO.OUT_OF_RANGE),
            (MODIFY, register("seen", 0, b"\1" + bytes(6)), PROTO.OUT_OF_RANGE),
            (MODIFY, register("seen", 0, b""), PROTO.OUT_OF_RANGE),
            (MODIFY, register("seen", 0), PROTO.INVALID_ARGUMENT),
            (MODIFY, wrong, PROTO.INVALID_ARGUMENT),
            (MODIFY, unknown, PROTO.NOT_FOUND),
        ]:
            assert await objects.code(kind, entity) == code, entity
        assert await objects.refusal(register("seen", 2000)) == PROTO.OUT_OF_RANGE
        assert await objects.refusal(register("seen", -1)) == PROTO.INVALID_ARGUMENT


class TestValueSets:
    async def test_members_decide_how_packets_are_parsed(
        self, objects: Objects, wan: Wire, lan: Wire
    ) -> None:
        await objects.done(INSERT, objects.flow(), objects.flow(OTHER), objects.route("red", LAN, b"\1"))
        wan.send(frame())
        assert lan.receive(0.3) is None
        low, high = mac("02:00:00:00:00:90"), mac("02:00:00:00:00:a0")
        members = objects.members(
            {1: ("exact", b"\x55")},
            {1: ("exact", b"\x12\x34"), 2: ("ternary", b"\1", b"\xff"), 3: ("range", low, high)},
        )
        await objects.done(MODIFY, members)
        wan.send(frame(OTHER))
        wan.send(frame(kind=0x1235))
        wan.send(frame())
        received = lan.receive()
        assert received is not None
        assert received.src == SRC, "the ternary field tells them apart"
        assert lan.receive(0.3) is None
        assert await objects.read(objects.members()) == [members]
        await objects.done(MODIFY, objects.members())
        wan.send(frame())
        assert lan.receive(0.3) is None

    async def test_refusals_leave_the_members(self, objects: Objects) -> None:
        one, two = {1: ("exact", b"\1")}, {1: ("exact", b"\2")}
        await objects.done(MODIFY, objects.members(one, two))
        many = [{1: ("exact", bytes([n]))} for n in range(1, 6)]
        for kind, entity, code in [
            (INSERT, objects.members(one), PROTO.INVALID_ARGUMENT),
            (DELETE, objects.members(), PROTO.INVALID_ARGUMENT),
            (MODIFY, objects.members(*many), PROTO.RESOURCE_EXHAUSTED),
            (MODIFY, objects.members(one, two, one), PROTO.ALREADY_EXISTS),
            (MODIFY, objects.members({2: ("ternary", b"\1", b"\1")}), PROTO.INVALID_ARGUMENT),
            (MODIFY, objects.members({1: ("exact", b"\1\0\0")}), PROTO.INVALID_ARGUMENT),
            (MODIFY, objects.members({**one, 3: ("range", b"\2", b"\1")}), PROTO.INVALID_ARGUMENT),
        ]:
            assert await objects.code(kind, entity) == code
        found = await objects.read(p4r.Entity(value_set_entry=p4r.ValueSetEntry()))
        assert found == [objects.members(one, two)]


class TestIdleTimeouts:
    async def test_an_entry_that_is_not_hit_is_told(self, objects: Objects, wan: Wire) -> None:
        told: asyncio.Queue[Any] = asyncio.Queue()
        _listen(objects.switch, told)
        ttl = 300_000_000
        entry = objects.flow(idle_timeout_ns=ttl, metadata=b"mine")
        await objects.done(INSERT, entry, objects.flow(OTHER))
        began = time.monotonic()
        for _ in range(4):
            await asyncio.sleep(0.15)
            wan.send(frame())
        assert told.empty(), "hits put it off"
        notice = await asyncio.wait_for(told.get(), 2)
        assert time.monotonic() - began >= 0.85
        [expired] = notice.table_entry
        asked = entry.table_entry
        assert (expired.table_id, expired.match[0]) == (asked.table_id, asked.match[0])
        assert (expired.idle_timeout_ns, expired.metadata) == (ttl, b"mine")
        assert abs(notice.timestamp / 1e9 - time.time()) < 5
        again = await asyncio.wait_for(told.get(), 2)
        assert again.timestamp - notice.timestamp >= ttl * 0.9
        await objects.done(DELETE, entry)
        await asyncio.sleep(0.5)
        assert told.empty()

    async def test_timeouts_are_read_back_and_modified(self, objects: Objects) -> None:
        asked = objects.table("flow", time_since_last_hit=p4r.TableEntry.IdleTimeout())

        async def timeout() -> int:
            [found] = await objects.read(objects.table("flow"))
            assert not found.table_entry.HasField("time_since_last_hit")
            return int(found.table_entry.idle_timeout_ns)

        await objects.done(INSERT, objects.flow(idle_timeout_ns=123_456_789_012))
        assert await timeout() == 123_456_789_012
        await objects.done(MODIFY, objects.flow(vrf=None))
        assert await timeout() == 123_456_789_012, "no action: what is not given stays"
        await asyncio.sleep(0.2)
        [found] = await objects.read(asked)
        assert 0.2e9 <= found.table_entry.time_since_last_hit.elapsed_ns < 5e9
        await objects.done(MODIFY, objects.flow())
        assert await timeout() == 0
        [found] = await objects.read(asked)
        assert found.table_entry.time_since_last_hit.elapsed_ns >= 0.2e9, "no hit"

    async def test_many_at_once_are_bundled(self, objects: Objects) -> None:
        told: asyncio.Queue[Any] = asyncio.Queue()
        _listen(objects.switch, told)
        flows = [
            objects.flow(f"02:00:00:01:{n >> 8:02x}:{n & 255:02x}", idle_timeout_ns=1) for n in range(600)
        ]
        await objects.done(INSERT, *flows)
        seen: set[bytes] = set()
        while len(seen) < 600:
            notice = await asyncio.wait_for(told.get(), 2)
            assert 0 < len(notice.table_entry) <= 256
            seen |= {entry.match[0].exact.value for entry in notice.table_entry}

    async def test_refusals(self, objects: Objects) -> None:
        idle = p4r.TableEntry.IdleTimeout()
        route = objects.route("red", LAN)
        route.table_entry.idle_timeout_ns = 1
        for kind, entity in [
            (INSERT, route),
            (INSERT, objects.flow(idle_timeout_ns=-1)),
            (INSERT, objects.flow(time_since_last_hit=idle)),
            (MODIFY, objects.table("flow", is_default_action=True, idle_timeout_ns=1)),
        ]:
            assert await objects.code(kind, entity) == PROTO.INVALID_ARGUMENT
        for entity in (
            objects.table("vrf_route", time_since_last_hit=idle),
            objects.table("flow", time_since_last_hit=idle, is_default_action=True),
        ):
            assert await objects.refusal(entity) == PROTO.INVALID_ARGUMENT


def _listen(switch: fy.Switch, told: asyncio.Queue[Any]) -> None:
    """Notifications as they come: finsy would decode them."""
    switch._stream_timeout_message = lambda message: told.put_nowait(message.idle_timeout_notification)  # type: ignore[method-assign]


class TestTranslatedTypes:
    async def test_names_and_ports_travel_as_the_client_knows_them(
        self, objects: Objects, wan: Wire, lan: Wire
    ) -> None:
        digests = p4r.DigestEntry(digest_id=objects.ids["seen_t"])
        digests.config.max_list_size = 1
        flow, routes = objects.flow(vrf="red"), [objects.route("red", LAN), objects.route("blue", 3)]
        await objects.done(INSERT, p4r.Entity(digest_entry=digests), flow, *routes)
        heard: asyncio.Queue[Any] = asyncio.Queue()
        objects.switch._stream_digest_message = lambda message: heard.put_nowait(message.digest)  # type: ignore[method-assign]
        wan.send(frame())
        assert lan.receive() is not None
        assert sorted(map(str, await objects.read(objects.table("vrf_route")))) == sorted(map(str, routes))
        assert await objects.read(objects.table("flow")) == [flow]
        digest = await asyncio.wait_for(heard.get(), 2)
        members = digest.data[0].struct.members
        assert [member.bitstring for member in members] == [short(int.from_bytes(mac(SRC))), b"red", b"\2"]

    async def test_what_does_not_fit_is_refused(self, objects: Objects) -> None:
        port = b"\xff\xff\xff\xff"

        def port_in(value: bytes, mask: bytes) -> Any:
            ternary = p4r.FieldMatch.Ternary(value=value, mask=mask)
            match = [p4r.FieldMatch(field_id=1, ternary=ternary)]
            return objects.table("port_in", match=match, priority=1, action=objects.action("NoAction"))

        one = port_in(b"\1", port)
        await objects.done(INSERT, one)
        assert await objects.read(objects.table("port_in")) == [one]
        for entity, code in [
            (port_in(b"\1", b"\1\xff"), PROTO.INVALID_ARGUMENT),
            (port_in(b"\2\0", port), PROTO.OUT_OF_RANGE),
            (objects.route("red", 512), PROTO.OUT_OF_RANGE),
            (objects.route("", LAN), PROTO.INVALID_ARGUMENT),
            (objects.route("x" * 256, LAN), PROTO.INVALID_ARGUMENT),
        ]:
            assert await objects.code(INSERT, entity) == code
        assert await objects.read(objects.table("vrf_route", match=[exact(1, b"nobody")])) == []


class TestDefaultEntries:
    async def test_misses_are_counted(self, objects: Objects, wan: Wire) -> None:
        data = p4r.CounterData
        asked = objects.table("flow", is_default_action=True, counter_data=data())
        direct = p4r.DirectCounterEntry(table_entry=asked.table_entry)
        direct.table_entry.ClearField("counter_data")
        for _ in range(3):
            wan.send(frame())
        await asyncio.sleep(0.2)
        [found] = await objects.read(asked)
        assert found.table_entry.counter_data == data(packet_count=3, byte_count=300)
        [found] = await objects.read(p4r.Entity(direct_counter_entry=direct))
        assert found.direct_counter_entry.data == data(packet_count=3, byte_count=300)
        direct.data.packet_count = 70
        await objects.done(MODIFY, p4r.Entity(direct_counter_entry=direct))
        [found] = await objects.read(asked)
        assert found.table_entry.counter_data == data(packet_count=70)
        [plain] = await objects.read(objects.table("flow", is_default_action=True))
        assert not plain.table_entry.HasField("counter_data")
        change = objects.table("flow", is_default_action=True, action=objects.action("set_vrf", b"red"))
        change.table_entry.counter_data.packet_count = 8
        await objects.done(MODIFY, change)
        [found] = await objects.read(asked)
        assert (found.table_entry.counter_data.packet_count, found.table_entry.action) == (
            8,
            change.table_entry.action,
        )
        await objects.done(MODIFY, objects.table("flow", is_default_action=True))
        [found] = await objects.read(asked)
        assert found.table_entry.counter_data == data(), "reset"


class TestReconciliation:
    async def test_the_next_program_goes_on_with_all_of_it(
        self, objects: Objects, wan: Wire, lan: Wire
    ) -> None:
        minute = 60_000_000_000
        members = objects.members({1: ("exact", b"\x12\x34"), 2: ("ternary", b"\1", b"\xff")})
        misses = objects.table("flow", is_default_action=True, action=objects.action("set_vrf", b"blue"))
        misses.table_entry.counter_data.packet_count = 70
        routes = [objects.route("red", LAN, b"\1"), objects.route("blue", WAN, b"\1")]
        await objects.done(INSERT, objects.flow(idle_timeout_ns=minute), *routes)
        await objects.done(MODIFY, members, misses, objects.register("total", 0, b"\1\0"))
        wan.send(frame())
        assert lan.receive() is not None
        await asyncio.sleep(0.5)

        config = p4r.ForwardingPipelineConfig()
        config.MergeFrom(objects.switch.p4info.get_pipeline_config())
        [info] = config.p4info.value_sets
        info.preamble.id += 1000
        for field in info.match:
            field.id += 10
        await self.push(objects, config)
        objects.ids["members"] += 1000

        members.value_set_entry.value_set_id += 1000
        for field in members.value_set_entry.members[0].match:
            field.field_id += 10
        assert await objects.read(objects.members()) == [members]
        [total] = await objects.read(objects.register("total", 0))
        assert total.register_entry.data.bitstring == short(0x100 + 100)
        asked = objects.table("flow", is_default_action=True, counter_data=p4r.CounterData())
        assert await objects.read(asked) == [misses]
        asked = objects.flow(vrf=None, time_since_last_hit=p4r.TableEntry.IdleTimeout())
        [flow] = await objects.read(asked)
        assert flow.table_entry.idle_timeout_ns == minute
        assert flow.table_entry.time_since_last_hit.elapsed_ns > 400_000_000
        wan.send(frame())
        assert lan.receive() is not None, "the name has kept its number"

    async def test_a_program_without_what_is_there_is_refused(self, objects: Objects) -> None:
        members = objects.members({1: ("exact", b"\x12\x34")})
        await objects.done(MODIFY, members)
        config = p4r.ForwardingPipelineConfig()
        config.MergeFrom(objects.switch.p4info.get_pipeline_config())
        del config.p4info.value_sets[:]
        with pytest.raises(fy.P4ClientError, match="the new program has no value set"):
            await self.push(objects, config)
        assert await objects.read(objects.members()) == [members]
        await objects.done(MODIFY, objects.members())
        await self.push(objects, config)

    async def push(self, objects: Objects, config: p4r.ForwardingPipelineConfig) -> None:
        client: Any = objects.switch._p4client
        action = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT
        await client.request(
            p4r.SetForwardingPipelineConfigRequest(device_id=1, action=action, config=config)
        )


class TestTableEntries:
    async def test_is_const_is_never_written_and_a_deletion_looks_at_the_key_alone(
        self, objects: Objects
    ) -> None:
        await objects.done(INSERT, objects.flow())
        for kind in (INSERT, MODIFY, DELETE):
            assert await objects.code(kind, objects.flow(is_const=True)) == PROTO.INVALID_ARGUMENT
        nonsense = objects.flow(vrf="x" * 999, idle_timeout_ns=-1, metadata=bytes(5000))
        await objects.done(DELETE, nonsense)
        assert await objects.read(objects.table("flow")) == []

    async def test_values_are_taken_with_zeros_before_them_and_given_without(self, objects: Objects) -> None:
        entry, canonical = objects.route("red", LAN), objects.route("red", LAN)
        entry.table_entry.action.action.params[0].value = bytes(9) + b"\2"
        await objects.done(INSERT, entry)
        assert await objects.read(objects.table("vrf_route")) == [canonical]
        padded = objects.table("flow", match=[exact(1, bytes(3) + mac(SRC))])
        padded.table_entry.action.CopyFrom(objects.action("set_vrf", b"red"))
        await objects.done(INSERT, padded)
        assert await objects.code(INSERT, objects.flow()) == PROTO.ALREADY_EXISTS, "the same key"
        assert await objects.read(objects.table("flow")) == [objects.flow()]


class TestWildcardReads:
    async def test_table_0_takes_no_filter(self, objects: Objects) -> None:
        await objects.done(INSERT, objects.flow(), objects.route("red", LAN))
        assert len(await objects.read(objects.table(""))) == 2
        for filtered in (
            {"priority": 1},
            {"is_default_action": True},
            {"metadata": b"x"},
            {"match": [exact(1, mac(SRC))]},
            {"action": objects.action("drop")},
        ):
            assert await objects.refusal(objects.table("", **filtered)) == PROTO.INVALID_ARGUMENT

    async def test_each_filter_of_one_table(self, objects: Objects) -> None:
        routes = [objects.route("red", LAN), objects.route("red", 3, b"\1"), objects.route("blue", 3)]
        routes[1].table_entry.priority = 7
        routes[1].table_entry.metadata = b"m"
        routes[2].table_entry.action.CopyFrom(objects.action("drop"))
        await objects.done(INSERT, *routes)

        async def found(**filters: Any) -> list[int]:
            return sorted(
                routes.index(entity) for entity in await objects.read(objects.table("vrf_route", **filters))
            )

        assert await found() == [0, 1, 2]
        assert await found(priority=7) == [1]
        assert await found(priority=8) == []
        assert await found(metadata=b"m") == [1]
        assert await found(action=objects.action("drop")) == [2]
        assert await found(match=list(routes[0].table_entry.match)) == [0]
        assert await found(match=list(routes[1].table_entry.match), priority=7) == [1]
        assert await found(match=list(routes[1].table_entry.match), priority=1) == []
        default = objects.action("drop")
        [entity] = await objects.read(objects.table("vrf_route", is_default_action=True, action=default))
        assert entity.table_entry.action == default
        other = objects.action("send", b"\1")
        assert await objects.read(objects.table("vrf_route", is_default_action=True, action=other)) == []
        assert await objects.refusal(objects.table("vrf_route", match=[exact(9, b"\1")])) == 3
