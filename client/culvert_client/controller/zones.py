"""Checks the DNS zones that a controller claims: no zone may have names of many owners (Public Suffix List)."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import TYPE_CHECKING

import dns.exception
import dns.name
from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import canonical
from culvert_proto.phrases import Phrase

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

MOST_ZONES = 256
"""Our tunable: each query's name is compared with each zone."""

# Names with a special meaning on every computer (RFC 6761, 7050, 9462), and Firefox's canary.
_NOBODYS = frozenset({"localhost", "ipv4only.arpa", "resolver.arpa", "use-application-dns.net"})
# On the list, but intended for home networks (RFC 8375), so it may be claimed.
_EVERYBODYS = "home.arpa"


def check_zones(zones: Collection[str]) -> None:
    """Check zones, and wildcards without their "*.". Raises CulvertError CONTROLLER_INVALID.

    Uses both sections of the list, because names under github.io have many owners too. Private top-level domains (corp,
    internal, lan) are in neither section. The first check takes 0.1 s to read the list.
    """
    if len(zones) > MOST_ZONES:
        raise _invalid(Phrase("it claims more than {number} zones", number=MOST_ZONES))
    if (zone := _with_many_owners(frozenset(zones))) is not None:
        raise _invalid(Phrase("the names under {zone} have many owners", zone=zone))


@functools.lru_cache(maxsize=16)
def _with_many_owners(zones: frozenset[str]) -> str | None:
    # Read each time: the list takes 4 MiB of memory and is seldom needed.
    from publicsuffixlist import PublicSuffixList

    suffixes = PublicSuffixList(accept_unknown=False)
    return next((zone for zone in sorted(zones) if _has_many_owners(zone, suffixes)), None)


def _has_many_owners(zone: str, suffixes: PublicSuffixList) -> bool:
    try:
        name = canonical(zone)
        dns.name.from_text(name)
    except (dns.exception.DNSException, UnicodeError):
        return True
    if name == _EVERYBODYS:
        return False
    # The rule "*.ck" makes each name below ck a public suffix.
    below = f"any.{name}"
    return name in _NOBODYS or suffixes.publicsuffix(name) == name or suffixes.publicsuffix(below) == below


def _invalid(why: Phrase) -> CulvertError:
    return CulvertError(Reason.CONTROLLER_INVALID, why=why)
