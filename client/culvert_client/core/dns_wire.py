"""Reads and writes the parts of DNS messages that the decisions need (RFC 1035, 6891, 8914, 9460). Malformed messages give
a value, not an exception."""

from __future__ import annotations

import enum
import functools
import re
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import dns.edns
import dns.exception
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.wire
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import DNS_LABEL_MAX, DNS_NAME_WIRE_MAX
from culvert_proto.dns_name import canonical

from culvert_client.core.grant import Address
from culvert_client.core.profile import Profile

# Firefox queries this name before it uses DNS over HTTPS; NXDOMAIN makes it use the system's resolver.
CANARY = "use-application-dns.net"
# Below this zone systems and browsers look for encrypted access to their resolver (RFC 9462 section 4). The stub has none,
# and the name server's would bypass the stub: all names of the zone have NODATA, and no query is forwarded (section 6.4).
DESIGNATED = "resolver.arpa"
OWN_SIZE = 1232
"""Bytes of a UDP answer that no network fragments: IPv6's minimum MTU without headers (DNS flag day 2020)."""
TXT_MARK = b"ipsec-tunneling:yes"


class Treatment(enum.Enum):
    """The stub's treatment of the answer to a query, by the query's type."""

    HELD = enum.auto()
    """Programs connect to addresses in the answer. Inside the managed zones the answer waits for the tunnel; outside of
    them it must have no protected address."""
    PASSED = enum.auto()
    """The answer has no address to which a program would connect."""
    REFUSED = enum.auto()
    """The answer may need several messages, and the stub passes one."""
    DETACHED = enum.auto()
    """The answer names other hosts, or its content is unknown. The stub removes addresses beside it: the program then
    resolves each host by name, and that answer is held or screened."""


_T = dns.rdatatype
# A type that is not listed is DETACHED: SRV, MX, NAPTR, NS, CNAME, DNAME, and future types.
_TREATMENTS: dict[int, Treatment] = {
    # RFC 9460 section 3: browsers query HTTPS beside A and AAAA, other programs SVCB. ANY may return all of these.
    **dict.fromkeys((_T.A, _T.AAAA, _T.HTTPS, _T.SVCB, _T.ANY), Treatment.HELD),
    # Texts, keys and signatures.
    **dict.fromkeys(
        (_T.TXT, _T.SPF, _T.SOA, _T.PTR, _T.HINFO, _T.LOC, _T.CAA, _T.TLSA, _T.SMIMEA, _T.SSHFP, _T.CERT, _T.OPENPGPKEY,
         _T.DS, _T.CDS, _T.DNSKEY, _T.CDNSKEY, _T.RRSIG, _T.NSEC, _T.NSEC3, _T.NSEC3PARAM, _T.CSYNC, _T.ZONEMD),
        Treatment.PASSED,
    ),
    # RFC 5936, 1995; RFC 1035 section 3.2.3.
    **dict.fromkeys((_T.AXFR, _T.IXFR, _T.MAILA, _T.MAILB), Treatment.REFUSED),
}  # fmt: skip


def treatment(rdtype: int) -> Treatment:
    return _TREATMENTS.get(rdtype, Treatment.DETACHED)


# For these types, addresses in the additional section count as well (RFC 9460 section 5).
_WITH_ADDITIONAL = frozenset({_T.HTTPS, _T.SVCB, _T.ANY})
WITH_ADDRESSES = frozenset({_T.A, _T.AAAA, _T.HTTPS, _T.SVCB})
ADDRESS_TYPES: dict[int, int] = {_T.A: 4, _T.AAAA: 6}
"""The IP version of the addresses that are asked for."""
_ALIASES = frozenset({_T.CNAME, _T.DNAME})
MOST_ALIASES = 16
"""Our tunable: names that are followed behind the asked one. BIND follows 11."""

_HEADER = struct.Struct("!HHHHHH")
# RFC 1035 section 4.1.3: type, class, TTL and length of a record, behind its name.
_RECORD = struct.Struct("!HHIH")
# An OPT record's name and type, and its least length.
_OPT, _OPT_LENGTH = b"\0\0\x29", 11
_QR, _TC, _RA = 0x8000, 0x0200, 0x0080
# The flags that an answer copies from its query: opcode and RD.
_ECHOED = 0x7900
# RFC 1035 sections 4.1.2 and 4.2.1.
_TYPE_CLASS = struct.Struct("!HH")
_TYPE_AND_CLASS = _TYPE_CLASS.size
# Labels without escapes in their text form.
_PLAIN = re.compile(rb"[0-9A-Za-z_-]+")
_ALWAYS_FITS = 512
# dnspython's errors for malformed messages; the last three come from rdata of rare types.
MALFORMED = (dns.exception.DNSException, ValueError, struct.error, IndexError)


