"""Encodes changes as RFC 2136 messages, and converts answers to typed errors."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from typing import cast

import dns.exception
import dns.name
import dns.rcode
import dns.tsig
import dns.update
import dns.xfr
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_dns_updater.diff import Add, Change, DeleteRecord, DeleteRrset, NameFree, RrsetAbsent, RrsetIs
from culvert_dns_updater.tsig_key import TsigKey

# RFC 2136 §2.2: the answers for a prerequisite that does not hold.
PREREQUISITE_FAILED = frozenset(
    {dns.rcode.YXDOMAIN, dns.rcode.YXRRSET, dns.rcode.NXDOMAIN, dns.rcode.NXRRSET}
)

_WHY_RCODE = {
    dns.rcode.REFUSED: Phrase("its policy does not let this key do that, or the zone is frozen (REFUSED)"),
    dns.rcode.NOTAUTH: Phrase("it is not authoritative for the zone, or does not accept the key (NOTAUTH)"),
    dns.rcode.NOTZONE: Phrase("the name is not in the zone (NOTZONE)"),
    dns.rcode.SERVFAIL: Phrase("its log says why (SERVFAIL)"),
    dns.rcode.NOTIMP: Phrase("it does not do that (NOTIMP)"),
}
# Errors with other causes than the key or a policy.
_FAILED = frozenset({dns.rcode.SERVFAIL, dns.rcode.NOTIMP, dns.rcode.FORMERR})
_WHY_TSIG: dict[type[dns.exception.DNSException], Phrase] = {
    dns.tsig.PeerBadKey: Phrase("it does not know the TSIG key {key}, or does not let it do that (BADKEY)"),
    dns.tsig.PeerBadSignature: Phrase("its secret for the TSIG key {key} is another (BADSIG)"),
    dns.tsig.PeerBadTruncation: Phrase("it wants a longer TSIG (BADTRUNC)"),
    dns.tsig.BadSignature: Phrase("its answer is signed with another secret than the TSIG key {key}"),
    dns.tsig.BadKey: Phrase("its answer is signed with another key than {key}"),
    dns.tsig.BadAlgorithm: Phrase("its answer is signed with another algorithm than the TSIG key {key}"),
}


def encode(changes: Iterable[Change], zone: str, key: TsigKey) -> dns.update.UpdateMessage:
    message = dns.update.UpdateMessage(zone, keyring=key)
    for change in changes:
        _add(change, message)
    return message


def _add(change: Change, message: dns.update.UpdateMessage) -> None:
    for prerequisite in change.prerequisites:
        match prerequisite:
            case NameFree(name):
                message.absent(_absolute(name))
            case RrsetAbsent(name, rtype):
                message.absent(_absolute(name), rtype)
            case RrsetIs(name, rtype, rdata):
                message.present(_absolute(name), rtype, *sorted(rdata))
    for edit in change.edits:
        match edit:
            case Add(name, ttl, rtype, rdata):
                message.add(_absolute(name), ttl, rtype, rdata)
            case DeleteRrset(name, rtype):
                message.delete(_absolute(name), rtype)
            case DeleteRecord(name, rtype, rdata):
                message.delete(_absolute(name), rtype, rdata)


def refusal_error(
    rcode: dns.rcode.Rcode, *, server: str, zone: str, is_transfer: bool = False
) -> CulvertError:
    why = _WHY_RCODE.get(rcode, Phrase("it answered {rcode}", rcode=dns.rcode.to_text(rcode)))
    reason = Reason.DNS_TRANSFER_REFUSED if is_transfer else Reason.DNS_UPDATE_REFUSED
    if rcode in _FAILED:
        reason = Reason.DNS_UPDATE_FAILED
    return CulvertError(reason, server=server, zone=zone, why=why)


def fault(
    error: dns.exception.DNSException, *, server: str, zone: str, key: TsigKey, is_transfer: bool
) -> CulvertError:
    """The CulvertError for the error of an update or a transfer."""
    if isinstance(error, dns.xfr.TransferError):
        rcode = cast(dns.rcode.Rcode, error.rcode)  # pyright: ignore[reportUnknownMemberType]
        return refusal_error(rcode, server=server, zone=zone, is_transfer=True)
    if isinstance(error, dns.tsig.PeerBadTime | dns.tsig.BadTime):
        return CulvertError(Reason.DNS_CLOCK_WRONG, server=server)
    why = _WHY_TSIG.get(type(error), Phrase("its answer is malformed or not signed"))
    reason = Reason.DNS_TRANSFER_REFUSED if is_transfer else Reason.DNS_UPDATE_REFUSED
    key_name = key.name.to_text(omit_final_dot=True)
    return CulvertError(reason, server=server, zone=zone, why=Phrase(why.template, key=key_name))


def cause(error: OSError | EOFError, timeout: float) -> str:
    """Why no answer came, as a part of a sentence. `timeout`: seconds."""
    match error:
        case ConnectionRefusedError():
            return Phrase("it refuses the connection")
        case TimeoutError():
            return Phrase("nothing came within {seconds} s", seconds=f"{timeout:g}")
        case EOFError() | ConnectionError():
            return Phrase("it closed the connection")
        case socket.gaierror(errno=socket.EAI_NONAME):
            return Phrase("name or service not known")
        case socket.gaierror(errno=socket.EAI_AGAIN):
            return Phrase("temporary failure in name resolution")
        case OSError(errno=errno.EHOSTUNREACH | errno.ENETUNREACH):
            return Phrase("no route leads to it")
        case _:
            return (error.strerror or type(error).__name__).lower()


def why_name(name: str) -> Phrase:
    """A server's possible objection to a name that the key may write, as a part of a sentence."""
    if "_" in name:
        return Phrase("a host's name has no “_” (in BIND: check-names)")
    return Phrase("its log says why")


def _absolute(name: str) -> dns.name.Name:
    return dns.name.from_text(name)
