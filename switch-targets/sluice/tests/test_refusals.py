"""Refusals that the specification asks for: the code, a text that says why, and no change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest
from exchange_entries import IDS, config, delete, every_table, forward, group, insert, modify
from finsy.proto import p4i, p4r
from gateway_authority import Authority
from google.protobuf import text_format
from raw_client import Code, RawClient, details

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
async def client(address: str, infrastructure: Authority) -> AsyncIterator[RawClient]:
    async with RawClient(address, infrastructure) as client:
        await client.bid(1)
        yield client


@pytest.fixture
async def primary(client: RawClient) -> RawClient:
    """A primary that has pushed `exchange.p4`."""
    await client.push("VERIFY_AND_COMMIT", config())
    return client


def loaded(name: str) -> p4r.ForwardingPipelineConfig:
    info = text_format.Parse((PROGRAMS / f"{name}.p4info.txtpb").read_text(), p4i.P4Info())
    return config(info, (PROGRAMS / f"{name}.json").read_bytes())


def entry(**fields: Any) -> p4r.Entity:
    return p4r.Entity(table_entry=p4r.TableEntry(**fields))


def counter(**fields: Any) -> p4r.Entity:
    return p4r.Entity(counter_entry=p4r.CounterEntry(**fields))


def direct_counter(**fields: Any) -> p4r.Entity:
    return p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=p4r.TableEntry(**fields)))


async def refusals(client: RawClient, *entities: p4r.Entity) -> list[tuple[Code, str]]:
    """The code and text of each element of a read."""
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await client.read(*entities)
    assert refusal.value.code() == Code.UNKNOWN
    return [_said(it) for it in details(refusal.value)]


async def refused(client: RawClient, *updates: p4r.Update) -> list[tuple[Code, str]]:
    """The code and text of each update of a write, which changes nothing."""
    before = await client.read(every_table(), counter())
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await client.stub.Write(client.mine(p4r.WriteRequest(updates=updates)))
    assert await client.read(every_table(), counter()) == before
    return [_said(it) for it in details(refusal.value)]


def _said(error: p4r.Error) -> tuple[Code, str]:
    return _code(error), error.message


def _code(error: p4r.Error) -> Code:
    return next(it for it in Code if it.value[0] == error.canonical_code)  # type: ignore[index]


def match(value: int) -> list[p4r.FieldMatch]:
    return [p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=bytes([value])))]


class TestArbitration:
    async def test_a_client_that_comes_back_before_it_is_missed_is_primary_at_once(
        self, primary: RawClient, address: str, infrastructure: Authority
    ) -> None:
        async with RawClient(address, infrastructure) as again:
            bidding = asyncio.create_task(again.bid(1))
            await asyncio.sleep(0.1)
            assert not bidding.done()
            primary.stream.cancel()
            assert (await bidding).status.code == Code.OK.value[0]
            assert await again.write(insert(forward(1))) == [Code.OK]

    async def test_an_election_id_that_stays_in_use_is_refused(
        self, primary: RawClient, address: str, infrastructure: Authority
    ) -> None:
        async with RawClient(address, infrastructure) as other:
            code, text = await other.refused(other.bid(1))
            assert (code, "used by another live connection" in text) == (Code.INVALID_ARGUMENT, True)
            assert await primary.write(insert(forward(1))) == [Code.OK]

    async def test_without_an_election_id_nothing_is_written(self, client: RawClient) -> None:
        update = p4r.MasterArbitrationUpdate(device_id=1)
        await client.stream.write(p4r.StreamMessageRequest(arbitration=update))
        answer = (await client.hear("arbitration")).arbitration
        assert answer.status.code == Code.NOT_FOUND.value[0], "it has given up being primary"
        assert answer.election_id.low == 1
        request = p4r.WriteRequest(device_id=1)
        code, text = await client.refused(client.stub.Write(request))
        assert (code, "no client is primary" in text) == (Code.PERMISSION_DENIED, True)
        assert (await client.bid(3)).status.code == 0
        for election_id, why in [
            (None, "no election id"),
            (p4r.Uint128(low=2), "is 3, that of the request 2"),
        ]:
            code, text = await client.refused(
                client.stub.Write(p4r.WriteRequest(device_id=1, election_id=election_id))
            )
            assert (code, why in text) == (Code.PERMISSION_DENIED, True), text

    async def test_the_device_is_looked_at_first(self, address: str, infrastructure: Authority) -> None:
        async with RawClient(address, infrastructure, name="r") as stranger:
            assert stranger.role is not None
            stranger.role.config.Pack(p4r.DigestListAck())
            assert (await stranger.refused(stranger.bid(1, device_id=2)))[0] == Code.NOT_FOUND


class TestStream:
    async def test_what_is_no_message_ends_the_stream_with_a_reason(
        self, address: str, infrastructure: Authority
    ) -> None:
        async with RawClient(address, infrastructure) as client:
            raw = cast(Any, client.channel).stream_stream("/p4.v1.P4Runtime/StreamChannel")()
            await raw.write(b"\x0a\xff")
            code, text = await client.refused(raw.read())
            assert (code, "StreamMessageRequest" in text) == (Code.INTERNAL, True)

    async def test_an_error_leaves_the_stream_open(self, primary: RawClient) -> None:
        packet = p4r.PacketOut(payload=b"x" * 70_000)
        for request, code, kind in [
            (p4r.StreamMessageRequest(), Code.INVALID_ARGUMENT, "other"),
            (p4r.StreamMessageRequest(packet=packet), Code.UNIMPLEMENTED, "packet_out"),
            (
                p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=0, list_id=9)),
                Code.INVALID_ARGUMENT,
                "digest_list_ack",
            ),
        ]:
            await primary.stream.write(request)
            error = (await primary.hear("error")).error
            assert (_code(error), error.WhichOneof("details")) == (code, kind)  # type: ignore[arg-type]
            assert error.message
        late = p4r.DigestListAck(digest_id=IDS["seen_t"], list_id=9)
        await primary.stream.write(p4r.StreamMessageRequest(digest_ack=late))
        assert (await primary.bid(2)).status.code == 0, "an acknowledgement that is late is no error"


class TestPipelineConfig:
    async def test_before_the_first_program_there_is_no_config(self, client: RawClient) -> None:
        reply = await client.stub.GetForwardingPipelineConfig(
            p4r.GetForwardingPipelineConfigRequest(device_id=1)
        )
        assert not reply.HasField("config")
        for call in (client.write(insert(forward(1))), client.read(every_table())):
            assert (await client.refused(call))[0] == Code.FAILED_PRECONDITION

    async def test_values_that_the_specification_does_not_have(self, primary: RawClient) -> None:
        get = p4r.GetForwardingPipelineConfigRequest(device_id=1, response_type=9)  # type: ignore[arg-type]
        push = p4r.SetForwardingPipelineConfigRequest(action=9, config=config())  # type: ignore[arg-type]
        write = p4r.WriteRequest(updates=[insert(forward(1))], atomicity=9)  # type: ignore[arg-type]
        for call, text in [
            (primary.stub.GetForwardingPipelineConfig(get), "response type 9"),
            (primary.stub.SetForwardingPipelineConfig(primary.mine(push)), "action 9"),
            (primary.stub.Write(primary.mine(write)), "atomicity 9"),
        ]:
            code, said = await primary.refused(call)
            assert (code, text in said) == (Code.INVALID_ARGUMENT, True), said
        [(code, said)] = await refused(primary, p4r.Update(type=9, entity=forward(1)))  # type: ignore[arg-type]
        assert (code, "type 9" in said) == (Code.INVALID_ARGUMENT, True)

    async def test_a_p4info_of_another_program_is_refused_with_the_place(self, client: RawClient) -> None:
        for program, change, text in BENT_P4INFOS:
            bent = loaded(program)
            change(bent.p4info)
            code, said = await client.refused(client.push("VERIFY", bent))
            assert code == Code.INVALID_ARGUMENT, said
            assert said.startswith("p4info: "), said
            assert text in said

    async def test_sizes_need_not_be_the_programs(self, client: RawClient) -> None:
        for program in ("exchange", "objects", "meters", "selectors"):
            bent = loaded(program)
            info = bent.p4info
            arrays = [*info.counters, *info.meters, *info.registers, *info.value_sets, *info.action_profiles]
            for array in [*info.tables, *arrays]:
                array.size += 1
            await client.push("VERIFY", bent)

    async def test_a_field_may_be_without_a_width_as_p4c_writes_those_of_type_error(
        self, client: RawClient
    ) -> None:
        bent = loaded("exchange")
        for table in bent.p4info.tables:
            for field in table.match_fields:
                field.bitwidth = 0
        await client.push("VERIFY", bent)

    async def test_the_program_may_be_in_the_message_of_older_controllers(self, client: RawClient) -> None:
        wrapped = loaded("exchange")
        json = wrapped.p4_device_config
        length = len(json)
        varint = bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
        assert length < 1 << 21
        wrapped.p4_device_config = b"\x08\x01\x1a" + varint + json
        await client.push("VERIFY", wrapped)
        wrapped.p4_device_config = b"\x08\x01\x1a" + varint + json[:-1]
        code, said = await client.refused(client.push("VERIFY", wrapped))
        assert code == Code.INVALID_ARGUMENT
        assert said.startswith("p4_device_config: "), said

    async def test_what_p4c_has_removed_is_in_the_p4info_alone(self, client: RawClient) -> None:
        """p4c writes the P4Info before it removes tables that do nothing, with their counters, meters and profiles."""
        for program, kinds in REMOVED.items():
            pushed = loaded(program)
            names: dict[str, str] = {}
            for number, kind in enumerate(kinds):
                objects = getattr(pushed.p4info, kind)
                removed = objects.add()
                removed.CopyFrom(objects[0])
                removed.preamble.id = _REMOVED_TABLE if kind == "tables" else _REMOVED_TABLE + 1 + number
                removed.preamble.name = names[kind] = f"{kind}.removed"
                if kind == "tables":
                    removed.ClearField("direct_resource_ids")
                elif kind.startswith("direct"):
                    removed.direct_table_id = _REMOVED_TABLE
                elif kind == "action_profiles":
                    removed.table_ids[:] = [_REMOVED_TABLE]
            await client.push("VERIFY_AND_COMMIT", pushed)
            for number, kind in enumerate(kinds):
                asked = _entity_of(kind, _REMOVED_TABLE if kind == "tables" else _REMOVED_TABLE + 1 + number)
                if asked is None:
                    continue
                update = p4r.Update(type=p4r.Update.MODIFY, entity=asked)
                with pytest.raises(grpc.aio.AioRpcError) as refusal:
                    await client.stub.Write(client.mine(p4r.WriteRequest(updates=[update])))
                for said in [*map(_said, details(refusal.value)), *await refusals(client, asked)]:
                    assert said[0] == Code.NOT_FOUND, said
                    assert f"'{names[kind]}' is in the P4Info, but not in the program" in said[1]

    async def test_a_program_may_have_lost_all_its_tables(self, client: RawClient) -> None:
        """p4c's sample gauntlet_nested_switch is such a program: its only table has no key."""
        pushed = loaded("wires")
        table = pushed.p4info.tables.add(size=1024)
        table.preamble.id, table.preamble.name = _REMOVED_TABLE, "removed"
        await client.push("VERIFY", pushed)
        table.match_fields.add(id=1, name="key", bitwidth=8, match_type=p4i.MatchField.EXACT)
        code, said = await client.refused(client.push("VERIFY", pushed))
        assert (code, "p4info: it is another program's" in said) == (Code.INVALID_ARGUMENT, True), said

    async def test_files_of_two_programs_are_refused(self, client: RawClient) -> None:
        for program in ("copies", "exchange", "headers", "objects", "selectors", "wires"):
            for other in ("inventory", "meters"):
                mixed = config(loaded(other).p4info, loaded(program).p4_device_config)
                code, said = await client.refused(client.push("VERIFY", mixed))
                assert code == Code.INVALID_ARGUMENT
                assert "p4info: it is another program's: the JSON has none of its tables" in said

    async def test_a_default_action_beside_a_profile_is_in_the_p4info_alone(self, client: RawClient) -> None:
        bent = loaded("selectors")
        [table, *_] = [it for it in bent.p4info.tables if it.implementation_id]
        table.const_default_action_id = table.action_refs[0].id
        await client.push("VERIFY", bent)
        table.const_default_action_id = table.preamble.id
        code, said = await client.refused(client.push("VERIFY", bent))
        assert code == Code.INVALID_ARGUMENT
        assert "is not one of its actions" in said

    async def test_a_json_that_is_none_is_refused_with_the_place(self, client: RawClient) -> None:
        whole = config().p4_device_config
        for bent, text in _bent(whole):
            code, said = await client.refused(client.push("VERIFY", config(program=bent)))
            assert code == Code.INVALID_ARGUMENT
            assert said.startswith("p4_device_config: "), said
            assert text in said


