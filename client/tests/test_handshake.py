"""Why the controller and this computer do not come to a TLS connection, as the check of either side says."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_agent_server import CallLimits, Server, Shown
from culvert_client.controller.enrolment import request_pem
from culvert_client.controller.handshake import refusal
from culvert_client.state_dir import Identity, key_pem
from culvert_proto import Reason, agent_pb2_grpc, local_pb2

from .enrolment_server import accepts, enrolment_server
from .pki import Authority
from .running import PLATFORM
from .test_daemon import WIKI, Lab, why

DAY = datetime.timedelta(days=1)
OVER = datetime.timedelta(seconds=-1)
LIMITS = CallLimits(1024, 100.0, (8, "", b""), (8, "", b""))


@contextlib.asynccontextmanager
async def front(
    chain: tuple[bytes, bytes],
    devices: Authority,
    servicer: agent_pb2_grpc.AgentServiceServicer | None = None,
) -> AsyncGenerator[Server]:
    """The controller's own front; without a servicer it has no method."""
    certificate, key = chain
    server = Server("127.0.0.1", 0, Shown(certificate, key, devices.pem), LIMITS, handshake_seconds=5)
    if servicer is not None:
        agent_pb2_grpc.add_AgentServiceServicer_to_server(servicer, cast("Any", server))
    server.start()
    try:
        yield server
    finally:
        await server.stop(0)


