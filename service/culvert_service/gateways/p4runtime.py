"""A P4Runtime client: one session with one switch, under one election id (P4Runtime sections 5 and 11 to 16).

 open ─► arbitration ─────────► pipeline, unless the switch has it ─► requests, digests ─► close
             │ not primary                                                │ stream ended, or not primary any more
             ▼                                                            ▼
       NotPrimaryError                                              `ended` has the error

The election id is never raised here: an owner that was replaced must not write once more (gateways/ownership.py).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import grpc.aio
from culvert_proto.phrases import Phrase
from finsy.proto import U128, p4r, p4r_grpc
from google.protobuf.message import DecodeError
from google.rpc import status_pb2

from culvert_service.gateways.program import Program
from culvert_service.gateways.release import read_product
from culvert_service.pki.own_certificates import OwnCertificates

_log = logging.getLogger(__name__)

# Our tunables. Callers set shorter deadlines.
_DEADLINE_SECONDS = 15.0
# Attempts to open a stream.
_STREAMS = 3
# The most entities in one portion of a read.
_PORTION = 500
# The most queued digest lists of one kind; further ones are dropped.
_DIGESTS = 50
_OPTIONS = (
    # The errors of a batch arrive in one header: 100 bytes or more an update (appendix "gRPC Metadata Maximum Size").
    ("grpc.max_metadata_size", 2**20),
    # PI answers each read with one message.
    ("grpc.max_receive_message_length", 2**26),
    # Proxies of the environment lead to the Internet, not to gateways.
    ("grpc.enable_http_proxy", 0),
)
_SOCKET_OPTIONS = (
    # A closed channel's connection is not kept for the next channel.
    ("grpc.use_local_subchannel_pool", 1),
)
# Section 5.3 defines no status code for a taken election id.
_ELECTION_ID_TAKEN = re.compile(r"election id .*\b(?:used|exists)\b", re.IGNORECASE)
_CODES = {code.value[0]: code for code in grpc.StatusCode}
# The codes of a switch that cannot keep its entries for the new program (section 14).
_NOT_RECONCILED = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT}
_UNREACHABLE = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}
_Set = p4r.SetForwardingPipelineConfigRequest
_AsPrimary = TypeVar("_AsPrimary", p4r.WriteRequest, p4r.SetForwardingPipelineConfigRequest)


@dataclass(frozen=True, slots=True)
class UpdateFault:
    """Why one update of a batch failed (P4Runtime section 12.3)."""

    code: grpc.StatusCode
    message: str


# gRPC's texts for failed connections, and ours.
_IN_WORDS = (
    ("Connection refused", Phrase("nothing listens at its P4Runtime address")),
    (
        "certificate has expired",
        Phrase(
            "its certificate has expired: culvert-gateway renew NAME --now, or a new bundle, gives it another"
        ),
    ),
    (
        "certificate is not yet valid",
        Phrase("its certificate is not valid yet: a clock is wrong, there or here"),
    ),
    (
        "handshake failed",
        Phrase("TLS with it fails: its certificates and ours do not fit, as with an old bundle"),
    ),
    ("errors resolving", Phrase("the name in its P4Runtime address is not known")),
    ("failed to connect", Phrase("its P4Runtime address cannot be reached")),
)


class P4RuntimeError(Exception):
    """The switch refused a request. `faults` are the updates of a batch that failed, by their place in it; the switch gave
    the results of the first `reported` updates.

    Its text contains no entry.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        faults: Mapping[int, UpdateFault] | None = None,
        reported: int = 0,
    ) -> None:
        self.code = code
        self.faults = faults or {}
        self.reported = reported
        words = next((words for sign, words in _IN_WORDS if sign in message), None)
        shown = [f"{fault.code.name}: {fault.message}" for fault in self.faults.values()][:3]
        super().__init__(words or "; ".join(shown) or f"{code.name}: {message}")

    @property
    def codes(self) -> set[grpc.StatusCode]:
        """The codes of the failed updates, or the request's code."""
        return {fault.code for fault in self.faults.values()} or {self.code}


