"""The program `programs/inventory.p4`, and what a controller wants in it: one state for each generation.

From one generation to the next every value changes, and some entries come and go:

    generation(n) ── updates() ──► generation(n + 1)
                        ▲
    observed(client) ───┘   what a switch has, whatever has happened to it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from finsy.proto import p4d, p4i, p4r
from google.protobuf import text_format
from raw_client import RawClient

PROGRAMS = Path(__file__).parent / "programs"
INFO = text_format.Parse((PROGRAMS / "inventory.p4info.txtpb").read_text(), p4i.P4Info())
FLOWS, RULES, ROUTES, MEMBERS, GROUPS, SESSIONS, CELLS = 1500, 300, 1000, 256, 64, 32, 256
HOUR = 3600 * 10**9

State = dict[bytes, p4r.Entity]
"""Entities by their keys in the switch."""


def named(info: p4i.P4Info) -> Iterator[tuple[str, int]]:
    objects = (
        info.tables, info.actions, info.action_profiles, info.counters, info.meters, info.value_sets,
        info.registers, info.digests,
    )  # fmt: skip
    for kind in objects:
        for it in kind:
            yield it.preamble.alias, it.preamble.id


IDS = dict(named(INFO))


def config() -> p4r.ForwardingPipelineConfig:
    return p4r.ForwardingPipelineConfig(
        p4info=INFO, p4_device_config=(PROGRAMS / "inventory.json").read_bytes()
    )


def number(value: int) -> bytes:
    """Canonical."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8))


def mac(kind: int, at: int) -> bytes:
    return number(0x02_00_00_00_00_00 | kind << 24 | at)


def action(name: str, *params: int) -> p4r.Action:
    each = [p4r.Action.Param(param_id=at, value=number(it)) for at, it in enumerate(params, start=1)]
    return p4r.Action(action_id=IDS[name], params=each)


def exact(value: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=value))


def entry(table: str, match: list[p4r.FieldMatch], does: p4r.TableAction, **fields: Any) -> p4r.Entity:
    made = p4r.TableEntry(table_id=IDS[table], match=match, action=does, **fields)
    return p4r.Entity(table_entry=made)


def engine(**fields: Any) -> p4r.Entity:
    return p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(**fields))


def replicas(at: int, generation: int) -> list[p4r.Replica]:
    return [p4r.Replica(port=number(port), instance=generation + at) for port in (1, 2)]


def flow(at: int, generation: int) -> p4r.Entity:
    counted = p4r.CounterData(byte_count=generation * 100 + at, packet_count=generation)
    return entry(
        "flow",
        [exact(mac(1, at))],
        p4r.TableAction(action=action("note", at % CELLS, generation << 32 | at)),
        idle_timeout_ns=HOUR + generation,
        metadata=number(generation),
        counter_data=counted,
    )


def rule(at: int, generation: int) -> p4r.Entity:
    ternary = p4r.FieldMatch.Ternary(value=mac(2, at), mask=b"\xff" * 6)
    between = p4r.FieldMatch.Range(low=number(at), high=number(at + 0x100))
    match = [
        p4r.FieldMatch(field_id=1, ternary=ternary),
        p4r.FieldMatch(field_id=2, range=between),
        p4r.FieldMatch(field_id=3, optional=p4r.FieldMatch.Optional(value=number(at % 2))),
    ]
    does = p4r.TableAction(action=action("drop" if generation % 2 else "permit"))
    return entry("acl", match, does, priority=at + 1, meter_config=rates(at, generation))


def route(at: int, generation: int) -> p4r.Entity:
    choices = [
        ("to_port", 1 + generation % 500),
        ("to_group", 1 + at % GROUPS),
        ("mirror", 2, 1 + generation),
    ]
    name, *params = choices[at % 3]
    lpm = p4r.FieldMatch.LPM(value=number(0x02_00_03_00_00_00 | at << 8), prefix_len=40)
    does = p4r.TableAction(action=action(str(name), *(int(it) for it in params)))
    return entry("route", [p4r.FieldMatch(field_id=1, lpm=lpm)], does)


def rates(at: int, generation: int) -> p4r.MeterConfig:
    return p4r.MeterConfig(cir=1000 + at, cburst=10 + generation, pir=2000 + at, pburst=20 + generation)


def member(profile: str, at: int, generation: int) -> p4r.Entity:
    made = p4r.ActionProfileMember(
        action_profile_id=IDS[profile],
        member_id=at + 1,
        action=action("to_port", 1 + (at + generation) % 500),
    )
    return p4r.Entity(action_profile_member=made)


def group(at: int, generation: int) -> p4r.Entity:
    members = [
        p4r.ActionProfileGroup.Member(member_id=1 + (at + it) % 60, weight=1 + (generation + it) % 3)
        for it in range(1 + at % 4)
    ]
    made = p4r.ActionProfileGroup(
        action_profile_id=IDS["balancer"], group_id=at + 1, members=members, max_size=16
    )
    return p4r.Entity(action_profile_group=made)


def one_shot(at: int, generation: int) -> p4r.TableAction:
    choices = [
        p4r.ActionProfileAction(action=action("to_port", 1 + (generation + it) % 500), weight=1 + it)
        for it in range(1 + at % 3)
    ]
    return p4r.TableAction(
        action_profile_action_set=p4r.ActionProfileActionSet(action_profile_actions=choices)
    )


def default_route(generation: int) -> p4r.Entity:
    does = p4r.TableAction(action=action("to_port", 1 + generation % 500))
    return entry("route", [], does, is_default_action=True)


