"""P4Runtime without a library in between: what a client sends is what it wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import grpc.aio
from finsy.proto import p4r, p4r_grpc
from gateway_authority import Authority
from google.protobuf.any_pb2 import Any as Packed
from google.rpc import status_pb2

Code = grpc.StatusCode


@dataclass(frozen=True)
class Credentials:
    """The files of an authority that are in a folder."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"


class RawClient:
    """A stream, and the calls beside it."""

    def __init__(
        self,
        address: str,
        infrastructure: Authority | Credentials,
        options: Sequence[tuple[str, Any]] = (),
        certificate: str = "controller",
        **role: Any,
    ) -> None:
        """`certificate`: of the folder's, the one that it shows."""
        folder = infrastructure.folder
        credentials = grpc.ssl_channel_credentials(
            infrastructure.certificate.read_bytes(),
            (folder / f"{certificate}.key").read_bytes(),
            (folder / f"{certificate}.pem").read_bytes(),
        )
        # A status tells of each update: 8 KiB, the default, are not enough for a large batch.
        limits = [("grpc.absolute_max_metadata_size", 16 << 20), ("grpc.max_metadata_size", 16 << 20)]
        self.channel = grpc.aio.secure_channel(address, credentials, options=[*limits, *options])
        self.stub: Any = p4r_grpc.P4RuntimeStub(cast(Any, self.channel))
        self.stream: Any = None
        self.role = p4r.Role(**role) if role else None
        self.election_id = 0
        self.heard: list[p4r.StreamMessageResponse] = []

    async def __aenter__(self) -> RawClient:
        self.stream = self.stub.StreamChannel()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.cancel()
        await self.channel.close()

    async def bid(self, election_id: int, device_id: int = 1) -> p4r.MasterArbitrationUpdate:
        """Returns the answer to this bid."""
        self.election_id = election_id
        update = p4r.MasterArbitrationUpdate(
            device_id=device_id, role=self.role, election_id=p4r.Uint128(low=election_id)
        )
        await self.stream.write(p4r.StreamMessageRequest(arbitration=update))
        return (await self.hear("arbitration")).arbitration

    async def hear(self, kind: str) -> p4r.StreamMessageResponse:
        """The next message of that kind."""
        async with asyncio.timeout(3):
            while True:
                message = await self.stream.read()
                if not isinstance(message, p4r.StreamMessageResponse):
                    raise ConnectionError("the switch has ended the stream")
                if message.WhichOneof("update") == kind:
                    return message

    async def refused(self, call: Any) -> tuple[Code, str]:
        """The code and text that a call is refused with."""
        try:
            await call
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details() or ""
        raise AssertionError("it was not refused")

    def bytes_call(self, method: str) -> Any:
        """A call whose request is bytes, be they a message or not."""
        channel: Any = self.channel
        return channel.unary_unary(f"/p4.v1.P4Runtime/{method}")

    def mine(self, request: Any) -> Any:
        """A request with who sends it."""
        request.device_id = 1
        if self.role is not None:
            request.role = self.role.name
        if not isinstance(request, p4r.ReadRequest):
            request.election_id.low = self.election_id
        return request

    async def push(self, action: str, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        number = p4r.SetForwardingPipelineConfigRequest.Action.Value(action)
        request = p4r.SetForwardingPipelineConfigRequest(action=number, config=config)
        await self.stub.SetForwardingPipelineConfig(self.mine(request))

    async def write(self, *updates: p4r.Update, atomicity: str = "CONTINUE_ON_ERROR") -> list[Code]:
        """The code of each update."""
        number = p4r.WriteRequest.Atomicity.Value(atomicity)
        request = p4r.WriteRequest(updates=updates, atomicity=number)
        try:
            await self.stub.Write(self.mine(request))
        except grpc.aio.AioRpcError as error:
            if error.code() != Code.UNKNOWN:
                raise
            return [code(it) for it in details(error)]
        return [Code.OK] * len(updates)

    async def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        request = self.mine(p4r.ReadRequest(entities=entities))
        return [entity async for answer in self.stub.Read(request) for entity in answer.entities]


def details(error: grpc.aio.AioRpcError) -> list[p4r.Error]:
    """The errors of a batch, one for each update."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(cast(bytes, value))
            return [unpacked(it) for it in status.details]
    return []


def unpacked(packed: Packed) -> p4r.Error:
    error = p4r.Error()
    assert packed.Unpack(error)
    return error


def code(error: p4r.Error) -> Code:
    return next(it for it in Code if it.value[0] == error.canonical_code)  # type: ignore[index]
