"""What we ask of finsy, and what it says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import finsy
from finsy import P4DigestList
from finsy.proto import p4r
from google.protobuf import wrappers_pb2

# Entries that are looked at in one go.
_PORTION = 500


async def read(switch: finsy.Switch, wanted: Sequence[p4r.Entity]) -> AsyncGenerator[Sequence[p4r.Entity]]:
    """What matches, in portions; between two of them others have their turn."""
    client = switch._p4client
    assert client is not None
    request = p4r.ReadRequest(device_id=switch.device_id, entities=wanted)
    async for reply in client.request_iter(request):
        for first in range(0, len(reply.entities), _PORTION):
            yield reply.entities[first : first + _PORTION]
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Carried:
    """So far, by SA."""

    packets: Mapping[int, int]
    bytes: Mapping[int, int]


async def carried(switch: finsy.Switch, table: str) -> Carried:
    """What has hit each SA's entries of a table with a direct counter."""
    schema = switch.p4info.tables[table]
    sa_id, packets, octets = schema.match_fields["sa_id"].id, Counter[int](), Counter[int]()
    asked = p4r.DirectCounterEntry(table_entry=p4r.TableEntry(table_id=schema.id))
    async for portion in read(switch, [p4r.Entity(direct_counter_entry=asked)]):
        for entity in portion:
            found = entity.direct_counter_entry
            for field in found.table_entry.match:
                if field.field_id == sa_id:
                    sa = int.from_bytes(field.exact.value)
                    packets[sa] += found.data.packet_count
                    octets[sa] += found.data.byte_count
    return Carried(packets, octets)


# sluice reports the fingerprints of its KEKs as entries of this extern (switch-targets/sluice/src/kek.rs).
_KEK_TYPE, _KEK_ID = 0x81, 0x8100_0001
# A switch without extern entries answers a read of them with one of these; bmv2's answer is UNKNOWN.
_NO_SUCH_ENTITY = {
    finsy.GRPCStatusCode.UNIMPLEMENTED,
    finsy.GRPCStatusCode.INVALID_ARGUMENT,
    finsy.GRPCStatusCode.UNKNOWN,
}


async def keks(switch: finsy.Switch) -> list[bytes] | None:
    """Fingerprints of the switch's KEKs, newest first; None when the switch does not report them."""
    found: list[bytes] = []
    try:
        async for portion in read(switch, [_kek()]):
            for entity in portion:
                content = wrappers_pb2.BytesValue()
                if entity.extern_entry.entry.Unpack(content):
                    found.append(content.value)
    except finsy.P4ClientError as error:
        if _codes(error) <= _NO_SUCH_ENTITY:
            return None
        raise
    return found or None


def forget_kek(fingerprint: bytes) -> p4r.Update:
    """An update that makes the switch forget a KEK. The switch refuses to forget its newest KEK."""
    entity = _kek()
    entity.extern_entry.entry.Pack(wrappers_pb2.BytesValue(value=fingerprint))
    return p4r.Update(type=p4r.Update.DELETE, entity=entity)


def _kek() -> p4r.Entity:
    return p4r.Entity(extern_entry=p4r.ExternEntry(extern_type_id=_KEK_TYPE, extern_id=_KEK_ID))


async def array(switch: finsy.Switch, name: str) -> dict[int, int]:
    """A counter array's packets, by index; what is 0 may be left out."""
    asked = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=switch.p4info.counters[name].id))
    counted: dict[int, int] = {}
    async for portion in read(switch, [asked]):
        for entity in portion:
            counted[entity.counter_entry.index.index] = entity.counter_entry.data.packet_count
    return counted


def digest_values(message: P4DigestList) -> list[dict[str, int]]:
    return [dict(cast("Mapping[str, int]", item)) for item in message]


# What gRPC says of a connection that does not come about, and what a person may read of it.
_IN_WORDS = (
    ("Connection refused", "nothing listens at its P4Runtime address"),
    ("handshake failed", "TLS with it fails: its certificates and ours do not fit, as with an old bundle"),
    ("errors resolving", "the name in its P4Runtime address is not known"),
    ("failed to connect", "its P4Runtime address cannot be reached"),
)


def refusal(error: finsy.P4ClientError) -> str:
    """Why a gateway refused, in its own words, without the entry; or why there is no connection to it."""
    if (said := in_words(error.message)) is not None:
        return said
    details = [f"{fault.canonical_code.name}: {fault.message}" for fault in error.details.values()]
    return "; ".join(details[:3]) or f"{error.code.name}: {error.message}"


def in_words(message: str) -> str | None:
    """None for what is no fault of the connection."""
    return next((words for sign, words in _IN_WORDS if sign in message), None)


def is_down(error: finsy.P4ClientError) -> bool:
    return error.code in {
        finsy.GRPCStatusCode.UNAVAILABLE,
        finsy.GRPCStatusCode.DEADLINE_EXCEEDED,
        finsy.GRPCStatusCode.CANCELLED,
    }


def is_cancelled() -> bool:
    """Whether a cancellation is of this task: gRPC and finsy also cancel who waits on a channel that closes."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def already_exists_only(error: finsy.P4ClientError) -> bool:
    return _codes(error) == {finsy.GRPCStatusCode.ALREADY_EXISTS}


def _codes(error: finsy.P4ClientError) -> set[finsy.GRPCStatusCode]:
    return {fault.canonical_code for fault in error.details.values()} or {error.code}
