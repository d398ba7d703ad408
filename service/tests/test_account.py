"""One's own account: changed by who proves password and code, which ends every other session of it."""

from __future__ import annotations

import time
from typing import Any, cast

import httpx
import pytest
from culvert_db import Admin
from culvert_service.admins.account import _recovery_code
from culvert_service.admins.proof import RECOVERY_CODE
from pyotp import parse_uri
from sqlalchemy import update

from .conftest import World
from .test_admins import PASSWORD, Person, browser, refusal, signed_in
from .test_secrets import dump

slow = pytest.mark.slow

NEW = "staple battery horse correct"
WRONG = (401, "SIGN_IN_WRONG")


async def proof(world: World, person: Person, password: str = PASSWORD) -> dict[str, str]:
    """With a code that has not been used, however many there were before in this half minute."""
    person._spent = 0
    async with world.sessions.begin() as session:
        await session.execute(update(Admin).values(last_used_step=0))
    return {"password": password, "code": person.code()}


async def signs_in(world: World, person: Person, password: str, code: str | None = None) -> httpx.Response:
    fresh = (await proof(world, person))["code"]
    return await person.sign_in(password, code or fresh)


def test_recovery_codes_are_told_from_an_authenticators() -> None:
    assert all(RECOVERY_CODE.fullmatch(_recovery_code()) for _ in range(100))
    assert not RECOVERY_CODE.fullmatch("123456")


@slow
async def test_a_password_is_changed_by_who_knows_it(world: World) -> None:
    async with signed_in(world, "eve", "auditor") as eve, browser(world, "eve") as other:
        other._totp = eve._totp
        assert (await signs_in(world, other, PASSWORD)).status_code == 200
        body = await proof(world, eve) | {"new_password": NEW}
        assert refusal(await eve.ask("PUT", "/session/password", body | {"password": "x" * 12})) == WRONG
        assert refusal(await eve.ask("PUT", "/session/password", body | {"code": "000000x"})) == WRONG
        short = await eve.ask("PUT", "/session/password", body | {"new_password": "short"})
        assert refusal(short) == (422, "REQUEST_INVALID")
        forged = await eve.ask("PUT", "/session/password", body, **{"X-CSRF-Token": ""})
        assert refusal(forged) == (403, "CSRF_INVALID")
        assert (await eve.ask("PUT", "/session/password", body)).status_code == 204
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
        assert (await ada.ask("PUT", "/session/authenticator", body)).status_code == 204
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
async def test_who_is_signed_in_ends_their_own_sessions_and_nobody_elses(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada, signed_in(world, "eve", "owner") as eve:
        (own,) = (await ada.ask("GET", "/session/sessions")).json()
        assert own["current"]
        path = f"/session/sessions/{own['id']}"
        assert refusal(await eve.ask("DELETE", path)) == (404, "NOT_FOUND")
        assert refusal(await ada.ask("DELETE", path, **{"X-CSRF-Token": "x"})) == (403, "CSRF_INVALID")
        assert (await ada.ask("DELETE", path)).status_code == 204
        assert (await ada.ask("GET", "/session")).status_code == 401
        assert (await eve.ask("GET", "/session")).status_code == 200
