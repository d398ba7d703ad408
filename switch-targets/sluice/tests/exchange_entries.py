"""The program `programs/exchange.p4` and entries of its tables, as plain messages."""

from __future__ import annotations

from pathlib import Path

from finsy.proto import p4i, p4r
from google.protobuf import text_format

PROGRAMS = Path(__file__).parent / "programs"
P4INFO = PROGRAMS / "exchange.p4info.txtpb"
PROGRAM = PROGRAMS / "exchange.json"
CPU_PORT = 510


def p4info() -> p4i.P4Info:
    return text_format.Parse(P4INFO.read_text(), p4i.P4Info())


def config(info: p4i.P4Info | None = None, program: bytes | None = None) -> p4r.ForwardingPipelineConfig:
    return p4r.ForwardingPipelineConfig(
        p4info=info or p4info(), p4_device_config=PROGRAM.read_bytes() if program is None else program
    )


def ids(info: p4i.P4Info | None = None) -> dict[str, int]:
    """The id of each object, by its alias."""
    info = info or p4info()
    objects = [
        *info.tables,
        *info.actions,
        *info.counters,
        *info.registers,
        *info.digests,
        *info.direct_counters,
        *info.controller_packet_metadata,
    ]
    return {it.preamble.alias: it.preamble.id for it in objects}


IDS = ids()


def forward(dst: int, port: int = 1) -> p4r.Entity:
    """An entry of `forward` with the action to_port."""
    exact = p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=bytes([dst])))
    params = [p4r.Action.Param(param_id=1, value=bytes([port]))]
    action = p4r.Action(action_id=IDS["to_port"], params=params)
    entry = p4r.TableEntry(table_id=IDS["forward"], match=[exact], action=p4r.TableAction(action=action))
    return p4r.Entity(table_entry=entry)


def admission(port: int) -> p4r.Entity:
    """An entry of `admission`, which the role `guard` owns, with the action deny."""
    ternary = p4r.FieldMatch.Ternary(value=bytes([port]), mask=b"\x01\xff")
    match = p4r.FieldMatch(field_id=1, ternary=ternary)
    action = p4r.TableAction(action=p4r.Action(action_id=IDS["deny"]))
    entry = p4r.TableEntry(table_id=IDS["admission"], match=[match], priority=1, action=action)
    return p4r.Entity(table_entry=entry)


def group(number: int) -> p4r.Entity:
    entry = p4r.MulticastGroupEntry(multicast_group_id=number, replicas=[p4r.Replica(port=b"\1")])
    engine = p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)
    return p4r.Entity(packet_replication_engine_entry=engine)


def every_table() -> p4r.Entity:
    return p4r.Entity(table_entry=p4r.TableEntry())


def insert(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.INSERT, entity=entity)


def modify(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.MODIFY, entity=entity)


def delete(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.DELETE, entity=entity)
