"""A P4Runtime server that does as told: for faults that no real gateway shows on demand.

It keeps whatever entries it is given and answers reads with them. `refuse` makes it refuse inserts into one table,
`silent` makes it swallow requests without an answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio
from culvert_service.config import Settings
from finsy import P4Schema
from finsy.proto import p4d, p4r, p4r_grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2

_Key = tuple[int, bytes, int]


class Switch(p4r_grpc.P4RuntimeServicer):
    def __init__(self) -> None:
        self.entries: dict[_Key, p4r.TableEntry] = {}
        self.refuse_table: int | None = None
        self.silent = False
        # The number of reads of port_role before each takes 0.3 s; None if none does.
        self.slow_after: int | None = None
        # Whether another client is primary, which the caller's stream has not told yet.
        self.has_another_primary = False
        self.writes: list[p4r.WriteRequest] = []
        self.acknowledged = 0
        self.drops: dict[int, int] = {}
        # The product and its version, which other switches than sluice do not tell.
        self.product: str | None = None
        self._packets: Counter[_Key] = Counter()
        self._schema = P4Schema(Settings().p4_artifacts / "gateway.p4info.txtpb")
        self._config: p4r.ForwardingPipelineConfig | None = None
        self._streams: list[asyncio.Queue[p4r.StreamMessageResponse]] = []

    def forget(self) -> None:
        """As after a restart: no pipeline, no entries."""
        self.entries.clear()
        self._config = None

    def table(self, name: str) -> int:
        """The table's id in the program."""
        return self._schema.tables[name].id

    def hit(self, name: str) -> None:
        """A packet matches each entry of a table."""
        self._packets.update(key for key in self.entries if key[0] == self.table(name))

    def digest(self, name: str, *values: int) -> None:
        members = [p4d.P4Data(bitstring=value.to_bytes(-(-value.bit_length() // 8) or 1)) for value in values]
        data = p4d.P4Data(struct=p4d.P4StructLike(members=members))
        digest_id = self._schema.digests[name].id
        message = p4r.DigestList(digest_id=digest_id, list_id=1, data=[data])
        for stream in self._streams:
            stream.put_nowait(p4r.StreamMessageResponse(digest=message))

    async def StreamChannel(  # noqa: N802
        self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: Any
    ) -> AsyncIterator[p4r.StreamMessageResponse]:
        answers: asyncio.Queue[p4r.StreamMessageResponse] = asyncio.Queue()
        self._streams.append(answers)

        async def arbitrate() -> None:
            async for request in request_iterator:
                self.acknowledged += request.HasField("digest_ack")
                if request.HasField("arbitration"):
                    update = p4r.MasterArbitrationUpdate()
                    update.CopyFrom(request.arbitration)
                    answers.put_nowait(p4r.StreamMessageResponse(arbitration=update))

        task = asyncio.create_task(arbitrate())
        try:
            while True:
                yield await answers.get()
        finally:
            task.cancel()
            self._streams.remove(answers)

    async def Capabilities(self, request: Any, context: Any) -> p4r.CapabilitiesResponse:  # noqa: N802
        if self.product is not None:
            await context.send_initial_metadata([("server", self.product)])
        return p4r.CapabilitiesResponse(p4runtime_api_version="1.4.0")

    async def GetForwardingPipelineConfig(  # noqa: N802
        self, request: Any, context: grpc.aio.ServicerContext[Any, Any]
    ) -> p4r.GetForwardingPipelineConfigResponse:
        if self._config is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config set")
        return p4r.GetForwardingPipelineConfigResponse(config=self._config)

    async def SetForwardingPipelineConfig(  # noqa: N802
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Any
    ) -> p4r.SetForwardingPipelineConfigResponse:
        self._config = p4r.ForwardingPipelineConfig()
        self._config.CopyFrom(request.config)
        self.entries.clear()
        return p4r.SetForwardingPipelineConfigResponse()

    async def Write(  # noqa: N802
        self, request: p4r.WriteRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> p4r.WriteResponse:
        await self._hang_if_silent()
        if self.has_another_primary:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "only the primary may write")
        self.writes.append(request)
        codes = [self._apply(update) for update in request.updates]
        if any(codes):
            await refuse(
                context, [p4r.Error(canonical_code=it, message="as told" if it else "") for it in codes]
            )
        return p4r.WriteResponse()

    async def Read(  # noqa: N802
        self, request: p4r.ReadRequest, context: Any
    ) -> AsyncIterator[p4r.ReadResponse]:
        await self._hang_if_silent()
        if self.slow_after is not None and request.entities[0].table_entry.table_id == self.table(
            "port_role"
        ):
            self.slow_after -= 1
            if self.slow_after < 0:
                await asyncio.sleep(0.3)
        if request.entities[0].HasField("extern_entry"):
            # As bmv2 does.
            await context.abort(grpc.StatusCode.UNKNOWN, "Incorrect entity type")
        if request.entities[0].HasField("direct_counter_entry"):
            table = request.entities[0].direct_counter_entry.table_entry.table_id
            yield p4r.ReadResponse(entities=[self._counter(key) for key in self.entries if key[0] == table])
            return
        if request.entities[0].HasField("counter_entry"):
            asked_id = request.entities[0].counter_entry.counter_id
            for index, count in self.drops.items():
                found = p4r.CounterEntry(
                    counter_id=asked_id,
                    index=p4r.Index(index=index),
                    data=p4r.CounterData(packet_count=count),
                )
                yield p4r.ReadResponse(entities=[p4r.Entity(counter_entry=found)])
            return
        asked = [entity.table_entry for entity in request.entities]
        found = [
            entry
            for entry in self.entries.values()
            if any(
                one.table_id in (0, entry.table_id) and (not one.match or _key(one) == _key(entry))
                for one in asked
            )
        ]
        yield p4r.ReadResponse(entities=[p4r.Entity(table_entry=entry) for entry in found])

    def _counter(self, key: _Key) -> p4r.Entity:
        entry = self.entries[key]
        counted = p4r.TableEntry(table_id=entry.table_id, match=entry.match, priority=entry.priority)
        packets = self._packets[key]
        data = p4r.CounterData(packet_count=packets, byte_count=100 * packets)
        return p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=counted, data=data))

    def _apply(self, update: p4r.Update) -> int:
        if not update.entity.HasField("table_entry"):
            return 0
        entry = update.entity.table_entry
        key = _key(entry)
        there = key in self.entries
        if update.type != p4r.Update.DELETE and entry.table_id == self.refuse_table:
            return grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        if update.type == p4r.Update.INSERT:
            if there:
                return grpc.StatusCode.ALREADY_EXISTS.value[0]
        elif not there:
            return grpc.StatusCode.NOT_FOUND.value[0]
        if update.type == p4r.Update.DELETE:
            del self.entries[key]
        else:
            self.entries[key] = entry
        return 0

    async def _hang_if_silent(self) -> None:
        if self.silent:
            await asyncio.sleep(3600)


async def refuse(context: grpc.aio.ServicerContext[Any, Any], errors: Sequence[p4r.Error]) -> None:
    """Fails a batch with an error for each update (P4Runtime section 12.3)."""
    details: list[any_pb2.Any] = []
    for error in errors:
        detail = any_pb2.Any()
        detail.Pack(error)
        details.append(detail)
    status = status_pb2.Status(code=2, message="write failed", details=details)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(grpc.StatusCode.UNKNOWN, "write failed")


def _key(entry: p4r.TableEntry) -> _Key:
    match = sorted(field.SerializeToString(deterministic=True) for field in entry.match)
    return entry.table_id, b"|".join(match), entry.priority