class QueryKind(enum.Enum):
    """The treatment of a query."""

    DROP = enum.auto()
    FORMAT_ERROR = enum.auto()
    NOT_IMPLEMENTED = enum.auto()
    # Answered with NXDOMAIN: Firefox's canary and the names below it.
    NO_NAME = enum.auto()
    # Answered without records: DESIGNATED.
    NO_DATA = enum.auto()
    FORWARD = enum.auto()
    # As FORWARD, but the answer must have no protected address.
    SCREEN = enum.auto()
    # As FORWARD, but addresses in the additional section are removed.
    DETACH = enum.auto()
    HOLD = enum.auto()


@dataclass(frozen=True, slots=True)
class Question:
    """`full`: the query for the full name `fqdn` if the original query is for a name without a dot (short_names.py)."""

    kind: QueryKind
    fqdn: str = ""
    full: bytes = b""


def classify(wire: bytes, profile: Profile) -> Question:
    """Classify a query to the stub."""
    if len(wire) < _HEADER.size:
        return Question(QueryKind.DROP)
    _, flags, questions, *_ = _HEADER.unpack_from(wire)
    if flags & _QR:
        return Question(QueryKind.DROP)
    if dns.opcode.from_flags(flags) != dns.opcode.QUERY:
        return Question(QueryKind.NOT_IMPLEMENTED)
    asked = question_bytes(wire)
    found = _read_question(question_of(wire)) if asked is None else _read(asked)
    if questions != 1 or found is None:
        return Question(QueryKind.FORMAT_ERROR)
    fqdn, rdclass, rdtype = found
    if fqdn == CANARY:
        return Question(QueryKind.NO_NAME)
    if fqdn == DESIGNATED or fqdn.endswith(f".{DESIGNATED}"):
        return Question(QueryKind.NO_DATA)
    # Class ANY (RFC 1035 section 3.2.5) brings records of class IN too.
    if rdclass not in (dns.rdataclass.IN, dns.rdataclass.ANY):
        return Question(QueryKind.FORWARD, fqdn)
    managed = profile.manages(fqdn)
    match treatment(rdtype):
        case Treatment.HELD if managed:
            return Question(QueryKind.HOLD, fqdn)
        case Treatment.REFUSED:
            return Question(QueryKind.NOT_IMPLEMENTED, fqdn)
        case Treatment.PASSED:
            return Question(QueryKind.FORWARD, fqdn)
        case Treatment.HELD if profile.protected_prefixes:
            return Question(QueryKind.SCREEN, fqdn)
        case Treatment.DETACHED if managed or profile.protected_prefixes:
            return Question(QueryKind.DETACH, fqdn)
        case _:
            return Question(QueryKind.FORWARD, fqdn)


@functools.lru_cache(maxsize=1024)
def _read(asked: bytes) -> tuple[str, int, int] | None:
    """As `_read_question`, from `question_bytes`. Faster than dnspython, so that a flood of queries costs little."""
    labels, at = list[bytes](), 0
    while asked[at]:
        labels.append(asked[at + 1 : at + 1 + asked[at]])
        at += 1 + asked[at]
    if 0 < at < DNS_NAME_WIRE_MAX and all(map(_PLAIN.fullmatch, labels)):
        rdtype, rdclass = _TYPE_CLASS.unpack_from(asked, at + 1)
        return b".".join(labels).decode().lower(), rdclass, rdtype
    return _read_question(question_of(_HEADER.pack(0, 0, 1, 0, 0, 0) + asked))


def _read_question(question: dns.rrset.RRset | None) -> tuple[str, int, int] | None:
    """The canonical name, the class and the type."""
    if question is None:
        return None
    return canonical(question.name.to_text()), question.rdclass, question.rdtype


def question_of(wire: bytes) -> dns.rrset.RRset | None:
    """The message's only question."""
    try:
        message = dns.message.from_wire(wire, question_only=True, ignore_trailing=True)
    except MALFORMED:
        return None
    return message.question[0] if len(message.question) == 1 else None


def answers(reply: bytes, query: bytes, query_id: int) -> bool:
    """Whether `reply` is the answer to `query` as sent under `query_id` (RFC 5452 section 9.1)."""
    if len(reply) < _HEADER.size:
        return False
    reply_id, flags, *_ = _HEADER.unpack_from(reply)
    if reply_id != query_id or not flags & _QR:
        return False
    # Nearly all answers repeat the question byte for byte: compare before parsing.
    asked = question_bytes(query)
    if asked is not None and question_bytes(reply) == asked:
        return True
    return _same(question_of(reply), question_of(query))


