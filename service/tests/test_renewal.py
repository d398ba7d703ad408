"""A device's next certificate: both are good until the next is shown, and none is before or after its time."""

from __future__ import annotations

import datetime
from typing import Any

import culvert_db
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_proto import Reason, agent_pb2
from sqlalchemy import update

from .conftest import Device, World, authority, make_csr, refused
from .switch import Switch

pytestmark = pytest.mark.slow


async def renew(device: Device, csr: str) -> agent_pb2.RenewCertificateResponse:
    request = agent_pb2.RenewCertificateRequest(csr_pem=csr)
    return await device.call(device.stub.RenewCertificate(request))


async def renewed(world: World, device: Device) -> Device:
    """The same device with its next certificate, which it has not shown yet."""
    key, csr = make_csr()
    answer = await renew(device, csr)
    facts: dict[str, Any] = {
        "device_id": device.id,
        "totp_uri": device.totp_uri,
        "ca_pem": answer.ca_pem,
        "certificate_pem": answer.certificate_pem,
        "agent_address": world.settings.agent_address,
    }
    world.devices.append(Device(key, facts))
    return world.devices[-1]


async def test_tunnels_and_code_outlive_the_certificate(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    opened = await device.open()
    after = await renewed(world, device)
    # Either is good until the next one watches.
    await device.open()
    again = await after.open()
    assert again.tunnel.tunnel_id == opened.tunnel.tunnel_id
    await anext(after.watch())
    assert (await refused(device.open())).reason is Reason.CERTIFICATE_UNKNOWN
    await after.renew(opened.tunnel.tunnel_id, (await after.open()).sas.generation)
    [shown] = await world.rest("GET", "/devices")
    assert (shown["id"], shown["state"]) == (device.id, "pending")


async def test_neither_a_lost_answer_nor_a_bad_request_locks_out(world: World) -> None:
    device = await world.enrol()
    lost = await renewed(world, device)
    after = await renewed(world, device)
    for bad in (make_csr(ec.SECP384R1())[1], "nonsense", ""):
        assert (await refused(renew(device, bad))).reason is Reason.CSR_INVALID
    assert (await refused(anext(lost.watch()))).reason is Reason.CERTIFICATE_UNKNOWN
    await anext(after.watch())
    assert (await refused(anext(device.watch()))).reason is Reason.CERTIFICATE_UNKNOWN


async def test_a_revocation_ends_both(world: World) -> None:
    device = await world.enrol()
    after = await renewed(world, device)
    await world.rest("POST", f"/devices/{device.id}/revoke")
    for one in (device, after):
        assert (await refused(anext(one.watch()))).reason is Reason.DEVICE_REVOKED
        assert (await refused(renew(one, make_csr()[1]))).reason is Reason.DEVICE_REVOKED


async def test_the_next_certificate_lasts_longer_than_the_first(world: World) -> None:
    device = await world.enrol()
    key, csr = make_csr()
    certificate = x509.load_pem_x509_certificate((await renew(device, csr)).certificate_pem.encode())
    assert certificate.public_key() == key.public_key()
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority(world, "device").pem))
    after = await renewed(world, device)
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    async with world.database.begin() as session:
        await session.execute(update(culvert_db.Device).values(certificate_expires_at=past))
    assert (await refused(renew(device, csr))).reason is Reason.CERTIFICATE_EXPIRED
    # The device slept from the renewal until its first certificate had expired.
    await anext(after.watch())
    await after.prove()
