"""Names without a dot, such as `wiki`: the stub maps them to a resource's full name, without a network query. Pure.

   resolv.conf with the stub   libc queries `wiki` after the person's own search domains ──► the stub
   resolved                    does not query `wiki` itself, but `wiki` in each search domain; SEARCHED is the last
                               of them ──► the stub

The zones are no search domains, because each word typed into a browser would be sent to the network's name server.
"""

from __future__ import annotations

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

from culvert_client.core.dns_wire import MALFORMED, question_of, refusal, rename

# ICANN has reserved "internal" for private use.
SEARCHED = "culvert.internal"
# Our tunable, in seconds; short, because the profile may change.
_TTL = 5


def label_of(fqdn: str) -> str:
    """The label of a name without a dot, alone or below SEARCHED; empty for all other names."""
    label = fqdn.removesuffix(f".{SEARCHED}")
    return "" if "." in label else label


def is_searched(fqdn: str) -> bool:
    return fqdn.endswith(f".{SEARCHED}")


def in_full(query: bytes, fqdn: str) -> bytes | None:
    """The query for the full name. None if its own name is compressed."""
    try:
        return rename(query, dns.name.from_text(fqdn).to_wire() or b"")
    except MALFORMED:
        return None


def as_asked(reply: bytes | None, query: bytes) -> bytes | None:
    """The answer to the original query: that of the full name, with the name without a dot as an alias."""
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
            # The alias has no signature (RFC 4035 section 3.2.3).
            message.flags &= ~dns.flags.AD
        return message.to_wire()
    except MALFORMED:
        return refusal(query, dns.rcode.SERVFAIL)
