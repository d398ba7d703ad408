"""Tunnels between gateways that carry what resources' profiles say."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import httpx
import pytest
from culvert_lab.free_port import free_port
from culvert_proto.contract import Suite
from culvert_proto.sa import Limits
from culvert_service.gateways.selector import Selector
from culvert_service.site_tunnels.flow import Flow, Place, flows, limits_of, suite_of
from hypothesis import given
from hypothesis import strategies as st

from . import two_sites
from .conftest import World, until
from .gateway_process import needs_root
from .test_changes import change, put
from .two_sites import BERLIN, NUMBERS, PARIS, Sites, described, host

TCP, UDP = 6, 17
WEB, MAIL = Selector("10.2.0.10/32", TCP, (443, 443)), Selector("10.1.0.25/32", TCP, (25, 25))
SELECTORS = st.builds(
    Selector,
    st.sampled_from(["10.1.0.0/24", "10.1.0.7/32", "10.2.0.0/16", "fd00::/64"]),
    st.sampled_from([None, TCP, UDP]),
    st.sampled_from([(0, 65535), (443, 443), (80, 90)]),
)
PLACES = st.builds(
    Place, st.lists(SELECTORS, max_size=3).map(tuple), st.lists(SELECTORS, max_size=3).map(tuple)
)


def test_hosts_reach_a_resource_of_the_other_site_as_its_profile_says() -> None:
    lan = Selector("10.1.0.0/24")
    assert flows(Place((lan,)), Place((), (WEB,))) == (Flow(lan, WEB),)
    assert flows(Place((Selector("10.1.0.0/24", UDP),)), Place((), (WEB,))) == ()


def test_two_resources_reach_each_other_at_their_own_ports() -> None:
    both = flows(Place((), (MAIL,)), Place((), (WEB,)))
    assert both == (Flow(Selector(MAIL.prefix), WEB), Flow(MAIL, Selector(WEB.prefix)))


@given(PLACES, PLACES)
def test_both_gateways_have_the_same_flows(near: Place, far: Place) -> None:
    back = {Flow(flow.far, flow.near) for flow in flows(far, near)}
    assert set(flows(near, far)) == back
    # A resource is never reached at what its profile does not name.
    for flow in flows(near, far):
        of_near = dataclasses.replace(near, targets=(*near.targets, *near.resources))
        assert flow.near in of_near.targets or flow.far in (*far.targets, *far.resources)


def test_suite_and_limits_are_the_profiles_unless_others_are_asked_for() -> None:
    assert suite_of(None, []) is suite_of(None, [None]) is Suite.AES_GCM_256
    assert suite_of(None, ["aes-gcm-128", None]) is Suite.AES_GCM_128
    assert suite_of("aes-gcm-256", ["aes-gcm-128", "chacha20-poly1305"]) is Suite.AES_GCM_256
    with pytest.raises(ValueError, match="aes-gcm-128 and chacha20-poly1305"):
        suite_of(None, ["chacha20-poly1305", "aes-gcm-128"])
    profiles = [Limits(0, 2**36, 3600), Limits(500, 0, 600)]
    assert limits_of(None, profiles) == Limits(500, 2**36, 600)
    assert limits_of(Limits(seconds=60), profiles) == Limits(seconds=60)
    assert limits_of(None, []) == Limits(0, 2**36, 3600)


@pytest.fixture
async def gateways(world: World, tmp_path: Path) -> None:
    """Neither runs."""
    ports = {name: free_port() for name in NUMBERS}
    await two_sites.register(world, tmp_path, Sites(tmp_path, ports, {}, {}))


def carrying(*resources: str, name: str = "berlin-paris") -> dict[str, Any]:
    """From anywhere in Berlin."""
    body = described(name)
    body["ends"][1] = {"gateway": PARIS, "resources": list(resources)}
    return body


async def add(world: World, name: str, *numbers: int, gateway: str = PARIS, **fields: object) -> None:
    targets = [ports(*numbers) | {"prefix": host(gateway)}]
    await world.add_resource(name, [gateway], targets=targets, users=[], **fields)


async def post(world: World, body: object) -> httpx.Response:
    return await world.admin.post("/api/v1/site-tunnels", json=body)


def ports(*numbers: int | str) -> dict[str, Any]:
    return {"prefix": host(PARIS), "protocol": "udp", "ports": list(numbers)}


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]


@pytest.mark.slow
@pytest.mark.usefixtures("gateways")
async def test_a_tunnel_is_as_its_resources_are(world: World) -> None:
    await add(world, "web", 443, suite="aes-gcm-128", rekey={"soft_packets": 9})
    made = await post(world, carrying("web"))
    assert made.status_code == 201, made.text
    shown = made.json()
    assert (shown["suite"], shown["effective_suite"], shown["rekey"]) == (None, "aes-gcm-128", None)
    assert shown["effective_rekey"] == {"soft_packets": 9, "soft_bytes": 2**36, "soft_seconds": 3600}
    [_, paris] = shown["ends"]
    assert (paris["targets"], paris["resources"]) == ([], ["web"])
    assert [(it["prefix"], it["ports"]) for it in paris["profiles"]] == [("10.2.0.10/32", ["443"])]
    # A PUT with an old ETag does not overwrite the profile's change.
    await change_profile(world, "web", suite="chacha20-poly1305")
    body = {name: it for name, it in carrying("web").items() if name != "name"}
    path = "/api/v1/site-tunnels/berlin-paris"
    stale = await world.admin.put(path, json=body, headers={"If-Match": made.headers["etag"]})
    assert refused(stale) == (412, "VERSION_STALE")
    assert (await world.rest("GET", "/site-tunnels/berlin-paris"))["effective_suite"] == "chacha20-poly1305"
    [line] = await world.rest("GET", "/audit?action=site-tunnel.follow")
    assert line["details"]["resource"] == "web"
    # A change that does not concern the site tunnel leaves it alone.
    before = (await world.admin.get(path)).headers["etag"]
    await change_profile(world, "web", owner="carol@corp.example", idle_seconds=60)
    assert (await world.admin.get(path)).headers["etag"] == before


@pytest.mark.slow
@pytest.mark.usefixtures("gateways")
async def test_a_resource_that_a_tunnel_carries_stays_fit_for_it(world: World) -> None:
    await add(world, "web", 443)
    await add(world, "mail", 25, suite="aes-gcm-128")
    assert (await post(world, carrying("web", "mail"))).status_code == 201
    assert (await post(world, carrying("web", name="again"))).json()["reason"] == "ALREADY_EXISTS"
    assert (await world.rest("GET", "/resources/web/use"))["site_tunnels"] == ["berlin-paris"]
    deleted = await world.admin.delete("/api/v1/resources/web")
    assert refused(deleted) == (409, "RESOURCE_IN_USE")
    assert "berlin-paris carries the resource web" in deleted.json()["detail"]
    for changes, why in (
        ({"suite": "chacha20-poly1305"}, "ask for aes-gcm-128 and chacha20-poly1305"),
        ({"gateways": [BERLIN], "targets": [{"prefix": host(BERLIN)}]}, "gw-paris does not serve"),
        ({"targets": [ports(*range(first, first + 16)) for first in range(101, 165, 16)]}, "at most 64"),
    ):
        answer = await put(world, "/resources/web", **changes)
        assert (refused(answer), why in answer.text) == ((409, "RESOURCE_IN_USE"), True), answer.text
    body = {name: it for name, it in carrying("mail").items() if name != "name"}
    headers = {"If-Match": "*"}
    taken_out = await world.admin.put("/api/v1/site-tunnels/berlin-paris", json=body, headers=headers)
    assert taken_out.json()["ends"][1]["resources"] == ["mail"]
    await world.rest("DELETE", "/resources/web")


@pytest.mark.slow
@pytest.mark.usefixtures("gateways")
async def test_resources_that_cannot_be_carried(world: World) -> None:
    await add(world, "web", 443, gateway=BERLIN)
    both = carrying("web") | {"ends": [{"gateway": it, "resources": ["web"]} for it in NUMBERS]}
    for body, reason, said in (
        (carrying("web"), "REQUEST_INVALID", "gw-paris does not serve the resource web"),
        (carrying("nothing"), "NOT_FOUND", "nothing"),
        (both, "REQUEST_INVALID", "web is behind one of the two gateways"),
        (carrying(), "REQUEST_INVALID", "targets, resources, or both"),
    ):
        answer = await post(world, body)
        assert (answer.json()["reason"], said in answer.text) == (reason, True), answer.text
    [fault] = (await post(world, carrying("nothing"))).json()["errors"]
    assert fault["pointer"] == "/ends/1/resources/0"


async def change_profile(world: World, name: str, **changes: object) -> None:
    await change(world, f"/resources/{name}", **changes)


@pytest.mark.slow
@needs_root
async def test_a_host_reaches_only_the_resource_while_the_profile_changes(
    world: World, tmp_path: Path
) -> None:
    async with two_sites.laid(tmp_path) as sites:
        await two_sites.register(world, tmp_path, sites)
        async with sites.running(BERLIN, PARIS):
            await add(world, "voice", 5005)
            await world.rest("POST", "/site-tunnels", carrying("voice"))
            up = await until(lambda: shown(world), lambda it: it["state"] == "up")
            assert not await sites.ping(BERLIN)

            async def changed() -> None:
                # Each of these ranges contains the flow's port, in another entry each time.
                for turn in range(10):
                    await asyncio.sleep(0.2)
                    await change_profile(world, "voice", targets=[ports(f"{5000 - turn}-5005")])
                await change_profile(world, "voice", suite="chacha20-poly1305")
                keyed = await until(lambda: shown(world), lambda it: it["generation"] > up["generation"])
                assert keyed["effective_suite"] == "chacha20-poly1305"

            both, _ = await asyncio.gather(sites.flow(rate=500, seconds=5), changed())
            assert [(one["received"], one["repeated"]) for one in both] == [(it["sent"], 0) for it in both]
            assert not await sites.ping(BERLIN)
            await change_profile(world, "voice", targets=[{"prefix": host(PARIS), "protocol": "icmp"}])
            await until(lambda: sites.ping(BERLIN), bool)
            # New permissions pass packets before old ones are deleted.
            await until(
                lambda: sites.flow(rate=50, seconds=0.2),
                lambda cut: [one["received"] for one in cut] == [0, 0],
            )
            entries = (await world.rest("GET", f"/gateways/{PARIS}/entries"))["entries"]
            assert {it["params"]["suite"] for it in entries if it["table"] == "sad_out"} == {3}


async def shown(world: World) -> dict[str, Any]:
    return dict(await world.rest("GET", "/site-tunnels/berlin-paris"))
