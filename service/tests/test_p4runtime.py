"""The P4Runtime client against a server that does as told, and against sluice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from culvert_lab.free_port import free_port
from culvert_service.config import Settings
from culvert_service.gateways import p4runtime
from culvert_service.gateways.encoding import Encoding
from culvert_service.gateways.entry import Entry, deletes, entry, inserts
from culvert_service.gateways.key_wrap import new_kek
from culvert_service.gateways.kind import GatewayKind
from culvert_service.gateways.p4runtime import (
    Credentials,
    NotPrimaryError,
    P4RuntimeError,
    Session,
    UnreachableError,
)
from culvert_service.gateways.program import Program
from culvert_service.gateways.tables import Tables
from culvert_service.pki.authority import Authority
from finsy import P4Schema
from finsy.proto import p4r, p4r_grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2

from .conftest import until
from .gateway_process import needs_root, sluice
from .switch import Switch, refuse
from .wire import Wires

pytestmark = pytest.mark.slow

ARTIFACTS = Settings().p4_artifacts
PROGRAM = Program(ARTIFACTS / "gateway.p4info.txtpb", ARTIFACTS / "gateway.json")
ENCODING = Encoding.of(PROGRAM.p4info)
MOVED = ENCODING.digest("moved_t")


def routes(count: int) -> list[Entry]:
    return [
        entry("route", {"dst": ((10 << 120) + (i << 64), 64)}, "via", {"nexthop_id": 1}) for i in range(count)
    ]


@dataclass
class Place:
    """A server's port and the credentials of its client."""

    directory: Path
    port: int
    credentials: Credentials
    server_key: bytes
    server_certificate: bytes

    def session(self, election_id: int = 7, program: Program = PROGRAM) -> Session:
        address = f"127.0.0.1:{self.port}"
        return Session("gw", address, 1, election_id, program, self.credentials, [MOVED])

    @asynccontextmanager
    async def open(self, election_id: int = 7, program: Program = PROGRAM) -> AsyncGenerator[Session]:
        session = self.session(election_id, program)
        try:
            await session.open()
            yield session
        finally:
            await session.close()

    @asynccontextmanager
    async def serving(self, switch: p4r_grpc.P4RuntimeServicer | None) -> AsyncGenerator[grpc.aio.Server]:
        """None: a gRPC server that knows no P4Runtime."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_metadata_size", 2**20)])
        if switch is not None:
            p4r_grpc.add_P4RuntimeServicer_to_server(switch, server)
        chain = [(self.server_key, self.server_certificate)]
        ca = self.credentials.ca_pem
        server.add_secure_port(
            f"127.0.0.1:{self.port}", grpc.ssl_server_credentials(chain, ca, require_client_auth=True)
        )
        await server.start()
        try:
            yield server
        finally:
            await server.stop(0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Credentials of both sides, from one CA."""
    ca = Authority.load(tmp_path, "gateway")
    ours, its = ca.issue_p4runtime_client(), ca.issue_gateway("gw", ())
    for name, content in (
        *(("ca.pem", ca.pem), ("gateway.pem", its.certificate.pem)),
        *(("gateway.key", its.key_pem), ("kek.bin", new_kek())),
    ):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    credentials = Credentials(ca.pem, ours.certificate.pem, ours.key_pem)
    return Place(tmp_path, free_port(), credentials, its.key_pem, its.certificate.pem)


