"""Filters DNS answers: removes addresses that no tunnel carries or that belong to other hosts. If the name server has no
correct address of a resource, the controller's addresses replace its answer.

The rest of the answer stays, so that one unusable family or address does not make the name unusable: musl's resolver
gives a name up when one of its two queries, A and AAAA, fails.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from ipaddress import ip_address
from typing import Any, cast

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rdataclass
import dns.rrset
import dns.wire
from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import canonical
from dns.rdatatype import RdataType
from dns.rdtypes.svcbbase import ParamKey

from culvert_client.core.dns_wire import (
    ADDRESS_TYPES,
    MALFORMED,
    WITH_ADDRESSES,
    Found,
    addresses_in,
    error_option,
    hints_of,
    host_answer,
    question_bytes,
    question_of,
    read_found,
    unmap,
)
from culvert_client.core.grant import Address
from culvert_client.core.profile import Profile

_HEADER_SIZE, _RECORD_SIZE = 12, 10
# RFC 1035 section 4.1.4: a pointer to the first byte behind the header. RFC 6891 section 6.1.2.
_POINTS_TO_QUESTION, _OPT = b"\xc0\x0c", b"\0\0\x29"
_OF_MESSAGES = frozenset({RdataType.OPT, RdataType.TSIG, RdataType.SIG})
# Records whose owner is not the asked name but above or beside it: RFC 2308, 4035, 5155, 6672.
_OF_WHOLE_ZONES = frozenset(
    {
        RdataType.SOA,
        RdataType.NS,
        RdataType.DS,
        RdataType.NSEC,
        RdataType.NSEC3,
        RdataType.RRSIG,
        RdataType.DNAME,
    }
)
# Our tunable, in seconds: the TTL of addresses that come from the controller.
_PROFILE_TTL = 30
_HINTS = frozenset({ParamKey.IPV4HINT, ParamKey.IPV6HINT})
# RFC 9460: the owner is the service's name, the target the host's.
_SERVICES = frozenset({RdataType.HTTPS, RdataType.SVCB})


def screen(reply: bytes, fqdn: str, profile: Profile) -> bytes | CulvertError:
    """The answer for a name outside of the zones, without protected addresses, against DNS rebinding."""
    addresses = addresses_in(reply)
    if addresses is None:
        return CulvertError(Reason.DNS_UPSTREAM_FAILED, name=fqdn)
    inside = sorted(filter(profile.protects, addresses), key=str)
    if not inside:
        return reply
    error = CulvertError(Reason.DNS_REBINDING, name=fqdn, address=inside[0])
    return without(reply, frozenset(inside), error) or error


def drop_unasked(reply: bytes, manages: Callable[[str], bool]) -> bytes | None:
    """The answer without unasked records of names on the other side of the managed zones' border: a cache behind the stub
    would store them (RFC 2181 section 5.4.1).

    An answer for a name outside of the zones keeps no record of a name inside, not even the target of an alias. None
    if such records cannot be removed.
    """
    if _is_about_one_name(reply) or (asked := question_of(reply)) is None:
        return reply
    fqdn = canonical(asked.name.to_text())
    inside, found = manages(fqdn), read_found(reply)
    own = {fqdn, *(found.aliases if inside and found else ())}

    def is_kept(name: dns.name.Name, rdtype: int) -> bool:
        owner = canonical(name.to_text())
        above = any(it == owner or it.endswith(f".{owner}") or not owner for it in own)
        return owner in own or (above and rdtype in _OF_WHOLE_ZONES) or manages(owner) == inside

    try:
        if all(it[1] in _OF_MESSAGES or is_kept(*it) for it in _owners(reply)):
            return reply
        message = dns.message.from_wire(reply, ignore_trailing=True)
    except MALFORMED:
        return None if inside else reply
    message.answer, message.authority, message.additional = (
        [it for it in section if is_kept(it.name, it.rdtype)]
        for section in (message.answer, message.authority, message.additional)
    )
    message.flags &= ~dns.flags.AD
    return message.to_wire()


def _is_about_one_name(reply: bytes) -> bool:
    """Whether each record's name is a pointer to the question, as in most answers, or the record is OPT. A fast check;
    other answers are parsed name by name."""
    asked = question_bytes(reply)
    at, counts = _HEADER_SIZE + len(asked or b""), struct.unpack_from("!HHH", reply, 6)
    for _ in range(sum(counts) if asked else 0):
        if reply[at : at + 2] == _POINTS_TO_QUESTION:
            at += len(_POINTS_TO_QUESTION)
        elif reply[at : at + 3] == _OPT:
            at += 1
        else:
            return False
        at += _RECORD_SIZE + int.from_bytes(reply[at + 8 : at + 10])
    return asked is not None and at <= len(reply)


def _owners(reply: bytes) -> Iterator[tuple[dns.name.Name, int]]:
    """Each record's name and type. Raises an error in MALFORMED."""
    parser: Any = dns.wire.Parser(reply)
    _, _, questions, *counts = parser.get_struct("!HHHHHH")
    for _ in range(questions):
        parser.get_name(decompress=True)
        parser.get_struct("!HH")
    for _ in range(sum(counts)):
        owner: dns.name.Name = parser.get_name(decompress=True)
        rdtype, _, _, length = parser.get_struct("!HHIH")
        parser.get_bytes(length)
        yield owner, rdtype


