"""The page for denied names: only its own form can send a code, and no other host can reach it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import dns.rcode
import pytest
from culvert_client import denial_page
from culvert_client.config import Endpoint
from culvert_client.core import http_request
from culvert_client.core.http_request import is_path, parse_form, parse_head
from culvert_client.core.profile import Profile
from culvert_client.core.roles import Role
from culvert_client.denial_html import Denial, choose_language, render
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2
from hypothesis import given
from hypothesis import strategies as st

from .controller import CODE
from .running import Running
from .test_daemon import WIKI, Lab
from .test_daemon import given as addresses_of

GIT = "git.corp.example"
NO_POLICY = CulvertError(Reason.NO_POLICY, user="alice", name=GIT, owner="bob@corp.example")


@dataclass
class Site:
    """A denied name's page, asked as a browser asks."""

    daemon: Running
    lab: Lab

    @property
    def port(self) -> int:
        return self.daemon.settings.denial_page.port

    def host(self, name: str = WIKI) -> str:
        return f"{name}:{self.port}"

    async def send(self, request: str, body: str = "") -> tuple[int, str, str]:
        """Status, head and body of the answer; 0 without one."""
        endpoint = self.daemon.settings.denial_page
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(request.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body.encode())
        answer = (await reader.read()).decode()
        writer.close()
        head, _, shown = answer.partition("\r\n\r\n")
        return int(head.split(" ")[1]) if head else 0, head, shown

    async def get(self, path: str = "/", name: str = WIKI, *fields: str) -> tuple[int, str, str]:
        return await self.send("\n".join([f"GET {path} HTTP/1.1", f"Host: {self.host(name)}", *fields]))

    async def post(self, body: str, *changed: str, name: str = WIKI) -> tuple[int, str, str]:
        """`changed`: fields in place of the browser's own."""
        fields = {
            "Host": self.host(name),
            "Origin": f"http://{self.host(name)}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Content-Length": str(len(body)),
        }
        for one in changed:
            key, _, value = one.partition(": ")
            fields[key] = value
        lines = [f"{key}: {value}" for key, value in fields.items() if value]
        return await self.send("\n".join(["POST /.culvert/code HTTP/1.1", *lines]), body)

    async def token(self, path: str = "/") -> str:
        page = (await self.get(path))[2]
        found = re.search(r'name="token" value="([^"]+)"', page)
        assert found is not None
        return found[1]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    """WIKI needs a code; the zone allows the page."""
    lab = Lab(tmp_path)
    lab.controller.profile.denial_page_zones.append("corp.example")
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.until(lambda status: status.state == local_pb2.STATE_NEEDS_CODE)
        answer = await daemon.ask(WIKI)
        assert addresses_of(answer) == {daemon.settings.denial_page.host}
        assert answer.answer[0].ttl == 0
        yield Site(daemon, lab)


