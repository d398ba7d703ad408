"""A name server that lies, loops, drowns or rebinds, behind a whole daemon: nothing protected leaks, and names go on."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from ipaddress import ip_address
from pathlib import Path

import dns.edns
import dns.message
import dns.rcode
import dns.rrset
import pytest
from culvert_proto import local_pb2

from .controller import CODE
from .name_server import Records, name_server, respond, truncated
from .running import Running, running
from .test_daemon import WIKI, Lab, given, why

HONEST: Records = {(WIKI, "A"): ["10.20.0.10"], ("www.example.org", "A"): ["203.0.113.80"]}
EVIL = "evil.example.org"
Lie = Callable[[bytes], bytes]


def records(*lines: tuple[str, str, str]) -> Lie:
    def lie(query: bytes) -> bytes:
        message = dns.message.make_response(dns.message.from_wire(query))
        for owner, kind, text in lines:
            message.answer.append(dns.rrset.from_text(f"{owner}.", 60, "IN", kind, text))
        return message.to_wire()

    return lie


def loops(query: bytes) -> bytes:
    """The answer's owner is a compression pointer to itself (RFC 1035 section 4.1.4)."""
    header, question = query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0", _question(query)
    at = len(header) + len(question)
    return header + question + (0xC000 | at).to_bytes(2) + b"\0\1\0\1\0\0\0\x3c\0\4\x0a\x14\0\x0a"


def cut(query: bytes) -> bytes:
    return respond(query, HONEST)[:-3]


def promises(query: bytes) -> bytes:
    """65,535 records, and none there."""
    return query[:2] + b"\x81\x80\0\1\xff\xff\xff\xff\xff\xff" + _question(query)


def drowns(query: bytes) -> bytes:
    """As long as TCP has room for, and its last address leads elsewhere."""
    question, pointer = _question(query), b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4"
    addresses = [ip_address("10.20.0.10").packed] * 4000 + [ip_address("203.0.113.66").packed]
    header = query[:2] + b"\x81\x80\0\1" + len(addresses).to_bytes(2) + bytes(4)
    return header + question + b"".join(pointer + it for it in addresses)


def _question(query: bytes) -> bytes:
    end = query.index(b"\0", 12) + 5
    return query[12:end]


@contextlib.asynccontextmanager
async def daemon_behind(lab: Lab, lie: Lie, name: str) -> AsyncGenerator[Running]:
    """The name server lies about one name alone, over UDP and TCP."""

    def told(query: bytes) -> bytes:
        asked = dns.message.from_wire(query).question[0].name.to_text(omit_final_dot=True)
        return lie(query) if asked == name else respond(query, HONEST)

    def over_udp(query: bytes) -> list[bytes]:
        reply = told(query)
        return [reply if len(reply) <= 1232 else truncated(query)]

    async with (
        lab.serving(),
        name_server(over_udp, told) as (upstream, _),
        running(lab.directory, upstream) as daemon,
    ):
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        yield daemon


@pytest.mark.parametrize(
    ("kind", "lie"),
    [
        ("A", records((EVIL, "A", "10.20.0.10"))),
        ("A", records((EVIL, "A", "203.0.113.5"), (EVIL, "A", "10.20.255.255"))),
        ("A", records((EVIL, "CNAME", f"{WIKI}."), (WIKI, "A", "10.20.0.10"))),
        ("AAAA", records((EVIL, "AAAA", "::ffff:10.20.0.10"))),
        ("HTTPS", records((EVIL, "HTTPS", "1 . ipv4hint=10.20.0.10"))),
        ("SVCB", records((EVIL, "SVCB", "1 . ipv4hint=10.20.0.10"))),
        ("SVCB", records((EVIL, "SVCB", "0 www.example.org."), ("www.example.org", "A", "10.20.0.10"))),
        ("ANY", records((EVIL, "TXT", "x"), (EVIL, "A", "10.20.0.10"))),
        ("A", records((EVIL, "DNAME", "corp.example."), (WIKI, "A", "10.20.0.10"))),
    ],
    ids=["A", "second", "CNAME", "mapped", "hint", "SVCB", "alias", "ANY", "DNAME"],
)
async def test_a_foreign_name_does_not_lead_into_the_intranet(tmp_path: Path, kind: str, lie: Lie) -> None:
    async with daemon_behind(Lab(tmp_path), lie, EVIL) as daemon:
        answer = await daemon.ask(EVIL, kind)
        assert answer.rcode() == dns.rcode.NOERROR
        assert given(answer) <= {"203.0.113.5"}
        assert "is not a name of the intranet" in why(answer)
        assert [it.code for it in answer.extended_errors()] == [dns.edns.EDECode.BLOCKED]
        assert given(await daemon.ask("www.example.org")) == {"203.0.113.80"}