class Told(Switch):
    """A switch whose stream answers with `messages`; None ends the stream."""

    def __init__(self, *messages: p4r.StreamMessageResponse | None) -> None:
        super().__init__()
        self.answer_next(*messages)
        self.pushed: list[p4r.SetForwardingPipelineConfigRequest] = []
        self.listening = asyncio.Event()
        self.listening.set()
        self.refusals: dict[int, grpc.StatusCode] = {}

    def answer_next(self, *messages: p4r.StreamMessageResponse | None) -> None:
        """The messages of the next stream. The stream before may still wait for one of its own."""
        self.messages = asyncio.Queue[p4r.StreamMessageResponse | None]()
        for message in messages:
            self.messages.put_nowait(message)

    async def count(self) -> int:
        """The number of acknowledged lists of digests."""
        return self.acknowledged

    async def StreamChannel(  # noqa: N802
        self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: Any
    ) -> AsyncIterator[p4r.StreamMessageResponse]:
        async def count() -> None:
            async for request in request_iterator:
                self.acknowledged += request.HasField("digest_ack")
                await self.listening.wait()

        counting = asyncio.create_task(count())
        try:
            while (message := await self.messages.get()) is not None:
                yield message
        finally:
            counting.cancel()

    async def SetForwardingPipelineConfig(  # noqa: N802
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Any
    ) -> p4r.SetForwardingPipelineConfigResponse:
        self.pushed.append(request)
        if (code := self.refusals.get(request.action)) is not None:
            await context.abort(code, "as told")
        return await super().SetForwardingPipelineConfig(request, context)


def primary(highest: int, code: int = 0) -> p4r.StreamMessageResponse:
    answer = p4r.MasterArbitrationUpdate(election_id=p4r.Uint128(low=highest))
    answer.status.code = code
    return p4r.StreamMessageResponse(arbitration=answer)


def moved(place: int) -> p4r.StreamMessageResponse:
    return p4r.StreamMessageResponse(digest=p4r.DigestList(digest_id=MOVED, list_id=place))


async def test_each_failed_update_of_a_batch_is_named(place: Place) -> None:
    switch, tables = Switch(), list(routes(3))
    async with place.serving(switch), place.open() as session:
        await Tables(session, ENCODING).write(inserts(tables[1]))
        with pytest.raises(P4RuntimeError, match="ALREADY_EXISTS: as told") as raised:
            await Tables(session, ENCODING).write(inserts(*tables))
        assert {place: fault.code for place, fault in raised.value.faults.items()} == {
            1: grpc.StatusCode.ALREADY_EXISTS
        }
        assert not isinstance(raised.value, UnreachableError)


async def test_a_thousand_missing_entries_are_no_error_if_asked(place: Place) -> None:
    """Their errors are one header that is longer than gRPC takes by default (stratum/stratum issue 187)."""

    class Wordy(Switch):
        async def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:  # noqa: N802
            details = [p4r.Error(canonical_code=5, message="no such entry " * 10) for _ in request.updates]
            await refuse(context, details)
            raise AssertionError

    async with place.serving(Wordy()), place.open() as session:
        await Tables(session, ENCODING).write(deletes(*routes(1000)), missing_ok=True)
        with pytest.raises(P4RuntimeError) as raised:
            await Tables(session, ENCODING).write(deletes(*routes(1000)))
        assert len(raised.value.faults) == 1000


@pytest.mark.parametrize("code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.NOT_FOUND])
async def test_a_refused_batch_is_not_taken_for_missing_entries(place: Place, code: grpc.StatusCode) -> None:
    class Terse(Switch):
        async def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:  # noqa: N802
            await context.abort(code, "the device is gone")
            raise AssertionError

    async with place.serving(Terse()), place.open() as session:
        with pytest.raises(P4RuntimeError, match="the device is gone"):
            await Tables(session, ENCODING).write(deletes(*routes(1)), missing_ok=True)


async def test_details_that_are_no_p4runtime_errors_hide_nothing(place: Place) -> None:
    class Odd(Switch):
        async def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:  # noqa: N802
            context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff"),))
            await context.abort(grpc.StatusCode.INTERNAL, "out of cheese")
            raise AssertionError

    async with place.serving(Odd()), place.open() as session:
        with pytest.raises(P4RuntimeError, match="INTERNAL: out of cheese"):
            await Tables(session, ENCODING).write(deletes(*routes(1)), missing_ok=True)


@pytest.mark.parametrize(
    "last", [None, any_pb2.Any(type_url="type.googleapis.com/p4.v1.Error", value=b"\xff"), any_pb2.Any()]
)
async def test_an_update_without_a_readable_result_is_not_taken_as_missing(
    place: Place, last: any_pb2.Any | None
) -> None:
    """The results have the order and the number of the updates (p4lang/p4runtime issue 124)."""

    class Brief(Switch):
        async def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:  # noqa: N802
            status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0])
            status.details.add().Pack(p4r.Error(canonical_code=grpc.StatusCode.NOT_FOUND.value[0]))
            status.details.extend([] if last is None else [last])
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            await context.abort(grpc.StatusCode.UNKNOWN)
            raise AssertionError

    async with place.serving(Brief()), place.open() as session:
        with pytest.raises(P4RuntimeError):
            await Tables(session, ENCODING).write(deletes(*routes(2)), missing_ok=True)