def correct(query: bytes, found: Found | None, known: Collection[Address], profile: Profile) -> bytes | None:
    """The answer to a query for A or AAAA with the controller's addresses of the name. None if the name server's answer
    stays, because it leads into the intranet or the controller has no address of the family.

    `found`: None without an answer. Needed because many home routers remove private addresses from answers (protection
    from DNS rebinding), and other networks invent addresses or do not know the zone.
    """
    question = question_of(query)
    if question is None or question.rdclass != dns.rdataclass.IN:
        return None
    version = ADDRESS_TYPES.get(question.rdtype)
    wanted = sorted((it for it in known if it.version == version), key=int)
    if not wanted or (
        found is not None and any(it in wanted or profile.protects(it) for it in found.addresses)
    ):
        return None
    return host_answer(query, *map(str, wanted), ttl=_PROFILE_TTL)


def drop_additional_addresses(reply: bytes) -> bytes | None:
    """The answer without addresses in its additional section. None if malformed."""
    try:
        message = dns.message.from_wire(reply, ignore_trailing=True)
        kept = [it for it in message.additional if it.rdtype not in WITH_ADDRESSES]
        if len(kept) == len(message.additional):
            return reply
        message.additional = kept
        return message.to_wire()
    except MALFORMED:
        return None


def with_own_addresses(reply: bytes, names: Collection[str]) -> bytes | None:
    """The answer to HTTPS, SVCB or ANY without addresses of hosts other than `names` (the asked name and its aliases'
    targets). Programs resolve other hosts themselves (RFC 9460 section 3), and those answers are held too.

    None if malformed.
    """
    names = {*names, ""}
    try:
        message = dns.message.from_wire(reply, ignore_trailing=True)
        return _rewrite(
            reply,
            message,
            [(it, [_of_host(rdata, names) for rdata in _records(it)]) for it in message.answer],
            [
                (it, _records(it))
                for it in message.additional
                if it.rdtype not in WITH_ADDRESSES or canonical(it.name.to_text()) in names
            ],
        )
    except MALFORMED:
        return None


def _of_host(rdata: Any, names: Collection[str]) -> Any:
    """The record, without hints unless its host is one of these names."""
    is_service = rdata.rdtype in _SERVICES and rdata.rdclass == dns.rdataclass.IN
    return (
        _with_hints(rdata, set()) if is_service and canonical(rdata.target.to_text()) not in names else rdata
    )


def without(reply: bytes, addresses: Collection[Address], error: CulvertError | None = None) -> bytes | None:
    """The answer without the records and hints of these addresses, with the reason if the query has EDNS (RFC 8914).

    None if malformed.
    """
    try:
        message = dns.message.from_wire(reply, ignore_trailing=True)
        answer, additional = (
            [(it, [_without_hints(rdata, addresses) for rdata in _records(it)]) for it in section]
            for section in (message.answer, message.additional)
        )
        left = _rewrite(reply, message, answer, additional, error)
    except MALFORMED:
        return None
    # Check the result with the other parser, so that a difference between the parsers fails closed.
    remaining = addresses_in(left)
    return left if remaining is not None and remaining.isdisjoint(addresses) else None


def _without_hints(rdata: Any, addresses: Collection[Address]) -> Any:
    if rdata.rdclass != dns.rdataclass.IN:
        return rdata
    match rdata.rdtype:
        case RdataType.A | RdataType.AAAA:
            return None if unmap(ip_address(rdata.address)) in addresses else rdata
        case RdataType.HTTPS | RdataType.SVCB:
            return _with_hints(rdata, hints_of(rdata).difference(addresses))
        case _:
            return rdata


def _with_hints(rdata: Any, addresses: Collection[Address]) -> Any:
    """The record with only those of its hints that are in `addresses`. None if others are mandatory (RFC 9460 § 8)."""
    if hints_of(rdata).issubset(addresses):
        return rdata
    params: dict[Any, Any] = {}
    for key, param in rdata.params.items():
        if key in _HINTS:
            kept = [text for text in param.addresses if unmap(ip_address(text)) in addresses]
            if kept:
                params[key] = type(param)(kept)
        else:
            params[key] = param
    mandatory = params.get(ParamKey.MANDATORY)
    if mandatory is not None and not params.keys() >= set(mandatory.keys):
        return None
    return rdata.replace(params=params)


_Records = list[tuple[dns.rrset.RRset, list[Any]]]


def _rewrite(
    reply: bytes,
    message: dns.message.Message,
    answer: _Records,
    additional: _Records,
    error: CulvertError | None = None,
) -> bytes:
    """The message with only these records of its record sets; unchanged if these are all records."""
    changed = {(it.name, it.rdtype) for it, records in (*answer, *additional) if _records(it) != records}
    if not changed and len(additional) == len(message.additional):
        return reply
    # Remove signatures of changed record sets, and the AD flag, which is about the whole answer (RFC 4035 section 3.2.3).
    message.answer, message.additional = (
        [
            dns.rrset.from_rdata_list(it.name, it.ttl, kept)
            for it, records in section
            if (kept := [rdata for rdata in records if rdata is not None])
            and not (it.rdtype == RdataType.RRSIG and (it.name, it.covers) in changed)
        ]
        for section in (answer, additional)
    )
    message.flags &= ~dns.flags.AD
    if error is not None and message.edns >= 0:
        options: list[dns.edns.Option] = [*cast("Any", message).options, error_option(error)]
        message.use_edns(message.edns, message.ednsflags, message.payload, options=options)
    return message.to_wire()


def _records(rrset: dns.rrset.RRset) -> list[Any]:
    return list(rrset)