@pytest.mark.parametrize("kind", ["HTTPS", "SVCB", "ANY"])
async def test_no_type_leads_a_known_name_past_its_tunnel(tmp_path: Path, kind: str) -> None:
    shown = "SVCB" if kind == "SVCB" else "HTTPS"
    lie = records((WIKI, shown, "1 . ipv4hint=203.0.113.66"))
    async with daemon_behind(Lab(tmp_path), lie, WIKI) as daemon:
        answer = await daemon.ask(WIKI, kind)
        assert (answer.rcode(), given(answer)) == (dns.rcode.NOERROR, set())
        assert "203.0.113.66" in why(answer)


Section = list[tuple[str, str, str]]


def sections(answer: Section, authority: Section, additional: Section) -> Lie:
    def lie(query: bytes) -> bytes:
        message = dns.message.make_response(dns.message.from_wire(query))
        for section, lines in zip(message.sections[1:], (answer, authority, additional), strict=True):
            section += [dns.rrset.from_text(f"{owner}.", 60, "IN", kind, text) for owner, kind, text in lines]
        return message.to_wire()

    return lie


def owners(answer: dns.message.Message) -> list[str]:
    return [it.name.to_text(omit_final_dot=True) for section in answer.sections[1:] for it in section]


@pytest.mark.parametrize("kind", ["A", "TXT", "MX"])
async def test_an_answer_inside_has_no_record_of_a_name_outside(tmp_path: Path, kind: str) -> None:
    text = {"A": "10.20.0.10", "TXT": "ipsec-tunneling:yes", "MX": "1 mail.corp.example."}[kind]
    lie = sections(
        [(WIKI, kind, text), ("bank.example.org", "TXT", "x")],
        [("corp.example", "NS", "ns.corp.example."), ("example.org", "NS", "ns.evil.example.")],
        [("bank.example.org", "TXT", "x"), ("ns.corp.example", "TXT", "x")],
    )
    async with daemon_behind(Lab(tmp_path), lie, WIKI) as daemon:
        answer = await daemon.ask(WIKI, kind)
        assert owners(answer) == [WIKI, "corp.example", "ns.corp.example"]


@pytest.mark.parametrize("kind", ["A", "TXT", "MX"])
async def test_an_answer_outside_has_no_record_of_a_name_inside(tmp_path: Path, kind: str) -> None:
    text = {"A": "203.0.113.5", "TXT": "x", "MX": "1 mail.example.org."}[kind]
    lie = sections(
        [(EVIL, kind, text), (WIKI, "TXT", "x"), (WIKI, "A", "203.0.113.66")],
        [("example.org", "NS", "ns.example.org."), ("corp.example", "NS", "ns.evil.example.")],
        [("ns.example.org", "TXT", "x"), (WIKI.upper(), "A", "203.0.113.66")],
    )
    async with daemon_behind(Lab(tmp_path), lie, EVIL) as daemon:
        answer = await daemon.ask(EVIL, kind)
        assert owners(answer) == [EVIL, "example.org", "ns.example.org"]


async def test_an_alias_outside_gives_no_address_to_a_name_inside(tmp_path: Path) -> None:
    lie = records((EVIL, "CNAME", f"{WIKI}."), (WIKI, "A", "203.0.113.66"))
    async with daemon_behind(Lab(tmp_path), lie, EVIL) as daemon:
        answer = await daemon.ask(EVIL)
        assert (answer.rcode(), owners(answer)) == (dns.rcode.NOERROR, [EVIL])