async def test_an_answer_of_many_megabytes_is_read(place: Place) -> None:
    """PI answers a read with one message, and gRPC takes 4 MiB by default (p4lang/p4runtime issue 125)."""
    switch, count = Switch(), 100_000
    async with place.serving(switch), place.open() as session:
        for number, item in enumerate(routes(count)):
            switch.entries[0, b"%d" % number, 0] = ENCODING.update(inserts(item)[0]).entity.table_entry
        assert sum(found.ByteSize() for found in switch.entries.values()) > 2**22
        portions = [len(portion) async for portion in Tables(session, ENCODING).read_all()]
    assert sum(portions) == count
    assert max(portions) == 500


@pytest.mark.parametrize(("highest", "code"), [(9, 6), (9, 5), (9, 0)])
async def test_a_lower_election_id_is_told_the_highest(place: Place, highest: int, code: int) -> None:
    """As backup, without any primary, and with somebody else's id confirmed (stratum/stratum pull request 857)."""
    async with place.serving(Told(primary(highest, code))):
        with pytest.raises(NotPrimaryError) as raised:
            async with place.open():
                pass
    assert raised.value.highest == highest


@pytest.mark.parametrize(
    "early",
    [
        p4r.StreamMessageResponse(digest=p4r.DigestList(digest_id=MOVED, list_id=1)),
        p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=b"packet")),
        p4r.StreamMessageResponse(error=p4r.StreamError(canonical_code=3)),
    ],
    ids=["digest", "packet", "error"],
)
async def test_a_message_before_the_arbitration_is_no_lost_election(
    place: Place, early: p4r.StreamMessageResponse
) -> None:
    async with place.serving(Told(early, primary(7))), place.open() as session:
        assert session.digests[MOVED].qsize() == early.HasField("digest")