BENT_P4INFOS: list[tuple[str, Callable[[Any], object], str]] = [
    ("exchange", lambda info: info.Clear(), "it is empty, the program has table 'Forward.admission'"),
    ("exchange", lambda info: info.tables[0].match_fields.add(), "2 match fields, the program 1"),
    (
        "exchange",
        lambda info: setattr(info.tables[1].match_fields[0], "id", 2),
        "table 'Forward.admission': two match fields have the id 2",
    ),
    (
        "exchange",
        lambda info: setattr(info.tables[1].match_fields[0], "id", 0),
        "table 'Forward.admission': a match field has the id 0",
    ),
    (
        "exchange",
        lambda info: info.tables[0].action_refs.append(info.tables[0].action_refs[0]),
        "table 'Forward.forward': two actions have the id",
    ),
    (
        "exchange",
        lambda info: setattr(info.tables[0], "const_default_action_id", IDS["punt"]),
        "table 'Forward.forward': const_default_action_id: action 'Forward.punt'",
    ),
    (
        "exchange",
        lambda info: setattr(info.tables[0], "const_default_action_id", IDS["deny"]),
        "const_default_action_id",
    ),
    (
        "exchange",
        lambda info: info.tables[1].direct_resource_ids.append(info.direct_counters[0].preamble.id),
        "table 'Forward.admission': direct resource",
    ),
    (
        "exchange",
        lambda info: setattr(info.direct_counters[0], "direct_table_id", IDS["admission"]),
        "direct counter 'Forward.forwarded': the program has no counter at its table",
    ),
    (
        "exchange",
        lambda info: setattr(info.direct_counters[0], "direct_table_id", 5),
        "direct counter 'Forward.forwarded': it belongs to no table",
    ),
    (
        "exchange",
        lambda info: setattr(info.tables[1].preamble, "name", "Forward.forward"),
        "table 'Forward.forward': it has no name, or another has the same",
    ),
    (
        "exchange",
        lambda info: setattr(info.tables[1].preamble, "id", info.tables[0].preamble.id),
        "table 'Forward.admission': id 0, or used twice",
    ),
    ("exchange", lambda info: info.tables[0].ClearField("preamble"), "has no preamble"),
    (
        "exchange",
        lambda info: setattr(info.tables[0].match_fields[0], "match_type", p4i.MatchField.LPM),
        "table 'Forward.forward': match field 'h.ethernet.dst': the program matches it as Exact",
    ),
    (
        "exchange",
        lambda info: setattr(info.controller_packet_metadata[0].metadata[0], "bitwidth", -9),
        "controller header 'packet_in': field 'ingress_port'",
    ),
    (
        "exchange",
        lambda info: setattr(info.controller_packet_metadata[0].metadata[0], "id", 0),
        "its id is 0",
    ),
    (
        "selectors",
        lambda info: setattr(info.action_profiles[1], "max_group_size", 17),
        "action profile 'SelectorIngress.balancer': max_group_size 17 is above its size 16",
    ),
    (
        "selectors",
        lambda info: setattr(info.action_profiles[1], "with_selector", False),
        "action profile 'SelectorIngress.balancer': the P4Info and the program differ",
    ),
    (
        "objects",
        lambda info: _translated(info, -5),
        "p4info: new type 'sdn_port_t': sdn_bitwidth -5",
    ),
    ("objects", lambda info: _translated(info, 2**31 - 1), "new type 'sdn_port_t': sdn_bitwidth"),
]


