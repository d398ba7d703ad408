"""Every suite from the administrator to the wire: registered, granted, opened and sealed by sluice."""

from __future__ import annotations

from pathlib import Path

import pytest
from culvert_ipsec.esp import Inbound, Outbound
from culvert_lab.free_port import free_port
from culvert_proto import Reason
from culvert_proto.contract import Suite
from culvert_proto.sa import inner_length
from culvert_service.tunnels.roaming import Peer

from .conftest import World
from .gateway_process import needs_root, sluice, unpack
from .wire import Wires, frame, next_udp, udp

pytestmark = pytest.mark.slow

NULL = Suite.NULL_HMAC_SHA_256_128.value


@needs_root
@pytest.mark.parametrize("suite", Suite)
async def test_a_packet_goes_and_comes_back(world: World, wires: Wires, tmp_path: Path, suite: Suite) -> None:
    name, legacy, port = suite.value, [suite.value] if suite.legacy else [], free_port()
    shown = await world.add_gateway("gw-berlin", port, suite=name, legacy_suites=legacy)
    assert (shown["suite"], shown["legacy"]) == (name, suite.legacy)
    await world.add_wiki(["gw-berlin"])
    bundle = await world.rest("POST", "/gateways/gw-berlin/bundle")
    unpack(bundle, tmp_path / "gateway")
    allowed = [word for one in bundle["legacy_suites"] for word in ("--allow-suite", one)]
    async with sluice(tmp_path / "gateway", wires.names, port, *allowed):
        await world.online("gw-berlin")
        device = await world.enrol()
        await device.prove()
        opened = await device.open()
        assert opened.sas.inbound.suite == suite.number
        assert opened.tunnel.inner_mtu == inner_length(1500, 4, suite)
        (tunnel,) = await world.rest("GET", "/tunnels")
        assert (tunnel["suite"], tunnel["legacy"]) == (name, suite.legacy)

        into = Outbound(opened.sas.outbound.spi, name, opened.sas.outbound.key, allow_legacy=suite.legacy)
        out = Inbound(opened.sas.inbound.spi, name, opened.sas.inbound.key, allow_legacy=suite.legacy)
        here, gateway = Peer("203.0.113.10", 4500), Peer("198.51.100.1", 4500)
        inner, wiki = Peer("10.99.1.1", 40000), Peer("10.20.0.10", 80)
        sealed = udp(here, gateway, into.seal(udp(inner, wiki, b"asks")))
        await wires.send(wires.wan, frame("02:00:00:00:01:01", sealed))
        assert await next_udp(wires.lan) == (wiki, b"asks")
        await wires.send(wires.lan, frame("02:00:00:00:02:01", udp(wiki, inner, b"says")))
        where, packet = await next_udp(wires.wan)
        assert where == here
        assert out.open(packet).endswith(b"says")


async def test_a_legacy_suite_has_to_be_turned_on(world: World) -> None:
    lan = {"port": 2, "mac": "02:00:00:00:02:01", "address": "10.20.0.1", "prefix": 16}
    wan = {"port": 1, "mac": "02:00:00:00:01:01", "next_hop_mac": "02:00:00:00:01:02"}
    body = {"name": "gw", "address": "198.51.100.2", "p4runtime": "127.0.0.1:9", "pool": "10.99.0.0/24"}
    body |= {"wan": wan, "lan": lan}
    answer = await world.admin.post("/api/v1/gateways", json=body | {"suite": NULL})
    problem = answer.json()
    assert (answer.status_code, problem["reason"]) == (422, Reason.SUITE_LEGACY.name)
    assert "legacy_suites" in problem["remedy"]
    for wrong in ({"suite": "rot13"}, {"legacy_suites": ["aes-gcm-256"]}):
        answer = await world.admin.post("/api/v1/gateways", json=body | wrong)
        assert (answer.status_code, answer.json()["reason"]) == (422, Reason.REQUEST_INVALID.name)
    made = await world.rest("POST", "/gateways", body | {"suite": NULL, "legacy_suites": [NULL]})
    assert (made["suite"], made["legacy"], made["legacy_suites"]) == (NULL, True, [NULL])
