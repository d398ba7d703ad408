"""What a resource looks like in the DNS, and what a zone holds.

A resource `wiki.corp.example` at 10.20.0.10 is three records:

    wiki.corp.example                 A   10.20.0.10
    wiki.corp.example                 TXT "ipsec-tunneling:yes"           to the client: this name needs a tunnel
    _culvert-owner.wiki.corp.example  TXT "heritage=culvert,instance=ID"  to us: these records are ours

Names are canonical (`culvert_proto.dns_name`): lower-case A-labels without the final dot.
RDATA is in presentation format (RFC 1035 §5.1).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dns.exception
import dns.name
from culvert_proto import dns_name

TUNNEL_MARK = '"ipsec-tunneling:yes"'
OWNER_LABEL = "_culvert-owner"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Rrset:
    ttl: int
    rdata: frozenset[str]


# name -> type -> RRset. Names without records are absent.
ZoneContent = Mapping[str, Mapping[str, Rrset]]


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner mark of our records, and their TTL in seconds."""

    instance: str
    ttl: int

    @property
    def mark(self) -> str:
        return f'"heritage=culvert,instance={self.instance}"'


def owner_name(name: str) -> str:
    return f"{OWNER_LABEL}.{name}"


def rrtype(address: Address) -> str:
    return "A" if address.version == 4 else "AAAA"


def parse_name(text: str) -> str | None:
    """The name in our form, or None when it, or the owner name beside it, can't be a DNS name (RFC 1035 §2.3.4)."""
    try:
        name = dns_name.parse(text)
        dns.name.from_text(owner_name(name))
    except (dns_name.NameInvalidError, dns.exception.DNSException):
        return None
    return name


def zone_of(name: str, zones: Sequence[str]) -> str | None:
    """The most specific of `zones` that holds the name."""
    holding = [zone for zone in zones if name == zone or name.endswith(f".{zone}")]
    return max(holding, key=len, default=None)