def index(at: int) -> p4r.Index:
    return p4r.Index(index=at)


def cells(at: int, generation: int) -> Iterator[p4r.Entity]:
    counted = p4r.CounterData(byte_count=generation * 1000 + at, packet_count=generation)
    yield p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=IDS["totals"], index=index(at), data=counted))
    yield p4r.Entity(
        meter_entry=p4r.MeterEntry(meter_id=IDS["rates"], index=index(at), config=rates(at, generation))
    )
    data = p4d.P4Data(bitstring=number(generation << 16 | at))
    yield p4r.Entity(register_entry=p4r.RegisterEntry(register_id=IDS["notes"], index=index(at), data=data))


def generation(n: int) -> State:
    """The state that a controller wants: some entries of each kind are missing in each generation."""

    def present(count: int) -> Iterable[int]:
        return (at for at in range(count) if (at + n) % 7)

    made = [
        *(member("bundle", at, n) for at in range(MEMBERS)),
        *(member("balancer", at, n) for at in range(60)),
        *(group(at, n) for at in range(GROUPS)),
        *(
            engine(multicast_group_entry=p4r.MulticastGroupEntry(multicast_group_id=1 + at, replicas=replicas(at, n)))
            for at in present(GROUPS)
        ),
        *(
            engine(clone_session_entry=p4r.CloneSessionEntry(session_id=1 + at, replicas=replicas(at, n)))
            for at in present(SESSIONS)
        ),
        *(flow(at, n) for at in present(FLOWS)),
        *(rule(at, n) for at in present(RULES)),
        *(route(at, n) for at in present(ROUTES)),
        default_route(n),
        *(
            entry("member", [exact(mac(4, at))], p4r.TableAction(action_profile_member_id=1 + (at + n) % MEMBERS))
            for at in present(200)
        ),
        *(
            entry("spread", [exact(mac(5, at))], p4r.TableAction(action_profile_group_id=1 + (at + n) % GROUPS))
            for at in present(200)
        ),
        *(entry("once", [exact(mac(6, at))], one_shot(at, n)) for at in present(100)),
        *(it for at in range(CELLS) for it in cells(at, n)),
        special_types(n),
        digest(n),
    ]  # fmt: skip
    return {key(it): it for it in made}


def special_types(generation: int) -> p4r.Entity:
    members = [p4r.ValueSetMember(match=[exact(number(0x9000 + generation * 8 + it))]) for it in range(5)]
    return p4r.Entity(value_set_entry=p4r.ValueSetEntry(value_set_id=IDS["special_types"], members=members))


def digest(generation: int) -> p4r.Entity:
    limits = p4r.DigestEntry.Config(max_list_size=1 + generation, ack_timeout_ns=HOUR)
    return p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=IDS["seen_t"], config=limits))


EVERYTHING = [
    p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
    p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
    engine(),
    *(
        p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS[it]))
        for it in ("route", "member", "spread", "once")
    ),
    p4r.Entity(
        table_entry=p4r.TableEntry(table_id=IDS["flow"], counter_data=p4r.CounterData(), idle_timeout_ns=1)
    ),
    p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["acl"], meter_config=p4r.MeterConfig())),
    p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["route"], is_default_action=True)),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(meter_entry=p4r.MeterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
    p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
    p4r.Entity(digest_entry=p4r.DigestEntry()),
]


async def observed(client: RawClient) -> State:
    """Read everything in one request, so that no write comes between."""
    return {key(it): it for it in await client.read(*EVERYTHING)}


def generation_of(state: State) -> int:
    """The generation that the first register holds."""
    cells = (it.register_entry for it in state.values() if it.HasField("register_entry"))
    return next(int.from_bytes(it.data.bitstring) >> 16 for it in cells if it.index.index == 0)


def key(entity: p4r.Entity) -> bytes:
    """The entity without what it says of its object."""
    named = p4r.Entity()
    named.CopyFrom(entity)
    kind = named.WhichOneof("entity")
    assert kind is not None
    if kind == "packet_replication_engine_entry":
        inner: Any = named.packet_replication_engine_entry
        inner = getattr(inner, inner.WhichOneof("type"))
    else:
        inner = getattr(named, kind)
    said = {
        "action", "members", "max_size", "replicas", "data", "config", "counter_data", "meter_config", "metadata",
        "idle_timeout_ns", "time_since_last_hit",
    }  # fmt: skip
    for field, _ in inner.ListFields():
        if field.name in said:
            inner.ClearField(field.name)
    return named.SerializeToString(deterministic=True)


ALWAYS_THERE = ("counter_entry", "meter_entry", "register_entry", "value_set_entry")


def updates(have: State, want: State) -> list[p4r.Update]:
    """The updates from one state to the other, in an order in which nothing refers to what is missing."""
    insert = [(p4r.Update.INSERT, want[it]) for it in want if it not in have]
    modify = [(p4r.Update.MODIFY, want[it]) for it in want if it in have and have[it] != want[it]]
    delete = [(p4r.Update.DELETE, have[it]) for it in have if it not in want and not standing(have[it])]
    made = (
        p4r.Update(type=p4r.Update.MODIFY if standing(entity) else kind, entity=entity)
        for kind, entity in (*insert, *modify, *reversed(delete))
    )
    return list(made)


def standing(entity: p4r.Entity) -> bool:
    """Whether the entity is there as long as the program, and is but modified."""
    return entity.WhichOneof("entity") in ALWAYS_THERE or entity.table_entry.is_default_action


def texts(state: State) -> dict[bytes, bytes]:
    return {it: state[it].SerializeToString(deterministic=True) for it in state}
