"""Changes that would outlast a stolen session need a fresh proof: a stolen cookie alone cannot make them."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from culvert_db import Admin, AdminSession, Role
from culvert_proto import CulvertError, Reason
from culvert_service.admins.access import fresh_proof
from culvert_service.admins.notices import NOTICES_MAX
from culvert_service.admins.permission import (
    PROOF_LIFETIME,
    ByRoot,
    ByScopes,
    BySession,
    Caller,
    check_proof,
)
from culvert_service.admins.schemas import ProofIn
from culvert_service.controller.database import open_database
from culvert_service.controller.lifecycle import Controller
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts
from sqlalchemy import update

from .authenticator import Authenticator
from .conftest import World, settings_in
from .test_account import proof
from .test_admins import NOW, PASSWORD, Person, browser, refusal, signed_in
from .test_passkeys import added, answered

slow = pytest.mark.slow

NEEDED = (403, "PROOF_NEEDED")
# Writes to these paths change who can sign in, and for how long.
SECURITY = (
    *("/api/v1/admins", "/api/v1/tokens", "/api/v1/session/"),
    *("/api/v1/gateways/{name}/bundle", "/api/v1/gateway-enrolments"),
)
# These routes give the proof, sign in, or end a session, which signing in again repairs.
WITHOUT = {
    ("POST", "/api/v1/session/passkey"),
    ("POST", "/api/v1/session/passkey/options"),
    ("POST", "/api/v1/session/proof/passkey"),
    ("DELETE", "/api/v1/session/sessions/{session_id}"),
    ("DELETE", "/api/v1/session/notices/{notice_id}"),
    # A link that is withdrawn gives no right.
    ("DELETE", "/api/v1/gateway-enrolments/{number}"),
    # This route only confirms a change that a proof has begun in the same session.
    ("PUT", "/api/v1/session/authenticator"),
}


def stale(caller: Caller, now: datetime.datetime) -> bool:
    try:
        check_proof(caller, now)
    except CulvertError as error:
        return error.reason is Reason.PROOF_NEEDED
    return False


def test_a_proof_is_fresh_for_five_minutes() -> None:
    owner, second = BySession("ada", Role.OWNER, NOW), datetime.timedelta(seconds=1)
    assert not stale(owner, NOW)
    assert not stale(owner, NOW + PROOF_LIFETIME - second)
    assert stale(owner, NOW + PROOF_LIFETIME)
    # A token has no person who could give a proof.
    assert not stale(ByRoot("admin-token"), NOW)
    assert not stale(ByScopes("ci", ["write"]), NOW)


def calls(dependant: Dependant) -> Iterator[Any]:
    for one in dependant.dependencies:
        yield one.call
        yield from calls(one)


def carries_a_proof(endpoint: Any) -> bool:
    types = [one.annotation for one in inspect.signature(endpoint, eval_str=True).parameters.values()]
    return any(isinstance(one, type) and issubclass(one, ProofIn) for one in types)


async def test_each_write_to_security_settings_needs_a_proof(tmp_path: Path, database_url: str) -> None:
    settings = settings_in(tmp_path, database_url=database_url)
    async with open_database(settings) as database:
        app = cast("Any", Controller(settings, database)).app
    writes: dict[tuple[str, str], Any] = {
        (method, route.path): route
        for route in cast("Any", iter_route_contexts(app.routes))
        for method in cast("set[str]", route.methods or set()) - {"GET", "HEAD"}
        if (route.path or "").startswith(SECURITY)
    }
    assert len(writes) > 12
    assert set(writes) >= WITHOUT
    for key, route in writes.items():
        proven = fresh_proof in calls(route.dependant) or carries_a_proof(route.endpoint)
        assert proven != (key in WITHOUT), key


async def grows_old(world: World) -> None:
    """Make every session's proof too old."""
    past = datetime.datetime.now(datetime.UTC) - PROOF_LIFETIME
    async with world.database.begin() as session:
        await session.execute(update(AdminSession).values(proven_at=past))


@slow
async def test_a_stolen_cookie_adds_no_credential(world: World) -> None:
    mine = Authenticator(world.settings.rest_url)
    async with signed_in(world, "ada", "owner") as ada:
        passkey = (await added(ada, mine)).json()["id"]
        options = (await ada.ask("POST", "/session/passkeys/options")).json()
        await grows_old(world)
        body = {"name": "thief", "credential": Authenticator(world.settings.rest_url).create(options)}
        asked: list[tuple[str, str, object]] = [
            ("POST", "/session/passkeys/options", None),
            ("POST", "/session/passkeys", body),
            ("DELETE", f"/session/passkeys/{passkey}", None),
            ("POST", "/admins/invitations", {"role": "owner"}),
            ("PUT", "/admins/ada/role", {"role": "auditor"}),
            ("DELETE", "/admins/ada", None),
            ("POST", "/tokens", {"name": "thief", "scopes": ["write"]}),
        ]
        for method, path, content in asked:
            answer = await ada.ask(method, path, content, **{"If-Match": "*"})
            assert refusal(answer) == NEEDED, (method, path)
            assert answer.json()["remedy"]
        assert (await ada.ask("GET", "/session/passkeys")).json()[0]["name"] == "key"
        # Other changes need no proof.
        person = {"name": "bob", "email": "bob@corp.example"}
        assert (await ada.ask("POST", "/users", person)).status_code == 201
        # An API token and root's token need no proof.
        assert (await world.rest("POST", "/admins/invitations", {"role": "auditor"}))["token"]


