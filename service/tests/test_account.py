"""An administrator's own account: a change needs password and code, and ends the account's other sessions."""

from __future__ import annotations

import time
from typing import Any, cast

import httpx
import pytest
from culvert_db import Admin
from culvert_service.admins.proof import RECOVERY_CODE, new_recovery_codes
from pyotp import parse_uri
from sqlalchemy import update

from .authenticator import Authenticator
from .conftest import World
from .test_admins import PASSWORD, Person, browser, refusal, signed_in
from .test_secrets import dump

slow = pytest.mark.slow

NEW = "staple battery horse correct"
WRONG = (401, "SIGN_IN_WRONG")
NOT_PROVEN = (401, "PROOF_WRONG")


async def proof(world: World, person: Person, password: str = PASSWORD) -> dict[str, str]:
    """With a code that has not been used, however many there were before in this half minute."""
    person._spent = 0
    async with world.database.begin() as session:
        await session.execute(update(Admin).values(last_used_step=0))
    return {"password": password, "code": person.code()}


async def signs_in(world: World, person: Person, password: str, code: str | None = None) -> httpx.Response:
    fresh = (await proof(world, person))["code"]
    return await person.sign_in(password, code or fresh)


def test_recovery_codes_are_told_from_an_authenticators() -> None:
    codes = new_recovery_codes()
    assert len(set(codes)) == 10
    assert all(RECOVERY_CODE.fullmatch(code) for code in codes)
    assert not RECOVERY_CODE.fullmatch("123456")


@slow
async def test_a_new_account_has_recovery_codes_each_of_which_works_once(world: World) -> None:
    invited = await world.rest("POST", "/admins/invitations", {"role": "owner"})
    async with browser(world, "olga") as olga:
        made = (await olga.set_up(invited["token"])).json()
        first, second, *others = made["recovery_codes"]
        assert len(others) == 8
        assert not set(made["recovery_codes"]) & set((await dump(world)).split())
        assert (await olga.sign_in(code=first)).status_code == 200
        assert refusal(await olga.sign_in(code=first)) == WRONG
        assert (await olga.sign_in(code=second)).status_code == 200
        assert (await olga.ask("GET", "/session/credentials")).json()["recovery_codes"] == 8
        (line,) = await world.rest("GET", "/audit?action=admin.create")
        assert line["details"]["recovery_codes"] == 10


@slow
async def test_changing_a_password_needs_the_password_and_a_code(world: World) -> None:
    async with signed_in(world, "eve", "auditor") as eve, browser(world, "eve") as other:
        other._totp = eve._totp
        assert (await signs_in(world, other, PASSWORD)).status_code == 200
        body = await proof(world, eve) | {"new_password": NEW}
        assert refusal(await eve.ask("PUT", "/session/password", body | {"password": "x" * 12})) == NOT_PROVEN
        assert refusal(await eve.ask("PUT", "/session/password", body | {"code": "000000x"})) == NOT_PROVEN
        short = await eve.ask("PUT", "/session/password", body | {"new_password": "short"})
        assert refusal(short) == (422, "REQUEST_INVALID")
        forged = await eve.ask("PUT", "/session/password", body, **{"X-CSRF-Token": ""})
        assert refusal(forged) == (403, "CSRF_INVALID")
        changed = await eve.ask("PUT", "/session/password", body)
        assert changed.status_code == 200
        eve.csrf = changed.json()["csrf_token"]
        assert (await eve.ask("GET", "/users")).status_code == 200
        assert refusal(await other.ask("GET", "/users")) == (401, "SESSION_INVALID")
        assert refusal(await signs_in(world, other, PASSWORD)) == WRONG
        assert (await signs_in(world, other, NEW)).status_code == 200
        lines = await world.rest("GET", "/audit?action=admin.password")
        assert [line["outcome"] for line in lines] == ["done", "denied", "denied"]
        assert not {PASSWORD, NEW} & set((await dump(world)).split())


