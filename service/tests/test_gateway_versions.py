"""The version of each gateway's software: as its switch tells it, and whether it is older than the controller's."""

from __future__ import annotations

import itertools
from importlib.metadata import version

import pytest
from culvert_service.gateways.release import is_older, read_product

from .conftest import World, free_port, serving, until
from .switch import Switch

# In rising order: the example of SemVer 2.0, section 11, and numbers that are not compared as texts.
RISING = [
    "0.9.10", "0.10.0", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
    "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.9.0", "1.10.0", "2.0.0", "10.0.0",
]  # fmt: skip


def test_versions_are_compared_by_precedence() -> None:
    for low, high in itertools.combinations(RISING, 2):
        assert is_older(low, high), (low, high)
        assert not is_older(high, low), (high, low)
    assert not any(is_older(it, it) for it in RISING)
    assert not is_older("1.0.0+build.1", "1.0.0+build.2")


@pytest.mark.parametrize(
    "unknown", ["", "1.2", "v1.2.3", "01.2.3", "1.2.3.4", "1.2.3-", "1.2.3-01", "dev", "١.2.3"]
)
def test_nothing_is_claimed_of_another_form(unknown: str) -> None:
    assert not is_older(unknown, "9.9.9")
    assert not is_older("0.0.1", unknown)
    assert read_product({"server": f"sluice/{unknown}"}) is None


def test_the_version_is_taken_from_sluice_alone() -> None:
    assert read_product({"server": "sluice/1.10.0-rc.1"}) == "1.10.0-rc.1"
    for told in (
        {},
        {"server": "envoy"},
        {"server": b"sluice/1.0.0"},
        {"server": "sluice/1.0.0-" + "a" * 64},
    ):
        assert read_product(told) is None


@pytest.mark.slow
async def test_a_gateway_of_an_earlier_release_is_outdated_until_its_upgrade(world: World) -> None:
    async def becomes(name: str, state: str, software: str | None, *, is_outdated: bool) -> None:
        wanted = (state, software, is_outdated)
        await until(
            lambda: world.rest("GET", f"/gateways/{name}"),
            lambda it: (it["state"], it["software"], it["is_outdated"]) == wanted,
        )

    own = version("culvert-service")
    # The last is a switch that tells no version, as bmv2 or a sluice of before.
    for number, (product, software, is_outdated) in enumerate(
        [("sluice/0.0.9", "0.0.9", True), (f"sluice/{own}", own, False), (None, None, False)], start=1
    ):
        switch, name, port = Switch(), f"gw-{number}", free_port()
        switch.product = product
        await world.add_gateway(name, port, number)
        async with serving(world, switch, name, port):
            await becomes(name, "online", software, is_outdated=is_outdated)
        # The version stays known while the gateway is away.
        await becomes(name, "offline", software, is_outdated=is_outdated)

    for product, software in ((f"sluice/{own}", own), (None, None)):
        replaced, port = Switch(), (await world.rest("GET", "/gateways/gw-1"))["p4runtime"].rpartition(":")[2]
        replaced.product = product
        async with serving(world, replaced, "gw-1", int(port)):
            await becomes("gw-1", "online", software, is_outdated=False)
