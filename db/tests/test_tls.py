"""TLS to a Postgres on another computer, tested with a real server: trusted certificates, and errors for others."""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import socket
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from culvert_db import Tls, UntrustedDatabaseError, create_engine
from culvert_lab.free_port import free_port
from sqlalchemy import make_url, text

HOST = "database.example"
# Debian's Postgres, because the embedded server has no TLS.
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]


def issue(folder: Path, name: str) -> None:
    """An authority of its own in NAME-ca.pem, and a certificate for HOST in NAME.pem and NAME.key."""
    now = datetime.datetime.now(datetime.UTC)

    def signed(subject: str, key: Any, issuer: str, signer: Any, extension: x509.ExtensionType) -> bytes:
        builder = (
            x509.CertificateBuilder(
                x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
                x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]),
                key.public_key(),
                x509.random_serial_number(),
                now - datetime.timedelta(hours=1),
                now + datetime.timedelta(days=1),
            )
            .add_extension(extension, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
            )
        )
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    basic = x509.BasicConstraints(ca=True, path_length=None)
    (folder / f"{name}-ca.pem").write_bytes(signed(name, authority, name, authority, basic))
    names = x509.SubjectAlternativeName([x509.DNSName(HOST)])
    (folder / f"{name}.pem").write_bytes(signed(HOST, own, name, authority, names))
    key = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{name}.key").write_bytes(key)
    (folder / f"{name}.key").chmod(0o600)


