"""A gateway's tables, counters, key-encryption keys and digests, by name, over one P4Runtime session."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import grpc
from finsy.proto import p4r
from google.protobuf import wrappers_pb2

from culvert_service.gateways.encoding import Encoding
from culvert_service.gateways.entry import Count, Entry, EntryKey, Update
from culvert_service.gateways.p4runtime import P4RuntimeError, Session

DIGESTS = ("soft_limit_t", "moved_t", "bad_spi_t", "acquire_t")

_EVERYTHING = p4r.Entity(table_entry=p4r.TableEntry())
# sluice reports the fingerprints of its KEKs as entries of this extern (switch-targets/sluice/src/p4runtime/kek.rs).
_KEK_TYPE, _KEK_ID = 0x81, 0x8100_0001
# A switch without extern entries answers a read of them with one of these codes; bmv2's answer is UNKNOWN.
_NO_SUCH_ENTITY = {
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class SaHits:
    """The hits so far, by SA id."""

    packets: Mapping[int, int]
    bytes: Mapping[int, int]


class Tables:
    """Every method raises P4RuntimeError."""

    def __init__(self, session: Session, encoding: Encoding) -> None:
        self._session = session
        self._encoding = encoding

    async def write(self, updates: Sequence[Update], *, missing_ok: bool = False) -> None:
        """Write in one request. `missing_ok`: missing entries of a MODIFY or DELETE are no error."""
        encoded = [self._encoding.update(update) for update in updates]
        await self._session.write(encoded, missing_ok=missing_ok)

    async def read_all(self) -> AsyncGenerator[Sequence[Entry]]:
        """Every entry of every table, in portions."""
        async for portion in self._entries([_EVERYTHING]):
            yield portion

    async def whole(self, names: Sequence[str]) -> AsyncGenerator[Sequence[Entry]]:
        """Every entry of these tables, in portions."""
        async for portion in self._entries([self._encoding.table(name) for name in names]):
            yield portion

    async def under(self, keys: Sequence[EntryKey]) -> AsyncGenerator[Sequence[Entry]]:
        """The entries with these keys, in portions; a key without match fields reads its whole table (section 11.1)."""
        if keys:
            async for portion in self._entries([self._encoding.key(key) for key in keys]):
                yield portion

    async def read_hits(self, table: str) -> SaHits:
        """Hits by SA; `table` must match on `sa_id` and have a direct counter."""
        packets, octets = Counter[int](), Counter[int]()
        async for portion in self._session.read([self._encoding.direct_counters(table)]):
            for entity in portion:
                found = entity.direct_counter_entry
                if (sa := self._encoding.decode_sa_count(found)) is not None:
                    packets[sa] += found.data.packet_count
                    octets[sa] += found.data.byte_count
        return SaHits(packets, octets)

    async def counters(self, table: str) -> dict[EntryKey, Count]:
        """Hits by entry; `table` must have a direct counter."""
        found: dict[EntryKey, Count] = {}
        async for portion in self._session.read([self._encoding.direct_counters(table)]):
            found |= map(self._encoding.decode_count, (entity.direct_counter_entry for entity in portion))
        return found

    async def array(self, name: str) -> dict[int, int]:
        """A counter array's packets, by index; counters at 0 may be left out."""
        return await self._count([self._encoding.array(name)])

    async def cells(self, name: str, indexes: Sequence[int]) -> dict[int, int]:
        """The packets of some counters of an array, by index."""
        return await self._count([self._encoding.cell(name, index) for index in indexes])

    async def _count(self, wanted: Sequence[p4r.Entity]) -> dict[int, int]:
        counted: dict[int, int] = {}
        async for portion in self._session.read(wanted):
            for entity in portion:
                counted[entity.counter_entry.index.index] = entity.counter_entry.data.packet_count
        return counted

    async def keks(self) -> list[bytes] | None:
        """Fingerprints of the switch's KEKs, newest first; None when the switch does not report them."""
        found: list[bytes] = []
        try:
            async for portion in self._session.read([_kek()]):
                for entity in portion:
                    content = wrappers_pb2.BytesValue()
                    if entity.extern_entry.entry.Unpack(content):
                        found.append(content.value)
        except P4RuntimeError as error:
            if error.codes <= _NO_SUCH_ENTITY:
                return None
            raise
        return found or None

    async def forget_keks(self, fingerprints: Sequence[bytes]) -> None:
        """The switch refuses to forget its newest KEK."""
        updates: list[p4r.Update] = []
        for fingerprint in fingerprints:
            entity = _kek()
            entity.extern_entry.entry.Pack(wrappers_pb2.BytesValue(value=fingerprint))
            updates.append(p4r.Update(type=p4r.Update.DELETE, entity=entity))
        await self._session.write(updates)

    async def subscribe(self) -> None:
        """Subscribe to the DIGESTS, with one message per list."""
        config = p4r.DigestEntry.Config(max_list_size=1)
        ids = [self._encoding.digest(name) for name in DIGESTS]
        entities = [p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=one, config=config)) for one in ids]
        try:
            await self._session.write([p4r.Update(type=p4r.Update.INSERT, entity=it) for it in entities])
        except P4RuntimeError as error:
            # The subscriptions outlive a lost connection.
            if error.codes != {grpc.StatusCode.ALREADY_EXISTS}:
                raise

    async def digests(self, name: str) -> AsyncGenerator[Sequence[dict[str, int]]]:
        """Yield each list of digests after acknowledging it, until cancelled."""
        queue = self._session.digests[self._encoding.digest(name)]
        while True:
            found = await queue.get()
            # The digests count even if the session has just ended.
            with suppress(P4RuntimeError):
                await self._session.acknowledge(found)
            yield self._encoding.digest_values(found)

    async def _entries(self, wanted: Sequence[p4r.Entity]) -> AsyncGenerator[Sequence[Entry]]:
        async for portion in self._session.read(wanted):
            decoded = (self._encoding.entry(entity.table_entry) for entity in portion)
            yield [item for item in decoded if item is not None]


def _kek() -> p4r.Entity:
    return p4r.Entity(extern_entry=p4r.ExternEntry(extern_type_id=_KEK_TYPE, extern_id=_KEK_ID))
