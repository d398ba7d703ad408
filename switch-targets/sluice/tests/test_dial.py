"""sluice connects to controllers: which it accepts, and what becomes of a connection that ends.

sluice ── TLS, ALPN culvert-p4runtime ──► Controllers ◄── plain ── RawClient: the P4Runtime client
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest
from finsy.proto import p4r, p4r_grpc
from gateway_authority import CLIENT, SERVER, Authority
from gateway_target import CLIENT_NAME
from gateway_wires import inside
from sluice_rig import SWITCH, Sluice, flat

pytestmark = pytest.mark.slow

ALPN = "culvert-p4runtime"


class Controllers:
    """A port of a controller in the switch's namespace, with a thread of its own: TLS ends here, as in a controller."""

    def __init__(self, certificate: tuple[Path, Path], ca: Path, protocol: str | None = ALPN) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.load_cert_chain(*certificate)
        self.context.load_verify_locations(ca)
        self.context.verify_mode = ssl.CERT_REQUIRED
        if protocol is not None:
            self.context.set_alpn_protocols([protocol])
        self.hosts: list[str] = []
        self.context.sni_callback = lambda _socket, name, _context: self.hosts.append(name)
        self.streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: inside(SWITCH, self._run))
        self._thread.start()
        assert self._ready.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.create_task(self._serve())
        self._loop.run_forever()

    async def _serve(self) -> None:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.streams.append((reader, writer))

        server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=self.context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()

    async def connected(self, count: int) -> None:
        """Until so many connections were made, of which the newest is open: a switch that ends may have connected again."""
        await until(lambda: len(self.streams) >= count and self._newest_is_open())

    def _newest_is_open(self) -> bool:
        reader, writer = self.streams[-1]
        return not reader.at_eof() and not writer.is_closing()

    async def cut(self) -> None:
        """Reset the newest connection."""
        self._loop.call_soon_threadsafe(self.streams[-1][1].transport.abort)

    @contextlib.asynccontextmanager
    async def client(self, folder: Path) -> AsyncGenerator[Any]:
        """Takes the newest connection, over a Unix socket."""
        path = folder / "p4runtime.sock"

        async def relay() -> asyncio.Server:
            reader, writer = self.streams[-1]

            async def take(near: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
                await asyncio.gather(pipe(near, writer), pipe(reader, far))

            return await asyncio.start_unix_server(take, path)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(relay(), self._loop))
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "gateway")]
        async with grpc.aio.insecure_channel(f"unix:{path}", options) as channel:
            yield p4r_grpc.P4RuntimeStub(cast(Any, channel))
        path.unlink()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def dialling(
    program: Path, arguments: dict[str, str], log: Path, *targets: str, grpc: bool = False
) -> Generator[Sluice]:
    given = {key: value for key, value in arguments.items() if grpc or key != "--grpc"}
    dials = [word for target in targets for word in ("--dial", target)]
    switch = Sluice(program, [*flat(given), *dials], log)
    yield switch
    try:
        assert switch.stop() == 0
    finally:
        print(log.read_text())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while await asyncio.sleep(0.05, not holds()):
            pass


@pytest.fixture
def arguments(arguments: dict[str, str], infrastructure: Authority) -> dict[str, str]:
    """With a certificate that OpenSSL takes from who connects: unlike a controller, it wants clientAuth or no use."""
    certificate, key = infrastructure.issue("dialling", "gateway", None)
    return arguments | {"--cert": str(certificate), "--key": str(key)}


async def version(stub: Any) -> str:
    answer: p4r.CapabilitiesResponse = await stub.Capabilities(p4r.CapabilitiesRequest(), timeout=5)
    return answer.p4runtime_api_version


async def test_a_dialled_connection_is_served_and_comes_back(
    rig: None, program: Path, arguments: dict[str, str], infrastructure: Authority, tmp_path: Path
) -> None:
    controller = infrastructure.folder / "controller.pem", infrastructure.folder / "controller.key"
    port = Controllers(controller, infrastructure.certificate)
    with dialling(program, arguments, tmp_path / "log", f"localhost:{port.port}") as switch:
        for count in range(1, 4):
            await port.connected(count)
            async with port.client(tmp_path) as stub:
                assert await version(stub) == "1.5.0"
            await port.cut()
        await port.connected(4)
        assert set(port.hosts) == {"localhost"}
        assert switch.log.read_text().count("connected to a controller") == 1
    port.close()