def question_bytes(message: bytes) -> bytes | None:
    """The bytes of the only question: name, type and class. None if the name is compressed or truncated."""
    at = _HEADER.size
    while at < len(message) and 0 < message[at] <= DNS_LABEL_MAX:
        at += 1 + message[at]
    end = at + 1 + _TYPE_AND_CLASS
    one = message[4:6] == b"\0\1" and end <= len(message) and message[at] == 0
    return message[_HEADER.size : end] if one else None


def _same(one: dns.rrset.RRset | None, other: dns.rrset.RRset | None) -> bool:
    if one is None or other is None:
        return False
    return (one.name, one.rdtype, one.rdclass) == (other.name, other.rdtype, other.rdclass)


def is_answer(message: bytes) -> bool:
    return bool(_HEADER.unpack_from(message)[1] & _QR)


def is_truncated(reply: bytes) -> bool:
    return bool(_HEADER.unpack_from(reply)[1] & _TC)


def rcode_of(reply: bytes) -> int:
    """The RCODE, without the upper bits of an OPT record (RFC 6891 section 6.1.3)."""
    return reply[3] & 0xF


def with_own_size(query: bytes) -> bytes:
    """The query with an EDNS buffer size of at most OWN_SIZE, if it has EDNS and is not signed.

    The program's buffer size is meant for the path from the stub. On the path from the name server a longer answer would
    be fragmented, and many networks drop fragments.
    """
    at = _size_at(query)
    if at is None or int.from_bytes(query[at : at + 2]) <= OWN_SIZE:
        return query
    return query[:at] + OWN_SIZE.to_bytes(2) + query[at + 2 :]


def _size_at(query: bytes) -> int | None:
    """The offset of the OPT record's buffer size (RFC 6891 section 6.1.2)."""
    if query[10:12] == b"\0\0":
        return None
    asked = question_bytes(query)
    if asked is not None and query[6:12] == b"\0\0\0\0\0\1":
        # Nearly all queries have only this one record.
        at = _HEADER.size + len(asked)
        if query[at : at + 3] == _OPT and len(query) >= at + _OPT_LENGTH:
            return at + len(_OPT)
    found: int | None = None
    try:
        parser: Any = dns.wire.Parser(query)
        _, _, questions, *counts = parser.get_struct(_HEADER.format)
        for _ in range(questions):
            parser.get_name(decompress=True)
            parser.get_struct("!HH")
        for _ in range(sum(counts)):
            parser.get_name(decompress=True)
            rdtype, _, _, length = parser.get_struct("!HHIH")
            if rdtype in (_T.TSIG, _T.SIG):
                return None
            if rdtype == _T.OPT:
                found = parser.current - _RECORD.size + 2
            parser.get_bytes(length)
    except MALFORMED:
        return None
    return found


def rename(query: bytes, name: bytes) -> bytes | None:
    """The query with another name, in wire format. None if its own name is compressed."""
    asked = question_bytes(query)
    if asked is None:
        return None
    rest = _HEADER.size + len(asked) - _TYPE_AND_CLASS
    return query[: _HEADER.size] + name + query[rest:]


def with_id(message: bytes, query_id: int) -> bytes:
    return query_id.to_bytes(2, "big") + message[2:]


def id_of(message: bytes) -> int:
    return int.from_bytes(message[:2], "big")


@dataclass(frozen=True, slots=True)
class Found:
    """`addresses`: all addresses in the answer, under any name. `aliases`: the targets of CNAME and DNAME records from the
    asked name on, in order.

    `names_hosts`: the answer may name other hosts and have their addresses, because HTTPS, SVCB or ANY was asked.
    """

    addresses: frozenset[Address] = frozenset()
    aliases: tuple[str, ...] = ()
    names_hosts: bool = False