async def test_a_zone_that_does_not_allow_it_keeps_the_error(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.controller.profile.denial_page_zones.append("other.example")
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        assert (await daemon.ask(WIKI)).rcode() == dns.rcode.SERVFAIL


def test_the_nearest_zone_decides() -> None:
    managed, pages = ("corp.example", "lab.corp.example"), ("corp.example", "www.lab.corp.example")
    profile = Profile(managed_zones=managed, denial_page_zones=pages)
    explained = {
        GIT: True,
        "vm.lab.corp.example": False,
        "a.www.lab.corp.example": True,
        "git.other.example": False,
    }
    assert {name: profile.explains(name) for name in explained} == explained


async def test_the_port_is_free_unless_a_zone_needs_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        endpoint = daemon.settings.denial_page
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(endpoint.host, endpoint.port)
        for zones in (["corp.example"], []):
            controller.profile.denial_page_zones[:] = zones
            controller.tell(agent_pb2.WatchResponse(profile=controller.profile))
            async with asyncio.timeout(10):
                while bool(zones) is not await _listens(endpoint):  # noqa: ASYNC110  nothing tells of it
                    await asyncio.sleep(0.02)


async def _listens(endpoint: Endpoint) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.close()
        return True
    return False


async def test_the_other_types_have_no_data_so_that_the_address_counts(site: Site) -> None:
    for kind in ("AAAA", "HTTPS"):
        answer = await site.daemon.ask(WIKI, kind)
        assert (answer.rcode(), answer.answer) == (dns.rcode.NOERROR, [])


async def test_a_fault_stays_an_error_that_programs_try_again(site: Site) -> None:
    site.lab.controller.refusal = CulvertError(Reason.GATEWAY_DOWN, gateway="gw-berlin")
    assert (await site.daemon.ask(GIT)).rcode() == dns.rcode.SERVFAIL


async def test_the_code_is_asked_for_and_leads_to_the_page_that_was_asked_for(site: Site) -> None:
    status, head, page = await site.get("/guide?part=2&x=%3Cb%3E")
    assert status == 403
    assert "A code is needed before tunnels can be opened." in page
    assert 'name="to" value="/guide?part=2&amp;x=%3Cb%3E"' in page
    token = await site.token("/guide")
    status, head, page = await site.post(f"code=000+000&token={token}&to=%2Fguide")
    assert (status, "The code is wrong." in page) == (403, True)
    status, head, _ = await site.post(
        f"code={CODE[:3]}+{CODE[3:]}&token={await site.token()}&to=%2Fguide%3Fa"
    )
    assert status == 303
    assert head.endswith("\r\nLocation: /guide?a")
    assert addresses_of(await site.daemon.ask(WIKI)) == {"10.20.0.10"}


async def test_a_refusal_names_whom_to_ask_and_asks_for_no_code(site: Site) -> None:
    await site.daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
    site.lab.controller.refusals[GIT] = NO_POLICY
    assert addresses_of(await site.daemon.ask(GIT)) == {site.daemon.settings.denial_page.host}
    _, _, page = await site.get("/", GIT)
    assert "No policy lets alice reach git.corp.example." in page
    assert 'href="mailto:bob@corp.example?subject=Access%20to%20git.corp.example"' in page
    assert "<form" not in page


@pytest.mark.parametrize(
    "changed",
    [
        "Origin: http://evil.example", "Origin: null", "Origin: ", "Origin: https://wiki.corp.example",
        "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Content-Type: text/plain",
        "Content-Type: ", "Content-Length: 99999", "Content-Length: ", "Transfer-Encoding: chunked",
    ],
)  # fmt: skip
async def test_a_form_of_another_site_sends_no_code(site: Site, changed: str) -> None:
    status, _, _ = await site.post(f"code={CODE}&token={await site.token()}&to=%2F", changed)
    assert status == 403
    assert site.lab.controller.profile.code_valid_until == 0


async def test_a_token_works_once_and_for_its_name_alone(site: Site) -> None:
    token = await site.token()
    assert (await site.post(f"code=000000&token={token}&to=%2F"))[0] == 403
    for spent in (token, "", "x", token[:-1]):
        assert (await site.post(f"code={CODE}&token={spent}&to=%2F"))[0] == 303
    site.lab.controller.refusals[GIT] = CulvertError(Reason.CODE_NEEDED)
    await site.daemon.ask(GIT)
    assert (await site.post(f"code={CODE}&token={await site.token()}&to=%2F", name=GIT))[0] == 303
    assert site.lab.controller.profile.code_valid_until == 0


async def test_another_user_of_the_computer_gets_no_field(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await site.token()

    def nobody(_uid: int, _owner: int | None) -> Role:
        return Role.ANYONE

    monkeypatch.setattr(denial_page, "role_of", nobody)
    assert "<form" not in (await site.get())[2]
    assert (await site.post(f"code={CODE}&token={token}&to=%2F"))[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost", "www.example.org", "git.corp.example", "[::1]", ""]
)
async def test_a_host_that_was_not_refused_sees_nothing(site: Site, host: str) -> None:
    status, _, page = await site.send(f"GET / HTTP/1.1\nHost: {host}")
    assert status in (400, 421)
    assert page == ""


async def test_a_name_is_the_same_with_a_final_dot_and_in_capitals(site: Site) -> None:
    for name in (f"{WIKI}.", WIKI.upper()):
        assert (await site.get("/", name))[0] == 403
    dotted = f"{WIKI}."
    status, _, _ = await site.post(f"code={CODE}&token={await site.token()}&to=%2F", name=dotted)
    assert status == 303
    assert site.lab.controller.profile.code_valid_until != 0


async def test_no_other_site_may_frame_read_or_keep_the_page(site: Site) -> None:
    _, head, page = await site.get()
    assert "default-src 'none'" in head
    assert "frame-ancestors 'none'" in head
    assert "no-store" in head
    assert "Access-Control" not in head
    assert "Referrer-Policy: same-origin" in head
    assert "<script" not in page


async def test_the_page_never_leads_to_another_host(site: Site) -> None:
    for target in ("//evil.example/", "/\\evil.example/"):
        assert "evil.example" not in (await site.get(target))[2]
    token = await site.token()
    _, head, _ = await site.post(f"code={CODE}&token={token}&to=%2F%2Fevil.example%2F")
    assert head.endswith("\r\nLocation: /")


@pytest.mark.parametrize(
    "request_",
    [
        "GET / HTTP/1.1\nHost: a\nHost: b",
        "GET http://wiki/ HTTP/1.1\nHost: a",
        "GET / HTTP/2",
        "\x16\x03\x01",
        "GET / HTTP/1.1\n folded: 1",
    ],
)
async def test_a_malformed_request_gets_nothing(site: Site, request_: str) -> None:
    assert (await site.send(request_))[0] == 400


async def test_a_flood_of_bytes_and_of_connections_is_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(denial_page, "READ_PATIENCE", 0.3)
    assert (
        await site.send(f"GET / HTTP/1.1\nHost: {site.host()}\nX: " + "x" * 2 * http_request.LONGEST_HEAD)
    )[0] == 0
    endpoint = site.daemon.settings.denial_page
    count = denial_page.CONNECTIONS + denial_page.RESERVED + 8
    opened = [await asyncio.open_connection(endpoint.host, endpoint.port) for _ in range(count)]
    for _, writer in opened:
        writer.write(b"GET / HT")
    for reader, writer in opened:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
    assert (await site.get())[0] == 403


# ── pure parts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.binary(max_size=300))
def test_no_bytes_make_the_parser_fail(head: bytes) -> None:
    parse_head(head)
    parse_form(head)


@pytest.mark.parametrize(
    ("target", "stays"),
    [
        ("/", True), ("/a/b?c=d#e", True), ("//evil", False), ("/\\evil", False), ("http://evil/", False), ("", False),
        ("/a\r\nSet-Cookie: x", False), ("/ä", False), ("/a b", False),
    ],
)  # fmt: skip
def test_only_a_path_of_this_host_is_gone_to(target: str, stays: bool) -> None:
    assert is_path(target) is stays


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.5", "de"), ("en-GB,de;q=0.9", "en"), ("fr,de;q=0.1", "de"), ("fr", "en"), ("", "en"),
        ("de;q=0", "en"), ("de; q=0.8, en ;q=0.2", "de"), ("DE-at-1996", "de"), ("*;q=x," * 90, "en"),
    ],
)  # fmt: skip
def test_the_browser_chooses_the_language(accepted: str, language: str) -> None:
    assert choose_language(accepted) == language