@asynccontextmanager
async def serving(folder: Path, *options: str) -> AsyncGenerator[int]:
    """Run a Postgres on loopback. Gives its port."""
    port = free_port()
    # Postgres refuses to run as root.
    nobody = ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--") if os.geteuid() == 0 else ()
    data = folder / "data"
    if not data.exists():
        initdb = (str(BINARIES[0] / "initdb"), "-D", str(data), "-U", "culvert", "--auth=trust")
        made = await asyncio.create_subprocess_exec(*nobody, *initdb, stdout=asyncio.subprocess.DEVNULL)
        assert await made.wait() == 0
    server = await asyncio.create_subprocess_exec(
        *nobody,
        *(str(BINARIES[0] / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder), *options),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(30):
            while await asyncio.sleep(0.02, not _is_ready(data)):
                pass
        yield port
    finally:
        server.terminate()
        await server.wait()


@contextmanager
def silent(address: str, port: int) -> Generator[None]:
    """There nothing answers an attempt to connect: the queue of the listener is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect((address, port))
        yield


def _is_ready(data: Path) -> bool:
    lock = data / "postmaster.pid"
    return lock.exists() and "ready" in lock.read_text()


async def is_encrypted(url: str) -> bool:
    engine = create_engine(url)
    try:
        async with engine.connect() as connection:
            used = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            return bool(await connection.scalar(text(used)))
    finally:
        await engine.dispose()


@pytest.mark.slow
@pytest.mark.skipif(not BINARIES or not shutil.which("unshare"), reason="needs a Postgres that speaks TLS")
async def test_the_first_of_a_hosts_addresses_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue(tmp_path, "right")
    tls = [f"ssl_cert_file={tmp_path}/right.pem", f"ssl_key_file={tmp_path}/right.key", "ssl=on"]
    found = socket.getaddrinfo

    def lookup(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        hosts = ("127.0.0.2", "127.0.0.1") if host == HOST else (host,)
        return [one for it in hosts for one in found(it, port, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    async with serving(tmp_path, *(part for it in tls for part in ("-c", it))) as port:
        with silent("127.0.0.2", port):
            at = f"postgresql://culvert@{HOST}:{port}/postgres"
            assert await is_encrypted(f"{at}?sslrootcert={tmp_path}/right-ca.pem")
            assert not await is_encrypted(f"{at}?sslmode=disable")


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """HOST, and another name of it, lead to loopback."""
    found = socket.getaddrinfo

    def lookup(host: Any, *arguments: Any, **options: Any) -> Any:
        return found("127.0.0.1" if str(host).endswith(HOST) else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.mark.slow
@pytest.mark.skipif(not BINARIES or not shutil.which("unshare"), reason="needs a Postgres that speaks TLS")
async def test_a_server_elsewhere_must_be_the_one_that_the_url_names(resolver: None, tmp_path: Path) -> None:
    issue(tmp_path, "right")
    issue(tmp_path, "wrong")
    tls = (
        "-c",
        "ssl=on",
        "-c",
        f"ssl_cert_file={tmp_path}/right.pem",
        "-c",
        f"ssl_key_file={tmp_path}/right.key",
    )
    trusted = f"sslrootcert={tmp_path}/right-ca.pem"
    async with serving(tmp_path, *tls) as port:
        at = f"postgresql://culvert@{HOST}:{port}/postgres"
        assert await is_encrypted(f"{at}?{trusted}")
        for parameters, host, said in [
            ("", HOST, "not trusted: unable to get local issuer certificate"),
            (
                f"sslrootcert={tmp_path}/wrong-ca.pem",
                HOST,
                "not trusted: unable to get local issuer certificate",
            ),
            (trusted, f"other.{HOST}", "not trusted: Hostname mismatch"),
        ]:
            with pytest.raises(UntrustedDatabaseError, match=said) as refused:
                await is_encrypted(f"postgresql://culvert@{host}:{port}/postgres?{parameters}")
            assert "sslrootcert=FILE" in str(refused.value)
        assert await is_encrypted(
            f"postgresql://culvert@other.{HOST}:{port}/postgres?{trusted}&sslmode=verify-ca"
        )
        assert await is_encrypted(f"{at}?sslmode=require")
        assert not await is_encrypted(f"{at}?sslmode=disable")
        assert not await is_encrypted(f"postgresql://culvert@/postgres?host={tmp_path}&port={port}")
    async with serving(tmp_path) as port:
        at = f"postgresql://culvert@{HOST}:{port}/postgres"
        with pytest.raises(UntrustedDatabaseError, match=r"offers no TLS. Remedy: .* sslmode=disable"):
            await is_encrypted(f"{at}?{trusted}")
        assert not await is_encrypted(f"{at}?sslmode=disable")
        assert not await is_encrypted(f"postgresql://culvert@127.0.0.1:{port}/postgres")


@pytest.mark.parametrize(
    ("rest", "mode"),
    [
        ("u@db.example/d", "verify-full"),
        ("u@192.0.2.1:5433/d", "verify-full"),
        ("u@/d?host=db.example", "verify-full"),
        ("u@/d?host=/run/pg&host=db.example:5432", "verify-full"),
        ("u@127.0.0.1/d", "prefer"),
        ("u@localhost/d", "prefer"),
        ("u@[::1]/d", "prefer"),
        ("u@/d?host=/run/postgresql", "prefer"),
        ("u@db.example/d?sslmode=disable", "disable"),
        ("u@127.0.0.1/d?sslmode=verify-full", "verify-full"),
    ],
)
def test_servers_on_other_computers_are_verified_by_default(rest: str, mode: str) -> None:
    assert Tls.of(make_url(f"postgresql+asyncpg://{rest}")).mode == mode


def test_the_environment_may_name_a_host_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    assert Tls.of(make_url("postgresql+asyncpg://u@/d")).mode == "verify-full"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [("sslmode=on", "sslmode must be one of"), ("sslrootcert=/nowhere", "cannot be used")],
)
def test_parameters_that_cannot_be_used_are_refused_at_once(parameters: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        create_engine(f"postgresql://u@db.example/d?{parameters}")


def test_sslmode_require_does_not_verify_the_certificate() -> None:
    context = Tls.of(make_url("postgresql+asyncpg://u@db.example/d?sslmode=require")).context()
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode is ssl.CERT_NONE


@pytest.mark.slow
async def test_a_tcp_connection_ends_after_seconds_without_an_answer(tmp_path: Path) -> None:
    """Behind a firewall that forgot the connection, only these options of the kernel end the connection."""
    async with serving(tmp_path) as port:
        engine = create_engine(f"postgresql://culvert@127.0.0.1:{port}/postgres")
        async with engine.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            used: Any = cast("Any", driver)._transport.get_extra_info("socket")
            assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
            assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            waits = [
                used.getsockopt(socket.IPPROTO_TCP, it)
                for it in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]
            assert waits == [5, 5, 2]
        await engine.dispose()
