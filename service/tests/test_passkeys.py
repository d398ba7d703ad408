"""Passkeys: added by who is signed in, enough to sign in, and worth nothing repeated, copied, late or from elsewhere."""

from __future__ import annotations

import datetime
from typing import Any

import httpx
import pytest
from culvert_db import AdminChallenge
from culvert_service.admins.webauthn_party import Party, challenge_of, id_of
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from .authenticator import Authenticator
from .conftest import World
from .test_admins import Person, browser, refusal, signed_in

slow = pytest.mark.slow

REFUSED = (401, "PASSKEY_REFUSED")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SHAPED = st.fixed_dictionaries(
    {
        "id": JSON,
        "rawId": JSON,
        "type": JSON,
        "response": JSON | st.fixed_dictionaries({"clientDataJSON": JSON}),
    }
)


@given(SHAPED | st.dictionaries(st.text(), JSON))
def test_a_malformed_passkey_proves_nothing(credential: dict[str, Any]) -> None:
    party = Party("https://culvert.corp.example")
    assert isinstance(challenge_of(credential), bytes)
    assert isinstance(id_of(credential), bytes)
    assert party.verify_registration(credential, b"c" * 32) is None
    assert party.verify_signature(credential, b"c" * 32, b"key", 0) is None


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("https://c.example:443/culvert", "https://c.example", "c.example"),
        ("https://c.example:8443", "https://c.example:8443", "c.example"),
    ],
)
def test_the_origin_is_what_a_browser_shows(url: str, origin: str, host: str) -> None:
    assert (Party.at(url).origin, Party.at(url).id) == (origin, host)


async def added(person: Person, authenticator: Authenticator, name: str = "key") -> httpx.Response:
    options = (await person.ask("POST", "/session/passkeys/options")).json()
    body = {"name": name, "credential": authenticator.create(options)}
    return await person.ask("POST", "/session/passkeys", body)


async def answered(person: Person, authenticator: Authenticator) -> httpx.Response:
    options = (await person.ask("POST", "/session/passkey/options")).json()
    return await person.ask("POST", "/session/passkey", {"credential": authenticator.get(options)})


@slow
async def test_a_passkey_opens_a_session_of_its_owner(world: World) -> None:
    mine = Authenticator(world.settings.rest_url)
    async with signed_in(world, "eve", "auditor") as eve, browser(world, "eve") as other:
        made = await added(eve, mine, "laptop")
        assert (made.status_code, made.json()["name"]) == (201, "laptop")
        assert refusal(await added(eve, mine)) == REFUSED
        answer = await answered(other, mine)
        assert (answer.json()["name"], answer.json()["role"]) == ("eve", "auditor")
        assert (await other.client.get("/api/v1/users")).status_code == 200
        (line,) = await world.rest("GET", "/audit?action=admin.sign-in&limit=1")
        assert (line["actor"], line["details"]) == ("eve", {"passkey": "laptop"})

        (shown,) = (await eve.ask("GET", "/session/passkeys")).json()
        assert shown["last_used_at"] is not None
        path = f"/session/passkeys/{shown['id']}"
        for wrong in ("", "x" * 64):
            assert refusal(await eve.ask("DELETE", path, **{"X-CSRF-Token": wrong})) == (403, "CSRF_INVALID")
        assert (await eve.ask("DELETE", path)).status_code == 204
        assert refusal(await eve.ask("DELETE", path)) == (404, "NOT_FOUND")
        assert refusal(await answered(other, mine)) == REFUSED


@slow
async def test_no_answer_counts_if_repeated_late_foreign_unverified_or_copied(world: World) -> None:
    mine, strange = (Authenticator(world.settings.rest_url) for _ in range(2))
    async with signed_in(world, "ada", "owner") as ada, browser(world, "ada") as other:
        assert (await added(ada, mine)).status_code == 201
        options = (await other.ask("POST", "/session/passkey/options")).json()
        body = {"credential": mine.get(options)}
        assert (await other.ask("POST", "/session/passkey", body)).status_code == 200
        assert refusal(await other.ask("POST", "/session/passkey", body)) == REFUSED
        assert refusal(await answered(other, strange)) == REFUSED

        mine.verifies = False
        assert refusal(await answered(other, mine)) == REFUSED
        mine.verifies, mine.origin = True, "https://culvert.example"
        assert refusal(await answered(other, mine)) == REFUSED
        mine.origin, mine.count = world.settings.rest_url, 0
        assert refusal(await answered(other, mine)) == REFUSED
        mine.count = 9
        assert (await answered(other, mine)).status_code == 200

        options = (await other.ask("POST", "/session/passkey/options")).json()
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
        async with world.database.begin() as session:
            await session.execute(update(AdminChallenge).values(expires_at=past))
        late = await other.ask("POST", "/session/passkey", {"credential": mine.get(options)})
        assert refusal(late) == REFUSED
        # A challenge to sign in registers nothing, and one for another's account neither.
        async with signed_in(world, "bob", "admin") as bob:
            theirs = (await bob.ask("POST", "/session/passkeys/options")).json()
            body = {"name": "x", "credential": strange.create(theirs)}
            assert refusal(await ada.ask("POST", "/session/passkeys", body)) == REFUSED
        denied = await world.rest("GET", "/audit?action=admin.sign-in&outcome=denied")
        assert {line["reason"] for line in denied} == {"PASSKEY_REFUSED"}
