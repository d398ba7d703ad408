"""Address pools for a new gateway that overlap no network that the controller knows. Pure.

An organisation's pools lie side by side, so that one route can lead to several gateways. The place is drawn from the
organisation's seed, as RFC 1918 section 5 and RFC 4193 section 3.2 recommend, so that two organisations that meet later
seldom have the same addresses.
"""

from __future__ import annotations

import hashlib
import ipaddress
import random
from collections.abc import Iterable, Iterator

_POOL_LEN, _POOL6_LEN = 24, 64
# An organisation's part of a range.
_PART_LEN, _PART6_LEN = 16, 48
# RFC 1918, then the shared address space of RFC 6598, which carriers and other VPNs use.
_RANGES = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
# Networks that others use unless somebody chooses: home routers and Azure, k3s, Kubernetes, Google Cloud, Docker and AWS.
_USUAL = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("10.0.0.0/15", "10.10.0.0/16", "10.42.0.0/15", "10.96.0.0/12", "10.128.0.0/9"),
            *("172.16.0.0/12", "192.168.0.0/16"),
        ),
    )
)


def find_free(seed: bytes, taken: Iterable[str]) -> tuple[str | None, str | None]:
    """An IPv4 and an IPv6 prefix that overlap none of the prefixes `taken`; None when all are taken."""
    networks = [ipaddress.ip_network(it, strict=False) for it in taken]
    taken4 = [*ipaddress.collapse_addresses(it for it in networks if it.version == 4)]
    taken6 = [*ipaddress.collapse_addresses(it for it in networks if it.version == 6)]
    free4 = (it for it in _pools(seed) if not any(it.overlaps(other) for other in taken4))
    free6 = (it for it in _pools6(seed) if not any(it.overlaps(other) for other in taken6))
    pool, pool6 = next(free4, None), next(free6, None)
    return pool and str(pool), pool6 and str(pool6)


def _pools(seed: bytes) -> Iterator[ipaddress.IPv4Network]:
    """Those in usual networks come last."""
    order = random.Random(seed)  # noqa: S311
    parts = [
        part
        for drawn in (ipaddress.IPv4Network(it) for it in _RANGES)
        for part in _shuffle(order, [*drawn.subnets(new_prefix=_PART_LEN)])
    ]
    parts.sort(key=lambda part: any(part.overlaps(usual) for usual in _USUAL))
    for part in parts:
        yield from part.subnets(new_prefix=_POOL_LEN)


def _pools6(seed: bytes) -> Iterator[ipaddress.IPv6Network]:
    """RFC 4193 section 3.1: fd, 40 bits of Global ID, 16 bits of Subnet ID."""
    own = b"\xfd" + hashlib.sha256(seed).digest()[:5] + bytes(10)
    yield from ipaddress.IPv6Network((own, _PART6_LEN)).subnets(new_prefix=_POOL6_LEN)


def _shuffle(order: random.Random, parts: list[ipaddress.IPv4Network]) -> list[ipaddress.IPv4Network]:
    order.shuffle(parts)
    return parts