async def proves(world: World, person: Person, body: dict[str, Any] | None = None) -> int:
    answer = await person.ask("POST", "/session/proof", body or await proof(world, person))
    if answer.is_success:
        person.csrf = answer.json()["csrf_token"]
    return answer.status_code


@slow
async def test_a_proof_renews_the_session_and_ends_a_copy_of_its_cookie(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada, browser(world, "ada") as thief:
        thief.client.cookies.update(ada.client.cookies)
        thief.csrf, before = ada.csrf, (await ada.ask("GET", "/session")).json()
        await grows_old(world)
        assert refusal(await ada.ask("POST", "/tokens", {"name": "ci", "scopes": ["read"]})) == NEEDED
        for wrong in ({"password": "wrong", "code": ada.code()}, {"password": PASSWORD, "code": "000000"}):
            assert await proves(world, ada, wrong) == 401
        assert refusal(await ada.ask("POST", "/tokens", {"name": "ci", "scopes": ["read"]})) == NEEDED
        assert await proves(world, ada) == 200
        assert (await ada.ask("POST", "/tokens", {"name": "ci", "scopes": ["read"]})).status_code == 201
        assert refusal(await thief.ask("GET", "/users")) == (401, "SESSION_INVALID")
        # The session is the same, and does not end later.
        after = (await ada.ask("GET", "/session")).json()
        assert after["expires_at"] == before["expires_at"]
        assert after["csrf_token"] != before["csrf_token"]
        assert len((await ada.ask("GET", "/session/sessions")).json()) == 1
        lines = await world.rest("GET", "/audit?action=admin.proof")
        assert [line["outcome"] for line in lines] == ["done", "denied", "denied"]


@slow
async def test_only_a_passkey_of_the_same_account_is_a_proof(world: World) -> None:
    mine, theirs = (Authenticator(world.settings.rest_url) for _ in range(2))
    async with signed_in(world, "ada", "owner") as ada, signed_in(world, "bob", "owner") as bob:
        assert (await added(ada, mine)).status_code == 201
        assert (await added(bob, theirs)).status_code == 201
        await grows_old(world)

        async def shown(person: Person, passkey: Authenticator) -> Any:
            options = (await person.ask("POST", "/session/passkey/options")).json()
            body = {"credential": passkey.get(options)}
            return await person.ask("POST", "/session/proof/passkey", body)

        assert refusal(await shown(bob, mine)) == (401, "PASSKEY_REFUSED")
        assert refusal(await bob.ask("POST", "/tokens", {"name": "b", "scopes": ["read"]})) == NEEDED
        mine.verifies = False
        assert refusal(await shown(ada, mine)) == (401, "PASSKEY_REFUSED")
        mine.verifies = True
        answer = await shown(ada, mine)
        assert answer.status_code == 200
        ada.csrf = answer.json()["csrf_token"]
        assert (await ada.ask("POST", "/tokens", {"name": "a", "scopes": ["read"]})).status_code == 201
        # Signing in also counts as a proof.
        assert (await answered(bob, theirs)).status_code == 200


@slow
async def test_a_proof_counts_only_in_the_session_that_gave_it(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada, browser(world, "ada") as other:
        other._totp = ada._totp
        async with world.database.begin() as session:
            await session.execute(update(Admin).values(last_used_step=0))
        assert (await other.sign_in()).status_code == 200
        await grows_old(world)
        assert await proves(world, ada) == 200
        assert refusal(await other.ask("POST", "/tokens", {"name": "b", "scopes": ["read"]})) == NEEDED


@slow
async def test_a_hundred_notices_are_listed_and_all_are_dismissed(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada:
        for _ in range(NOTICES_MAX + 5):
            await world.rest("POST", "/admins/invitations", {"role": "auditor"})
        listed = (await ada.ask("GET", "/session/notices")).json()
        assert len(listed) == NOTICES_MAX
        assert (await ada.ask("DELETE", f"/session/notices/{listed[0]['id']}")).status_code == 204
        assert (await ada.ask("GET", "/session/notices")).json() == []
