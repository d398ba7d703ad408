"""A user who takes as many places of the daemon as possible keeps no other user from being served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from culvert_client.config import Endpoint
from culvert_proto import CulvertError, Reason, local_pb2, local_pb2_grpc
from culvert_proto.grpc_errors import from_rpc_error

from .controller import CODE
from .running import Running, running
from .test_daemon import Lab
from .test_local_api import ALICE, MALLORY, culvert

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="plays several users: needs root"),
]

BOB = 1002

# The kernel records the effective uid of the process that makes or connects a socket.
_AS_USER = """
import encodings.idna, os, socket, sys
uid, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setresuid(uid, uid, 0)
def query(name, number=7):
    labels = b"".join(bytes([len(it)]) + it.encode() for it in name.split("."))
    return number.to_bytes(2, "big") + bytes.fromhex("01000001000000000000") + labels + bytes.fromhex("0000010001")
"""
# More queries than there are places, again and again, for a name server that never answers.
_FLOODS = {
    "udp": """
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
number = 0
while True:
    for _ in range(1500):
        sender.sendto(query(f"n{number}.silent.example", number & 65535), (host, port))
        number += 1
    print("flooded", flush=True)
""",
    "tcp": """
held = []
for _ in range(1200):
    try:
        held.append(socket.create_connection((host, port), 2))
    except OSError:
        break
print("flooded", flush=True)
sys.stdin.read()
""",
}
_FLOODS["tunnels"] = _FLOODS["udp"].replace("silent.example", "corp.example")
# glibc's resolver waits 5 s for an answer. Here nothing is sent again: no query may be lost.
_ASKS = """
answered = 0
for number in range(14):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(5)
        asker.sendto(query("www.example.org", number), (host, port))
        try:
            answered += bytes([203, 0, 113, 80]) in asker.recv(4096)
        except TimeoutError:
            pass
print(answered)
"""
# A separate process: within this one, the name server would be as busy as the daemon. It knows one name.
_NAME_SERVER = """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)
    server.bind((host, port))
    print(server.getsockname()[1], flush=True)
    known = query("www.example.org")[12:]
    record = bytes.fromhex("c00c00010001") + (60).to_bytes(4, "big") + bytes([0, 4, 203, 0, 113, 80])
    while True:
        asked, asker = server.recvfrom(4096)
        if asked[12 : 12 + len(known)] == known:
            header = asked[:2] + bytes.fromhex("81800001000100000000")
            server.sendto(header + known + record, asker)
"""


@contextlib.asynccontextmanager
async def a_process(program: str, uid: int, *arguments: object) -> AsyncGenerator[asyncio.subprocess.Process]:
    command = [sys.executable, "-c", program, str(uid), *map(str, arguments)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


@pytest.fixture
async def enrolled(place: Path) -> AsyncGenerator[Running]:
    """A daemon that ALICE enrolled with an organisation whose names wait for tunnels."""
    lab = Lab(place)
    async with (
        a_process(_AS_USER + _NAME_SERVER, 0, "127.0.0.1", 0) as name_server,
        lab.serving(),
        running(place, Endpoint("127.0.0.1", int(await said(name_server)))) as daemon,
    ):
        with lab.invitation() as link:
            assert (await culvert(daemon, ALICE, "enroll", link)).code == 0
        assert (await culvert(daemon, ALICE, "code", CODE)).code == 0
        yield daemon


@pytest.mark.parametrize("kind", list(_FLOODS))
async def test_names_resolve_for_the_others_while_one_user_takes_every_place(
    enrolled: Running, kind: str
) -> None:
    listen = enrolled.settings.dns_listen
    async with a_process(_AS_USER + _FLOODS[kind], MALLORY, listen.host, listen.port) as flood:
        for _ in range(1 if kind == "tcp" else 3):
            assert await said(flood) == "flooded"
        for uid in (ALICE, BOB, 0):
            async with a_process(_AS_USER + _ASKS, uid, listen.host, listen.port) as asker:
                assert (uid, await said(asker)) == (uid, "14")
        answer = await enrolled.ask("www.example.org", tcp=True)
        assert answer.answer


# Each uid in turn opens as many connections as the daemon accepts, and sends HTTP/2 on them.
_MANY_USERS = """
import os, socket, sys
held = []
for uid in range(2000, 2012):
    os.setresuid(uid, uid, 0)
    for _ in range(64):
        one = socket.socket(socket.AF_UNIX)
        one.connect(sys.argv[2])
        try:
            one.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes.fromhex("000000040000000000"))
        except OSError:
            continue
        held.append(one)
    os.setresuid(0, 0, 0)
print("held", flush=True)
sys.stdin.read()
"""


async def test_twelve_users_together_keep_neither_owner_nor_root_from_the_daemon(enrolled: Running) -> None:
    async with a_process(_MANY_USERS, 0, enrolled.settings.socket) as flood:
        assert await said(flood) == "held"
        for uid in (ALICE, 0):
            shown = await culvert(enrolled, uid, "status")
            assert (shown.code, "Signed in as alice" in shown.out) == (0, True)


async def test_a_connection_without_a_byte_is_closed(enrolled: Running) -> None:
    reader, writer = await asyncio.open_unix_connection(enrolled.settings.socket)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()


_STREAMS = """
import ctypes, os, sys
import grpc
from culvert_proto import local_pb2, local_pb2_grpc
uid = int(sys.argv[1])
os.setresuid(uid, uid, 0)
# The interpreter's files are still read as root.
ctypes.CDLL(None).setfsuid(0)
def stream(number):
    channel = grpc.insecure_channel(f"unix:{sys.argv[2]}", options=[("grpc.use_local_subchannel_pool", 1)])
    return [local_pb2_grpc.LocalServiceStub(channel).WatchStatus(local_pb2.WatchStatusRequest()) for _ in range(12)]
calls = [call for number in range(8) for call in stream(number)]
ended = []
for call in calls:
    try:
        next(call)
    except grpc.RpcError as error:
        ended.append(error.code().name)
print(len(calls) - len(ended), *sorted(set(ended)), flush=True)
sys.stdin.read()
"""


async def test_a_users_streams_are_limited_and_a_further_one_is_refused(
    enrolled: Running,
) -> None:
    for _ in range(2):
        async with a_process(_STREAMS, MALLORY, enrolled.settings.socket) as greedy:
            assert await said(greedy) == "32 RESOURCE_EXHAUSTED"
            assert (await culvert(enrolled, ALICE, "status")).code == 0
            assert (await culvert(enrolled, MALLORY, "status")).code == 3
        # The places are free again when the user's process has ended.
        async with asyncio.timeout(10):
            while (await culvert(enrolled, MALLORY, "status")).code != 0:
                pass


async def test_the_refusal_says_when_to_try_again(enrolled: Running) -> None:
    held: list[grpc.aio.UnaryStreamCall[local_pb2.WatchStatusRequest, local_pb2.WatchStatusResponse]] = []
    async with contextlib.AsyncExitStack() as stack:
        error: CulvertError | None = None
        for _ in range(12):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.aio.insecure_channel(f"unix:{enrolled.settings.socket}", options=options)
            local = local_pb2_grpc.LocalServiceStub(await stack.enter_async_context(channel))
            held += [local.WatchStatus(local_pb2.WatchStatusRequest()) for _ in range(12)]
        for call in held:
            try:
                await call.read()
            except grpc.aio.AioRpcError as refusal:
                error = from_rpc_error(refusal, peer="culvertd")
    assert error is not None
    assert (error.reason, "try again" in error.remedy) == (Reason.RATE_LIMITED, True)