_REMOVED_TABLE = 0x2FFFFF0
REMOVED = {
    "exchange": ["tables", "direct_counters", "counters", "registers"],
    "meters": ["tables", "direct_meters", "meters"],
    "selectors": ["tables", "action_profiles"],
    "objects": ["value_sets"],
}


def _entity_of(kind: str, number: int) -> p4r.Entity | None:
    match kind:
        case "tables":
            return entry(table_id=number)
        case "counters":
            return counter(counter_id=number)
        case "registers":
            return p4r.Entity(register_entry=p4r.RegisterEntry(register_id=number))
        case "meters":
            return p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=number))
        case "action_profiles":
            return p4r.Entity(action_profile_member=p4r.ActionProfileMember(action_profile_id=number))
        case "value_sets":
            return p4r.Entity(value_set_entry=p4r.ValueSetEntry(value_set_id=number))
        case _:
            return None


def _translated(info: Any, width: int) -> None:
    [name] = [it for it, spec in info.type_info.new_types.items() if spec.translated_type.sdn_bitwidth]
    info.type_info.new_types[name].translated_type.sdn_bitwidth = width


def _bent(whole: bytes) -> Iterator[tuple[bytes, str]]:
    yield whole[: len(whole) // 2], "line"
    yield b"", "line"
    yield b"\xff\xfe", "line"
    yield b"[]", "JSON: expected an object"
    yield b"[" * 100_000, "line"
    for old, new, place in [
        (b'"size" : 8,', b'"size" : "8",', "counter_arrays"),
        (b'"size" : 8,', b'"size" : -8,', "counter_arrays"),
        (b'"size" : 8,', b'"size" : 1e30,', "counter_arrays"),
        (b'"size" : 8,', b'"size" : 99999999999,', "counter_arrays"),
        (b'"max_size" : 64', b'"max_size" : 18446744073709551616', "pipelines[0].tables"),
        (b'"init_state" : "start"', b'"init_state" : "nowhere"', "parsers[0]"),
        (b'"init_table" : "', b'"init_table" : "no', "pipelines[0]"),
        (b'"name" : "egress"', b'"name" : "ingress"', "pipelines[1].name: another one has the same name"),
        (b'"op" : "assign"', b'"op" : "asign"', "actions["),
    ]:
        assert old in whole, old
        yield whole.replace(old, new, 1), place


class TestWrites:
    async def test_refusals(self, primary: RawClient) -> None:
        assert await primary.write(insert(forward(1))) == [Code.OK]
        without_id = forward(2)
        without_id.table_entry.table_id = 0
        below = forward(2)
        below.table_entry.priority = -1
        twice = forward(2)
        twice.table_entry.match.extend(match(3))
        other = forward(2)
        other.table_entry.action.action.action_id = IDS["deny"]
        missing, unset = forward(2), forward(2)
        missing.table_entry.action.action.ClearField("params")
        unset.table_entry.ClearField("action")
        by_member = forward(2)
        by_member.table_entry.action.action_profile_member_id = 1
        const = forward(2)
        const.table_entry.is_const = True
        idle = forward(2)
        idle.table_entry.idle_timeout_ns = 5
        metered = forward(2)
        metered.table_entry.meter_config.cir = 5
        default = entry(table_id=IDS["forward"], is_default_action=True)
        keyed = entry(table_id=IDS["forward"], is_default_action=True, match=match(1))
        sized = counter(counter_id=IDS["received"], index=p4r.Index(index=8))
        sized.counter_entry.data.packet_count = 1
        below_zero = counter(counter_id=IDS["received"], index=p4r.Index(index=-1))
        below_zero.counter_entry.data.packet_count = 1
        negative = counter(counter_id=IDS["received"], index=p4r.Index())
        negative.counter_entry.data.packet_count = -1
        invalid, missing_code = Code.INVALID_ARGUMENT, Code.NOT_FOUND
        cases = [
            (insert(without_id), invalid, "the id of the table is not set"),
            (insert(below), invalid, "priority -1 must be 0"),
            (insert(twice), invalid, "is given twice"),
            (insert(other), invalid, "is not one of its actions"),
            (insert(missing), invalid, "parameter 'port' is missing"),
            (insert(unset), invalid, "the action is not set"),
            (insert(by_member), invalid, "no action profile"),
            (insert(const), invalid, "is_const"),
            (insert(idle), invalid, "no idle timeout"),
            (insert(metered), invalid, "no direct meter"),
            (insert(forward(1)), Code.ALREADY_EXISTS, "table 'Forward.forward'"),
            (modify(forward(3)), missing_code, "table 'Forward.forward'"),
            (delete(forward(3)), missing_code, "table 'Forward.forward'"),
            (insert(default), invalid, "can only be modified"),
            (delete(default), invalid, "can only be modified"),
            (modify(keyed), invalid, "neither match fields nor a priority"),
            (insert(group(0)), invalid, "1 to 65535"),
            (modify(group(9)), missing_code, "multicast group 9"),
            (delete(group(9)), missing_code, "multicast group 9"),
            (modify(sized), Code.OUT_OF_RANGE, "8 cells"),
            (modify(below_zero), invalid, "negative"),
            (modify(negative), invalid, "negative"),
            (modify(counter()), invalid, "the id of the counter is not set"),
            (modify(direct_counter()), invalid, "the id of the table is not set"),
            (modify(direct_counter(table_id=IDS["forward"], match=match(9))), missing_code, "no entry"),
            (modify(direct_counter(table_id=IDS["admission"])), invalid, "has none"),
            (modify(p4r.Entity(digest_entry=p4r.DigestEntry())), invalid, "the id of the digest is not set"),
            (
                delete(p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=IDS["seen_t"]))),
                missing_code,
                "seen_t",
            ),
            (insert(p4r.Entity()), invalid, "entity is not set"),
            (
                insert(p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=7))),
                missing_code,
                "no meter has the id 7",
            ),
        ]
        answers = await refused(primary, *(update for update, _, _ in cases))
        for (code, said), (update, expected, text) in zip(answers, cases, strict=True):
            assert code == expected, (update, said)
            assert text in said, (update, said)

    async def test_a_delete_looks_at_the_key_alone(self, primary: RawClient) -> None:
        assert await primary.write(insert(forward(1))) == [Code.OK]
        nonsense = forward(1)
        nonsense.table_entry.action.action.action_id = 5
        nonsense.table_entry.idle_timeout_ns = -5
        nonsense.table_entry.meter_config.cir = -5
        assert await primary.write(delete(nonsense)) == [Code.OK]

    async def test_a_batch_that_fails_altogether_says_so_of_each_update(self, primary: RawClient) -> None:
        answers = await refused(primary, *(delete(forward(n % 200 + 1)) for n in range(2000)))
        assert [code for code, _ in answers] == [Code.NOT_FOUND] * 2000


