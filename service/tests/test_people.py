"""Names of people in any script, and names of devices as they are."""

from __future__ import annotations

import pytest

from .conftest import World, make_csr, refused
from .switch import Switch

pytestmark = pytest.mark.slow


async def test_a_display_name_is_shown_wherever_its_person_is(world: World) -> None:
    made = await world.rest(
        "POST", "/users", {"name": "juergen", "display_name": "Jürgen Müller", "email": "j@corp.example"}
    )
    assert (made["name"], made["display_name"]) == ("juergen", "Jürgen Müller")
    token = (await world.invite("juergen")).token
    [invitation] = await world.rest("GET", "/invitations?q=müll")
    assert invitation["user_display_name"] == "Jürgen Müller"
    shown = await world.anyone.post("/api/v1/enrolments/invitation", json={"token": token})
    assert shown.json()["user_display_name"] == "Jürgen Müller"
    await world.enrol("juergen")
    [device] = await world.rest("GET", "/devices?q=JÜRGEN")
    assert (device["user"], device["user_display_name"]) == ("juergen", "Jürgen Müller")
    lines = await world.rest("GET", f"/audit?object=device/{device['id']}")
    assert lines[0]["names"][device["id"]] == "laptop of Jürgen Müller"
    named, shown_names = {"name": "writers", "members": ["alice", "juergen"]}, {"juergen": "Jürgen Müller"}
    effect = await world.rest("POST", "/groups/preview", named)
    assert effect["gain"] == {"count": 0, "first": [], "display_names": {}}
    group = await world.rest("POST", "/groups", named)
    assert group["display_names"] == shown_names
    [summary] = await world.rest("GET", "/groups")
    assert summary["members"]["display_names"] == shown_names
    # The names are no part of the group.
    assert await world.rest("PUT", "/groups/writers", group | {"display_names": {}}) == group
    await world.add_gateway("gw-berlin", 9)
    await world.add_wiki(["gw-berlin"])
    policy = {"name": "Own", "user": "juergen", "resources": ["wiki"]}
    effect = await world.rest("POST", "/policies/preview", policy)
    assert effect["gain"] == {"count": 1, "first": ["juergen"], "display_names": shown_names}
    assert (await world.rest("POST", "/policies", policy))["user_display_name"] == "Jürgen Müller"
    [line] = await world.rest("GET", "/audit?object=user/juergen&action=user.create")
    assert line["names"] == {"user/juergen": "Jürgen Müller (juergen)"}
    # A PUT replaces both.
    changed = await world.rest("PUT", "/users/juergen", {"email": "jm@corp.example"})
    assert (changed["display_name"], changed["email"]) == (None, "jm@corp.example")
    [line] = await world.rest("GET", "/audit?action=user.change")
    assert line["details"] == {
        "email_before": "j@corp.example",
        "display_name_before": "Jürgen Müller",
        "email": "jm@corp.example",
    }


@pytest.mark.parametrize("name", ["", " ", "x\u202egnp.exe", "a\nb", "x" * 101])
async def test_a_display_name_that_would_deceive_is_refused_in_words(world: World, name: str) -> None:
    answer = await world.admin.post(
        "/api/v1/users", json={"name": "bob", "display_name": name, "email": "bob@corp.example"}
    )
    assert answer.status_code == 422
    [fault] = answer.json()["errors"]
    assert fault["pointer"] == "/display_name"
    assert fault["detail"].startswith(("must ", "has "))


async def test_a_device_cannot_show_itself_as_another(world: World) -> None:
    body = {
        "token": (await world.invite()).token,
        "device_name": "ecila\u202e of laptop",
        "csr_pem": make_csr()[1],
    }
    assert (await world.anyone.post("/api/v1/enrolments", json=body)).status_code == 201
    [device] = await world.rest("GET", "/devices")
    assert device["name"] == "ecila of laptop"


