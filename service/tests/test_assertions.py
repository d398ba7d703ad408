"""Assertions about access: each change that would break one is refused with its words, and its preview says so before."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from .conftest import World

pytestmark = pytest.mark.slow

OWN = quote("alice to wiki")
WIKI = "wiki.corp.example"


@pytest.fixture
async def wiki(world: World) -> World:
    """Alice reaches the wiki by a policy of her own; bob is a contractor, and reaches nothing."""
    await world.add_gateway("gw-berlin", 9)
    await world.add_wiki(["gw-berlin"])
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    await world.rest("POST", "/groups", {"name": "contractors", "members": ["bob"]})
    return world


async def add(world: World, reaches: bool, name: str = WIKI, **about: str) -> dict[str, Any]:
    return await world.rest("POST", "/assertions", {"name": name, "reaches": reaches} | about)


async def refusal(world: World, method: str, path: str, body: object = None) -> tuple[int, str, str]:
    answer = await world.admin.request(method, f"/api/v1{path}", json=body, headers={"If-Match": "*"})
    found = answer.json()
    return answer.status_code, found["reason"], found["detail"]


def broken(sentence: str) -> tuple[int, str, str]:
    return 409, "ASSERTION_BROKEN", f"The change would break: {sentence}."


async def test_whatever_would_end_asserted_access_is_refused(wiki: World) -> None:
    assertion = await add(wiki, True, user="alice")
    assert assertion["holds"]
    policy: dict[str, object] = {"name": "alice to wiki", "user": "alice", "resources": ["wiki"]}
    bobs = policy | {"user": "bob"}
    shown = await wiki.rest("GET", "/resources/wiki")
    asked: dict[str, object] = {name: value for name, value in shown.items() if name != "created_at"}
    changes: list[tuple[str, str, dict[str, object] | None]] = [
        ("DELETE", f"/policies/{OWN}", None),
        ("PUT", f"/policies/{OWN}", policy | {"enabled": False}),
        ("PUT", f"/policies/{OWN}", bobs),
        ("PUT", "/resources/wiki", asked | {"users": []}),
        ("PUT", "/resources/wiki", asked | {"fqdn": "w.corp.example"}),
        ("DELETE", "/resources/wiki", None),
        ("DELETE", "/users/alice", None),
    ]
    for method, path, body in changes:
        assert await refusal(wiki, method, path, body) == broken(f"alice can reach {WIKI}"), (path, body)
    for found in (
        await wiki.rest("GET", f"/policies/{OWN}/use"),
        await wiki.rest("POST", f"/policies/preview?replaces={OWN}", bobs),
        await wiki.rest("GET", "/resources/wiki/use"),
        await wiki.rest("GET", "/users/alice/use"),
    ):
        assert found["breaks"] == [assertion | {"holds": False}]
    # Another way in is enough, and conditions are not considered.
    approved = {"conditions": {"device_approved": True}}
    await wiki.rest("POST", "/policies", policy | approved | {"name": "second"})
    await wiki.rest("DELETE", f"/policies/{OWN}")
    await wiki.rest("DELETE", f"/assertions/{assertion['id']}")
    await wiki.rest("DELETE", "/policies/second")
    assert await wiki.rest("GET", "/assertions") == []


async def test_whatever_would_give_access_that_is_ruled_out_is_refused(wiki: World) -> None:
    await add(wiki, False, group="contractors")
    await wiki.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
    policy = {"name": "w", "group": "writers", "resources": ["wiki"]}
    await wiki.rest("POST", "/policies", policy)
    shown = await wiki.rest("GET", "/resources/wiki")
    asked: dict[str, object] = {name: value for name, value in shown.items() if name != "created_at"}
    sentence = broken(f"no member of contractors can reach {WIKI}")
    for method, path, body in [
        ("POST", "/policies", policy | {"name": "c", "group": "contractors"}),
        ("POST", "/policies", {"name": "b", "user": "bob", "resources": ["wiki"]}),
        ("PUT", "/policies/w", policy | {"group": "contractors"}),
        ("PUT", "/groups/writers", {"name": "writers", "members": ["bob"]}),
        ("PUT", "/groups/writers/members", ["alice", "bob"]),
        ("PUT", "/groups/writers/members/bob", None),
        ("PUT", "/groups/contractors/members/alice", None),
        ("PUT", "/resources/wiki", asked | {"users": ["alice", "bob"]}),
        # An assertion about a group that is gone would hold of itself.
        ("DELETE", "/groups/contractors", None),
    ]:
        assert await refusal(wiki, method, path, body) == sentence, (path, body)
    found = await wiki.rest(
        "POST", "/groups/preview?replaces=writers", {"name": "writers", "members": ["bob"]}
    )
    assert [one["group"] for one in found["breaks"]] == ["contractors"]
    # The assertion follows the group's name.
    await wiki.rest("PUT", "/groups/contractors", {"name": "externals", "members": ["bob"]})
    (assertion,) = await wiki.rest("GET", "/assertions")
    assert (assertion["group"], assertion["holds"]) == ("externals", True)
    await wiki.rest("DELETE", "/resources/wiki")
    await wiki.add_resource("wiki", ["gw-berlin"], address="10.20.0.10", users=[])
    wide = await refusal(wiki, "POST", "/policies", {"name": "b", "user": "bob", "resources": ["wiki"]})
    assert wide[1] == "ASSERTION_BROKEN"


async def test_a_nearer_name_takes_over_from_a_wildcard(wiki: World) -> None:
    shown = await wiki.rest("GET", "/resources/wiki")
    asked: dict[str, object] = {name: value for name, value in shown.items() if name != "created_at"}
    await wiki.rest("PUT", "/resources/wiki", asked | {"fqdn": "*.corp.example"})
    await add(wiki, True, "Git.corp.example.", user="alice")
    del asked["display_name"]
    git: dict[str, object] = {**asked, "name": "git", "fqdn": "git.corp.example", "users": []}
    assert await refusal(wiki, "POST", "/resources", git) == broken("alice can reach git.corp.example")
    await wiki.rest("POST", "/resources", git | {"users": ["alice"]})


async def test_an_assertion_that_does_not_hold_hinders_nothing(wiki: World) -> None:
    made = [await add(wiki, True, group="contractors"), await add(wiki, False, user="alice")]
    assert [one["holds"] for one in made] == [False, False]
    await wiki.rest("DELETE", f"/policies/{OWN}")
    assert {one["holds"] for one in await wiki.rest("GET", "/assertions") if one["user"]} == {True}
    await wiki.rest("POST", "/policies", {"name": "c", "group": "contractors", "resources": ["wiki"]})
    assert {one["holds"] for one in await wiki.rest("GET", "/assertions")} == {True}


async def test_two_changes_at_once_break_nothing_together(wiki: World) -> None:
    """Alice has two ways in; each of two administrators ends another one."""
    await add(wiki, True, user="alice")
    for _ in range(5):
        second = {"name": "second", "user": "alice", "resources": ["wiki"]}
        await wiki.rest("POST", "/policies", second)
        first = second | {"name": "alice to wiki"}
        answers = await asyncio.gather(
            *(wiki.admin.delete(f"/api/v1/policies/{name}") for name in (OWN, "second"))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        (left,) = await wiki.rest("GET", "/policies")
        await wiki.rest("PUT", f"/policies/{quote(left['name'])}", first)


async def test_an_invalid_assertion_is_refused(wiki: World) -> None:
    await add(wiki, True, user="alice")
    for body, status in (
        ({"name": WIKI, "reaches": False, "user": "alice"}, 409),
        ({"name": WIKI, "reaches": True, "user": "dave"}, 404),
        ({"name": WIKI, "reaches": True, "group": "readers"}, 404),
        ({"name": "not a name", "reaches": True, "user": "bob"}, 422),
        ({"name": WIKI, "reaches": True, "user": "bob", "group": "contractors"}, 422),
        ({"name": WIKI, "reaches": True}, 422),
    ):
        assert (await refusal(wiki, "POST", "/assertions", body))[0] == status, body
    assert (await refusal(wiki, "DELETE", "/assertions/99"))[0] == 404
    lines = [it["action"] for it in (await wiki.admin.get("/api/v1/audit")).json()]
    assert lines.count("assertion.create") == 1