def enrolled(
    trusted: Authority, devices: Authority, port: int, web: int = 1, host: str = "127.0.0.1"
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    return Identity(
        controller=f"https://{host}:{web}",
        agent_address=f"{host}:{port}",
        device_id="d1",
        user="alice",
        owner=0,
        certificate_pem=devices.sign(request_pem(key, "d1").encode()),
        ca_pem=trusted.pem,
        key_pem=key_pem(key),
    )


async def reason(identity: Identity) -> Reason | None:
    error = await refusal(identity, "laptop", PLATFORM.process, lambda _: "127.0.0.1")
    return error.reason if error else None


@pytest.fixture
def infrastructure() -> Authority:
    return Authority("infrastructure")


@pytest.fixture
def devices() -> Authority:
    return Authority("devices")


async def test_a_valid_handshake_has_no_fault(infrastructure: Authority, devices: Authority) -> None:
    async with front(infrastructure.issue("controller"), devices) as server:
        assert await reason(enrolled(infrastructure, devices, server.port)) is None


async def test_a_network_that_leads_nowhere_is_no_refusal(
    infrastructure: Authority, devices: Authority
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
    assert await reason(enrolled(infrastructure, devices, port)) is None


async def test_an_expired_device_certificate_is_named(infrastructure: Authority, devices: Authority) -> None:
    devices.lifetime = OVER
    async with front(infrastructure.issue("controller"), devices) as server:
        assert await reason(enrolled(infrastructure, devices, server.port)) is Reason.CERTIFICATE_EXPIRED


async def test_a_certificate_of_another_authority_is_refused_by_the_controller(
    infrastructure: Authority, devices: Authority
) -> None:
    async with front(infrastructure.issue("controller"), Authority("devices")) as server:
        error = await refusal(enrolled(infrastructure, devices, server.port), "laptop", PLATFORM.process)
    assert error is not None
    assert error.reason is Reason.CERTIFICATE_REFUSED
    assert error.fields["why"]


async def test_a_denied_certificate_is_a_revoked_device(
    infrastructure: Authority, devices: Authority
) -> None:
    async with front(infrastructure.issue("controller"), devices) as server:
        identity = enrolled(infrastructure, devices, server.port)
        certificate = x509.load_pem_x509_certificate(identity.certificate_pem)
        server.deny([certificate.fingerprint(hashes.SHA256())])
        # The front lets one connection in two seconds hear the reason from Python.
        assert await reason(identity) is None
        assert await reason(identity) is Reason.DEVICE_REVOKED


async def test_a_controller_with_another_ca_is_told(infrastructure: Authority, devices: Authority) -> None:
    async with front(infrastructure.issue("controller"), devices) as server:
        # The other CA has the same name, as after a new installation of the controller.
        identity = enrolled(Authority("infrastructure"), devices, server.port)
        assert await reason(identity) is Reason.CONTROLLER_CA_UNKNOWN


async def test_a_controller_with_another_name_is_told(infrastructure: Authority, devices: Authority) -> None:
    async with front(infrastructure.issue("controller"), devices) as server:
        for host in ("controller.example", "192.0.2.1"):
            identity = enrolled(infrastructure, devices, server.port, host=host)
            assert await reason(identity) is Reason.CONTROLLER_NAME_WRONG


@pytest.mark.parametrize(
    ("ahead", "said"), [(240, "by 4 min"), (18_720, "by 5 h 12 min"), (400_000, "by 5 d")]
)
async def test_the_clocks_error_is_given_in_words(
    tmp_path: Path, infrastructure: Authority, devices: Authority, ahead: int, said: str
) -> None:
    infrastructure.begins, infrastructure.lifetime = DAY * 9, 10 * DAY
    async with front(infrastructure.issue("controller"), devices) as server:
        with enrolment_server(
            tmp_path, infrastructure, accepts(infrastructure, devices, ""), ahead=ahead
        ) as web:
            identity = enrolled(infrastructure, devices, server.port, web.port)
            told = await refusal(identity, "laptop", PLATFORM.process, lambda _: "127.0.0.1")
            assert told is not None
            assert said in told.message


@pytest.mark.parametrize(("begins", "lifetime"), [(-DAY, OVER), (DAY, 2 * DAY)])
@pytest.mark.parametrize(
    ("ahead", "expected"), [(0, Reason.CONTROLLER_CERTIFICATE_EXPIRED), (7200, Reason.CLOCK_WRONG)]
)
async def test_a_wrong_clock_is_told_from_an_expired_controller_certificate(
    tmp_path: Path,
    infrastructure: Authority,
    devices: Authority,
    begins: datetime.timedelta,
    lifetime: datetime.timedelta,
    ahead: int,
    expected: Reason,
) -> None:
    infrastructure.begins, infrastructure.lifetime = begins, lifetime
    async with front(infrastructure.issue("controller"), devices) as server:
        with enrolment_server(
            tmp_path, infrastructure, accepts(infrastructure, devices, ""), ahead=ahead
        ) as web:
            assert await reason(enrolled(infrastructure, devices, server.port, web.port)) is expected


async def test_a_device_certificate_invalid_by_a_wrong_clock_is_clock_wrong(
    tmp_path: Path, infrastructure: Authority, devices: Authority
) -> None:
    devices.begins, devices.lifetime = DAY, 2 * DAY
    async with front(infrastructure.issue("controller"), devices) as server:
        with enrolment_server(
            tmp_path, infrastructure, accepts(infrastructure, devices, ""), ahead=86_400
        ) as web:
            assert (
                await reason(enrolled(infrastructure, devices, server.port, web.port)) is Reason.CLOCK_WRONG
            )


@contextlib.contextmanager
def answering(answer: bytes) -> Generator[int]:
    """A port that answers each connection with these bytes, whoever it is."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1 << 14)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_an_alert_of_an_unproven_server_says_nothing_of_this_device(
    infrastructure: Authority, devices: Authority
) -> None:
    for alert in (44, 45, 48):
        with answering(bytes((21, 3, 3, 0, 2, 2, alert))) as port:
            identity = enrolled(infrastructure, devices, port)
            assert await reason(identity) is Reason.HANDSHAKE_REFUSED, alert
    with answering(b"HTTP/1.0 302 Found\r\n\r\n") as port:
        assert await reason(enrolled(infrastructure, devices, port)) is Reason.HANDSHAKE_REFUSED


async def test_a_server_of_old_tls_is_told(
    tmp_path: Path, infrastructure: Authority, devices: Authority
) -> None:
    certificate, key = infrastructure.issue("controller")
    (tmp_path / "chain.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "chain.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_server(("127.0.0.1", 0)) as plain,
        context.wrap_socket(plain, server_side=True) as server,
    ):

        def accept() -> None:
            with contextlib.suppress(OSError):
                server.accept()

        thread = threading.Thread(target=accept)
        thread.start()
        port: int = server.getsockname()[1]
        assert await reason(enrolled(infrastructure, devices, port)) is Reason.HANDSHAKE_REFUSED
        thread.join()


@pytest.mark.slow
async def test_a_person_reads_the_reason_and_not_that_the_network_is_at_fault(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
    port = lab.controller.port
    lab.infrastructure = Authority("another")
    async with lab.serving(port), lab.daemon() as daemon:
        told = await daemon.until(lambda it: it.last_error.reason == Reason.CONTROLLER_CA_UNKNOWN)
        assert told.state == local_pb2.STATE_OFFLINE
        refused = await daemon.ask(WIKI)
        assert "certificate authority" in why(refused)
