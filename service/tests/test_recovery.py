"""A person whose authenticator is gone: recovery codes, and a new authenticator from an administrator."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
from culvert_proto import Reason, agent_pb2, error_pb2
from culvert_service.identity import recovery
from culvert_service.identity import repository as identity
from culvert_service.tunnels import repository

from .conftest import Device, World, make_csr, refused, until
from .switch import Switch

pytestmark = pytest.mark.slow


async def enrolled(world: World) -> tuple[Device, list[str]]:
    """A device, and its recovery codes."""
    key, csr = make_csr()
    body = {"token": (await world.invite()).token, "device_name": "laptop", "csr_pem": csr}
    answer: dict[str, Any] = (await world.anyone.post("/api/v1/enrolments", json=body)).json()
    world.devices.append(Device(key, answer))
    return world.devices[-1], answer["recovery_codes"]


async def test_a_recovery_code_works_once_and_a_wrong_one_is_a_guess(world: World) -> None:
    (device, codes), (other, others) = await enrolled(world), await enrolled(world)
    assert len(set(codes)) == recovery.COUNT
    await device.prove(codes[0])
    typed = agent_pb2.ProveCodeRequest(code=codes[1].replace("-", "").upper())
    assert (await device.call(device.stub.ProveCode(typed))).recovery_codes_left == recovery.COUNT - 2
    other_kind = await other.call(other.stub.ProveCode(agent_pb2.ProveCodeRequest(code=other.code())))
    assert not other_kind.HasField("recovery_codes_left")
    lines = await world.rest("GET", "/audit?action=device.prove")
    left: list[int | None] = [line["details"].get("recovery_codes_left") for line in lines]
    assert sorted(filter(None, left)) == [8, 9]
    for wrong in (codes[0], others[0], codes[1], "aaaa-aaaa-aaaa-aaaa", others[1]):
        assert (await refused(device.prove(wrong))).reason is Reason.CODE_WRONG
    for code in (codes[2], device.code()):
        assert (await refused(device.prove(code))).reason is Reason.CODE_LOCKED
    await other.prove(others[0])


async def test_a_new_authenticator_ends_the_old_one_and_what_it_opened(world: World, switch: Switch) -> None:
    device, codes = await enrolled(world)
    await device.prove()
    opened = await device.open()
    events = device.watch()
    await anext(events)
    old = device.code()
    made = await world.rest("POST", f"/devices/{device.id}/authenticator")
    assert await world.rest("GET", "/tunnels") == []
    async for event in events:
        if event.HasField("tunnel_closed"):
            assert event.tunnel_closed.tunnel_id == opened.tunnel.tunnel_id
            assert event.tunnel_closed.why.reason == error_pb2.REASON_CODE_NEEDED
            break
    for gone in (old, codes[0]):
        assert (await refused(device.prove(gone))).reason is Reason.CODE_WRONG
    assert (await refused(device.open())).reason is Reason.CODE_NEEDED
    device.use_authenticator(made["totp_uri"])
    await device.prove()
    await device.prove(made["recovery_codes"][0])
    await device.open()
    await world.rest("POST", f"/devices/{device.id}/revoke")
    refusal = await world.admin.post(f"/api/v1/devices/{device.id}/authenticator")
    assert (refusal.status_code, refusal.json()["reason"]) == (403, "DEVICE_REVOKED")


async def test_a_sweep_on_stale_rows_does_not_keep_a_tunnel_open(world: World, switch: Switch) -> None:
    """The sweep has read a device whose code counts, when an administrator takes the authenticator away."""
    device, _ = await enrolled(world)
    await device.prove()
    await device.open()
    async with world.database.begin() as session:
        await identity.doubt_tunnels(session, uuid.UUID(device.id))
        # In one transaction, so that the controller's own sweep sees none of it before its end.
        seen = await repository.list_due(session, datetime.datetime.now(datetime.UTC), None)
        await identity.forget_authenticator(session, uuid.UUID(device.id))
        await repository.permit(session, [(tunnel, tunnel.old_until) for tunnel in seen])
    assert seen
    await until(lambda: world.rest("GET", "/tunnels"), lambda tunnels: not tunnels)