class UnreachableError(P4RuntimeError):
    """No answer: the switch may or may not have executed the request. Open a new session."""


class NotPrimaryError(P4RuntimeError):
    """Another client is primary. An election id above `highest` wins."""

    def __init__(self, highest: int) -> None:
        super().__init__(grpc.StatusCode.PERMISSION_DENIED, f"the primary's election id is {highest}")
        self.highest = highest


def is_not_primary(error: P4RuntimeError) -> bool:
    """Whether a write was refused as a whole, because another client is primary by now (section 12)."""
    return error.code is grpc.StatusCode.PERMISSION_DENIED and not error.faults


@dataclass(frozen=True, slots=True)
class Credentials:
    """For mTLS: the CA of the gateways' certificates, and the controller's own certificate."""

    ca_pem: bytes
    certificate_pem: bytes
    key_pem: bytes

    @classmethod
    def of(cls, own: OwnCertificates) -> Credentials:
        """As the controller's certificates are now."""
        return cls(own.gateways_pem, own.chain(own.client), own.client.key_pem)

    def channel(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.ca_pem, self.key_pem, self.certificate_pem)

    def __repr__(self) -> str:
        return "Credentials()"


class Session:
    def __init__(
        self,
        gateway: str,
        address: str,
        device_id: int,
        election_id: int,
        program: Program,
        credentials: Credentials | None,
        digests: Collection[int] = (),
    ) -> None:
        """`gateway`: the name in the switch's certificate. `digests`: the ids of the digests that the caller takes.

        Without credentials `address` is a Unix socket of this process, good for one connection, at which TLS has ended.
        """
        self.election_id = election_id
        # Done when the session has ended.
        self.ended: asyncio.Future[P4RuntimeError] = asyncio.get_running_loop().create_future()
        # The switch's P4Runtime version, and the version of its program; None when it does not report them.
        self.version: str | None = None
        self.software: str | None = None
        self.digests = {one: asyncio.Queue[p4r.DigestList](_DIGESTS) for one in digests}
        self._device_id = device_id
        self._program = program
        if credentials is None:
            options = [*_OPTIONS, *_SOCKET_OPTIONS, ("grpc.default_authority", gateway)]
            self._channel = grpc.aio.insecure_channel(address, options)
        else:
            options = [*_OPTIONS, ("grpc.ssl_target_name_override", gateway)]
            self._channel = grpc.aio.secure_channel(address, credentials.channel(), options)
        # grpcio has no types.
        self._stub: Any = p4r_grpc.P4RuntimeStub(self._channel)
        self._stream: Any = None
        # gRPC allows one write at a time.
        self._sending = asyncio.Lock()
        self._listener: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Become primary, and make the switch run the program.

        Raises P4RuntimeError; NotPrimaryError when another client has this election id or a higher one.
        """
        await self._arbitrate()
        self._listener = asyncio.create_task(self._listen())
        await self._read_versions()
        await self._set_pipeline()

    async def close(self) -> None:
        """End the session: waiting calls raise UnreachableError, and all tasks end."""
        self._end(UnreachableError(grpc.StatusCode.CANCELLED, Phrase("the session is closed")))
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        await self._channel.close()

    async def write(self, updates: Sequence[p4r.Update], *, missing_ok: bool = False) -> None:
        """A write request, within which the switch may take the updates in any order (section 12).

        `missing_ok`: entries that a MODIFY or DELETE does not find are no error. Raises P4RuntimeError.
        """
        request = p4r.WriteRequest(device_id=self._device_id, updates=updates)
        try:
            await self._ask(self._stub.Write, self._as_primary(request))
        except P4RuntimeError as error:
            whole = bool(error.faults) and error.reported == len(updates)
            if not (missing_ok and whole and error.codes == {grpc.StatusCode.NOT_FOUND}):
                raise

    async def read(self, wanted: Sequence[p4r.Entity]) -> AsyncGenerator[Sequence[p4r.Entity]]:
        """Yield all matching entities in portions. Other tasks run in between; gRPC's flow control slows the switch.

        Raises P4RuntimeError.
        """
        request = p4r.ReadRequest(device_id=self._device_id, role=self._program.role, entities=wanted)
        with _answers():
            call: Any = self._stub.Read(request, timeout=_DEADLINE_SECONDS)
            try:
                async for reply in call:
                    for first in range(0, len(reply.entities), _PORTION):
                        yield reply.entities[first : first + _PORTION]
                        await asyncio.sleep(0)
            finally:
                call.cancel()

    async def acknowledge(self, digests: p4r.DigestList) -> None:
        """Raises P4RuntimeError."""
        ack = p4r.DigestListAck(digest_id=digests.digest_id, list_id=digests.list_id)
        await self._send(p4r.StreamMessageRequest(digest_ack=ack))

    async def _read_versions(self) -> None:
        try:
            with _answers():
                call: Any = self._stub.Capabilities(p4r.CapabilitiesRequest(), timeout=_DEADLINE_SECONDS)
                self.version = (await call).p4runtime_api_version
                self.software = read_product(dict(await call.initial_metadata()))
        except P4RuntimeError as error:
            if error.code is not grpc.StatusCode.UNIMPLEMENTED:
                raise

    async def _arbitrate(self) -> None:
        bid = p4r.MasterArbitrationUpdate(
            device_id=self._device_id,
            role=self._program.role_message(),
            election_id=U128.encode(self.election_id),
        )
        try:
            await self._begin_stream(p4r.StreamMessageRequest(arbitration=bid))
            # A switch may send digests and packets before its answer.
            while not (answer := await self._receive()).HasField("arbitration"):
                self._take(answer)
        except P4RuntimeError as error:
            if error.code is grpc.StatusCode.INVALID_ARGUMENT and _ELECTION_ID_TAKEN.search(str(error)):
                # Our own previous stream may have it: the switch may not have noticed its end yet.
                raise NotPrimaryError(self.election_id) from None
            raise
        if not self._won(answer.arbitration):
            raise NotPrimaryError(U128.decode(answer.arbitration.election_id))

    async def _begin_stream(self, first: p4r.StreamMessageRequest) -> None:
        # gRPC's core loses the status of a stream that ends during a write: another attempt gets it.
        for attempt in range(1, _STREAMS + 1):
            self._stream = self._stub.StreamChannel()
            try:
                return await self._send(first)
            except UnreachableError as error:
                if error.code is not grpc.StatusCode.INTERNAL or attempt == _STREAMS:
                    raise

    def _won(self, answer: p4r.MasterArbitrationUpdate) -> bool:
        return answer.status.code == 0 and U128.decode(answer.election_id) == self.election_id

    async def _set_pipeline(self) -> None:
        """Set the program (section 14). A switch that already runs it keeps its entries; so does a switch with another
        version of it, if it can.
        """
        config, running = self._program.config(), None
        asked = p4r.GetForwardingPipelineConfigRequest(
            device_id=self._device_id, response_type=p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY
        )
        try:
            found = (await self._ask(self._stub.GetForwardingPipelineConfig, asked)).config
            running = found.cookie.cookie if found.HasField("cookie") else None
        except P4RuntimeError as error:
            # No program yet.
            if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
        if running == config.cookie.cookie:
            return
        if running is not None and self._program.reconciles:
            try:
                return await self._push(_Set.RECONCILE_AND_COMMIT, config)
            except P4RuntimeError as error:
                if error.code not in _NOT_RECONCILED:
                    raise
                _log.warning("the gateway's entries do not fit the new program", extra={"why": str(error)})
        await self._push(_Set.VERIFY_AND_COMMIT, config)

    async def _push(self, action: _Set.Action.ValueType, config: p4r.ForwardingPipelineConfig) -> None:
        request = _Set(device_id=self._device_id, action=action, config=config)
        await self._ask(self._stub.SetForwardingPipelineConfig, self._as_primary(request))
        _log.info("the gateway runs the program", extra={"action": _Set.Action.Name(action)})

    async def _listen(self) -> None:
        try:
            while True:
                self._take(await self._receive())
        except P4RuntimeError as error:
            self._end(error)

    def _take(self, message: p4r.StreamMessageResponse) -> None:
        match message.WhichOneof("update"):
            case "arbitration" if not self._won(message.arbitration):
                self._end(NotPrimaryError(U128.decode(message.arbitration.election_id)))
            case "digest" if (queue := self.digests.get(message.digest.digest_id)) is not None:
                # Drop instead of waiting: the stream may next say that another client is primary.
                if queue.full():
                    _log.warning("a digest is dropped", extra={"digest": message.digest.digest_id})
                else:
                    queue.put_nowait(message.digest)
            case "error":
                _log.warning("the gateway refused a message", extra={"why": message.error.message})
            case _:
                pass

    def _as_primary(self, request: _AsPrimary) -> _AsPrimary:
        request.role = self._program.role
        request.election_id.CopyFrom(U128.encode(self.election_id))
        return request

    async def _ask(self, method: Any, request: object) -> Any:
        with _answers():
            return await method(request, timeout=_DEADLINE_SECONDS)

    async def _send(self, message: p4r.StreamMessageRequest) -> None:
        try:
            with _answers():
                async with self._sending:
                    await self._stream.write(message)
        except P4RuntimeError as error:
            # gRPC's core reports INTERNAL for a write on an ended stream.
            if error.code is grpc.StatusCode.INTERNAL:
                raise UnreachableError(error.code, Phrase("the switch ended the stream")) from None
            raise

    async def _receive(self) -> p4r.StreamMessageResponse:
        with _answers():
            message = await self._stream.read()
        if not isinstance(message, p4r.StreamMessageResponse):
            raise UnreachableError(grpc.StatusCode.UNAVAILABLE, Phrase("the switch ended the stream"))
        return message

    def _end(self, why: P4RuntimeError) -> None:
        if not self.ended.done():
            self.ended.set_result(why)


@contextmanager
def _answers() -> Generator[None]:
    """Raise gRPC's errors as P4RuntimeError."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _error(error) from None
    except (grpc.aio.UsageError, asyncio.InvalidStateError):
        raise UnreachableError(grpc.StatusCode.CANCELLED, Phrase("the session is closed")) from None
    except asyncio.CancelledError:
        # When a channel closes, gRPC cancels its calls and the tasks that wait for them.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise UnreachableError(grpc.StatusCode.CANCELLED, Phrase("the session is closed")) from None


def _error(error: grpc.aio.AioRpcError) -> P4RuntimeError:
    """Convert with the faults in google.rpc.Status's details, which have one element for each update, failed or not."""
    kind = UnreachableError if error.code() in _UNREACHABLE else P4RuntimeError
    results: list[UpdateFault | None] = []
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            results = _results(value)
    faults = {place: fault for place, fault in enumerate(results) if fault is not None}
    return kind(error.code(), error.details() or "", faults, len(results))


def _results(details: bytes) -> list[UpdateFault | None]:
    """The updates' results up to the first that cannot be read; None for an update without a fault."""
    found: list[UpdateFault | None] = []
    try:
        for detail in status_pb2.Status.FromString(details).details:
            result = p4r.Error()
            if not detail.Unpack(result):
                break
            code = _CODES.get(result.canonical_code, grpc.StatusCode.UNKNOWN)
            found.append(None if code is grpc.StatusCode.OK else UpdateFault(code, result.message))
    except DecodeError:
        pass
    return found