async def test_a_policy_cannot_show_itself_as_another(world: World) -> None:
    policy = {"name": "all\u202eeno", "user": "alice", "resources": ["wiki"]}
    answer = await world.admin.post("/api/v1/policies", json=policy)
    [fault] = answer.json()["errors"]
    assert fault["pointer"] == "/name"
    assert "turns the direction" in fault["detail"]


async def test_a_person_is_shown_with_everything_that_leaving_ends(world: World, switch: Switch) -> None:
    await world.add_resource("git", ["gw-berlin"], address="10.20.0.10", users=[])
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    for name in ("writers", "readers"):
        await world.rest(
            "POST", "/groups", {"name": name, "members": ["alice", "bob"][: 1 + (name == "readers")]}
        )
    policy = {
        "name": "code",
        "group": "writers",
        "resources": ["git"],
        "conditions": {"device_approved": True},
    }
    await world.rest("POST", "/policies", policy)
    await world.rest("POST", "/policies", {"name": "all", "group": "readers", "resources": ["git", "wiki"]})
    device, other = await world.enrol(), await world.enrol()
    await world.invite()
    await device.prove()
    await device.open()
    denied = await refused(device.open("nobody.corp.example"))

    reached = await world.rest("GET", "/users/alice/access")
    assert [(it["resource"], it["display_name"]) for it in reached] == [
        ("git", "git.corp.example"),
        ("wiki", "wiki.corp.example"),
    ]
    assert [(it["policy"], it["group"]) for it in reached[0]["grants"]] == [
        ("all", "readers"),
        ("code", "writers"),
    ]
    assert reached[0]["grants"][1]["conditions"]["device_approved"] is True
    assert {it["group"] for it in reached[1]["grants"]} == {"readers", None}
    of_bob = await world.rest("GET", "/users/bob/access?limit=1")
    assert [it["resource"] for it in of_bob] == ["git"]
    people = await world.rest("GET", "/resources/git/access")
    assert [(it["user"], len(it["grants"])) for it in people] == [("alice", 2), ("bob", 1)]

    lines = await world.rest("GET", "/audit?person=alice&outcome=denied")
    assert [(it["actor"], it["why"]) for it in lines] == [(device.id, denied.message)]
    assert await world.rest("GET", "/audit?person=bob") == []

    needed = {it["id"] for it in await world.rest("GET", "/devices?approval_needed=true")}
    assert needed == {device.id, other.id}
    assert (await world.rest("GET", f"/devices/{other.id}"))["approval_needed"] is True
    await world.rest("POST", f"/devices/{other.id}/approve")
    [left] = await world.rest("GET", "/devices?approval_needed=true")
    assert left["id"] == device.id
    [approved] = await world.rest("GET", "/devices?approval_needed=false")
    assert (approved["id"], approved["approval_needed"]) == (other.id, False)
    await world.rest("PUT", "/policies/code", policy | {"enabled": False})
    assert await world.rest("GET", "/devices?approval_needed=true") == []
    [waiting, _] = await world.rest("GET", "/devices?sort=created")
    assert (waiting["state"], waiting["approval_needed"]) == ("pending", False)
    await world.rest("PUT", "/policies/code", policy)
    await world.rest("POST", f"/devices/{other.id}/revoke")
    assert [it["id"] for it in await world.rest("GET", "/devices?user=alice&state=pending")] == [device.id]
    assert [it["id"] for it in await world.rest("GET", "/devices?state=revoked")] == [other.id]
    use = await world.rest("GET", "/users/alice/use")
    assert {**use, "policies_deleted": len(use["policies_deleted"])} == {
        "tunnels": 1,
        "devices": ["laptop"],
        "invitations": 1,
        "groups": ["readers", "writers"],
        "policies_deleted": 1,
        "breaks": [],
    }
    assert (await world.rest("DELETE", "/users/alice")) == {"tunnels_closed": use["tunnels"]}
    for path in ("/users/alice/use", "/users/alice/access", "/resources/absent/access"):
        assert (await world.admin.get(f"/api/v1{path}")).status_code == 404
