"""Changes as RFC 2136 messages, transferred zones as our records, answers as typed errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import dns.exception
import dns.name
import dns.rcode
import dns.rdata
import dns.rdatatype
import dns.tsig
import dns.update
import dns.xfr
import dns.zone
from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import canonical

from culvert_dns_updater.diff import Add, Change, DeleteRecord, DeleteRrset, NameFree, RrsetIs
from culvert_dns_updater.records import Rrset, ZoneContent
from culvert_dns_updater.tsig_key import TsigKey

# Made by a signing server, not by a person (RFC 4034, RFC 5155): a name is not in use because of them.
_DNSSEC_TYPES = frozenset({"RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "TYPE65534"})

# RFC 2136 §2.2: what the server answers when a prerequisite does not hold.
PREREQUISITE_FAILED = frozenset(
    {dns.rcode.YXDOMAIN, dns.rcode.YXRRSET, dns.rcode.NXDOMAIN, dns.rcode.NXRRSET}
)

_WHY_RCODE = {
    dns.rcode.REFUSED: "its policy does not let this key do that (REFUSED)",
    dns.rcode.NOTAUTH: "it is not authoritative for the zone, or does not accept the key (NOTAUTH)",
    dns.rcode.NOTZONE: "the name is not in the zone (NOTZONE)",
    dns.rcode.SERVFAIL: "it failed; its log says why (SERVFAIL)",
}
_WHY_TSIG: dict[type[dns.exception.DNSException], str] = {
    dns.tsig.PeerBadKey: "it does not know the TSIG key {key} (BADKEY)",
    dns.tsig.PeerBadSignature: "its secret for the TSIG key {key} is another (BADSIG)",
    dns.tsig.PeerBadTime: "its clock and ours differ by more than 5 minutes (BADTIME)",
    dns.tsig.PeerBadTruncation: "it wants a longer TSIG (BADTRUNC)",
    dns.tsig.BadSignature: "its answer is signed with another secret than the TSIG key {key}",
    dns.tsig.BadTime: "its clock and ours differ by more than 5 minutes",
    dns.tsig.BadKey: "its answer is signed with another key than {key}",
    dns.tsig.BadAlgorithm: "its answer is signed with another algorithm than the TSIG key {key}",
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


def decode(zone: dns.zone.Zone) -> ZoneContent:
    """`zone` holds absolute names."""
    content: dict[str, dict[str, Rrset]] = {}
    for name, rdataset in zone.iterate_rdatasets():
        rtype = dns.rdatatype.to_text(rdataset.rdtype)
        if rtype not in _DNSSEC_TYPES:
            records = cast(Iterable[dns.rdata.Rdata], rdataset)
            rdata = frozenset(record.to_text() for record in records)
            owner = canonical(name.to_text())
            content.setdefault(owner, {})[rtype] = Rrset(rdataset.ttl, rdata)
    return content


def refused(rcode: dns.rcode.Rcode, *, server: str, zone: str) -> CulvertError:
    why = _WHY_RCODE.get(rcode, f"it answered {dns.rcode.to_text(rcode)}")
    return CulvertError(Reason.DNS_UPDATE_REFUSED, server=server, zone=zone, why=why)


def fault(
    error: dns.exception.DNSException | OSError | EOFError, *, server: str, zone: str, key: TsigKey
) -> CulvertError:
    """The CulvertError for what a query or a transfer ended with."""
    if isinstance(error, dns.xfr.TransferError):
        rcode = cast(dns.rcode.Rcode, error.rcode)  # pyright: ignore[reportUnknownMemberType]
        return refused(rcode, server=server, zone=zone)
    if isinstance(error, dns.exception.Timeout | OSError | EOFError):
        return CulvertError(Reason.DNS_UPDATE_UNREACHABLE, server=server)
    why = _WHY_TSIG.get(type(error), "its answer is malformed or not signed")
    key_name = key.name.to_text(omit_final_dot=True)
    return CulvertError(Reason.DNS_UPDATE_REFUSED, server=server, zone=zone, why=why.format(key=key_name))


def _absolute(name: str) -> dns.name.Name:
    return dns.name.from_text(name)