async def test_a_proxy_of_the_environment_is_not_asked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC sends even addresses of the same network to it (grpc/grpc issue 11751)."""
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with place.serving(Switch()), place.open():
        pass


async def test_a_taken_election_id_raises_not_primary(place: Place) -> None:
    """As after a broken connection that the switch has not missed yet (p4lang/p4runtime issue 365)."""

    class Taken(Switch):
        async def StreamChannel(  # noqa: N802
            self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: Any
        ) -> AsyncIterator[p4r.StreamMessageResponse]:
            async for _ in request_iterator:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Election id already exists")
                yield p4r.StreamMessageResponse()

    async with place.serving(Taken()):
        for _ in range(10):
            with pytest.raises(NotPrimaryError) as raised:
                async with place.open():
                    pass
            assert raised.value.highest == 7


async def test_a_session_ends_when_another_client_is_primary(place: Place) -> None:
    switch = Told(primary(7))
    async with place.serving(switch), place.open() as session:
        switch.messages.put_nowait(primary(8, 6))
        why = await asyncio.wait_for(session.ended, 5)
    assert isinstance(why, NotPrimaryError)
    assert why.highest == 8


async def test_unread_digests_do_not_hide_a_new_primary(place: Place) -> None:
    switch = Told(primary(7), *map(moved, range(200)), primary(8, 6))
    async with place.serving(switch), place.open() as session:
        assert isinstance(await asyncio.wait_for(session.ended, 5), NotPrimaryError)
        assert session.digests[MOVED].qsize() == 50


async def test_acknowledgements_wait_for_a_switch_that_takes_none(place: Place) -> None:
    """gRPC fails messages that overlap, as they do once the stream is full (grpc/grpc issue 24758)."""
    switch, count = Told(primary(7)), 50_000
    switch.listening.clear()
    async with place.serving(switch), place.open() as session:
        digests = p4r.DigestList(digest_id=MOVED, list_id=2**63)
        acknowledging = [asyncio.create_task(session.acknowledge(digests)) for _ in range(count)]
        await asyncio.wait(acknowledging, timeout=0.5)
        assert not all(task.done() for task in acknowledging)
        switch.listening.set()
        await asyncio.gather(*acknowledging)
        await until(switch.count, lambda acknowledged: acknowledged == count)


async def test_a_stream_that_ends_ends_the_session_with_its_reason(place: Place) -> None:
    """antoninbas/p4runtime-go-client pull request 35."""
    switch = Told(primary(7))
    async with place.serving(switch), place.open() as session:
        switch.messages.put_nowait(None)
        why = await asyncio.wait_for(session.ended, 5)
        assert isinstance(why, UnreachableError)
        with pytest.raises(UnreachableError):
            await session.acknowledge(p4r.DigestList())


async def test_a_closed_session_leaves_nothing_behind(place: Place) -> None:
    """Calls that wait, and later ones, get an error (stratum/fabric-tna pull request 482)."""
    switch = Switch()
    async with place.serving(switch):
        before = asyncio.all_tasks()
        session = place.session()
        await session.open()
        tables = Tables(session, ENCODING)
        switch.silent = True

        async def read() -> None:
            async for _ in tables.read_all():
                pass

        waiting = [asyncio.create_task(tables.write(inserts(*routes(1)))), asyncio.create_task(read())]
        await asyncio.sleep(0.1)
        await session.close()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [UnreachableError, UnreachableError]
        for late in (tables.write(inserts(*routes(1))), read(), session.acknowledge(p4r.DigestList())):
            with pytest.raises(UnreachableError):
                await late
        await session.close()
        assert [task for task in asyncio.all_tasks() - before if of_a_client(task)] == []


def of_a_client(task: asyncio.Task[object]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and code.co_filename.endswith(("gateways/p4runtime.py", "grpc/aio/_call.py"))


async def test_a_cancelled_call_stays_cancelled(place: Place) -> None:
    switch = Switch()
    async with place.serving(switch), place.open() as session:
        switch.silent = True
        writing = asyncio.create_task(Tables(session, ENCODING).write(inserts(*routes(1))))
        await asyncio.sleep(0.1)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await Tables(session, ENCODING).write(inserts(*routes(1)))


async def test_a_silent_switch_costs_no_more_than_the_deadline(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(p4runtime, "_DEADLINE_SECONDS", 0.2)
    switch = Switch()
    async with place.serving(switch), place.open() as session:
        switch.silent = True
        with pytest.raises(UnreachableError):
            await Tables(session, ENCODING).write(inserts(*routes(1)))


async def test_a_server_without_p4runtime_says_so_each_time(place: Place) -> None:
    """gRPC's own error hides it now and then (grpc/grpc issue 36066)."""
    async with place.serving(None):
        for _ in range(20):
            with pytest.raises(P4RuntimeError, match="UNIMPLEMENTED") as raised:
                async with place.open():
                    pass
            assert type(raised.value) is P4RuntimeError


def test_the_controller_imports_only_the_messages_of_finsy() -> None:
    """finsy's own client raises its election id by itself (docs/decisions, 49)."""
    package = Path(p4runtime.__file__).parents[1]
    lines = [line for file in package.rglob("*.py") for line in file.read_text().splitlines()]
    imports = [line for line in lines if re.match(r"\s*(from|import) finsy", line)]
    assert imports
    assert [line for line in imports if not line.startswith("from finsy.proto import ")] == []