def test_the_page_is_german_where_the_daemon_speaks_english() -> None:
    page = render(Denial(WIKI, NO_POLICY, "/"), "de").decode()
    assert '<html lang="de">' in page
    assert "Keine Richtlinie erlaubt alice den Zugriff auf git.corp.example." in page
    assert str(NO_POLICY) == str(CulvertError(Reason.NO_POLICY, **NO_POLICY.fields))


@pytest.mark.parametrize("character", ["\u202e", "\x1b", "\u2066"])
def test_no_text_of_the_controller_turns_the_page_around(character: str) -> None:
    error = CulvertError(Reason.CODE_NEEDED)
    refused = CulvertError(Reason.NO_POLICY, user=f"a{character}b", name=GIT, owner=f"c{character}d")
    page = render(Denial(GIT, error, "/", "token", refused), "en").decode()
    assert 'id="wrong"' in page
    assert character not in page


def test_no_name_and_no_field_becomes_markup() -> None:
    error = CulvertError(Reason.NO_POLICY, user="<i>", name='"><script>', owner="<b>@corp.example")
    page = render(Denial("x.corp.example", error, '/"onmouseover="x'), "en").decode()
    assert "<i>" not in page
    assert "<script>" not in page
    assert "<b>" not in page
    assert 'href="/&quot;onmouseover=&quot;x"' in page
