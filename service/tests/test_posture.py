"""Policies ask for facts about a computer, and close its tunnels when the facts change."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from culvert_proto import Reason
from culvert_service.decision.posture import Requirement, describe_report, find_unmet
from pydantic import ValidationError

from .conftest import World, next_event, refused
from .switch import Switch

ENCRYPTED = {"fact": "disk_encryption", "one_of": ["on"]}
DEBIAN_12 = {"fact": "os_version", "at_least": "12"}


@pytest.mark.parametrize(
    ("least", "found", "met"),
    [
        ("12", "12", True),
        ("12", "12.4", True),
        ("12.0", "12", True),
        ("12.1", "12", False),
        ("1.10", "1.9", False),
        ("6.1", "6.1.0-30-amd64", True),
        ("6.2", "6.1.0-30-amd64", False),
        ("12", "Debian GNU/Linux 13 (trixie)", True),
        ("12", "sid", False),
        ("12", "", False),
        ("12", "٣", False),
        ("12", None, False),
    ],
)
def test_a_version_is_compared_by_its_numbers(least: str, found: str | None, met: bool) -> None:
    assert Requirement(fact="kernel", at_least=least).is_met(found) is met


def test_a_missing_fact_does_not_meet_a_requirement() -> None:
    asked = (Requirement.model_validate(ENCRYPTED), Requirement.model_validate(DEBIAN_12))
    assert find_unmet(asked, {"disk_encryption": "on", "os_version": "13"}) == ()
    assert find_unmet(asked, {"disk_encryption": "On", "os_version": "13"}) == asked[:1]
    assert find_unmet(asked, {}) == asked
    assert describe_report(asked, {"os_version": "11"}) == "disk_encryption (unknown), os_version 11"


@pytest.mark.parametrize(
    "wrong",
    [
        {"fact": "os"},
        {"fact": "os", "one_of": ["a"], "at_least": "1"},
        {"fact": "Disk Encryption", "one_of": ["on"]},
        {"fact": "os", "at_least": "twelve"},
        {"fact": "os", "one_of": [""]},
        {"fact": "os", "one_of": ["\0"]},
        {"fact": "os", "one_of": ["x"] * 33},
    ],
)
def test_a_requirement_asks_for_one_thing(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Requirement.model_validate(wrong)


@pytest.mark.slow
async def test_a_tunnel_is_up_while_the_computer_is_as_asked(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    conditions = {"posture": [ENCRYPTED, DEBIAN_12, {"fact": "client_version", "one_of": ["test"]}]}
    body = {"name": "alice to wiki", "user": "alice", "resources": ["wiki"], "conditions": conditions}
    changed = await world.rest("PUT", "/policies/alice%20to%20wiki", body)
    assert changed["conditions"]["posture"][0] == {**ENCRYPTED, "at_least": None}

    unseen = await refused(device.open())
    assert unseen.reason is Reason.POSTURE_NOT_MET
    assert "disk_encryption on" in unseen.message
    assert "os_version (unknown)" in unseen.message
    [trace] = await world.rest("GET", "/access?user=alice&name=wiki.corp.example")
    assert (trace["verdict"], trace["reason"]) == ("deny", "POSTURE_NOT_MET")
    assert [(step["check"], step["holds"]) for step in trace["steps"]][3] == ("posture", False)

    good = {"disk_encryption": "on", "os_version": "12.4"}
    async with aclosing(device.watch(posture=good)) as events:
        await next_event(events, "profile")
        tunnel_id = (await device.open()).tunnel.tunnel_id
    async with aclosing(device.watch(posture=good | {"kernel": "6.1"})) as events:
        await next_event(events, "profile")
        assert [one["id"] for one in await world.rest("GET", "/tunnels")] == [tunnel_id]
    # No word of its own replaces what the controller has noted.
    async with aclosing(
        device.watch(posture=good | {"disk_encryption": "off", "client_version": "9"})
    ) as events:
        told = (await next_event(events, "tunnel_closed")).tunnel_closed
        assert (told.tunnel_id, told.why.reason) == (tunnel_id, Reason.POSTURE_NOT_MET)
        assert "laptop reports disk_encryption off." in told.why.message
    assert (await refused(device.open())).reason is Reason.POSTURE_NOT_MET


@pytest.mark.slow
async def test_the_facts_that_devices_report_are_listed_with_their_values(
    world: World, switch: Switch
) -> None:
    assert await world.rest("GET", "/devices/facts") == []
    for report in (
        {"os_id": "debian", "os_version": "12", "Odd Name": "x", "empty": ""},
        {"os_id": "debian", "os_version": "13"},
        {"os_id": "arch"},
    ):
        async with aclosing((await world.enrol()).watch(report)) as events:
            await next_event(events, "profile")
    told = await world.rest("GET", "/devices/facts")
    assert [(one["fact"], one["devices"]) for one in told] == [
        ("client_version", 3),
        ("os_id", 3),
        ("os_version", 2),
    ]
    assert told[1]["values"] == [{"value": "debian", "devices": 2}, {"value": "arch", "devices": 1}]
    assert told[2]["values"] == [{"value": "12", "devices": 1}, {"value": "13", "devices": 1}]
    # A revoked device counts no more.
    lost = next(one for one in await world.rest("GET", "/devices") if one["posture"] == {"os_id": "arch"})
    await world.rest("POST", f"/devices/{lost['id']}/revoke")
    assert [one["devices"] for one in await world.rest("GET", "/devices/facts")] == [2, 2, 2]
