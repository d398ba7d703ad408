"""OpenID Connect against a provider that serves: accounts, sessions and invitations for whom it knows, and nobody else."""

from __future__ import annotations

import datetime
import logging
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import httpx
import oidc_provider_mock
import pytest
from culvert_proto import CulvertError, Reason
from culvert_proto.invitation_link import parse_invitation
from culvert_service.config import ConfigurationError, Settings, load
from culvert_service.oidc import flow as flows
from culvert_service.oidc.calls import ProviderCalls, trust
from culvert_service.oidc.provider import Provider
from culvert_service.pki.master_key import MasterKey
from joserfc.jwk import ECKey, Key, OctKey, RSAKey

from .authenticator import Authenticator
from .conftest import World, running, settings_in
from .oidc_server import CLIENT, KEY, SECRET, Json, Shape, serving
from .test_admins import Person, browser, refusal
from .test_secrets import dump

slow = pytest.mark.slow

NOW = datetime.datetime(2026, 1, 31, 9, tzinfo=datetime.UTC)
CREDENTIALS = {"oidc_client_id": "c", "oidc_client_secret_file": "/x"}


def user(name: str, email: str, *, verified: bool = True) -> oidc_provider_mock.User:
    return oidc_provider_mock.User(sub=name, claims={"email": email, "email_verified": verified})


@pytest.fixture
def issuer() -> Iterator[str]:
    known = [
        user("ada", "ada@corp.example"),
        user("alice", "alice@corp.example"),
        user("mallory", "alice@corp.example", verified=False),
        user("max", "Max.Mustermann@corp.example"),
    ]
    # The provider's own log tells each of its requests whole; it is not ours.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with oidc_provider_mock.run_server_in_thread(user_claims=known, require_nonce=True) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