def read_found(reply: bytes) -> Found | None:
    """None if malformed.

    For HTTPS and SVCB, hints and the additional section count too. Other records are skipped by their length, because
    parsing them would take most of the time.
    """
    found: set[Address] = set()
    asked: dns.name.Name | None = None
    targets: dict[tuple[int, dns.name.Name], dns.name.Name] = {}
    try:
        parser: Any = dns.wire.Parser(reply)
        _, _, questions, answers, authorities, additional = parser.get_struct(_HEADER.format)
        beside = False
        for _ in range(questions):
            asked = parser.get_name(decompress=True)
            rdtype, _ = parser.get_struct("!HH")
            beside = beside or rdtype in _WITH_ADDITIONAL
        for number in range(answers + authorities + additional):
            owner: dns.name.Name = parser.get_name(decompress=True)
            rdtype, rdclass, _, length = parser.get_struct("!HHIH")
            with parser.restrict_to(length):
                leads = number < answers or (beside and number >= answers + authorities)
                if leads and rdclass == dns.rdataclass.IN:
                    if rdtype in _ALIASES and number < answers:
                        targets.setdefault((rdtype, owner), parser.get_name(decompress=True))
                    else:
                        found |= _addresses(rdtype, parser)
                parser.get_remaining()
    except MALFORMED:
        return None
    aliases = _follow(asked, targets) if asked is not None and targets else []
    return Found(frozenset(found), tuple(canonical(it.to_text()) for it in aliases), beside)


def addresses_in(reply: bytes) -> frozenset[Address] | None:
    """The addresses of `read_found`. None if malformed."""
    found = read_found(reply)
    return None if found is None else found.addresses


def _follow(
    name: dns.name.Name, targets: dict[tuple[int, dns.name.Name], dns.name.Name]
) -> list[dns.name.Name]:
    """The chain of an alias's targets. It ends at a loop, and after MOST_ALIASES."""
    chain = [name]
    while len(chain) <= MOST_ALIASES:
        target = targets.get((_T.CNAME, name)) or _redirect(name, targets)
        if target is None or target in chain:
            break
        chain.append(name := target)
    return chain[1:]


def _redirect(
    name: dns.name.Name, targets: dict[tuple[int, dns.name.Name], dns.name.Name]
) -> dns.name.Name | None:
    """The name after substitution by a DNAME record above it (RFC 6672 section 2.2)."""
    for (rdtype, owner), target in targets.items():
        if rdtype == _T.DNAME and name != owner and name.is_subdomain(owner):
            try:
                return name.relativize(owner).concatenate(target)
            except dns.name.NameTooLong:
                return None
    return None


def _addresses(rdtype: int, parser: Any) -> set[Address]:
    match rdtype:
        case dns.rdatatype.A:
            return {IPv4Address(parser.get_remaining())}
        case dns.rdatatype.AAAA:
            return {unmap(IPv6Address(parser.get_remaining()))}
        case dns.rdatatype.HTTPS | dns.rdatatype.SVCB:
            return hints_of(dns.rdata.from_wire_parser(dns.rdataclass.IN, rdtype, parser))
        case _:
            return set()


def hints_of(rdata: Any) -> set[Address]:
    """RFC 9460 section 7.3."""
    hints = (getattr(it, "addresses", ()) for it in rdata.params.values())
    return {unmap(ip_address(text)) for texts in hints for text in texts}


def query(fqdn: str, kind: str) -> bytes | None:
    try:
        return dns.message.make_query(fqdn, kind, use_edns=0, payload=OWN_SIZE).to_wire()
    except MALFORMED:
        return None


def read_marked_name(reply: bytes) -> str | None:
    """The name with the mark in the answer: the asked name, or its alias's target."""
    found = read_found(reply)
    try:
        message = dns.message.from_wire(reply, ignore_trailing=True)
        names = [canonical(message.question[0].name.to_text()), *(found.aliases if found else ())]
        marked = {
            canonical(rrset.name.to_text())
            for rrset in message.answer
            if rrset.rdtype == dns.rdatatype.TXT
            for rdata in _rdata(rrset)
            if b"".join(rdata.strings) == TXT_MARK
        }
    except MALFORMED:
        return None
    return next((name for name in names if name in marked), None)


def error_option(error: CulvertError) -> dns.edns.EDEOption:
    return dns.edns.EDEOption(
        _EDE.get(error.reason, dns.edns.EDECode.OTHER), f"{error.message} {error.remedy}"
    )


def refusal(query: bytes, rcode: dns.rcode.Rcode, error: CulvertError | None = None) -> bytes:
    """An answer without data. With EDNS in the query it has the error (RFC 8914); otherwise no OPT (RFC 6891 section 7)."""
    query_id, flags, _, *records = _HEADER.unpack_from(query)
    asked = question_bytes(query)
    if asked is not None and not any(records):
        # The same result as below, but cheap enough for a flood of queries.
        return _HEADER.pack(query_id, _QR | (flags & _ECHOED) | _RA | rcode, 1, 0, 0, 0) + asked
    try:
        message = dns.message.make_response(
            dns.message.from_wire(query, ignore_trailing=True), recursion_available=True
        )
        message.set_rcode(rcode)
        if error is not None and message.edns >= 0:
            message.use_edns(0, payload=OWN_SIZE, options=[error_option(error)])
        return message.to_wire()
    except MALFORMED:
        return _HEADER.pack(query_id, _QR | (flags & _ECHOED) | rcode, 0, 0, 0, 0)


