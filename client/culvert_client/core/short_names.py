"""Names without a dot: `wiki` stands for a resource's full name. The stub alone knows that; no network is asked. Pure.

   resolv.conf leads to the stub   libc asks for `wiki`, behind the person's own search list ──► the stub
   resolved                        asks no server for `wiki`, but for `wiki.` and each search domain; SEARCHED is one,
                                   behind the person's own ──► the stub

The zones themselves are no search domains: each word that is typed into a browser would be asked for in all of them, at
the network's name server.
"""

from __future__ import annotations

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

from culvert_client.core.dns_wire import MALFORMED, question_of, refusal, renamed

# ICANN keeps "internal" out of the public DNS, for private use.
SEARCHED = "culvert.internal"
# Our tunable, in seconds: a profile that changes is followed.
_TTL = 5


def label_of(fqdn: str) -> str:
    """The label of a name without a dot, alone or below SEARCHED; empty for all other names."""
    label = fqdn.removesuffix(f".{SEARCHED}")
    return "" if "." in label else label


def is_searched(fqdn: str) -> bool:
    return fqdn.endswith(f".{SEARCHED}")


def in_full(query: bytes, fqdn: str) -> bytes | None:
    """The query for the full name. None where its own name is not written out."""
    try:
        return renamed(query, dns.name.from_text(fqdn).to_wire() or b"")
    except MALFORMED:
        return None


def as_asked(reply: bytes | None, query: bytes) -> bytes | None:
    """The answer for the full name as the one to the query: the name without a dot is its alias."""
    if reply is None:
        return None
    try:
        message, asked = dns.message.from_wire(reply, ignore_trailing=True), question_of(query)
        assert asked is not None
        full = message.question[0].name
        message.question = [asked]
        if message.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            alias = dns.rrset.from_text(asked.name, _TTL, asked.rdclass, dns.rdatatype.CNAME, full.to_text())
            message.answer.insert(0, alias)
            # The alias is signed by nobody (RFC 4035 section 3.2.3).
            message.flags &= ~dns.flags.AD
        return message.to_wire()
    except MALFORMED:
        return refusal(query, dns.rcode.SERVFAIL)
