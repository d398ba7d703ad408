"""A gateway's certificate and key-encryption key (KEK): access to them, and which of them it is given."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import stat
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from culvert_db import IdempotencyKey
from culvert_lab.free_port import free_port
from culvert_service.gateways import kek_rotation
from finsy.proto import p4r_grpc
from sqlalchemy import select, update

from .conftest import World, authority, running, settings_in, until
from .gateway_process import unpack
from .switch import Switch
from .test_admins import signed_in


async def refusal(world: World, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    answer = await world.admin.post(f"/api/v1{path}", json=body, headers=headers)
    return answer.status_code, answer.json().get("reason", "")


async def keys(world: World, name: str = "gw-berlin") -> dict[str, Any]:
    return (await world.rest("GET", f"/gateways/{name}"))["keys"]


async def settled(world: World, name: str = "gw-berlin") -> dict[str, Any]:
    return await until(lambda: keys(world, name), lambda found: found["state"] == "settled")


async def bundle(world: World, name: str = "gw-berlin") -> dict[str, Any]:
    return await world.rest("POST", f"/gateways/{name}/bundle")


@pytest.mark.parametrize("name", ["localhost", "2130706433", "0x7f000001", "culvert-controller", "vpn"])
async def test_a_gateway_cannot_have_a_controllers_name(tmp_path: Path, database_url: str, name: str) -> None:
    settings = settings_in(tmp_path, database_url=database_url, server_names=["VPN.", "vpn.example.org"])
    async with running(settings) as world:
        with pytest.raises(AssertionError, match="GATEWAY_NAME_RESERVED"):
            await world.add_gateway(name, free_port())


@pytest.mark.parametrize(
    "name", ["*", "*.corp", "LOCALHOST", "localhost.", "::ffff:127.0.0.1", "127.0.0.1", "a.b"]
)
async def test_a_gateways_name_is_one_label_in_lower_case(world: World, name: str) -> None:
    with pytest.raises(AssertionError, match="REQUEST_INVALID"):
        await world.add_gateway(name, free_port())


async def test_a_reserved_controller_name_gets_no_gateway_certificate(
    tmp_path: Path, database_url: str
) -> None:
    async with running(settings_in(tmp_path, database_url=database_url)) as world:
        await world.add_gateway("vpn", free_port())
        await bundle(world, "vpn")
    async with running(settings_in(tmp_path, database_url=database_url, server_names=["vpn"])):
        pass
    async with running(settings_in(tmp_path, database_url=database_url)) as world:
        assert await refusal(world, "/gateways/vpn/bundle") == (422, "GATEWAY_NAME_RESERVED")


async def test_a_gateways_certificate_names_it_alone_and_devices_do_not_trust_it(
    world: World, tmp_path: Path
) -> None:
    await world.add_gateway("gw-berlin", free_port())
    given = await bundle(world)
    [certificate] = x509.load_pem_x509_certificates(given["certificate_pem"].encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName("gw-berlin")]
    unpack(given, tmp_path / "gateway")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "gateway/gateway.pem", tmp_path / "gateway/gateway.key")
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        context = ssl.create_default_context(cafile=str(world.settings.state_dir / "infrastructure-ca.pem"))
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="gw-berlin")


@asynccontextmanager
async def with_certificate(
    switch: Switch, chain: bytes, key: bytes, ca: bytes, port: int
) -> AsyncGenerator[None]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    p4r_grpc.add_P4RuntimeServicer_to_server(switch, server)
    credentials = grpc.ssl_server_credentials([(key, chain)], root_certificates=ca, require_client_auth=True)
    server.add_secure_port(f"127.0.0.1:{port}", credentials)
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


async def test_a_gateway_certificate_of_the_infrastructure_ca_stays_valid(
    world: World,
) -> None:
    port, infrastructure = free_port(), authority(world, "infrastructure")
    await world.add_gateway("gw-berlin", port)
    old = infrastructure.issue_server("gw-berlin", ["gw-berlin", "127.0.0.1"])
    async with with_certificate(Switch(), old.certificate.pem, old.key_pem, infrastructure.pem, port):
        await world.online("gw-berlin")


async def test_a_gateway_that_shows_another_gateways_certificate_is_refused(world: World) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    await world.add_gateway("gw-paris", free_port(), 2)
    other = await bundle(world, "gw-paris")
    chain, key = other["certificate_pem"].encode(), other["key_pem"].encode()
    switch = Switch()
    async with with_certificate(switch, chain, key, other["ca_pem"].encode(), port):
        asked = switch.writes
        await asyncio.sleep(2)
        assert (await world.rest("GET", "/gateways/gw-berlin"))["state"] == "offline"
    assert asked == []


async def test_a_bundle_is_given_once_and_the_next_one_has_other_keys(world: World) -> None:
    await world.add_gateway("gw-berlin", free_port())
    assert (await keys(world))["state"] == "new"
    etag = (await world.admin.get("/api/v1/gateways/gw-berlin")).headers["ETag"]
    first = await bundle(world)
    assert (await keys(world))["state"] == "settled"
    second, third = await bundle(world), await bundle(world)
    assert (await keys(world))["state"] == "waiting"
    assert len({one["kek"] for one in (first, second, third)}) == 3
    assert len({one["key_pem"] for one in (first, second, third)}) == 3
    lines = await world.rest("GET", "/audit?action=gateway.bundle")
    assert [line["details"]["first"] for line in reversed(lines)] == [True, False, False]
    # An administrator's view of the gateway is not stale.
    assert (await world.admin.get("/api/v1/gateways/gw-berlin")).headers["ETag"] == etag


async def test_a_token_that_writes_gateways_does_not_get_their_keys(world: World) -> None:
    await world.add_gateway("gw-berlin", free_port())

    host = {"name": "crypto-1", "p4runtime": "127.0.0.1:1", "port": 4}
    macs = {"mac": "02:00:00:00:04:01", "host_mac": "02:00:00:00:04:02"}
    await world.rest("POST", "/gateways/gw-berlin/crypto-hosts", host | macs)

    async def asked(*scopes: str, of: str = "/gateways/gw-berlin") -> tuple[int, str]:
        token = (
            await world.rest(
                "POST", "/tokens", {"name": "-".join(scopes)[:20].replace(":", "-"), "scopes": scopes}
            )
        )["token"]
        return await refusal(world, f"{of}/bundle", Authorization=f"Bearer {token}")

    assert await asked("gateways:write", "read") == (403, "NOT_PERMITTED")
    of_host = "/gateways/gw-berlin/crypto-hosts/crypto-1"
    assert await asked("gateways:write", "groups:read", of=of_host) == (403, "NOT_PERMITTED")
    assert (await asked("gateway-keys:write"))[0] == 200
    assert (await asked("gateway-keys:write", "users:read", of=of_host))[0] == 200
    assert (await asked("write"))[0] == 200


async def test_a_bundle_comes_as_an_archive_on_request(world: World, tmp_path: Path) -> None:
    await world.add_gateway("gw-berlin", free_port())
    path, wanted = "/api/v1/gateways/gw-berlin/bundle", {"Accept": "application/x-tar"}
    answer = await world.admin.post(path, headers=wanted)
    assert answer.headers["Content-Type"] == "application/x-tar"
    command = ["tar", "-xpf", "-"]
    await asyncio.to_thread(subprocess.run, command, cwd=tmp_path, input=answer.content, check=True)
    files = {it.name: it for it in (tmp_path / "gw-berlin").iterdir()}
    assert set(files) == {"controller-ca.pem", "gateway.pem", "gateway.key", "kek.bin"}
    assert {stat.S_IMODE(it.stat().st_mode) for it in files.values()} == {0o600}
    certificate = x509.load_pem_x509_certificate(files["gateway.pem"].read_bytes())
    key = serialization.load_pem_private_key(files["gateway.key"].read_bytes(), None)
    assert key.public_key() == certificate.public_key()
    assert len(files["kek.bin"].read_bytes()) == 32
    token = (await world.rest("POST", "/tokens", {"name": "ci", "scopes": ["gateways:write"]}))["token"]
    headers = wanted | {"Authorization": f"Bearer {token}"}
    refused = await refusal(world, "/gateways/gw-berlin/bundle", **headers)
    assert refused == (403, "NOT_PERMITTED")


async def test_a_repeated_request_does_not_get_a_bundle_again(world: World) -> None:
    await world.add_gateway("gw-berlin", free_port())
    once = {"Idempotency-Key": "bundle"}
    assert (await world.admin.post("/api/v1/gateways/gw-berlin/bundle", headers=once)).status_code == 200
    assert await refusal(world, "/gateways/gw-berlin/bundle", **once) == (409, "IDEMPOTENCY_KEY_BUSY")
    async with world.database() as session:
        assert await session.scalar(select(IdempotencyKey.body_ciphertext)) is None
    async with world.database.begin() as session:
        past = IdempotencyKey.claimed_at - datetime.timedelta(minutes=2)
        await session.execute(update(IdempotencyKey).values(claimed_at=past))
    assert (await refusal(world, "/gateways/gw-berlin/bundle", **once))[1] == "IDEMPOTENCY_ANSWER_LOST"
    assert (await keys(world))["state"] == "settled"


@pytest.mark.slow
async def test_owners_hear_of_each_bundle_and_an_old_proof_gets_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add_gateway("gw-berlin", free_port())
    async with signed_in(world, "olga", "owner") as olga, signed_in(world, "ada", "admin") as ada:
        assert (await ada.ask("POST", "/gateways/gw-berlin/bundle")).status_code == 200
        notice, *_ = (await olga.ask("GET", "/session/notices")).json()
        assert (notice["action"], notice["actor"]) == ("gateway.bundle", "ada")
        assert not [
            one for one in (await ada.ask("GET", "/session/notices")).json() if "bundle" in one["action"]
        ]
        monkeypatch.setattr("culvert_service.admins.permission.PROOF_LIFETIME", datetime.timedelta(0))
        refused = await ada.ask("POST", "/gateways/gw-berlin/bundle")
        assert (refused.status_code, refused.json()["reason"]) == (403, "PROOF_NEEDED")
    assert len(await world.rest("GET", "/audit?action=gateway.bundle")) == 1


async def test_a_switch_that_reports_no_kek_takes_the_next_kek_at_a_restart(
    world: World, switch: Switch
) -> None:
    await bundle(world)
    await asyncio.sleep(2 * kek_rotation.LOOK_SECONDS)
    assert (await keys(world))["state"] == "waiting"
    switch.silent = True
    await world.online("gw-berlin", wanted="offline")
    switch.silent = False
    await world.online("gw-berlin")
    assert (await keys(world))["state"] == "waiting"
    switch.silent = True
    await world.online("gw-berlin", wanted="offline")
    switch.forget()
    switch.silent = False
    await world.online("gw-berlin")
    await settled(world)
