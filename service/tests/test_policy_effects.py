"""The preview of a change of groups and policies equals its effect."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from .conftest import Device, World
from .switch import Switch

pytestmark = pytest.mark.slow

OWN = quote("alice to wiki")


def effect(
    gain: list[str], lose: list[str], closed: int = 0, waiting: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "waiting": {"count": len(waiting), "first": list(waiting), "display_names": {}},
        "gain": {"count": len(gain), "first": gain, "display_names": {}},
        "lose": {"count": len(lose), "first": lose, "display_names": {}},
        "tunnels_closed": closed,
        "breaks": [],
    }


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    """Alice's, with a tunnel to the wiki; bob and carol have none."""
    for name in ("bob", "carol"):
        await world.rest("POST", "/users", {"name": name, "email": f"{name}@corp.example"})
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice", "bob"]})
    device = await world.enrol()
    await device.prove()
    await device.open()
    return device


async def test_a_policys_preview_lists_people_who_gain_and_lose(world: World, device: Device) -> None:
    policy = {"name": "writers", "group": "writers", "resources": ["wiki"]}
    assert await world.rest("POST", "/policies/preview", policy) == effect(["bob"], [])
    assert [one["name"] for one in await world.rest("GET", "/policies")] == ["alice to wiki"]
    await world.rest("POST", "/policies", policy)
    # Alice has two ways in, and loses one.
    assert await world.rest("GET", f"/policies/{OWN}/use") == effect([], [])
    await world.rest("DELETE", f"/policies/{OWN}")
    assert await world.rest("GET", "/policies/writers/use") == effect([], ["alice", "bob"], 1)
    off = await world.rest("POST", "/policies/preview?replaces=writers", policy | {"enabled": False})
    assert off == effect([], ["alice", "bob"], 1)
    carols = {"name": "carol", "user": "carol", "resources": ["wiki"]}
    said = await world.rest("POST", "/policies/preview?replaces=writers", carols)
    assert said == effect(["carol"], ["alice", "bob"], 1)
    # A condition takes nobody's way, and closes what does not meet it.
    approved = policy | {"conditions": {"device_approved": True}}
    said = await world.rest("POST", "/policies/preview?replaces=writers", approved)
    assert said == effect([], [], 1)
    assert len(await world.rest("GET", "/tunnels")) == 1
    await world.rest("PUT", "/policies/writers", approved)
    assert await world.rest("GET", "/tunnels") == []


async def test_a_policys_preview_tells_whose_devices_do_not_meet_it(world: World, device: Device) -> None:
    await world.add_resource("git", ["gw-berlin"], address="10.20.0.10", users=[])
    policy: dict[str, Any] = {"name": "git", "group": "writers", "resources": ["git"]}
    approved = policy | {"conditions": {"device_approved": True}}
    # Bob has no device, which only a condition on devices makes matter.
    assert await world.rest("POST", "/policies/preview", policy) == effect(["alice", "bob"], [])
    said = await world.rest("POST", "/policies/preview", approved)
    assert said == effect([], [], waiting=("alice", "bob"))
    (hers,) = await world.rest("GET", "/devices")
    await world.rest("POST", f"/devices/{hers['id']}/approve")
    said = await world.rest("POST", "/policies/preview", approved)
    assert said == effect(["alice"], [], waiting=("bob",))
    encrypted = {"posture": [{"fact": "disk_encryption", "one_of": ["yes"]}]}
    said = await world.rest("POST", "/policies/preview", policy | {"conditions": encrypted})
    assert said == effect([], [], waiting=("alice", "bob"))
    # Another policy, which asks for nothing, is a way too; and a code is the person's own act.
    await world.rest(
        "POST", "/policies", {"name": "own", "user": "bob", "resources": ["git"], "enabled": False}
    )
    own = {"name": "own", "user": "bob", "resources": ["git"], "conditions": {"code_max_age_seconds": 60}}
    assert await world.rest("POST", "/policies/preview?replaces=own", own) == effect(["bob"], [])
    await world.rest("POST", f"/devices/{hers['id']}/revoke")
    assert await world.rest("POST", "/policies/preview", approved) == effect([], [], waiting=("alice", "bob"))


async def test_a_groups_preview_lists_people_who_gain_and_lose(world: World, device: Device) -> None:
    await world.rest("POST", "/policies", {"name": "writers", "group": "writers", "resources": ["wiki"]})
    await world.rest("DELETE", f"/policies/{OWN}")
    path = "/groups/preview?replaces=writers"
    said = await world.rest("POST", path, {"name": "readers", "members": ["bob", "carol"]})
    assert said == effect(["carol"], ["alice"], 1)
    use = await world.rest("GET", "/groups/writers/use")
    assert use == effect([], ["alice", "bob"], 1) | {"policies_deleted": ["writers"]}
    made = await world.rest("PUT", "/groups/writers", {"name": "readers", "members": ["bob", "carol"]})
    assert (made["name"], made["members"]) == ("readers", ["bob", "carol"])
    assert await world.rest("GET", "/tunnels") == []
    (policy,) = await world.rest("GET", "/policies?group=readers")
    assert policy["group"] == "readers"
    assert await world.rest("DELETE", "/groups/readers") == {"tunnels_closed": 0}
    assert await world.rest("GET", "/policies") == []


async def test_a_preview_refuses_invalid_bodies_with_their_field(world: World, device: Device) -> None:
    policy: dict[str, Any] = {"name": "writers", "group": "writers", "resources": ["wiki"]}
    faulty: list[tuple[str, dict[str, Any], str]] = [
        ("/policies", policy | {"resources": ["wiki", "git"]}, "/resources/1"),
        ("/policies", policy | {"group": "readers"}, "/group"),
        ("/policies", policy | {"group": None, "user": "dave"}, "/user"),
        ("/policies", policy | {"name": "alice to wiki"}, "/name"),
        ("/policies", policy | {"conditions": {"sources": ["10.0.0.0/33"]}}, "/conditions/sources/0"),
        ("/groups", {"name": "writers", "members": []}, "/name"),
        ("/groups", {"name": "readers", "members": ["alice", "dave"]}, "/members/1"),
    ]
    for path, body, pointer in faulty:
        for way in ("", "/preview"):
            answer = await world.admin.post(f"/api/v1{path}{way}", json=body)
            faults = answer.json()["errors"]
            assert faults, (path, way)
            assert all(one["pointer"].startswith(pointer) and one["detail"] for one in faults), faults


async def test_policies_and_groups_are_found_by_people_and_resources(world: World, device: Device) -> None:
    await world.rest("POST", "/policies", {"name": "authors", "group": "writers", "resources": ["wiki"]})

    async def found(path: str) -> list[str]:
        return [one["name"] for one in await world.rest("GET", path)]

    assert await found("/policies?q=WRIT") == ["authors"]
    assert await found("/policies?q=wiki.corp") == ["alice to wiki", "authors"]
    assert await found("/policies?q=alice") == ["alice to wiki"]
    assert await found("/policies?q=%25") == []
    assert await found("/policies?resource=wiki") == ["alice to wiki", "authors"]
    assert await found("/policies?group=readers") == []
    assert await found("/groups?q=bob") == ["writers"]
    assert await found("/groups?q=carol") == []
