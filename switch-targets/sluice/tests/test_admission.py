"""Admission to P4Runtime: a client certificate of the right authority, with the controller's name."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from finsy.proto import p4r, p4r_grpc
from gateway_authority import CLIENT, SERVER, Authority
from gateway_target import CLIENT_NAME

pytestmark = pytest.mark.slow


async def ask(address: str, credentials: grpc.ChannelCredentials) -> str:
    async with grpc.aio.secure_channel(address, credentials) as channel:
        call = p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), timeout=5)
        reply, told = await call, dict(await call.initial_metadata())
        manifest = tomllib.loads((Path(__file__).parents[3] / "Cargo.toml").read_text())
        assert told["server"] == f"sluice/{manifest['workspace']['package']['version']}"
        return reply.p4runtime_api_version


def presented(infrastructure: Authority, paths: tuple[Path, Path] | None) -> grpc.ChannelCredentials:
    chain, key = (path.read_bytes() for path in paths) if paths else (None, None)
    return grpc.ssl_channel_credentials(infrastructure.certificate.read_bytes(), key, chain)


async def test_the_controller_is_let_in(address: str, infrastructure: Authority) -> None:
    paths = infrastructure.issue("second", CLIENT_NAME, CLIENT)
    assert await ask(address, presented(infrastructure, paths)) == "1.5.0"


@pytest.mark.parametrize(
    ("dns_name", "usage", "valid_days"),
    [
        ("gw-paris", CLIENT, 1),
        (f"{CLIENT_NAME}.example", CLIENT, 1),
        (CLIENT_NAME, SERVER, 1),
        (CLIENT_NAME, None, 1),
        (CLIENT_NAME, CLIENT, -1),
    ],
    ids=["another name", "a longer name", "for servers", "for no use", "expired"],
)
async def test_another_certificate_of_the_authority_is_not(
    address: str, infrastructure: Authority, dns_name: str, usage: x509.ObjectIdentifier, valid_days: int
) -> None:
    paths = infrastructure.issue("other", dns_name, usage, valid_days=valid_days)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await ask(address, presented(infrastructure, paths))
    assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_another_authority_is_not(address: str, infrastructure: Authority, tmp_path: Path) -> None:
    paths = Authority(tmp_path / "devices").issue("controller", CLIENT_NAME, CLIENT)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await ask(address, presented(infrastructure, paths))
    assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_no_certificate_is_not(address: str, infrastructure: Authority) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await ask(address, presented(infrastructure, None))
    assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_nor_is_a_client_without_tls(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), timeout=5)


async def test_a_handshake_that_never_ends_stops_no_one(address: str, infrastructure: Authority) -> None:
    host, port = address.split(":")
    idle = [await asyncio.open_connection(host, int(port)) for _ in range(8)]
    paths = infrastructure.issue("third", CLIENT_NAME, CLIENT)
    assert await ask(address, presented(infrastructure, paths)) == "1.5.0"
    for _, writer in idle:
        writer.close()
