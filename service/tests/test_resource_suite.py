"""A resource's own suite and limits: granted to the device, and the same on the gateway."""

from __future__ import annotations

import pytest
from culvert_lab.free_port import free_port
from culvert_proto import Reason
from culvert_proto.contract import Suite

from .conftest import World
from .switch import Switch

pytestmark = pytest.mark.slow

NULL = Suite.NULL_HMAC_SHA_256_128.value
REKEY = {"soft_packets": 1000, "soft_bytes": 0, "soft_seconds": 60}


async def test_a_resource_has_a_suite_and_limits_of_its_own(world: World, switch: Switch) -> None:
    chosen = Suite.CHACHA20_POLY1305
    fields = {"address": "10.20.0.10", "suite": chosen.value, "rekey": REKEY}
    await world.add_resource("git", ["gw-berlin"], **fields)
    device = await world.enrol()
    await device.prove()
    opened = await device.open("git.corp.example")
    soft = opened.sas.outbound.soft
    assert (opened.sas.outbound.suite, soft.packets, soft.bytes, soft.seconds) == (
        chosen.number,
        1000,
        0,
        60,
    )
    renewed = await device.renew(opened.tunnel.tunnel_id, 1)
    assert (renewed.inbound.suite, len(renewed.inbound.key)) == (chosen.number, chosen.key_material)
    found = (await world.rest("GET", "/gateways/gw-berlin/entries"))["entries"]
    sads = [entry["params"] for entry in found if entry["table"] in ("sad_in", "sad_out")]
    assert {(sad["suite"], sad["soft_packets"], sad["soft_seconds"]) for sad in sads} == {
        (chosen.number, 1000, 60)
    }
    await device.open()
    shown = {it["fqdn"]: it["suite"] for it in await world.rest("GET", "/tunnels")}
    assert shown == {"git.corp.example": chosen.value, "wiki.corp.example": Suite.AES_GCM_256.value}


async def test_a_legacy_suite_needs_the_permission_of_every_gateway(world: World) -> None:
    await world.add_gateway("gw-berlin", free_port(), legacy_suites=[NULL])
    await world.add_gateway("gw-paris", free_port(), 2)
    body = {"name": "git", "fqdn": "git.corp.example", "address": "10.20.0.10", "owner": "bob", "suite": NULL}
    answer = await world.admin.post("/api/v1/resources", json=body | {"gateways": ["gw-berlin", "gw-paris"]})
    assert (answer.status_code, answer.json()["reason"]) == (422, Reason.SUITE_LEGACY.name)
    assert "gw-paris" in answer.json()["detail"]
    made = await world.rest("POST", "/resources", body | {"gateways": ["gw-berlin"]})
    assert made["suite"] == NULL