@pytest.mark.parametrize("owner", [EVIL, "services.corp.example"])
@pytest.mark.parametrize("beside", ["10.20.0.10", "203.0.113.66"])
async def test_a_service_names_its_hosts_and_not_their_addresses(
    tmp_path: Path, owner: str, beside: str
) -> None:
    def lie(query: bytes) -> bytes:
        message = dns.message.make_response(dns.message.from_wire(query))
        message.answer.append(dns.rrset.from_text(f"{owner}.", 60, "IN", "SRV", f"0 0 443 {WIKI}."))
        message.additional.append(dns.rrset.from_text(f"{WIKI}.", 60, "IN", "A", beside))
        return message.to_wire()

    async with daemon_behind(Lab(tmp_path), lie, owner) as daemon:
        answer = await daemon.ask(owner, "SRV")
        assert (len(answer.answer), answer.additional) == (1, [])
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}


@pytest.mark.parametrize("name", [WIKI, EVIL])
@pytest.mark.parametrize("lie", [loops, cut, promises])
async def test_nonsense_is_refused_and_names_go_on(tmp_path: Path, lie: Lie, name: str) -> None:
    async with daemon_behind(Lab(tmp_path), lie, name) as daemon:
        answer = await daemon.ask(name)
        assert answer.rcode() == dns.rcode.SERVFAIL
        assert given(answer) == set()
        assert why(answer)
        assert given(await daemon.ask("www.example.org")) == {"203.0.113.80"}


@pytest.mark.parametrize(("name", "left"), [(WIKI, {"10.20.0.10"}), (EVIL, {"203.0.113.66"})])
async def test_the_right_ones_of_very_many_addresses_are_given(
    tmp_path: Path, name: str, left: set[str]
) -> None:
    async with daemon_behind(Lab(tmp_path), drowns, name) as daemon:
        assert given(await daemon.ask(name)) == left


async def test_names_that_lead_to_each_other_end(tmp_path: Path) -> None:
    loop = "loop.corp.example"
    circle = records((loop, "CNAME", "a.corp.example."), ("a.corp.example", "CNAME", f"{loop}."))
    async with daemon_behind(Lab(tmp_path), circle, loop) as daemon:
        assert given(await daemon.ask(loop)) == set()


def code(rcode: dns.rcode.Rcode) -> Lie:
    def lie(query: bytes) -> bytes:
        message = dns.message.make_response(dns.message.from_wire(query))
        message.set_rcode(rcode)
        return message.to_wire()

    return lie


@pytest.mark.parametrize(
    "lie",
    [
        records((WIKI, "A", "203.0.113.66")),
        records((WIKI, "CNAME", "portal.example.net."), ("portal.example.net", "A", "203.0.113.66")),
        records(),
        records((WIKI, "CNAME", "host.corp.example.")),
        code(dns.rcode.NXDOMAIN),
        code(dns.rcode.REFUSED),
        code(dns.rcode.SERVFAIL),
    ],
    ids=["advertisement", "portal", "removed", "removed behind an alias", "nxdomain", "refused", "servfail"],
)  # fmt: skip
async def test_a_resource_keeps_the_controllers_addresses_on_a_lying_network(
    tmp_path: Path, lie: Lie
) -> None:
    async with daemon_behind(Lab(tmp_path), lie, WIKI) as daemon:
        answer = await daemon.ask(WIKI)
        assert (answer.rcode(), given(answer)) == (dns.rcode.NOERROR, {"10.20.0.10"})
        for sas in daemon.datapath.applied[-1].tunnels:
            assert [str(it) for it in sas.tunnel.remote_prefixes] == ["10.20.0.10/32"]
        # There is no address of the other family to give, and other names are not the controller's.
        assert given(await daemon.ask(WIKI, "AAAA")) == set()
        assert given(await daemon.ask("other.corp.example")) == set()


async def test_another_hosts_address_in_the_intranet_is_left_out_for_a_resource(tmp_path: Path) -> None:
    async with daemon_behind(Lab(tmp_path), records((WIKI, "A", "10.20.0.66")), WIKI) as daemon:
        answer = await daemon.ask(WIKI)
        assert (answer.rcode(), given(answer)) == (dns.rcode.NOERROR, set())
        assert "10.20.0.66" in why(answer)


@pytest.mark.slow
async def test_a_silent_name_server_costs_a_resource_no_answer(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    async with (
        lab.serving(),
        name_server(lambda _: []) as (upstream, _),
        running(lab.directory, upstream) as it,
    ):
        await lab.enroll(it)
        await it.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        assert given(await it.ask(WIKI)) == {"10.20.0.10"}