@pytest.mark.parametrize(
    ("issuer", "name", "usage", "protocol", "reason"),
    [
        ("other", CLIENT_NAME, CLIENT, ALPN, "UnknownIssuer"),
        ("own", "culvert-reader", CLIENT, ALPN, "lack the dNSName 'culvert-controller'"),
        ("own", CLIENT_NAME, SERVER, ALPN, "does not allow extended key usage for client"),
        ("own", CLIENT_NAME, CLIENT, None, "does not speak culvert-p4runtime"),
        ("own", CLIENT_NAME, CLIENT, "h2", "does not speak culvert-p4runtime"),
    ],
)
async def test_a_stranger_at_the_controllers_address_is_refused(
    rig: None,
    program: Path,
    arguments: dict[str, str],
    tmp_path: Path,
    infrastructure: Authority,
    issuer: str,
    name: str,
    usage: object,
    protocol: str | None,
    reason: str,
) -> None:
    other = Authority(tmp_path / "other")
    signer = infrastructure if issuer == "own" else other
    certificate = signer.issue(f"dialled-{len(reason)}", name, usage)  # pyright: ignore[reportArgumentType]
    port = Controllers(certificate, infrastructure.certificate, protocol)
    with dialling(program, arguments, tmp_path / "log", f"127.0.0.1:{port.port}") as switch:
        await switch.says("cannot connect to a controller")
        await asyncio.sleep(1.5)
        log = switch.log.read_text()
        assert reason in log
        # Further failures are counted, not logged.
        assert log.count("cannot connect to a controller") == 1
    port.close()


async def test_a_replaced_certificate_is_shown_at_the_next_attempt(
    rig: None, program: Path, arguments: dict[str, str], infrastructure: Authority, tmp_path: Path
) -> None:
    for option in ("--cert", "--key"):
        arguments[option] = str(shutil.copy(arguments[option], tmp_path))
    fresh = Authority(tmp_path / "fresh")
    controller = infrastructure.folder / "controller.pem", infrastructure.folder / "controller.key"
    # The controller accepts gateways of the fresh authority alone.
    port = Controllers(controller, fresh.certificate)
    with dialling(program, arguments, tmp_path / "log", f"127.0.0.1:{port.port}") as switch:
        await switch.says("cannot connect to a controller")
        certificate, key = fresh.issue("gateway", "gateway", None)
        shutil.copy(key, arguments["--key"])
        shutil.copy(certificate, arguments["--cert"])
        await port.connected(1)
        async with port.client(tmp_path) as stub:
            assert await version(stub) == "1.5.0"
    port.close()


async def test_two_addresses_of_one_controller_get_one_connection(
    rig: None, program: Path, arguments: dict[str, str], infrastructure: Authority, tmp_path: Path
) -> None:
    controller = infrastructure.folder / "controller.pem", infrastructure.folder / "controller.key"
    port, other = (Controllers(controller, infrastructure.certificate) for _ in range(2))
    targets = f"127.0.0.1:{port.port}", f"127.0.0.1:{other.port}"
    with dialling(program, arguments, tmp_path / "log", *targets):
        await asyncio.sleep(2)
        assert len(port.streams) + len(other.streams) == 1
        first, second = (port, other) if port.streams else (other, port)
        await first.cut()
        await until(lambda: len(first.streams) + len(second.streams) >= 2)
        await asyncio.sleep(1)
        assert len(first.streams) + len(second.streams) == 2
    for one in (port, other):
        one.close()


async def test_a_name_without_an_address_is_logged_once(
    rig: None, program: Path, arguments: dict[str, str], tmp_path: Path
) -> None:
    with dialling(program, arguments, tmp_path / "log", "controller.invalid:8444", grpc=True) as switch:
        await switch.says("cannot resolve a controller's name")
        await asyncio.sleep(1)
        assert switch.log.read_text().count("cannot resolve a controller's name") == 1