async def world(tmp_path: Path, database_url: str, issuer: str) -> AsyncGenerator[World]:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    oidc = {
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret_file": tmp_path / "secret",
    }
    async with running(settings_in(tmp_path, database_url=database_url, **oidc)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


async def at_provider(person: Person, subject: str, **asked: str) -> str:
    """Sign in at the provider, and return the address that it redirects the browser to."""
    begun = await person.ask("POST", "/oidc", asked)
    assert begun.status_code == 200, begun.text
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(begun.json()["url"], data={"sub": subject})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


async def through(person: Person, subject: str, **asked: str) -> httpx.Response:
    return await person.client.get(await at_provider(person, subject, **asked))


async def invitation(world: World, role: str) -> str:
    return str((await world.rest("POST", "/admins/invitations", {"role": role}))["token"])


@slow
async def test_an_invited_administrator_sets_up_and_signs_in_without_a_password(world: World) -> None:
    token = await invitation(world, "auditor")
    async with browser(world, "ada") as ada:
        assert refusal(await through(ada, "ada", purpose="sign-in")) == (403, "OIDC_UNKNOWN")
        made = await through(ada, "ada", purpose="setup", token=token, name="ada")
        assert (made.status_code, made.headers["location"]) == (303, "/")
        assert (await ada.client.get("/api/v1/session")).json()["role"] == "auditor"
        assert token not in await dump(world)
        for again in (token, await invitation(world, "owner")):
            answer = await through(ada, "ada", purpose="setup", token=again, name="ada2")
            assert answer.status_code in (403, 409)
    async with browser(world, "ada") as ada:
        assert (await through(ada, "ada", purpose="sign-in")).status_code == 303
        shown = (await ada.client.get("/api/v1/session")).json()
        assert shown["name"] == "ada"
        ada.csrf = shown["csrf_token"]
        assert (await ada.ask("GET", "/users")).status_code == 200
        assert refusal(await ada.sign_in("", "000000")) == (401, "SIGN_IN_WRONG")
        await world.rest("DELETE", "/admins/ada")
        assert refusal(await through(ada, "ada", purpose="sign-in")) == (403, "OIDC_UNKNOWN")
    done = await world.rest("GET", "/audit?action=admin.sign-in&outcome=done")
    assert {(line["actor"], line["details"]["subject"]) for line in done} == {("ada", "ada")}


@slow
async def test_the_provider_does_not_sign_in_to_an_unfinished_account(world: World) -> None:
    async with browser(world, "ada") as owner, browser(world, "ada") as ada:
        assert (await owner.set_up(await invitation(world, "owner"))).status_code == 201
        token = await invitation(world, "auditor")
        answer = await through(ada, "ada", purpose="setup", token=token, name="ada")
        assert refusal(answer) == (409, "ALREADY_EXISTS")
        assert (await owner.sign_in()).json()["role"] == "owner"


@slow
async def test_a_provider_account_is_removable_while_another_credential_is_left(world: World) -> None:
    async with browser(world, "ada") as ada:
        token = await invitation(world, "auditor")
        assert (await through(ada, "ada", purpose="setup", token=token, name="ada")).status_code == 303
        ada.csrf = (await ada.client.get("/api/v1/session")).json()["csrf_token"]
        [linked] = (await ada.ask("GET", "/session/credentials")).json()["identities"]
        assert linked["subject"] == "ada"
        path = f"/session/identities/{linked['id']}"
        assert refusal(await ada.ask("DELETE", path)) == (409, "LAST_SIGN_IN")
        passkey = Authenticator(world.settings.rest_url)
        options = (await ada.ask("POST", "/session/passkeys/options")).json()
        body = {"name": "key", "credential": passkey.create(options)}
        assert (await ada.ask("POST", "/session/passkeys", body)).status_code == 201
        assert (await ada.ask("DELETE", path)).status_code == 204
        assert refusal(await through(ada, "ada", purpose="sign-in")) == (403, "OIDC_UNKNOWN")


@slow
async def test_a_person_gets_an_invitation_by_a_verified_address_alone(world: World) -> None:
    async with browser(world, "alice") as alice:
        answer = await through(alice, "alice", purpose="enrol")
        assert answer.status_code == 303
        link = answer.headers["location"]
        assert link.startswith(f"{world.settings.rest_url}/enroll#")
        assert parse_invitation(link).controller == world.settings.rest_url
        assert "__Host-culvert" not in alice.client.cookies
        for stranger in ("mallory", "bob@corp.example"):
            answer = await through(alice, stranger, purpose="enrol")
            assert refusal(answer) == (403, "OIDC_EMAIL_UNVERIFIED")
        assert refusal(await through(alice, "ada", purpose="enrol")) == (403, "OIDC_UNKNOWN")
        await world.rest("POST", "/users", {"name": "alice2", "email": "ALICE@corp.example"})
        assert refusal(await through(alice, "alice", purpose="enrol")) == (403, "OIDC_EMAIL_SHARED")
    (line,) = await world.rest("GET", "/audit?action=user.invite&outcome=done")
    assert (line["actor_kind"], line["actor"]) == ("invitation", "alice")


@slow
async def test_a_person_is_known_under_every_spelling_of_the_address(world: World) -> None:
    made = await world.rest("POST", "/users", {"name": "max", "email": "max.MUSTERMANN@Corp.Example"})
    assert made["email"] == "max.mustermann@corp.example"
    async with browser(world, "max") as max_:
        assert (await through(max_, "max", purpose="enrol")).status_code == 303
        await world.rest("PUT", "/users/max", {"email": "MAX.MUSTERMANN@CORP.EXAMPLE"})
        assert (await world.rest("GET", "/users/max"))["email"] == made["email"]
        assert (await through(max_, "max", purpose="enrol")).status_code == 303
    [found] = await world.rest("GET", "/users?q=Max.Mustermann@")
    assert found["name"] == "max"


@slow
async def test_a_provider_outage_is_logged_once(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    oidc = {"oidc_client_id": CLIENT, "oidc_client_secret_file": tmp_path / "secret"}
    with serving(Shape(instead={"configuration": (503, {}, b"")})) as server:
        settings = settings_in(tmp_path, database_url=database_url, oidc_issuer=server.issuer, **oidc)
        async with running(settings) as world, browser(world, "ada") as ada:
            answers = [await ada.ask("POST", "/oidc", {"purpose": "sign-in"}) for _ in range(3)]
            assert [refusal(it) for it in answers] == 3 * [(401, "OIDC_REFUSED")]
            assert (await world.rest("GET", "/controller"))["oidc_fault"] == answers[-1].json()
            server.shape.instead = {}
            assert (await ada.ask("POST", "/oidc", {"purpose": "sign-in"})).status_code == 200
            assert (await world.rest("GET", "/controller"))["oidc_fault"] is None
    told = [it for it in caplog.records if it.name == "culvert_service.oidc.service"]
    assert [it.levelname for it in told] == ["WARNING", "INFO"]
    assert "it answers with HTTP status 503" in told[0].message
    assert vars(told[0])["detail"].startswith(server.issuer)


@slow
async def test_an_answer_counts_in_the_browser_that_asked_and_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with browser(world, "alice") as alice, browser(world, "eve") as eve:
        back = await at_provider(alice, "alice", purpose="enrol")
        assert refusal(await eve.client.get(back)) == (409, "OIDC_STALE")
        await at_provider(eve, "alice", purpose="enrol")
        assert refusal(await eve.client.get(back)) == (409, "OIDC_STALE")
        cookie = dict(alice.client.cookies)
        assert (await alice.client.get(back)).status_code == 303
        assert refusal(await alice.client.get(back)) == (409, "OIDC_STALE")
        alice.client.cookies.update(cookie)
        assert refusal(await alice.client.get(back)) == (401, "OIDC_REFUSED")
        alice.client.cookies.clear()
        for error, why in (
            ("access_denied", "the sign-in was broken off, by the person or by the provider"),
            ("server_error", "it answers server_error"),
        ):
            back = (await at_provider(alice, "alice", purpose="enrol")).replace(
                "code=", f"error={error}&error_description=not+assigned%0Ato+this+application&x="
            )
            answer = await alice.client.get(back)
            assert refusal(answer) == (401, "OIDC_REFUSED")
            assert answer.json()["fields"]["why"] == why
            assert "not assigned" not in answer.text
            assert vars(caplog.records[-1])["detail"] == rf"{error}: not assigned\nto this application"
        for body in ({"purpose": "setup"}, {"purpose": "enrol", "token": "x"}, {"purpose": "root"}):
            assert refusal(await alice.ask("POST", "/oidc", body)) == (422, "REQUEST_INVALID")


CLAIMS: Json = {"exp": int(NOW.timestamp()) + 300, "iat": int(NOW.timestamp())}


async def judged(claims: Json, key: Key = KEY, alg: str = "ES256") -> Reason | str:
    shape = Shape(claims=CLAIMS | claims, key=key, header={"alg": alg, "kid": "1"})
    with serving(shape) as server:
        calls = ProviderCalls(server.issuer, trust(None))
        provider = Provider(calls, CLIENT, SECRET, "https://c.example/api/v1/oidc/callback")
        try:
            return (await provider.subject("code", "n", "v", NOW, with_email=False)).name
        except CulvertError as error:
            return error.reason


@pytest.mark.slow
async def test_only_a_token_for_us_now_and_for_this_sign_in_is_believed() -> None:
    assert await judged({}) == "ada"
    wrong: list[Json] = [
        {"iss": "https://id.example.evil"},
        {"aud": "another"},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"exp": int(NOW.timestamp()) - 300},
        {"nonce": "m"},
        {"exp": None},
        {"sub": None},
        {"sub": ""},
    ]
    for change in wrong:
        assert await judged(change) is Reason.OIDC_REFUSED, change
    for missing in ("iss", "sub", "aud", "exp", "nonce"):
        assert await judged({missing: ...}) is Reason.OIDC_REFUSED, missing
    assert await judged({}, ECKey.generate_key("P-256", {"kid": "1"})) is Reason.OIDC_REFUSED
    assert await judged({}, RSAKey.generate_key(2048, {"kid": "1"}), "RS256") is Reason.OIDC_REFUSED
    shared = OctKey.import_key("x" * 32, {"kid": "1"})
    assert await judged({}, shared, "HS256") is Reason.OIDC_REFUSED
    assert await judged({}, shared, "none") is Reason.OIDC_REFUSED


def test_a_flow_is_good_for_ten_minutes_in_its_own_cookie() -> None:
    key = MasterKey(bytes(32))
    flow = flows.begin("setup", "token", "ada", NOW)
    cookie = flows.seal(flow, key)
    assert "token" not in bytes.fromhex(cookie).decode("latin-1")
    assert flows.resume(cookie, flow.state, key, NOW + flows.LIFETIME / 2) == flow
    for wrong, state, later in (
        (cookie, "x", 0),
        (cookie, "ü", 0),
        (None, flow.state, 0),
        ("zz", flow.state, 0),
        (cookie[:-2] + f"{int(cookie[-2:], 16) ^ 1:02x}", flow.state, 0),
        (cookie, flow.state, 1),
    ):
        with pytest.raises(CulvertError) as caught:
            flows.resume(wrong, state, key, NOW + flows.LIFETIME * later)
        assert caught.value.reason is Reason.OIDC_STALE


@pytest.mark.parametrize(
    "fields",
    [
        {"oidc_issuer": "https://id.example?x=1"} | CREDENTIALS,
        {"oidc_issuer": "https://user@id.example"} | CREDENTIALS,
        # These providers give anybody an account, with any address.
        *(
            {"oidc_issuer": issuer, "oidc_email_verified_by": "provider"} | CREDENTIALS
            for issuer in (
                "https://accounts.google.com",
                "https://gitlab.com",
                "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0",
            )
        ),
        {"oidc_issuer": "https://id.example"},
        {"oidc_issuer": "http://id.example", "oidc_client_id": "c", "oidc_client_secret_file": "/x"},
    ],
)
def test_half_a_provider_or_an_unsafe_one_is_refused(fields: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "culvert.toml"
    file.write_text("".join(f'{name} = "{value}"\n' for name, value in fields.items()))
    with pytest.raises(ConfigurationError, match="oidc"):
        load(file)
    assert Settings().oidc_issuer is None