def test_the_cookie_is_the_one_that_running_gateways_have() -> None:
    assert PROGRAM.config().cookie.cookie == P4Schema(PROGRAM.p4info, PROGRAM.blob).p4cookie


class Actions(list[str]):
    def __init__(self, pushed: Sequence[p4r.SetForwardingPipelineConfigRequest]) -> None:
        super().__init__(p4r.SetForwardingPipelineConfigRequest.Action.Name(it.action) for it in pushed)


@pytest.fixture
def changed(tmp_path: Path) -> Program:
    """The same program in another blob, and so with another cookie."""
    blob = tmp_path / "changed.json"
    blob.write_bytes(PROGRAM.blob.read_bytes() + b"\n")
    return replace(PROGRAM, blob=blob)


RECONCILE, COMMIT = "RECONCILE_AND_COMMIT", "VERIFY_AND_COMMIT"


@pytest.mark.parametrize(
    ("kind", "refusal", "wanted"),
    [
        (GatewayKind.SLUICE, None, [COMMIT, RECONCILE]),
        (GatewayKind.SLUICE, grpc.StatusCode.UNIMPLEMENTED, [COMMIT, RECONCILE, COMMIT]),
        (GatewayKind.SLUICE, grpc.StatusCode.INVALID_ARGUMENT, [COMMIT, RECONCILE, COMMIT]),
        (GatewayKind.BMV2, None, [COMMIT, COMMIT]),
    ],
)
async def test_a_new_program_keeps_the_entries_where_the_switch_can(
    place: Place, changed: Program, kind: GatewayKind, refusal: grpc.StatusCode | None, wanted: list[str]
) -> None:
    switch = Told()
    if refusal is not None:
        switch.refusals[p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT] = refusal
    async with place.serving(switch):
        for program in (PROGRAM, PROGRAM, changed):
            switch.answer_next(primary(7))
            async with place.open(program=program.at(kind)):
                pass
    assert Actions(switch.pushed) == wanted


async def test_a_fault_while_it_reconciles_does_not_clear_the_switch(place: Place, changed: Program) -> None:
    switch = Told(primary(7))
    switch.refusals[p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT] = grpc.StatusCode.INTERNAL
    async with place.serving(switch):
        async with place.open():
            pass
        switch.answer_next(primary(7))
        with pytest.raises(P4RuntimeError, match="INTERNAL"):
            async with place.open(program=changed):
                pass
    assert Actions(switch.pushed) == [COMMIT, RECONCILE]


@needs_root
async def test_sluice_keeps_its_entries_and_takes_one_client_at_a_time(
    place: Place, changed: Program, wires: Wires
) -> None:
    async def held(session: Session) -> set[Entry]:
        return {item async for part in Tables(session, ENCODING).read_all() for item in part}

    async with sluice(place.directory, wires.names, place.port):
        async with asyncio.timeout(10):
            while True:
                try:
                    async with place.open() as session:
                        written = routes(1000)
                        await Tables(session, ENCODING).write(inserts(*written))
                        break
                except UnreachableError:
                    await asyncio.sleep(0.05)
        for election_id, program in ((7, PROGRAM), (8, changed), (9, PROGRAM)):
            async with place.open(election_id, program) as session:
                assert set(written) <= await held(session)
        async with place.open(10) as first:
            with pytest.raises(NotPrimaryError) as raised:
                async with place.open(5):
                    pass
            assert raised.value.highest == 10
            async with place.open(11) as second:
                assert isinstance(await asyncio.wait_for(first.ended, 5), NotPrimaryError)
                with pytest.raises(P4RuntimeError, match="PERMISSION_DENIED"):
                    await Tables(first, ENCODING).write(deletes(*written))
                tables = Tables(second, ENCODING)
                await tables.write(deletes(*written))
                await tables.write(deletes(*written), missing_ok=True)
                with pytest.raises(P4RuntimeError) as refused:
                    await tables.write(deletes(*written))
                assert len(refused.value.faults) == len(written)
                assert refused.value.codes == {grpc.StatusCode.NOT_FOUND}
