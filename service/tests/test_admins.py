"""Administrators: the first owner, sign-in, what each role and token may do, and guesses that lock nobody else out."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
from culvert_db import Admin, AdminSession, ApiToken, Role, WrongCodes
from culvert_proto import CulvertError, Reason
from culvert_service.admins import guesses, repository
from culvert_service.admins.access import COOKIE
from culvert_service.admins.endpoints import KNOWN_COOKIE
from culvert_service.admins.guesses import Codes, Guesses
from culvert_service.admins.permission import (
    AREAS,
    OWNERS_AREAS,
    SCOPES,
    ByRoot,
    ByScopes,
    BySession,
    Caller,
    check,
)
from culvert_service.operation.commands import init
from hypothesis import given
from hypothesis import strategies as st
from pyotp import parse_uri
from sqlalchemy import select, update

from .conftest import World
from .test_secrets import dump, spellings

slow = pytest.mark.slow

PASSWORD = "correct horse battery"
NOW = datetime.datetime(2026, 1, 31, 9, tzinfo=datetime.UTC)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def permitted(caller: Caller, method: str, area: str) -> bool:
    try:
        check(caller, method, area)
    except CulvertError as error:
        return error.reason is not Reason.NOT_PERMITTED
    return True


@given(st.sampled_from(METHODS), st.sampled_from(AREAS + OWNERS_AREAS), st.sets(st.sampled_from(SCOPES)))
def test_roles_and_scopes(method: str, area: str, scopes: set[str]) -> None:
    reads, owners = method in ("GET", "HEAD"), area in OWNERS_AREAS
    assert permitted(ByRoot("x"), method, area)
    assert permitted(BySession("x", Role.OWNER, NOW), method, area)
    assert permitted(BySession("x", Role.ADMIN, NOW), method, area) == (reads or not owners)
    assert permitted(BySession("x", Role.AUDITOR, NOW), method, area) == reads
    enough = {"write", f"{area}:write"} | ({"read", f"{area}:read"} if reads else set[str]())
    assert permitted(ByScopes("x", sorted(scopes)), method, area) == (not owners and bool(scopes & enough))


def test_each_fifth_wrong_guess_locks_for_twice_as_long() -> None:
    found, now, locks = Guesses(), NOW, list[int]()
    for _ in range(25):
        found = found.with_failure(now)
        if seconds := found.locked_seconds(now):
            locks.append(seconds)
            now += datetime.timedelta(seconds=seconds)
            assert not found.locked_seconds(now)
    assert locks == [60, 120, 240, 480, 960]
    assert Guesses(5 * 40 - 1).with_failure(NOW).locked_seconds(NOW) == guesses.FORGET.total_seconds()


def test_from_the_fifth_wrong_code_on_each_delay_is_twice_the_last() -> None:
    found, now, delays = Codes(), NOW, list[int]()
    for _ in range(15):
        found = found.with_failure(now)
        delays.append(found.locked_seconds(now))
        now += datetime.timedelta(seconds=delays[-1])
        assert not found.locked_seconds(now)
    assert delays == [0, 0, 0, 0, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900]
    # A /48 has more guesses at once than each of its /64.
    assert not Guesses(4).with_failure(NOW, 20).locked_seconds(NOW)
    assert Guesses(19).with_failure(NOW, 20).locked_seconds(NOW) == 60


class Person:
    """An administrator with a browser: cookies, a CSRF token, an authenticator."""

    def __init__(self, name: str, client: httpx.AsyncClient) -> None:
        self.name = name
        self.client = client
        self.csrf = ""
        self._totp: Any = None
        self._spent = 0

    async def set_up(self, token: str) -> httpx.Response:
        body = {"token": token, "name": self.name, "password": PASSWORD}
        answer = await self.client.post("/api/v1/setup", json=body)
        if answer.is_success:
            self._totp = parse_uri(answer.json()["totp_uri"])
        return answer

    def code(self) -> str:
        self._spent = max(int(time.time()) // 30, self._spent + 1)
        return cast("str", self._totp.generate_otp(self._spent))

    async def sign_in(self, password: str = PASSWORD, code: str | None = None) -> httpx.Response:
        body = {"name": self.name, "password": password, "code": code or self.code()}
        answer = await self.client.post("/api/v1/session", json=body)
        if answer.is_success:
            self.csrf = answer.json()["csrf_token"]
        return answer

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        sent = {"X-CSRF-Token": self.csrf} | headers
        return await self.client.request(method, f"/api/v1{path}", json=body, headers=sent)


@asynccontextmanager
async def browser(world: World, name: str, address: str = "127.0.0.1") -> AsyncGenerator[Person]:
    verify = cast("Any", world.anyone)._transport._pool._ssl_context
    transport = httpx.AsyncHTTPTransport(verify=verify, local_address=address, trust_env=False)
    async with httpx.AsyncClient(base_url=world.settings.rest_url, transport=transport, timeout=30) as client:
        yield Person(name, client)


@asynccontextmanager
async def signed_in(world: World, name: str, role: str) -> AsyncGenerator[Person]:
    async with browser(world, name) as person:
        invitation = await world.rest("POST", "/admins/invitations", {"role": role})
        assert (await person.set_up(invitation["token"])).status_code == 201
        assert (await person.sign_in()).status_code == 200
        yield person


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]


@slow
async def test_init_invites_owners_only_until_the_first_exists(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await init(world.settings)
    warned = capsys.readouterr().out
    assert "Browsers warn" in warned.partition("For the first owner")[0]
    first = warned.split('"token": "')[1].split('"')[0]
    await init(world.settings.model_copy(update={"acme_directory": "https://ca.example/directory"}))
    silent = capsys.readouterr().out
    assert "Browsers warn" not in silent
    token = silent.split('"token": "')[1].split('"')[0]
    async with browser(world, "ada") as ada:
        assert refusal(await ada.set_up(first)) == (403, "INVITATION_INVALID")
        assert (await ada.set_up(token)).status_code == 201
        answer = await ada.sign_in()
        assert refusal(await ada.set_up(token)) == (403, "INVITATION_INVALID")
        assert answer.json()["role"] == "owner"
        cookie = answer.headers["set-cookie"].lower()
        assert cookie.startswith(f"{COOKIE.lower()}=")
        assert {"secure", "httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))
        await init(world.settings)
        assert "There is an owner" in capsys.readouterr().out
        assert refusal(await ada.ask("DELETE", "/admins/ada")) == (409, "LAST_OWNER")
        assert (await ada.client.get("/api/v1/session")).json()["csrf_token"] == ada.csrf
        assert (await ada.ask("DELETE", "/session")).status_code == 204
        assert refusal(await ada.ask("GET", "/session")) == (401, "SESSION_INVALID")


@slow
async def test_a_write_with_the_cookie_needs_the_csrf_token(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada:
        body = {"name": "bob", "email": "bob@corp.example"}
        for wrong in ("", "x" * 64):
            answer = await ada.ask("POST", "/users", body, **{"X-CSRF-Token": wrong})
            assert refusal(answer) == (403, "CSRF_INVALID")
            assert refusal(await ada.ask("DELETE", "/session", **{"X-CSRF-Token": wrong}))[0] == 403
        assert (await ada.ask("POST", "/users", body)).status_code == 201
        (line,) = (await ada.ask("GET", "/audit?object=user/bob")).json()
        assert (line["actor_kind"], line["actor"]) == ("admin", "ada")
        assert (await world.admin.delete("/api/v1/admins/ada")).status_code == 409


@slow
async def test_an_auditor_reads_everything_and_changes_nothing(world: World) -> None:
    paths = (await world.anyone.get("/openapi.json")).json()["paths"]
    open_to_all = {
        "/healthz",
        "/readyz",
        "/api/v1/ca",
        "/api/v1/enrolments",
        "/api/v1/enrolments/invitation",
        "/api/v1/renewals",
        "/api/v1/renewals/challenge",
        "/api/v1/setup",
        "/api/v1/setup/invitation",
        "/api/v1/session",
        "/api/v1/gateway-joins",
        "/api/v1/gateway-joins/check",
        "/api/v1/gateway-renewals",
        "/api/v1/gateway-leaves",
        "/api/v1/gateway-states",
        "/api/v1/gateway-reports",
    }
    async with signed_in(world, "eve", "auditor") as eve:
        for path, methods in paths.items():
            # A live view has no end: test_live.py.
            if path in open_to_all or path.startswith(("/api/v1/events", "/api/v1/session/", "/api/v1/oidc")):
                continue
            assert path.split("/")[3] in AREAS + OWNERS_AREAS, path
            for method in methods:
                answer = await eve.ask(method.upper(), path.removeprefix("/api/v1"))
                if method == "get":
                    assert answer.status_code in (200, 404, 422), path
                else:
                    assert refusal(answer) == (403, "NOT_PERMITTED"), path
        denied = (await eve.ask("GET", "/audit?outcome=denied&actor=eve")).json()
        assert {line["reason"] for line in denied} == {"NOT_PERMITTED"}


@slow
async def test_an_admin_administers_all_but_administrators(world: World) -> None:
    async with signed_in(world, "ada", "owner"), signed_in(world, "bob", "admin") as bob:
        body = {"name": "carol", "email": "carol@corp.example"}
        assert (await bob.ask("POST", "/users", body)).status_code == 201
        assert refusal(await bob.ask("POST", "/admins/invitations", {"role": "owner"})) == (
            403,
            "NOT_PERMITTED",
        )
        assert (await world.admin.delete("/api/v1/admins/bob")).status_code == 204
        assert refusal(await bob.ask("GET", "/users")) == (401, "SESSION_INVALID")


@slow
async def test_guesses_lock_a_name_for_their_address_alone(world: World) -> None:
    async with (
        signed_in(world, "ada", "owner") as ada,
        browser(world, "ada", "127.0.0.2") as thief,
        browser(world, "nobody", "127.0.0.2") as other,
    ):
        for _ in range(5):
            assert refusal(await thief.sign_in("wrong", "000000")) == (401, "SIGN_IN_WRONG")
        code = ada.code()
        assert refusal(await thief.sign_in(PASSWORD, code)) == (429, "SIGN_IN_LOCKED")
        assert refusal(await other.sign_in("wrong", "000000")) == (401, "SIGN_IN_WRONG")
        for wrong in ({"code": "000000x"}, {"password": "wrong"}):
            assert refusal(await ada.sign_in(**wrong)) == (401, "SIGN_IN_WRONG")
        if int(time.time()) // 30 + 1 >= ada._spent:
            assert (await ada.sign_in(code=code)).status_code == 200
            assert refusal(await ada.sign_in(code=code)) == (401, "SIGN_IN_WRONG")


async def passes(world: World, name: str, minutes: int) -> None:
    """Move the times of the last wrong code into the past."""
    ago = datetime.timedelta(minutes=minutes)
    async with world.database.begin() as session:
        for column in (Admin.code_failed_at, Admin.code_locked_until):
            earlier = update(Admin).where(Admin.name == name, column.is_not(None))
            await session.execute(earlier.values({column: column - ago}))
        await session.execute(update(Admin).where(Admin.name == name).values(last_used_step=0))


@slow
async def test_wrong_codes_after_the_password_delay_the_account_everywhere(
    world: World,
) -> None:
    async with signed_in(world, "ada", "owner") as ada, signed_in(world, "olga", "owner") as olga:
        body = {"password": PASSWORD, "code": ada.code()}
        recovery = (await ada.ask("POST", "/session/recovery-codes", body)).json()["codes"]
        answers = list[tuple[int, str]]()
        for number in range(2, 42):
            async with browser(world, "ada", f"127.0.0.{number}") as thief:
                answers.append(refusal(await thief.sign_in(PASSWORD, "000000")))
        assert answers[:5] == [(401, "SIGN_IN_WRONG")] * 5
        # A slow run gets further guesses: one after five seconds, the next ten seconds later.
        assert answers.count((401, "SIGN_IN_WRONG")) < 10
        assert set(answers[5:]) <= {(401, "SIGN_IN_WRONG"), (429, "SIGN_IN_SLOWED")}
        # A stranger without the password learns nothing and locks nothing.
        async with browser(world, "ada", "127.0.0.99") as stranger:
            assert refusal(await stranger.sign_in("wrong", "000000")) == (401, "SIGN_IN_WRONG")
        # Prolong the last delay by a minute, so that a slow run stays within it.
        await passes(world, "ada", -1)
        async with browser(world, "ada", "127.0.0.100") as other:
            assert refusal(await other.sign_in(code=ada.code())) == (429, "SIGN_IN_SLOWED")
            assert (await other.sign_in(code=recovery[0])).status_code == 200
            # The notice is the newest one; an older notice tells that olga's account was made.
            notice, *_ = (await other.ask("GET", "/session/notices")).json()
            assert (notice["action"], notice["object"]) == ("admin.wrong-codes", "admin/ada")
            assert notice["details"]["codes"] >= 5
            assert "127.0.0.2/32" in notice["details"]["from"]
            path = f"/session/notices/{notice['id']}"
            assert refusal(await olga.ask("DELETE", path)) == (404, "NOT_FOUND")
            assert (await other.ask("DELETE", path)).status_code == 204
            assert (await other.ask("GET", "/session/notices")).json() == []
        await passes(world, "ada", 15)
        async with browser(world, "ada", "127.0.0.101") as other:
            ada._spent = 0
            assert (await other.sign_in(code=ada.code())).status_code == 200
            # There is no second notice of the same codes.
            assert (await other.ask("GET", "/session/notices")).json() == []
        told = (await olga.ask("GET", "/session/notices")).json()
        assert [one["object"] for one in told if one["action"] == "admin.wrong-codes"] == ["admin/ada"]


@slow
async def test_a_stranger_at_the_same_address_does_not_lock_a_known_browser(world: World) -> None:
    async with (
        signed_in(world, "ada", "owner") as ada,
        signed_in(world, "bob", "admin") as bob,
        browser(world, "ada") as stranger,
    ):
        # The cookie of another administrator does not make the browser known.
        stranger.client.cookies.update({KNOWN_COOKIE: bob.client.cookies[KNOWN_COOKIE]})
        for _ in range(5):
            assert refusal(await stranger.sign_in("wrong", "000000")) == (401, "SIGN_IN_WRONG")
        assert refusal(await stranger.sign_in("wrong", "000000")) == (429, "SIGN_IN_LOCKED")
        await passes(world, "ada", 0)
        ada._spent = 0
        assert (await ada.sign_in()).status_code == 200
        # The guesses of the known browser are counted, too.
        for _ in range(5):
            assert refusal(await ada.sign_in("wrong", "000000")) == (401, "SIGN_IN_WRONG")
        assert refusal(await ada.sign_in("wrong", "000000")) == (429, "SIGN_IN_LOCKED")


@slow
async def test_a_code_signs_in_a_single_one_of_concurrent_requests(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada, browser(world, "ada", "127.0.0.2") as thief:
        code = ada.code()
        answers = await asyncio.gather(*(one.sign_in(code=code) for one in (ada, thief, ada, thief)))
        assert sorted(answer.status_code for answer in answers) == [200, 401, 401, 401]


@slow
async def test_wrong_codes_expire_in_an_hour_and_a_few_own_ones_give_no_notice(
    world: World,
) -> None:
    async with signed_in(world, "ada", "auditor") as ada:
        for _ in range(4):
            assert refusal(await ada.sign_in(code="000000")) == (401, "SIGN_IN_WRONG")
        await passes(world, "ada", 60)
        async with browser(world, "ada", "127.0.0.2") as other:
            for _ in range(4):
                assert refusal(await other.sign_in(PASSWORD, "000000")) == (401, "SIGN_IN_WRONG")
        await passes(world, "ada", 0)
        ada._spent = 0
        assert (await ada.sign_in()).status_code == 200
        # Eight wrong codes, four of them from another address.
        [notice] = (await ada.ask("GET", "/session/notices")).json()
        assert notice["details"] == {"codes": 8, "from": "127.0.0.1/32, 127.0.0.2/32"}
        assert (await ada.ask("DELETE", f"/session/notices/{notice['id']}")).status_code == 204
        assert refusal(await ada.sign_in(code="000000")) == (401, "SIGN_IN_WRONG")
        await passes(world, "ada", 0)
        ada._spent = 0
        assert (await ada.sign_in()).status_code == 200
        assert (await ada.ask("GET", "/session/notices")).json() == []


@slow
async def test_wrong_recovery_codes_do_not_delay_the_authenticators_code(world: World) -> None:
    async with signed_in(world, "ada", "auditor") as ada:
        for number in range(2, 12):
            async with browser(world, "ada", f"127.0.0.{number}") as thief:
                answer = await thief.sign_in(PASSWORD, "aaaaaaaa-aaaaaaaa")
                assert refusal(answer) == (401, "SIGN_IN_WRONG")
        await passes(world, "ada", 0)
        ada._spent = 0
        async with browser(world, "ada", "127.0.0.100") as other:
            assert (await other.sign_in(code=ada.code())).status_code == 200
            [notice] = (await other.ask("GET", "/session/notices")).json()
            assert notice["details"]["codes"] == 10


@slow
async def test_wrong_codes_beyond_the_remembered_prefixes_are_still_counted(world: World) -> None:
    async with signed_in(world, "ada", "auditor") as ada:
        async with world.database.begin() as session:
            admin = await repository.by_name(session, "ada")
            assert admin is not None
            for number in range(2 * repository.SOURCES_MAX):
                source = f"2001:db8:0:{number:x}::/64"
                await repository.note_wrong_code(
                    session, admin.id, source, datetime.datetime.now(datetime.UTC)
                )
            rows = (await session.scalars(select(WrongCodes))).all()
            assert len(rows) == repository.SOURCES_MAX + 1
        await passes(world, "ada", 0)
        ada._spent = 0
        assert (await ada.sign_in()).status_code == 200
        [notice] = (await ada.ask("GET", "/session/notices")).json()
        assert notice["details"]["codes"] == 2 * repository.SOURCES_MAX
        assert notice["details"]["from"].startswith("elsewhere, 2001:db8:0:")
        assert notice["details"]["from"].endswith(" and 16 more")


@slow
async def test_an_unfinished_account_keeps_its_name_and_role(world: World) -> None:
    owners = (await world.rest("POST", "/admins/invitations", {"role": "owner"}))["token"]
    auditors = (await world.rest("POST", "/admins/invitations", {"role": "auditor"}))["token"]
    async with browser(world, "olga") as olga, browser(world, "olga") as thief:
        assert (await olga.set_up(owners)).status_code == 201
        for token in (
            auditors,
            (await world.rest("POST", "/admins/invitations", {"role": "owner"}))["token"],
        ):
            assert refusal(await thief.set_up(token)) == (409, "ALREADY_EXISTS")
        assert (await olga.sign_in()).json()["role"] == "owner"
    # The invitation stays valid for another name, but not for the name of root's token.
    async with browser(world, "admin-token") as posing, browser(world, "eve") as eve:
        assert refusal(await posing.set_up(auditors)) == (409, "ALREADY_EXISTS")
        assert (await eve.set_up(auditors)).status_code == 201
        # An account without a sign-in ends when its invitation expires.
        async with world.database.begin() as session:
            ended = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
            await session.execute(update(Admin).where(Admin.name == "eve").values(setup_until=ended))
        assert refusal(await eve.sign_in()) == (401, "SIGN_IN_WRONG")
        another = (await world.rest("POST", "/admins/invitations", {"role": "admin"}))["token"]
        assert (await eve.set_up(another)).status_code == 201
        assert (await eve.sign_in()).json()["role"] == "admin"


@slow
async def test_a_link_makes_the_account_anew_until_its_first_sign_in(world: World) -> None:
    async def invite() -> str:
        made = await world.rest("POST", "/admins/invitations", {"role": "admin"})
        assert made["link"] == f"{world.settings.rest_url}/console/setup#token={made['token']}"
        return str(made["token"])

    async def shows(token: str) -> httpx.Response:
        return await world.anyone.post("/api/v1/setup/invitation", json={"token": token})

    token = await invite()
    assert (await shows(token)).json() == {"role": "admin"}
    async with browser(world, "ada") as ada, browser(world, "eve") as eve, browser(world, "eve") as old:
        for person in (ada, old, eve):
            assert (await person.set_up(token)).status_code == 201
        for person in (ada, old):
            assert refusal(await person.sign_in()) == (401, "SIGN_IN_WRONG")
        assert [one["name"] for one in await world.rest("GET", "/admins")] == ["eve"]
        assert (await shows(token)).json() == {"role": "admin"}
        assert (await eve.sign_in()).json()["role"] == "admin"
        assert refusal(await ada.set_up(token)) == (403, "INVITATION_INVALID")
        assert refusal(await shows(token)) == (403, "INVITATION_INVALID")
        # At once, too, it makes one account.
        token = await invite()
        async with browser(world, "bob") as bob:
            made = await asyncio.gather(ada.set_up(token), bob.set_up(token))
            assert [one.status_code for one in made] == [201, 201]
        assert len(await world.rest("GET", "/admins")) == 2
        assert (await ada.set_up(token)).status_code == 201
        # Nor does the link undo what an owner has changed.
        await world.admin.put("/api/v1/admins/ada/role", json={"role": "auditor"}, headers={"If-Match": "*"})
        assert refusal(await ada.set_up(token)) == (403, "INVITATION_INVALID")
        await world.rest("DELETE", "/admins/ada")
        token = await invite()
        assert (await ada.set_up(token)).status_code == 201
        await world.rest("DELETE", "/admins/ada")
        assert refusal(await ada.set_up(token)) == (403, "INVITATION_INVALID")
        token = await invite()
        assert (await ada.set_up(token)).status_code == 201
        [one] = await world.rest("GET", "/admins/invitations")
        await world.rest("DELETE", f"/admins/invitations/{one['id']}")
        assert refusal(await ada.sign_in()) == (401, "SIGN_IN_WRONG")
        assert refusal(await ada.set_up(token)) == (403, "INVITATION_INVALID")


@slow
async def test_a_session_ends(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada:
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
        async with world.database.begin() as session:
            await session.execute(update(AdminSession).values(expires_at=past))
        assert refusal(await ada.ask("GET", "/users")) == (401, "SESSION_INVALID")


@slow
async def test_a_token_does_what_its_scopes_say_until_it_expires(world: World) -> None:
    made = await world.rest("POST", "/tokens", {"name": "ci", "scopes": ["users:write", "gateways:read"]})
    bearer = {"Authorization": f"Bearer {made['token']}"}

    async def ask(method: str, path: str, body: object = None) -> httpx.Response:
        return await world.anyone.request(method, f"/api/v1{path}", json=body, headers=bearer)

    assert (await ask("GET", "/users")).status_code == 200
    assert (await ask("POST", "/users", {"name": "bob", "email": "bob@corp.example"})).status_code == 201
    assert (await ask("GET", "/gateways")).status_code == 200
    for method, path in (
        ("POST", "/gateways"),
        ("GET", "/resources"),
        ("GET", "/tokens"),
        ("POST", "/tokens"),
    ):
        assert refusal(await ask(method, path)) == (403, "NOT_PERMITTED"), path
    assert "token" not in (await world.rest("GET", "/tokens"))[0]
    async with world.database.begin() as session:
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
        await session.execute(update(ApiToken).values(expires_at=past))
    assert refusal(await ask("GET", "/users")) == (401, "ADMIN_TOKEN_INVALID")
    await world.rest("DELETE", f"/tokens/{made['id']}")
    for name in ("admin-token", "x"):
        scopes = ["read"] if name == "admin-token" else ["everything"]
        answer = await world.admin.post("/api/v1/tokens", json={"name": name, "scopes": scopes})
        assert answer.status_code in (409, 422)


@slow
async def test_no_secret_of_an_administrator_rests_in_clear(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada:
        invited = await world.rest("POST", "/admins/invitations", {"role": "auditor"})
        made = await world.rest("POST", "/tokens", {"name": "ci", "scopes": ["read"]})
        stored = await dump(world)
        secrets = {PASSWORD, ada.csrf, ada.client.cookies[COOKIE], invited["token"], made["token"]}
        for secret in secrets | spellings(ada._totp.byte_secret()):
            assert secret not in stored


@slow
async def test_changing_a_role_needs_its_current_version(world: World) -> None:
    async with signed_in(world, "ada", "owner") as ada, signed_in(world, "bob", "auditor") as bob:
        seen = (await ada.ask("GET", "/admins/bob")).headers["etag"]
        asked = {"role": "admin"}
        assert refusal(await ada.ask("PUT", "/admins/bob/role", asked)) == (428, "VERSION_NEEDED")
        assert refusal(await bob.ask("PUT", "/admins/bob/role", asked)) == (403, "NOT_PERMITTED")
        changed = await ada.ask("PUT", "/admins/bob/role", asked, **{"If-Match": seen})
        assert (changed.status_code, changed.json()["role"]) == (200, "admin")
        body = {"name": "carol", "email": "carol@corp.example"}
        assert (await bob.ask("POST", "/users", body)).status_code == 201
        for stale in (seen, f"W/{changed.headers['etag']}", '"99", "98"'):
            answer = await ada.ask("PUT", "/admins/bob/role", {"role": "owner"}, **{"If-Match": stale})
            assert refusal(answer) == (412, "VERSION_STALE")
            assert answer.headers["etag"] == changed.headers["etag"]
            assert stale in answer.json()["detail"]
            assert changed.headers["etag"] in answer.json()["detail"]
        anyone = {"If-Match": "*"}
        assert refusal(await ada.ask("PUT", "/admins/ada/role", asked, **anyone)) == (409, "LAST_OWNER")
        assert refusal(await ada.ask("PUT", "/admins/eve/role", asked, **anyone)) == (404, "NOT_FOUND")
        assert (await ada.ask("PUT", "/admins/bob/role", {"role": "owner"}, **anyone)).status_code == 200
        assert (await bob.ask("PUT", "/admins/ada/role", asked, **anyone)).status_code == 200