@slow
async def test_an_authenticator_is_changed_when_the_new_one_has_shown_a_code(world: World) -> None:
    async with (
        signed_in(world, "ada", "owner") as ada,
        signed_in(world, "bob", "admin") as bob,
        browser(world, "ada") as other,
    ):
        begun = await ada.ask("POST", "/session/authenticator", await proof(world, ada))
        assert begun.status_code == 200, begun.text
        other._totp = ada._totp
        assert (await signs_in(world, other, PASSWORD)).status_code == 200
        new: Any = parse_uri(begun.json()["totp_uri"])
        body = {"pending": begun.json()["pending"], "code": "000000"}
        assert refusal(await ada.ask("PUT", "/session/authenticator", body)) == (403, "CODE_WRONG")
        body["code"] = cast("str", new.generate_otp(int(time.time()) // 30))
        changed = f"{int(body['pending'], 16) ^ 1:0{len(body['pending'])}x}"
        for stale in (changed, "zz", ""):
            answer = await ada.ask("PUT", "/session/authenticator", body | {"pending": stale})
            assert refusal(answer) == (422, "REQUEST_INVALID")
        for elsewhere in (bob, other):
            answer = await elsewhere.ask("PUT", "/session/authenticator", body)
            assert refusal(answer) == (422, "REQUEST_INVALID")
        assert (await ada.ask("PUT", "/session/authenticator", body)).status_code == 200
        old = (await proof(world, ada))["code"]
        assert refusal(await ada.sign_in(PASSWORD, old)) == WRONG
        ada._totp = new
        assert (await signs_in(world, ada, PASSWORD)).status_code == 200


@slow
async def test_a_recovery_code_stands_in_for_a_code_once(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada, signed_in(world, "bob", "admin") as bob:
        made = await ada.ask("POST", "/session/recovery-codes", await proof(world, ada))
        first, second, *_ = made.json()["codes"]
        assert refusal(await signs_in(world, bob, PASSWORD, first)) == WRONG
        assert (await signs_in(world, ada, PASSWORD, first.upper())).status_code == 200
        assert refusal(await signs_in(world, ada, PASSWORD, first)) == WRONG
        assert refusal(await signs_in(world, ada, "wrong", second)) == WRONG
        body = {"password": PASSWORD, "code": second}
        begun = await ada.ask("POST", "/session/authenticator", body)
        assert begun.status_code == 200
        again = await ada.ask("POST", "/session/recovery-codes", await proof(world, ada))
        assert refusal(await signs_in(world, ada, PASSWORD, made.json()["codes"][2])) == WRONG
        assert (await signs_in(world, ada, PASSWORD, again.json()["codes"][2])).status_code == 200
        stored = await dump(world)
        assert not [code for code in again.json()["codes"] if code in stored]


@slow
async def test_an_administrator_can_end_only_their_own_sessions(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada, signed_in(world, "eve", "owner") as eve:
        (own,) = (await ada.ask("GET", "/session/sessions")).json()
        assert own["current"]
        path = f"/session/sessions/{own['id']}"
        assert refusal(await eve.ask("DELETE", path)) == (404, "NOT_FOUND")
        assert refusal(await ada.ask("DELETE", path, **{"X-CSRF-Token": "x"})) == (403, "CSRF_INVALID")
        assert (await ada.ask("DELETE", path)).status_code == 204
        assert (await ada.ask("GET", "/session")).status_code == 401
        assert (await eve.ask("GET", "/session")).status_code == 200


async def passkey(person: Person, name: str, origin: str) -> tuple[Authenticator, str]:
    """A passkey that the person has added, and its id."""
    made = Authenticator(origin)
    options = (await person.ask("POST", "/session/passkeys/options")).json()
    body = {"name": name, "credential": made.create(options)}
    answer = await person.ask("POST", "/session/passkeys", body)
    assert answer.status_code == 201, answer.text
    return made, str(answer.json()["id"])


async def shows(person: Person, made: Authenticator) -> httpx.Response:
    options = (await person.ask("POST", "/session/passkey/options")).json()
    return await person.ask("POST", "/session/passkey", {"credential": made.get(options)})


@slow
async def test_a_new_password_ends_every_credential_a_thief_could_have_added(world: World) -> None:
    origin = world.settings.rest_url
    async with (
        signed_in(world, "ada", "owner") as ada,
        signed_in(world, "olga", "owner") as olga,
        browser(world, "ada") as thief,
        browser(world, "eve") as eve,
    ):
        codes = (await ada.ask("POST", "/session/recovery-codes", await proof(world, ada))).json()["codes"]
        kept, kept_id = await passkey(ada, "laptop", origin)
        # A thief has stolen the cookie, and acts within five minutes of a proof.
        thief.client.cookies.update(ada.client.cookies)
        thief.csrf = ada.csrf
        theirs, _ = await passkey(thief, "theirs", origin)
        begun = (await thief.ask("POST", "/session/passkeys/options")).json()
        invited = (await thief.ask("POST", "/admins/invitations", {"role": "owner"})).json()["token"]
        made = (await thief.ask("POST", "/tokens", {"name": "ci", "scopes": ["write"]})).json()
        elsewhere = await shows(thief, theirs)
        assert elsewhere.status_code == 200
        thief.csrf = elsewhere.json()["csrf_token"]
        old = dict(ada.client.cookies)

        listed = (await ada.ask("GET", "/session/credentials")).json()
        assert (listed["has_password"], listed["recovery_codes"]) == (True, 10)
        assert [one["name"] for one in listed["passkeys"]] == ["laptop", "theirs"]
        assert len(listed["sessions"]) == 2
        for one in listed["sessions"]:
            assert one["source"] == "127.0.0.1"
            assert one["user_agent"].startswith("python-httpx/")
            assert one["last_used_at"]
        assert [one["name"] for one in listed["tokens"]] == ["ci"]
        assert [one["role"] for one in listed["invitations"]] == ["owner"]

        body = await proof(world, ada) | {"new_password": NEW, "keep_passkeys": [kept_id]}
        changed = await ada.ask("PUT", "/session/password", body)
        assert changed.status_code == 200
        ada.csrf = changed.json()["csrf_token"]
        for cookies in (old, dict(thief.client.cookies)):
            thief.client.cookies.clear()
            thief.client.cookies.update(cookies)
            assert refusal(await thief.ask("GET", "/session")) == (401, "SESSION_INVALID")
        thief.client.cookies.clear()
        assert refusal(await shows(thief, theirs)) == (401, "PASSKEY_REFUSED")
        assert refusal(await eve.set_up(invited)) == (403, "INVITATION_INVALID")
        late = {"name": "late", "credential": Authenticator(origin).create(begun)}
        assert refusal(await ada.ask("POST", "/session/passkeys", late)) == (401, "PASSKEY_REFUSED")
        assert refusal(await signs_in(world, thief_of(ada, thief), NEW, codes[0])) == WRONG
        # The kept passkey and the API token stay.
        after = (await ada.ask("GET", "/session/credentials")).json()
        assert (after["recovery_codes"], after["invitations"]) == (0, [])
        assert ([one["name"] for one in after["passkeys"]], len(after["sessions"])) == (["laptop"], 1)
        assert [one["id"] for one in after["tokens"]] == [made["id"]]
        assert (await shows(thief, kept)).status_code == 200
        [told] = [
            one
            for one in (await olga.ask("GET", "/session/notices")).json()
            if one["action"] == "admin.password"
        ]
        assert (told["object"], told["actor"]) == ("admin/ada", "ada")
        assert told["details"] == {"sessions": 1, "recovery_codes": 10, "invitations": 1, "passkeys": 1}
        assert (await ada.ask("GET", "/session/notices")).json()[0]["action"] == "admin.create"


def thief_of(person: Person, thief: Person) -> Person:
    thief._totp = person._totp
    return thief


@slow
async def test_every_credential_but_the_last_can_be_removed(world: World) -> None:
    async with signed_in(world, "ada", "auditor") as ada, browser(world, "ada") as other:
        await ada.ask("POST", "/session/recovery-codes", await proof(world, ada))
        assert refusal(await ada.ask("DELETE", "/session/password")) == (409, "LAST_SIGN_IN")
        assert (await ada.ask("DELETE", "/session/recovery-codes")).status_code == 204
        made, made_id = await passkey(ada, "key", world.settings.rest_url)
        assert (await ada.ask("DELETE", "/session/password")).status_code == 204
        assert refusal(await signs_in(world, thief_of(ada, other), PASSWORD)) == WRONG
        path = f"/session/passkeys/{made_id}"
        assert refusal(await ada.ask("DELETE", path)) == (409, "LAST_SIGN_IN")
        assert (await shows(other, made)).status_code == 200
        assert refusal(await ada.ask("DELETE", "/session/identities/x")) == (404, "NOT_FOUND")
        listed = (await ada.ask("GET", "/session/credentials")).json()
        assert (listed["has_password"], listed["recovery_codes"], len(listed["passkeys"])) == (False, 0, 1)


@slow
async def test_a_removed_or_demoted_owner_loses_invitations_and_tokens(world: World) -> None:
    async with (
        signed_in(world, "olga", "owner") as olga,
        signed_in(world, "ada", "owner") as ada,
        signed_in(world, "bob", "owner") as bob,
        browser(world, "eve") as eve,
    ):

        async def makes(person: Person, name: str) -> tuple[str, str]:
            token = await person.ask("POST", "/tokens", {"name": name, "scopes": ["read"]})
            invitation = await person.ask("POST", "/admins/invitations", {"role": "owner"})
            return token.json()["token"], invitation.json()["token"]

        async def works(token: str) -> bool:
            answer = await world.anyone.get("/api/v1/users", headers={"Authorization": f"Bearer {token}"})
            return answer.is_success

        (ada_token, ada_invited), (bob_token, bob_invited) = await makes(ada, "a"), await makes(bob, "b")
        open_ones = (await olga.ask("GET", "/admins/invitations")).json()
        assert sorted(one["created_by"] for one in open_ones) == ["ada", "bob"]
        assert (await olga.ask("DELETE", "/admins/bob?keep_tokens=true")).status_code == 204
        demoted = await olga.ask("PUT", "/admins/ada/role", {"role": "auditor"}, **{"If-Match": "*"})
        assert demoted.status_code == 200
        assert (await works(bob_token), await works(ada_token)) == (True, False)
        for token in (ada_invited, bob_invited):
            assert refusal(await eve.set_up(token)) == (403, "INVITATION_INVALID")
        [line] = await world.rest("GET", "/audit?action=admin.role")
        assert (line["details"]["tokens"], line["details"]["invitations"]) == ("a", 1)
        _, withdrawn = await makes(olga, "o")
        [one] = (await olga.ask("GET", "/admins/invitations")).json()
        assert (await olga.ask("DELETE", f"/admins/invitations/{one['id']}")).status_code == 204
        assert refusal(await olga.ask("DELETE", f"/admins/invitations/{one['id']}")) == (404, "NOT_FOUND")
        assert refusal(await eve.set_up(withdrawn)) == (403, "INVITATION_INVALID")