class TestReads:
    async def test_wildcards_and_filters(self, primary: RawClient) -> None:
        noted = forward(2)
        noted.table_entry.metadata = b"noted"
        assert await primary.write(insert(forward(1)), insert(noted)) == [Code.OK] * 2
        whole = p4r.TableAction(action=p4r.Action(action_id=IDS["to_port"]))
        other = p4r.TableAction(action=p4r.Action(action_id=IDS["drop"]))
        table = IDS["forward"]
        for asked, count in [
            (entry(), 2),
            (entry(table_id=table), 2),
            (entry(table_id=table, match=match(2)), 1),
            (entry(table_id=table, match=match(9)), 0),
            (entry(table_id=table, action=whole), 2),
            (entry(table_id=table, action=other), 0),
            (entry(table_id=table, metadata=b"noted"), 1),
            (entry(table_id=table, priority=7), 0),
            (entry(table_id=table, is_default_action=True), 1),
            (entry(table_id=IDS["admission"]), 0),
            (counter(), 8),
            (counter(counter_id=IDS["received"], index=p4r.Index()), 1),
            (direct_counter(), 2),
            (direct_counter(table_id=table), 2),
            (direct_counter(table_id=table, match=match(2), metadata=b"other", action=other), 1),
            (p4r.Entity(register_entry=p4r.RegisterEntry()), 4),
            (p4r.Entity(meter_entry=p4r.MeterEntry()), 0),
            (p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry()), 0),
            (p4r.Entity(digest_entry=p4r.DigestEntry()), 0),
            (p4r.Entity(value_set_entry=p4r.ValueSetEntry()), 0),
            (p4r.Entity(action_profile_member=p4r.ActionProfileMember()), 0),
            (p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), 0),
            # The switch's key-encryption key.
            (p4r.Entity(extern_entry=p4r.ExternEntry()), 1),
            (p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()), 0),
        ]:
            assert len(await primary.read(asked)) == count, asked

    async def test_refusals(self, primary: RawClient) -> None:
        table = IDS["forward"]
        member = p4r.TableAction(action_profile_member_id=3)
        cases = [
            (entry(priority=5), Code.INVALID_ARGUMENT, "table_id 0"),
            (entry(match=match(1)), Code.INVALID_ARGUMENT, "table_id 0"),
            (entry(table_id=5), Code.NOT_FOUND, "no table has the id 5"),
            (entry(table_id=table, action=member), Code.INVALID_ARGUMENT, "not by a member"),
            (
                entry(table_id=table, time_since_last_hit=p4r.TableEntry.IdleTimeout()),
                Code.INVALID_ARGUMENT,
                "no idle timeout",
            ),
            (
                entry(table_id=table, is_default_action=True, priority=1),
                Code.INVALID_ARGUMENT,
                "default entry",
            ),
            (entry(table_id=table, match=[p4r.FieldMatch(field_id=1)]), Code.INVALID_ARGUMENT, "Exact"),
            (counter(index=p4r.Index(index=1)), Code.INVALID_ARGUMENT, "without the array's id"),
            (
                counter(counter_id=IDS["received"], index=p4r.Index(index=8)),
                Code.OUT_OF_RANGE,
                "8 cells",
            ),
            (
                counter(counter_id=IDS["received"], index=p4r.Index(index=-8)),
                Code.INVALID_ARGUMENT,
                "negative",
            ),
            (direct_counter(match=match(1)), Code.INVALID_ARGUMENT, "without its table"),
            (direct_counter(table_id=table, match=match(1)), Code.NOT_FOUND, "no such entry"),
            (direct_counter(table_id=IDS["admission"]), Code.INVALID_ARGUMENT, "no direct counter"),
            (p4r.Entity(), Code.INVALID_ARGUMENT, "the entity is not set"),
        ]
        answers = await refusals(primary, *(asked for asked, _, _ in cases))
        for (code, said), (asked, expected, text) in zip(answers, cases, strict=True):
            assert code == expected, (asked, said)
            assert text in said, (asked, said)

    async def test_the_rest_of_a_batch_is_answered(self, primary: RawClient) -> None:
        request = p4r.ReadRequest(
            device_id=1, entities=[counter(), entry(table_id=5), counter(counter_id=IDS["received"])]
        )
        found: list[p4r.Entity] = []

        async def read() -> None:
            async for answer in primary.stub.Read(request):
                found.extend(answer.entities)

        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await read()
        assert len(found) == 16
        assert [_code(it) for it in details(refusal.value)] == [Code.OK, Code.NOT_FOUND, Code.OK]


async def test_capabilities_are_of_this_device(client: RawClient) -> None:
    reply = await client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=1))
    assert reply.p4runtime_api_version == "1.5.0"
    other = client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=2))
    assert (await client.refused(other))[0] == Code.NOT_FOUND
