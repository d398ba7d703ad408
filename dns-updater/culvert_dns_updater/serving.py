"""Compares the server's answers to queries with the zone's content. Pure.

A server may answer a name of the zone from another zone, by a policy, or from a cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdatatype
from culvert_proto.phrases import Phrase

from culvert_dns_updater.records import TUNNEL_MARK

# The server refuses our queries, although it permits transfers and updates: no comparison is possible.
_NOT_FOR_US = frozenset({dns.rcode.REFUSED, dns.rcode.NOTIMP})
# The most values in a text.
_UP_TO = 3

DELEGATED = Phrase("delegated to other name servers (NS)")
REDIRECTED = Phrase("redirected (DNAME)")
OWN_ZONE = Phrase("a zone of its own on the same server")
_WHY_CUT = {
    dns.rdatatype.NS: DELEGATED,
    dns.rdatatype.DNAME: REDIRECTED,
    dns.rdatatype.SOA: OWN_ZONE,
}


def question(name: str, rtype: str) -> dns.message.QueryMessage:
    """A query without recursion, as a resolver sends it (RFC 1034 §5.3.3)."""
    return dns.message.make_query(dns.name.from_text(name), rtype, flags=0)


def difference(
    answer: dns.message.Message, name: str, rtype: str, wanted: frozenset[str], origin: str
) -> tuple[str | None, str] | None:
    """None if the answer has the desired values. Otherwise the zone cut (None: none visible), and the answer instead as
    text.
    """
    rcode = answer.rcode()
    asked, zone = dns.name.from_text(name), dns.name.from_text(origin)
    if rcode in _NOT_FOR_US:
        return None
    here = next((it for it in answer.answer if it.name == asked and it.rdtype.name == rtype), None)
    if here is not None:
        found = frozenset(record.to_text() for record in cast(Iterable[dns.rdata.Rdata], here))
        # A name may have other texts beside the mark.
        is_right = TUNNEL_MARK in found if rtype == "TXT" else found == wanted
        return (
            None
            if is_right
            else (None, Phrase("it answers {values}", values=f"{rtype} {', '.join(sorted(found)[:_UP_TO])}"))
        )
    for rrset in (*answer.answer, *answer.authority):
        if why := _WHY_CUT.get(rrset.rdtype):
            is_below = rrset.name != zone and rrset.name.is_subdomain(zone)
            if is_below or rrset.rdtype is dns.rdatatype.DNAME:
                return rrset.name.to_text(omit_final_dot=True), why
    if answer.answer:
        return None, Phrase("it answers with {type}", type=answer.answer[0].rdtype.name)
    if rcode == dns.rcode.NOERROR:
        return None, Phrase("it has no {type}", type=rtype)
    return None, Phrase("it answers {values}", values=dns.rcode.to_text(rcode))
