"""Reading DNS from strangers: what is sorted where, which addresses an answer really gives, and that no bytes break it."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, cast

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
from culvert_client.core import dns_answer, dns_wire
from culvert_client.core.dns_wire import QueryKind, Question
from culvert_proto import CulvertError, Reason
from hypothesis import example, given
from hypothesis import strategies as st

from .granted import PROFILE, WIKI

ERROR = CulvertError(Reason.DNS_UPSTREAM_FAILED, name=WIKI)


def query(name: str, rdtype: str = "A", **options: int) -> bytes:
    return dns.message.make_query(name, rdtype, id=7, **options).to_wire()  # pyright: ignore[reportArgumentType]


def answer(name: str, rdtype: str, *records: tuple[str, str, str], section: str = "answer") -> bytes:
    message = dns.message.make_response(dns.message.make_query(name, rdtype, id=7))
    for owner, kind, text in records:
        getattr(message, section).append(dns.rrset.from_text(dns.name.from_text(owner), 60, "IN", kind, text))
    return message.to_wire()


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (query(WIKI), Question(QueryKind.HOLD, WIKI)),
        (query("WIKI.Corp.Example", "AAAA"), Question(QueryKind.HOLD, WIKI)),
        (query(WIKI, "HTTPS"), Question(QueryKind.HOLD, WIKI)),
        (query(WIKI, "SVCB"), Question(QueryKind.HOLD, WIKI)),
        (query(WIKI, "ANY"), Question(QueryKind.HOLD, WIKI)),
        (query(WIKI)[:-1] + b"\xff", Question(QueryKind.HOLD, WIKI)),
        (query(WIKI)[:-1] + b"\3", Question(QueryKind.FORWARD, WIKI)),
        (query(WIKI, "MX"), Question(QueryKind.DETACH, WIKI)),
        (query(WIKI, "TYPE65399"), Question(QueryKind.DETACH, WIKI)),
        (query(WIKI, "AXFR"), Question(QueryKind.NOT_IMPLEMENTED, WIKI)),
        (query(WIKI, "TXT"), Question(QueryKind.FORWARD, WIKI)),
        (query("corp.example.org"), Question(QueryKind.SCREEN, "corp.example.org")),
        (query("corp.example.org", "SVCB"), Question(QueryKind.SCREEN, "corp.example.org")),
        (query("corp.example.org", "SRV"), Question(QueryKind.DETACH, "corp.example.org")),
        (query("corp.example.org", "TXT"), Question(QueryKind.FORWARD, "corp.example.org")),
        (query("use-application-dns.net"), Question(QueryKind.NO_NAME)),
        (query("_dns.resolver.arpa", "SVCB"), Question(QueryKind.NO_DATA)),
        (query("Resolver.ARPA", "TYPE261"), Question(QueryKind.NO_DATA)),
        (query("_dns.noresolver.arpa", "SVCB"), Question(QueryKind.SCREEN, "_dns.noresolver.arpa")),
        (query(WIKI)[:11], Question(QueryKind.DROP)),
        (query(WIKI)[:20], Question(QueryKind.FORMAT_ERROR)),
        (answer(WIKI, "A"), Question(QueryKind.DROP)),
        (b"\0\1\x28\0" + query(WIKI)[4:], Question(QueryKind.NOT_IMPLEMENTED)),
        (query(WIKI)[:4] + b"\0\2" + query(WIKI)[6:], Question(QueryKind.FORMAT_ERROR)),
    ],
)
def test_queries_are_sorted(wire: bytes, expected: Question) -> None:
    assert dns_wire.classify(wire, PROFILE) == expected


@pytest.mark.parametrize(
    ("wire", "addresses"),
    [
        (answer(WIKI, "A", (WIKI, "A", "10.20.0.10")), {"10.20.0.10"}),
        (answer(WIKI, "A", (WIKI, "CNAME", "x.org."), ("x.org.", "A", "203.0.113.66")), {"203.0.113.66"}),
        (answer(WIKI, "A", ("elsewhere.org.", "A", "10.20.0.9")), {"10.20.0.9"}),
        (answer(WIKI, "AAAA", (WIKI, "AAAA", "::ffff:10.20.0.9")), {"10.20.0.9"}),
        (answer(WIKI, "HTTPS", (WIKI, "HTTPS", "1 . ipv4hint=10.20.0.9")), {"10.20.0.9"}),
        (answer(WIKI, "HTTPS", (WIKI, "HTTPS", "1 . ipv6hint=2001:db8::1")), {"2001:db8::1"}),
        (answer(WIKI, "HTTPS", (WIKI, "A", "10.20.0.9"), section="additional"), {"10.20.0.9"}),
        (answer(WIKI, "SVCB", (WIKI, "SVCB", "1 . ipv4hint=10.20.0.9")), {"10.20.0.9"}),
        (answer(WIKI, "SVCB", (WIKI, "SVCB", "1 x.org. alpn=h2 key65400=abcd")), set[str]()),
        (answer(WIKI, "SVCB", ("x.org.", "A", "10.20.0.9"), section="additional"), {"10.20.0.9"}),
        (answer(WIKI, "ANY", (WIKI, "TXT", "x"), (WIKI, "A", "10.20.0.9")), {"10.20.0.9"}),
        (answer(WIKI, "A", ("ns.corp.example.", "A", "10.20.0.53"), section="additional"), set[str]()),
        (answer(WIKI, "AAAA"), set[str]()),
        (answer(WIKI, "TXT", (WIKI, "TXT", "x")), set[str]()),
    ],
)  # fmt: skip
def test_every_address_that_an_answer_leads_to_is_found(wire: bytes, addresses: set[str]) -> None:
    assert dns_wire.addresses_in(wire) == {ip_address(text) for text in addresses}


def test_addresses_beside_an_answer_are_removed_and_the_rest_is_kept() -> None:
    message = dns.message.make_response(dns.message.make_query(WIKI, "SRV", id=7, use_edns=0))
    for section, owner, kind, text in (
        (message.answer, WIKI, "SRV", "0 0 443 x.corp.example."),
        (message.authority, "corp.example", "NS", "ns.corp.example."),
        (message.additional, "x.corp.example", "A", "10.20.0.9"),
        (message.additional, "x.corp.example", "HTTPS", "1 . ipv6hint=2001:db8::1"),
        (message.additional, "x.corp.example", "TXT", "x"),
    ):
        section.append(dns.rrset.from_text(dns.name.from_text(owner), 60, "IN", kind, text))
    wire = dns_answer.drop_additional_addresses(message.to_wire())
    assert wire is not None
    left = dns.message.from_wire(wire)
    assert (left.id, left.edns, left.answer, left.authority) == (7, 0, message.answer, message.authority)
    assert [it.rdtype for it in left.additional] == [dns.rdatatype.TXT]
    plain = answer(WIKI, "MX", (WIKI, "MX", "10 mail.corp.example."))
    assert dns_answer.drop_additional_addresses(plain) == plain
    assert dns_answer.drop_additional_addresses(plain[:-3]) is None


def test_only_the_answer_to_the_very_query_is_believed() -> None:
    sent = dns_wire.with_id(query(WIKI), 7)
    reply = dns_wire.with_id(answer(WIKI, "A"), 7)
    assert dns_wire.answers(reply, sent, 7)
    assert dns_wire.answers(reply.replace(b"wiki", b"WiKi"), sent, 7)
    assert not dns_wire.answers(dns_wire.with_id(reply, 8), sent, 7)
    assert not dns_wire.answers(sent, sent, 7)
    assert not dns_wire.answers(dns_wire.with_id(answer("git.corp.example", "A"), 7), sent, 7)
    assert not dns_wire.answers(dns_wire.with_id(answer(WIKI, "AAAA"), 7), sent, 7)


@pytest.mark.parametrize(
    ("wire", "says_yes"),
    [
        (answer(WIKI, "TXT", (WIKI, "TXT", '"ipsec-tunneling:yes"')), True),
        (answer(WIKI, "TXT", (WIKI, "TXT", '"ipsec-tunneling:no"')), False),
        (answer(WIKI, "TXT", (WIKI, "TXT", '"v=spf1"'), (WIKI, "TXT", '"ipsec-tunneling:yes"')), True),
        (answer(WIKI, "TXT", ("other.org.", "TXT", '"ipsec-tunneling:yes"')), False),
        (answer(WIKI, "TXT"), False),
        (b"garbage", False),
    ],
)
def test_the_mark_counts_at_the_asked_name(wire: bytes, says_yes: bool) -> None:
    assert dns_wire.read_marked_name(wire) == (WIKI if says_yes else None)


def test_a_refusal_has_an_extended_error_if_the_query_has_edns() -> None:
    told = dns.message.from_wire(dns_wire.refusal(query(WIKI, use_edns=0), dns.rcode.SERVFAIL, ERROR))
    assert told.rcode() == dns.rcode.SERVFAIL
    options = cast("tuple[dns.edns.Option, ...]", told.options)  # pyright: ignore[reportUnknownMemberType]
    assert isinstance(options[0], dns.edns.EDEOption)
    assert "did not answer" in str(options[0].text)
    plain = dns.message.from_wire(dns_wire.refusal(query(WIKI), dns.rcode.SERVFAIL, ERROR))
    assert plain.edns == -1


_LABELS = st.lists(st.from_regex(rb"[ -~]{1,63}", fullmatch=True), min_size=1, max_size=9)


@given(_LABELS, st.integers(0, 0xFFFF), st.booleans())
@example([b"Wiki", b"Corp", b"example"], 1, True)
@example([b"a" * 63] * 4, 1, True)
@example([b"."], 1, True)
def test_a_query_is_read_and_refused_as_a_whole_dns_library_does(
    labels: list[bytes], rdtype: int, recursive: bool
) -> None:
    name = b"".join(bytes([len(it)]) + it for it in labels) + b"\0"
    wire = struct.pack("!HHHHHH", 7, recursive << 8, 1, 0, 0, 0) + name + struct.pack("!HH", rdtype, 1)
    question = dns_wire.classify(wire, PROFILE)
    try:
        read = dns.message.from_wire(wire)
    except dns.exception.DNSException:
        assert question.kind is QueryKind.FORMAT_ERROR
        return
    assert question.fqdn in ("", read.question[0].name.to_text(omit_final_dot=True).lower())
    response = dns.message.make_response(read, recursion_available=True)
    response.set_rcode(dns.rcode.SERVFAIL)
    assert dns_wire.refusal(wire, dns.rcode.SERVFAIL, ERROR) == response.to_wire()


def test_a_long_answer_is_cut_to_the_records_that_fit_a_small_buffer() -> None:
    records = [(WIKI, "TXT", f'"{number:0200}"') for number in range(10)]
    wire = answer(WIKI, "TXT", *records)
    cut = dns.message.from_wire(dns_wire.fit_udp(wire, query(WIKI, "TXT")))
    assert cut.flags & dns.flags.TC
    assert [len(rrset) for rrset in cut.answer] == [2]
    assert len(cut.to_wire()) <= 512
    assert dns_wire.fit_udp(wire, query(WIKI, "TXT", use_edns=0, payload=4096)) == wire


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: query(WIKI)[:12] + tail))
@example(query(WIKI)[:12] + b"\xc0\x0c\0\1\0\1")
def test_no_bytes_break_a_reader(wire: bytes) -> None:
    question = dns_wire.classify(wire, PROFILE)
    dns_wire.addresses_in(wire)
    dns_answer.drop_additional_addresses(wire)
    dns_wire.read_marked_name(wire)
    dns_wire.answers(wire, query(WIKI), 7)
    if question.kind is not QueryKind.DROP:
        assert dns_wire.refusal(wire, dns.rcode.SERVFAIL, ERROR)[:2] == wire[:2]
        assert len(dns_wire.fit_udp(wire * 10, wire)) >= 12


def _read_by_dnspython(wire: bytes) -> set[IPv4Address | IPv6Address]:
    """Addresses of the answer section, where it takes the message at all."""
    try:
        message = dns.message.from_wire(wire, ignore_trailing=True)
    except (dns.exception.DNSException, ValueError, struct.error, IndexError):
        return set()
    kinds = (dns.rdatatype.A, dns.rdatatype.AAAA)
    found = [it for it in message.answer if it.rdclass == dns.rdataclass.IN and it.rdtype in kinds]
    return {ip_address(rdata.address) for rrset in found for rdata in cast("list[Any]", list(rrset))}


@given(st.data())
def test_no_flipped_byte_in_an_answer_hides_an_address_or_breaks_a_reader(data: st.DataObject) -> None:
    records = [
        (WIKI, "HTTPS", "1 . alpn=h2 ipv4hint=10.20.0.9"),
        (WIKI, "A", "10.20.0.9"),
        (WIKI, "TXT", '"x"'),
    ]
    wire = bytearray(answer(WIKI, "HTTPS", *records))
    for position in data.draw(st.lists(st.integers(0, len(wire) - 1), max_size=6)):
        wire[position] = data.draw(st.integers(0, 255))
    assert (dns_wire.addresses_in(bytes(wire)) or set()) >= _read_by_dnspython(bytes(wire))
    dns_wire.read_marked_name(bytes(wire))