def host_answer(query: bytes, *addresses: str, ttl: int = 0) -> bytes:
    """An answer with only these addresses of the name. `ttl`: seconds."""
    message = dns.message.make_response(
        dns.message.from_wire(query, ignore_trailing=True), recursion_available=True
    )
    asked = message.question[0]
    asked_for = [it for it in addresses if ADDRESS_TYPES.get(asked.rdtype) == ip_address(it).version]
    if asked_for:
        message.answer.append(dns.rrset.from_text(asked.name, ttl, asked.rdclass, asked.rdtype, *asked_for))
    return message.to_wire()


_EDE = {
    Reason.DNS_UPSTREAM_FAILED: dns.edns.EDECode.NO_REACHABLE_AUTHORITY,
    Reason.CONTROLLER_UNREACHABLE: dns.edns.EDECode.NETWORK_ERROR,
    Reason.CAPTIVE_PORTAL: dns.edns.EDECode.NETWORK_ERROR,
    Reason.GATEWAY_DOWN: dns.edns.EDECode.NETWORK_ERROR,
    Reason.DNS_REBINDING: dns.edns.EDECode.BLOCKED,
    Reason.NO_POLICY: dns.edns.EDECode.PROHIBITED,
    Reason.CODE_NEEDED: dns.edns.EDECode.PROHIBITED,
    Reason.CODE_EXPIRED: dns.edns.EDECode.PROHIBITED,
    Reason.CODE_TOO_OLD: dns.edns.EDECode.PROHIBITED,
    Reason.DEVICE_NOT_APPROVED: dns.edns.EDECode.PROHIBITED,
    Reason.OUTSIDE_HOURS: dns.edns.EDECode.PROHIBITED,
    Reason.SOURCE_NOT_ALLOWED: dns.edns.EDECode.PROHIBITED,
    Reason.POSTURE_NOT_MET: dns.edns.EDECode.PROHIBITED,
    Reason.DEVICE_REVOKED: dns.edns.EDECode.PROHIBITED,
}


def fit_udp(reply: bytes, query: bytes) -> bytes:
    """The answer for the program's UDP buffer: if it is too long, it has the records that fit and the TC flag.

    Resolvers that never use TCP (musl's before 1.2.4) use these records.
    """
    if len(reply) <= _ALWAYS_FITS or len(reply) <= (room := _buffer_of(query)):
        return reply
    try:
        parser: Any = dns.wire.Parser(reply)
        number, flags, questions, *counts = parser.get_struct(_HEADER.format)
        for _ in range(questions):
            parser.get_name(decompress=True)
            parser.get_struct("!HH")
        ends, opt = [parser.current], b""
        for record in range(sum(counts)):
            start = parser.current
            parser.get_name(decompress=True)
            rdtype, _, _, length = parser.get_struct(_RECORD.format)
            parser.get_bytes(length)
            if record < counts[0]:
                ends.append(parser.current)
            if rdtype == _T.OPT:
                opt = reply[start : parser.current]
    except MALFORMED:
        return refusal(query, dns.rcode.SERVFAIL)
    # Compression pointers only point backwards, so a message can be cut after any record (RFC 1035 section 4.1.4).
    kept = sum(end + len(opt) <= room for end in ends) - 1
    if kept < 0:
        return refusal(query, dns.rcode.SERVFAIL)
    header = _HEADER.pack(number, flags | _TC, questions, kept, 0, 1 if opt else 0)
    return header + reply[_HEADER.size : ends[kept]] + opt


def _buffer_of(query: bytes) -> int:
    try:
        message = dns.message.from_wire(query, ignore_trailing=True)
    except MALFORMED:
        return _ALWAYS_FITS
    return max(_ALWAYS_FITS, message.payload) if message.edns >= 0 else _ALWAYS_FITS


def _rdata(rrset: dns.rrset.RRset) -> list[Any]:
    """The records of class IN; in other classes the types have other meanings."""
    return list(rrset) if rrset.rdclass == dns.rdataclass.IN else []


def unmap(address: Address) -> Address:
    # For an address in ::ffff:0:0/96 a system connects to the IPv4 address.
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
