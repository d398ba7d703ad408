"""The packets of a site tunnel, from the targets of its administrator and of its resources. Pure.

target   ─ target    packets that match both
target   ─ resource  packets that match both: the target's hosts reach the resource's addresses and ports
resource ─ resource  the hosts of each resource reach the addresses and ports of the other
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from culvert_proto.contract import Suite
from culvert_proto.sa import Limits

from culvert_service.gateways.selector import Selector
from culvert_service.resources.target import selectors

_DEFAULT = Suite.AES_GCM_256
_DEFAULT_LIMITS = Limits(bytes=2**36, seconds=3600)


@dataclass(frozen=True, slots=True)
class Flow:
    """Packets between two selectors, in either direction."""

    near: Selector
    far: Selector


@dataclass(frozen=True, slots=True)
class Place:
    """The targets behind a gateway: the tunnel's own, and those of resources."""

    targets: tuple[Selector, ...]
    resources: tuple[Selector, ...] = ()

    @classmethod
    def of(cls, targets: Sequence[Mapping[str, Any]], resources: Sequence[Mapping[str, Any]]) -> Self:
        """From the form in the rows."""
        return cls(selectors(targets), selectors(resources))

    def prefixes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.prefix for one in (*self.targets, *self.resources)))


def flows(near: Place, far: Place) -> tuple[Flow, ...]:
    return tuple(dict.fromkeys(_flows(near, far)))


def overlap(one: Flow, other: Flow) -> bool:
    """Whether some packets belong to both."""
    return _share(one.near, other.near) and _share(one.far, other.far)


def suite_of(asked: str | None, profiles: Iterable[str | None]) -> Suite:
    """The administrator's suite, or else the profiles'. Raises ValueError when the profiles differ."""
    said = {asked} if asked else {suite for suite in profiles if suite}
    if len(said) > 1:
        raise ValueError(f"its resources ask for {' and '.join(sorted(said))}; say which suite it has")
    return Suite(said.pop()) if said else _DEFAULT


def limits_of(asked: Limits | None, profiles: Sequence[Limits]) -> Limits:
    """The administrator's limits, or else the lowest of the profiles' limits of each kind."""
    if asked is not None or not profiles:
        return asked or _DEFAULT_LIMITS
    return Limits(
        *(
            min((of for limits in profiles if (of := getattr(limits, kind))), default=0)
            for kind in ("packets", "bytes", "seconds")
        )
    )


def _flows(near: Place, far: Place) -> Iterator[Flow]:
    yield from _find_flows(near.targets, (*far.targets, *far.resources))
    yield from _find_flows(near.resources, far.targets)
    yield from _find_flows(map(_anything, near.resources), far.resources)
    yield from _find_flows(near.resources, tuple(map(_anything, far.resources)))


def _find_flows(near: Iterable[Selector], far: Sequence[Selector]) -> Iterator[Flow]:
    return (Flow(one, other) for one in near for other in far if one.meets(other))


def _anything(of: Selector) -> Selector:
    return Selector(of.prefix)


def _share(one: Selector, other: Selector) -> bool:
    here, there = ipaddress.ip_network(one.prefix), ipaddress.ip_network(other.prefix)
    ports = one.ports[0] <= other.ports[1] and other.ports[0] <= one.ports[1]
    return one.meets(other) and here.overlaps(there) and ports
