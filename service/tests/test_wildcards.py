"""Resources whose name stands for every name below one."""

from __future__ import annotations

import pytest
from culvert_proto import Reason
from culvert_proto.dns_name import candidates
from culvert_service.resources.schemas import parse_name
from hypothesis import given
from hypothesis import strategies as st

from .conftest import World, refused
from .switch import Switch


def test_the_exact_name_comes_first_then_the_nearest_wildcard() -> None:
    assert candidates("a.b.corp.example") == [
        "a.b.corp.example",
        "*.b.corp.example",
        "*.corp.example",
        "*.example",
    ]
    assert candidates("*.b.corp.example")[0] == "*.b.corp.example"
    assert candidates("corp") == ["corp"]
    assert candidates("." * 300) == []


@given(st.text(max_size=300))
def test_any_question_has_few_candidates(asked: str) -> None:
    found = candidates(asked)
    assert len(found) == len(set(found)) <= 254
    assert found == [] or found[0] == asked


@pytest.mark.parametrize(
    "name", ["*", "*.example", "a.*.corp.example", "**.corp.example", "*wiki.corp.example", ""]
)
def test_a_wildcard_is_a_whole_label_before_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        parse_name(name)
    assert parse_name(" *.Dev.Corp.Example. ") == "*.dev.corp.example"


@pytest.mark.slow
async def test_a_wildcard_opens_for_names_below_without_a_nearer_resource(
    world: World, switch: Switch
) -> None:
    switch_at = ["gw-berlin"]
    await world.add_resource(
        "dev", switch_at, fqdn="*.Dev.corp.example", targets=[{"prefix": "10.20.0.0/24"}]
    )
    await world.add_resource("git", switch_at, fqdn="git.dev.corp.example", address="10.20.0.10", users=[])
    device = await world.enrol()
    await device.prove()
    one = await device.open("a.dev.corp.example")
    assert (one.tunnel.fqdn, one.tunnel.resource) == ("*.dev.corp.example", "dev")
    assert list(one.tunnel.remote_prefixes) == ["10.20.0.0/24"]
    for name in ("b.c.DEV.corp.example.", "*.dev.corp.example"):
        assert (await device.open(name)).tunnel.tunnel_id == one.tunnel.tunnel_id
    assert (await refused(device.open("git.dev.corp.example"))).reason is Reason.NO_POLICY
    for name in ("dev.corp.example", "adev.corp.example", "a.test.corp.example"):
        assert (await refused(device.open(name))).reason is Reason.NAME_UNKNOWN
    lines = await world.rest("GET", "/audit?limit=50")
    assert any(line["details"].get("name") == "b.c.dev.corp.example" for line in lines)


@pytest.mark.slow
async def test_the_tracer_means_the_resource_that_an_opening_means(world: World, switch: Switch) -> None:
    await world.add_resource("dev", ["gw-berlin"], fqdn="*.dev.corp.example", address="10.20.0.10")
    device = await world.enrol()
    await device.prove()
    for name, verdict in (("a.dev.corp.example", "permit"), ("dev.corp.example", "deny")):
        (found,) = await world.rest("GET", f"/access?user=alice&name={name}")
        assert (found["verdict"], found["gateways"]) == (
            verdict,
            ["gw-berlin"] if verdict == "permit" else [],
        )
