# gRPC names the methods.
# ruff: noqa: N802
# pyright: reportIncompatibleMethodOverride=false, reportAbstractUsage=false
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from culvert_proto import CulvertError, Reason, agent_pb2, agent_pb2_grpc
from culvert_proto.grpc_errors import from_rpc_error, stream, unary

SECRET = "a secret of the inside"


class Faulty(agent_pb2_grpc.AgentServiceServicer):
    @unary
    async def ProveCode(self, request: agent_pb2.ProveCodeRequest, _: Any) -> agent_pb2.ProveCodeResponse:
        if request.code:
            raise CulvertError(Reason.CODE_WRONG)
        raise RuntimeError(SECRET)

    @stream
    async def Watch(self, _request: agent_pb2.WatchRequest, _: Any) -> AsyncIterator[agent_pb2.WatchResponse]:
        yield agent_pb2.WatchResponse()
        raise RuntimeError(SECRET)


@pytest.fixture
async def stub() -> AsyncIterator[Any]:
    server = grpc.aio.server()
    agent_pb2_grpc.add_AgentServiceServicer_to_server(Faulty(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield agent_pb2_grpc.AgentServiceStub(channel)
    await server.stop(None)


async def test_a_typed_error_arrives_as_it_was_raised(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stub.ProveCode(agent_pb2.ProveCodeRequest(code="123456"))
    assert from_rpc_error(ended.value, peer="controller").reason is Reason.CODE_WRONG


async def test_a_fault_is_internal_in_the_log_and_says_nothing_of_the_inside(
    stub: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as unary_ended:
        await stub.ProveCode(agent_pb2.ProveCodeRequest())
    with pytest.raises(grpc.aio.AioRpcError) as stream_ended:
        async for _ in stub.Watch(agent_pb2.WatchRequest()):
            pass
    for ended in (unary_ended.value, stream_ended.value):
        assert from_rpc_error(ended, peer="controller").reason is Reason.INTERNAL
        assert SECRET not in (ended.details() or "")
        assert SECRET not in ended.debug_error_string()
    assert [record.exc_info is not None for record in caplog.records if record.msg == "a call failed"] == [
        True,
        True,
    ]


def test_grpc_writes_nothing_past_the_programs_log() -> None:
    """gRPC's core writes a line to standard error for each handshake that fails."""
    script = """
import socket, threading, culvert_proto, grpc
server = socket.create_server(("127.0.0.1", 0))
def answer():
    connection, _ = server.accept()
    connection.recv(1)
    connection.sendall(b"no TLS here" * 9)
threading.Thread(target=answer, daemon=True).start()
channel = grpc.secure_channel(f"localhost:{server.getsockname()[1]}", grpc.ssl_channel_credentials())
try:
    channel.unary_unary("/a/b")(b"", timeout=20)
except grpc.RpcError as error:
    print(error.code().name)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("UNAVAILABLE\n", "")
