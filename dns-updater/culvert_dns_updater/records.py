"""A resource's records in the DNS, and a zone's contents.

A resource `wiki.corp.example` at 10.20.0.10 is three records:

    wiki.corp.example                 A   10.20.0.10
    wiki.corp.example                 TXT "ipsec-tunneling:yes"           to the client: this name needs a tunnel
    _culvert-owner.wiki.corp.example  TXT "heritage=culvert,instance=ID"  to us: these records are ours

Names are canonical (`culvert_proto.dns_name`): lower-case A-labels without the final dot.
RDATA is in presentation format (RFC 1035 §5.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TUNNEL_MARK = '"ipsec-tunneling:yes"'


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
