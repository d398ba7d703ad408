"""From invitation to code to revocation, over the real APIs."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import culvert_db
import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from culvert_db import Invitation
from culvert_lab.free_port import free_port
from culvert_proto import Reason, agent_pb2, agent_pb2_grpc
from culvert_proto.invitation_link import parse_invitation
from sqlalchemy import update

from .conftest import Device, World, authority, make_csr, refused, running, settings_in

pytestmark = pytest.mark.slow


async def enrol(world: World, token: str, csr: str) -> tuple[int, str]:
    body = {"token": token, "device_name": "laptop", "csr_pem": csr}
    answer = await world.anyone.post("/api/v1/enrolments", json=body)
    return answer.status_code, answer.json().get("reason", "")


async def test_an_invitation_names_the_controller_and_its_ca(world: World) -> None:
    made = parse_invitation((await world.rest("POST", "/invitations", {"user": "alice"}))["link"])
    assert made.controller == world.settings.rest_url
    pem = (await world.anyone.get("/api/v1/ca")).content
    assert made.ca_sha256 == authority(world, "infrastructure").fingerprint
    assert pem == authority(world, "infrastructure").pem


async def test_an_invitation_leads_devices_past_a_proxy_that_ends_tls(
    tmp_path: Path, database_url: str
) -> None:
    direct = "https://enrol.corp.example:8444"
    settings = settings_in(tmp_path, database_url=database_url, public_enrolment_url=direct)
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        link = str((await world.rest("POST", "/invitations", {"user": "alice"}))["link"])
        assert link.startswith(f"{settings.rest_url}/enroll#")
        assert parse_invitation(link).controller == direct


async def test_a_controller_at_ipv6_addresses_enrols_and_takes_codes(
    tmp_path: Path, database_url: str
) -> None:
    listen = {f"{api}_listen": f"[::1]:{free_port()}" for api in ("rest", "agent")}
    async with running(settings_in(tmp_path, database_url=database_url, **listen)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        device = await world.enrol()
        assert await device.prove() > 0


async def test_an_invitation_works_once(world: World) -> None:
    token = (await world.invite()).token
    assert (await enrol(world, token, make_csr()[1]))[0] == 201
    assert await enrol(world, token, make_csr()[1]) == (403, "INVITATION_INVALID")
    assert await enrol(world, "guess", make_csr()[1]) == (403, "INVITATION_INVALID")


async def test_an_open_invitation_is_listed_without_its_token_and_withdrawn(world: World) -> None:
    spent, kept, gone = [await world.invite() for _ in range(3)]
    assert (await enrol(world, spent.token, make_csr()[1]))[0] == 201
    shown = await world.rest("GET", "/invitations?q=ali")
    assert [(one["user"], one["invited_by"]) for one in shown] == [("alice", "admin-token")] * 2
    assert not {kept.token, gone.token}.intersection(str(shown).split("'"))
    withdraw = f"/api/v1/invitations/{shown[1]['id']}"
    reader = (await world.rest("POST", "/tokens", {"name": "reader", "scopes": ["read"]}))["token"]
    bearer = {"Authorization": f"Bearer {reader}"}
    assert (await world.anyone.delete(withdraw, headers=bearer)).status_code == 403
    assert (await world.admin.delete(withdraw)).status_code == 204
    assert (await world.admin.delete(withdraw)).status_code == 404
    assert await enrol(world, gone.token, make_csr()[1]) == (403, "INVITATION_INVALID")
    assert [one["id"] for one in await world.rest("GET", "/invitations")] == [shown[0]["id"]]
    (line,) = await world.rest("GET", "/audit?action=user.withdraw-invitation&outcome=done")
    assert (line["actor"], line["object"]) == ("admin-token", "user/alice")
    assert line["details"] == {"invitation": shown[1]["id"]}
    assert (await enrol(world, kept.token, make_csr()[1]))[0] == 201


async def test_an_invitation_expires(world: World) -> None:
    token = (await world.invite()).token
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    async with world.database.begin() as session:
        await session.execute(update(Invitation).values(expires_at=past))
    assert await enrol(world, token, make_csr()[1]) == (403, "INVITATION_INVALID")


async def test_an_invitation_enrols_only_one_of_many_concurrent_computers(world: World) -> None:
    token = (await world.invite()).token
    answers = await asyncio.gather(*(enrol(world, token, make_csr()[1]) for _ in range(8)))
    assert sorted(status for status, _ in answers) == [201] + [403] * 7
    assert len(await world.rest("GET", "/devices")) == 1


async def test_an_invitation_ends_with_its_person(world: World) -> None:
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    token = (await world.invite("bob")).token
    await world.rest("DELETE", "/users/bob")
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    assert await enrol(world, token, make_csr()[1]) == (403, "INVITATION_INVALID")


async def test_only_the_key_of_a_signing_request_is_certified(world: World) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName("culvert.corp.example")])
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "culvert.corp.example")]))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = asked.public_bytes(serialization.Encoding.PEM).decode()
    body = {"token": (await world.invite()).token, "device_name": "laptop", "csr_pem": pem}
    made = (await world.anyone.post("/api/v1/enrolments", json=body)).json()
    certificate = x509.load_pem_x509_certificate(made["certificate_pem"].encode())
    names_of = [one.value for one in certificate.subject]
    assert names_of == [made["device_id"]]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    text = str([one.value for one in certificate.extensions])
    assert "localhost" not in text
    assert "corp.example" not in text


async def test_a_bad_request_does_not_spend_the_invitation(world: World) -> None:
    token = (await world.invite()).token
    _, good = make_csr()
    for bad in (make_csr(ec.SECP384R1())[1], "nonsense", good.replace("A", "B", 40)):
        assert await enrol(world, token, bad) == (422, "CSR_INVALID")
    assert (await enrol(world, token, good))[0] == 201


async def test_a_code_works_once(world: World) -> None:
    device = await world.enrol()
    code = device.code()
    await device.prove(code)
    assert (await refused(device.prove(code))).reason is Reason.CODE_USED
    await device.prove()


async def test_five_wrong_codes_lock_the_device_for_a_while(world: World) -> None:
    device, other = await world.enrol(), await world.enrol()
    wrong = f"{(int(device.code()) + 1) % 10**6:06}"
    for _ in range(5):
        assert (await refused(device.prove(wrong))).reason is Reason.CODE_WRONG
    locked = await refused(device.prove())
    assert locked.reason is Reason.CODE_LOCKED
    assert "60" in locked.remedy or "59" in locked.remedy
    await other.prove()


async def test_a_certificate_that_the_controller_did_not_store_is_unknown(world: World) -> None:
    device = await world.enrol()
    key = ec.generate_private_key(ec.SECP256R1())
    forged = authority(world, "device").issue_device(key.public_key(), device.id)
    answer = {
        "device_id": device.id,
        "totp_uri": device.totp_uri,
        "ca_pem": authority(world, "infrastructure").pem.decode(),
        "certificate_pem": forged.pem.decode(),
        "agent_address": world.settings.agent_address,
    }
    stranger = Device(key, answer)
    world.devices.append(stranger)
    for call in (stranger.open(), stranger.prove(), stranger.renew(device.id, 1), anext(stranger.watch())):
        assert (await refused(call)).reason is Reason.CERTIFICATE_UNKNOWN


async def test_no_certificate_or_one_of_the_wrong_ca_gets_no_connection(world: World) -> None:
    ca = authority(world, "infrastructure")
    server = ca.issue_p4runtime_client()
    for credentials in (
        grpc.ssl_channel_credentials(ca.pem),
        grpc.ssl_channel_credentials(ca.pem, server.key_pem, server.certificate.pem),
    ):
        async with grpc.aio.secure_channel(world.settings.agent_address, credentials) as channel:
            stub = agent_pb2_grpc.AgentServiceStub(channel)
            request = agent_pb2.OpenTunnelRequest(fqdn="wiki.corp.example", udp_port=4500)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stub.OpenTunnel(request)
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_device_certificate_is_for_clients_for_fourteen_days(world: World) -> None:
    key, csr = make_csr()
    body = {"token": (await world.invite()).token, "device_name": "laptop", "csr_pem": csr}
    answer = (await world.anyone.post("/api/v1/enrolments", json=body)).json()
    certificate = x509.load_pem_x509_certificate(answer["certificate_pem"].encode())
    assert certificate.public_key() == key.public_key()
    lifetime = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=13, hours=23) < lifetime <= datetime.timedelta(days=14)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority(world, "device").pem))
    assert answer["ca_pem"].encode() == authority(world, "infrastructure").pem
    assert certificate.public_bytes(serialization.Encoding.PEM) == answer["certificate_pem"].encode()


async def test_an_unknown_device_cannot_be_revoked(world: World) -> None:
    answer = await world.admin.post("/api/v1/devices/7a0f0e6a-5b7e-4d0c-9a52-2f6c5a3c2d11/revoke")
    assert (answer.status_code, answer.json()["reason"]) == (404, "NOT_FOUND")


async def test_a_certificate_that_expires_on_an_open_connection_is_told_so(world: World) -> None:
    device = await world.enrol()
    await device.prove()
    async with world.database.begin() as session:
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
        await session.execute(update(culvert_db.Device).values(certificate_expires_at=past))
    assert (await refused(device.open())).reason is Reason.CERTIFICATE_EXPIRED
