"""Names of people in any script, and names of devices as they are."""

from __future__ import annotations

import pytest

from .conftest import World, make_csr

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
