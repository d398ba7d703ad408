"""Gateways by weight: each device has one order of them, and each gateway its part of the devices."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import replace

import pytest
from culvert_proto import Reason, agent_pb2
from culvert_service.decision.decision import Decision, GatewayFact, Permit
from culvert_service.decision.nearness import Distance
from culvert_service.resources.schemas import ResourceIn
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from .conftest import World
from .switch import Switch
from .test_changes import change
from .test_decision import ANYONE, NOW, WIKI, asker, decide
from .test_failover import spare
from .test_targets import RESOURCE

BERLIN, PARIS, ROME = (
    GatewayFact(name, online=True, weight=weight)
    for name, weight in (("berlin", 3), ("paris", 1), ("rome", 0))
)


def decided(device: uuid.UUID, *gateways: GatewayFact, pinned: str = "") -> Decision:
    return decide(replace(asker(), device_id=device), WIKI, ANYONE, gateways, pinned, NOW)


def order(device: uuid.UUID, *gateways: GatewayFact, pinned: str = "") -> tuple[str, ...]:
    verdict = decided(device, *gateways, pinned=pinned).verdict
    return verdict.gateways if isinstance(verdict, Permit) else ()


def test_each_gateway_has_its_part_of_many_devices() -> None:
    devices = [uuid.UUID(int=number) for number in range(4000)]
    first = Counter(order(device, PARIS, ROME, BERLIN)[0] for device in devices)
    assert first.keys() == {"berlin", "paris"}
    assert 2850 < first["berlin"] < 3150


@given(st.uuids())
def test_a_devices_gateway_order_depends_on_no_other_device(device: uuid.UUID) -> None:
    whole = order(device, BERLIN, PARIS, ROME)
    assert whole == order(device, ROME, PARIS, BERLIN)
    assert whole[2] == "rome"
    for gone in (BERLIN, PARIS):
        left = [replace(it, online=it is not gone) for it in (BERLIN, PARIS, ROME)]
        assert order(device, *left) == tuple(name for name in whole if name != gone.name)
    assert order(device, BERLIN, PARIS, ROME, pinned="rome") == ("rome",)


def test_the_steps_tell_the_weights_in_the_devices_order() -> None:
    device = uuid.UUID(int=1)
    steps = [step for step in decided(device, PARIS, BERLIN).steps if step.weight is not None]
    assert tuple(step.subject for step in steps) == order(device, PARIS, BERLIN)
    assert {step.subject: step.weight for step in steps} == {"berlin": 3, "paris": 1}
    assert decided(device, GatewayFact("gw", online=True)).steps[-1].weight is None


@pytest.mark.parametrize("weights", [{"rome": 1}, {"gw": 0}, {"gw": 1, "rome": 1}, {"gw": -1}, {"gw": 1001}])
def test_invalid_weights_are_refused(weights: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        ResourceIn.model_validate(RESOURCE | {"address": "10.20.0.10", "weights": weights})


@pytest.mark.parametrize(
    ("berlin", "paris", "first"),
    [
        (Distance(0.050), Distance(0.010), {"paris"}),
        (Distance(0.010), Distance(0.050), {"berlin"}),
        (Distance(0.0175), Distance(0.010), {"berlin", "paris"}),
        (Distance(0.018), Distance(0.010), {"paris"}),
        # A gateway in use is kept at a greater distance than it is chosen at.
        (Distance(0.024, in_use=True), Distance(0.010), {"berlin", "paris"}),
        (Distance(0.026, in_use=True), Distance(0.010), {"paris"}),
        (Distance(0.001), Distance(0.005), {"berlin", "paris"}),
        # A gateway that did not answer comes last.
        (None, Distance(0.9), {"paris"}),
        (None, None, {"berlin", "paris"}),
    ],
)
def test_near_gateways_come_first_and_share_by_weight(
    berlin: Distance | None, paris: Distance | None, first: set[str]
) -> None:
    known = replace(BERLIN, distance=berlin), replace(PARIS, distance=paris)
    # Never by nearness alone: its weight says that it is for when there is no other.
    orders = [order(uuid.UUID(int=it), *known, replace(ROME, distance=Distance(1e-6))) for it in range(100)]
    assert {it[0] for it in orders} == first
    assert all(len(it) == 3 and it[2] == "rome" for it in orders)


def test_an_offline_nearest_gateway_does_not_count_for_distance() -> None:
    gone = GatewayFact("gone", online=False, weight=1, distance=Distance(0.001))
    near, far = replace(BERLIN, distance=Distance(0.020)), replace(PARIS, distance=Distance(0.080))
    assert {order(uuid.UUID(int=it), far, near, gone) for it in range(20)} == {("berlin", "paris")}


@pytest.mark.slow
async def test_the_gateway_with_the_shorter_round_trip_is_used_and_kept(world: World, switch: Switch) -> None:
    def found(berlin_ms: int, paris_ms: int) -> list[agent_pb2.GatewayDistance]:
        return [
            agent_pb2.GatewayDistance(name=name, rtt_us=ms * 1000)
            for name, ms in (("gw-berlin", berlin_ms), ("gw-paris", paris_ms))
        ]

    async with spare(world):
        await change(world, "/resources/wiki", weights={"gw-berlin": 1, "gw-paris": 1})
        device, other = await world.enrol(), await world.enrol()
        await device.prove()
        await other.prove()
        opened = await device.open(distances=found(40, 10))
        assert opened.tunnel.gateway.name == "gw-paris"
        assert (await other.open(distances=found(10, 40))).tunnel.gateway.name == "gw-berlin"
        # A tunnel that is open is not moved for a round trip, nor does one overrule what the person chose.
        assert (await device.open(distances=found(10, 40))).tunnel.tunnel_id == opened.tunnel.tunnel_id
        await device.close(opened.tunnel.tunnel_id)
        assert (
            await device.open(gateway="gw-paris", distances=found(10, 40))
        ).tunnel.gateway.name == "gw-paris"


@pytest.mark.slow
async def test_tunnels_open_by_weight_and_stay_when_it_changes(world: World, switch: Switch) -> None:
    async with spare(world) as paris:
        made = await change(world, "/resources/wiki", weights={"gw-berlin": 0, "gw-paris": 5})
        assert (made["gateways"], made["weights"]) == (
            ["gw-berlin", "gw-paris"],
            {"gw-berlin": 0, "gw-paris": 5},
        )
        device = await world.enrol()
        await device.prove()
        opened = await device.open()
        assert opened.tunnel.gateway.name == "gw-paris"
        [trace] = await world.rest("GET", "/access?user=alice&name=wiki.corp.example")
        assert trace["gateways"] == ["gw-paris", "gw-berlin"]
        steps = [(it["subject"], it["weight"]) for it in trace["steps"] if it["check"] == "gateway"]
        assert steps == [("gw-paris", 5), ("gw-berlin", 0)]
        await change(world, "/resources/wiki", weights={"gw-berlin": 1, "gw-paris": 0})
        assert (await device.open()).tunnel.tunnel_id == opened.tunnel.tunnel_id
        other = await world.enrol()
        await other.prove()
        assert (await other.open()).tunnel.gateway.name == "gw-berlin"
        await change(world, "/resources/wiki", weights={})
        paris.silent = True
        await world.online("gw-paris", wanted="offline")
        assert (await device.open()).tunnel.gateway.name == "gw-berlin"
        [trace, _] = await world.rest("GET", "/access?user=alice&name=wiki.corp.example&gateway=gw-paris")
        assert (trace["steps"][-2]["reason"], trace["verdict"]) == (Reason.GATEWAY_DOWN.name, "permit")
