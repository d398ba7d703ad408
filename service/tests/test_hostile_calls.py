"""A hostile device's calls end in typed refusals, and the next honest call works."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_service.controller.lifecycle import Controller

from .conftest import PATIENCE_SECONDS, Device, World, refused, settings_in
from .switch import Switch
from .test_faults import consistent, opens

pytestmark = pytest.mark.slow

SERVICE = "/culvert.agent.v1.AgentService"
CALLS = ("OpenTunnel", "RenewSa", "ActivateSa", "SetPathMtu", "CloseTunnel", "ProveCode", "RenewCertificate")
TOO_LONG = 1 << 20
NOBODYS = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


async def answered(device: Device, call: str, request: bytes) -> grpc.StatusCode:
    channel: Any = device.channel
    try:
        await channel.unary_unary(f"{SERVICE}/{call}")(request)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_malformed_messages_are_refused_without_harm(world: World, device: Device) -> None:
    tunnel_id = (await device.open()).tunnel.tunnel_id
    for call in CALLS:
        for garbage in (b"\xff" * 64, secrets.token_bytes(1000), b"\x0a\x7f", b"\x0a\x02\xc3\x28"):
            assert await answered(device, call, garbage) is not grpc.StatusCode.OK
        assert await answered(device, call, bytes(TOO_LONG + 1)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await answered(device, "Absent", b"") is grpc.StatusCode.UNIMPLEMENTED
    await device.renew(tunnel_id, 1)


async def test_hostile_texts_get_typed_refusals(world: World, device: Device) -> None:
    texts = (
        "",
        "\0",
        "wiki\0.corp.example",
        "x" * 100_000,
        "'; --",
        "..",
        "\u202e",
        "*.corp.example",
        "é.corp.example",
    )
    opened = (await device.open()).tunnel
    stub = device.stub
    requests: list[tuple[Any, Any]] = [
        *((stub.OpenTunnel, agent_pb2.OpenTunnelRequest(fqdn=text, udp_port=4500)) for text in texts),
        *(
            (
                stub.OpenTunnel,
                agent_pb2.OpenTunnelRequest(fqdn="nobody.corp.example", gateway=text, udp_port=4500),
            )
            for text in texts
        ),
        *(
            (stub.OpenTunnel, agent_pb2.OpenTunnelRequest(fqdn="a.b", udp_port=port))
            for port in (0, 65536, 2**32 - 1)
        ),
        *((stub.ProveCode, agent_pb2.ProveCodeRequest(code=text)) for text in texts[:4]),
        *((stub.RenewCertificate, agent_pb2.RenewCertificateRequest(csr_pem=text)) for text in texts),
    ]
    for text in (*texts, NOBODYS):
        reason = cast("Any", int(Reason.CLOSED_BY_USER))
        requests += [
            (stub.RenewSa, agent_pb2.RenewSaRequest(tunnel_id=text, generation=1)),
            (stub.ActivateSa, agent_pb2.ActivateSaRequest(tunnel_id=text, generation=1)),
            (stub.SetPathMtu, agent_pb2.SetPathMtuRequest(tunnel_id=text, mtu=1400)),
        ]
        if text != NOBODYS:
            requests.append((stub.CloseTunnel, agent_pb2.CloseTunnelRequest(tunnel_id=text, reason=reason)))
    for generation in (0, 2, 2**31, 2**32 - 1):
        tunnel_id = opened.tunnel_id
        requests += [
            (stub.RenewSa, agent_pb2.RenewSaRequest(tunnel_id=tunnel_id, generation=generation)),
            (stub.ActivateSa, agent_pb2.ActivateSaRequest(tunnel_id=tunnel_id, generation=generation)),
        ]
    for call, request in requests:
        error = await refused(device.call(call(request)))
        assert error.reason not in (Reason.INTERNAL, Reason.TIMEOUT), (request, error)
    for posture in ({"os": "\0"}, {"\0": "x"}, {"os": "x" * 100_000}, {f"fact{n}": "x" for n in range(1000)}):
        reason = (await refused(anext(device.watch(posture)))).reason
        assert reason in (Reason.REQUEST_INVALID, Reason.BODY_TOO_LARGE)
    assert [one["id"] for one in await world.rest("GET", "/tunnels")] == [opened.tunnel_id]


async def test_a_flood_of_calls_leaves_one_tunnel_and_lets_another_device_in(
    world: World, device: Device
) -> None:
    other = await world.enrol()
    await other.prove()
    flood = [
        asyncio.create_task(
            device.call(device.stub.OpenTunnel(agent_pb2.OpenTunnelRequest(fqdn=fqdn, udp_port=4500)))
        )
        for number in range(100)
        for fqdn in ("wiki.corp.example", f"n{number}.corp.example")
    ]
    # The switch of this test shares its processor with the flood: it may seem to be gone for a moment.
    assert (await opens(other)).tunnel.gateway.name == "gw-berlin"
    ends = await asyncio.gather(*flood, return_exceptions=True)
    assert all(isinstance(it, CulvertError | agent_pb2.OpenTunnelResponse) for it in ends)
    reasons = {it.reason for it in ends if isinstance(it, CulvertError)}
    limited = Reason.RATE_LIMITED
    assert Reason.NAME_UNKNOWN in reasons <= {Reason.NAME_UNKNOWN, Reason.GATEWAY_DOWN, limited}
    await opens(device)
    await consistent(world, 2)


async def test_a_revoked_device_hears_why_and_then_fails_in_the_handshake(world: World) -> None:
    device, other = await world.enrol(), await world.enrol()
    await device.prove()
    await world.rest("POST", f"/devices/{device.id}/revoke")
    # This call uses the open connection.
    assert (await refused(device.open())).reason is Reason.DEVICE_REVOKED
    reasons: set[Reason] = set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while reasons != {Reason.DEVICE_REVOKED, Reason.CONTROLLER_UNREACHABLE}:
            await device.channel.close()
            device.connect()
            reasons.add((await refused(device.open())).reason)
    assert (await refused(other.open())).reason is not Reason.CONTROLLER_UNREACHABLE


async def test_other_controllers_refuse_a_revoked_certificate_too(
    world: World, tmp_path: Path, database_url: str
) -> None:
    device = await world.enrol()
    second = settings_in(
        tmp_path, database_url=database_url, controller_name="second", state_dir=world.settings.state_dir
    )
    async with Controller(second, world.database):
        there = device.at(second.agent_address)
        assert (await refused(there.open())).reason is not Reason.CONTROLLER_UNREACHABLE
        await world.rest("POST", f"/devices/{device.id}/revoke")
        async with asyncio.timeout(PATIENCE_SECONDS):
            reason = None
            while reason is not Reason.CONTROLLER_UNREACHABLE:
                await there.channel.close()
                there.connect()
                reason = (await refused(there.open())).reason
        await there.channel.close()
