"""Overlaps of this computer's own networks with protected prefixes: which networks stay reachable, and the warnings. Pure.

```
network, within a protected prefix       made by this computer          anything else
─────────────────────────────────────    ───────────────────────────    ──────────────────────────────────────────────────
smaller than the prefix                  reachable, with a warning      blocked, with a warning
as large, or larger                      blocked, with a warning        blocked, with a warning
```
Other networks are blocked because a hostile network could assign intranet addresses as its own, to receive intranet
packets in clear. In a network that stays reachable, addresses of resources and tunnels stay protected.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from culvert_proto import CulvertError, Reason

from culvert_client.core.claims import LocalNetwork
from culvert_client.core.client_events import Desired
from culvert_client.core.grant import Network

# Our tunables: the most warnings, and the most prefixes in a warning.
MOST_TOLD = 16
MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Shared:
    """The address space, shared by tunnels and this computer's own networks. `warnings`: for the person."""

    desired: Desired = field(default_factory=Desired)
    warnings: tuple[CulvertError, ...] = ()

    def is_as(self, other: Shared) -> bool:
        return self.desired == other.desired and self.texts == other.texts

    @property
    def texts(self) -> list[str]:
        return list(map(str, self.warnings))


def share(desired: Desired, resources: Iterable[Network], networks: Iterable[LocalNetwork]) -> Shared:
    """`resources`: the resources' prefixes."""
    carried = {prefix for sas in desired.tunnels for prefix in sas.tunnel.remote_prefixes}
    carried |= {prefix for tunnel in desired.closed for prefix in tunnel.remote_prefixes}
    protected = Nested(desired.blocked | carried)
    # Only protected prefixes of resources count; others are never blocked.
    named = Nested(it for it in resources if protected.equals(it) or protected.around(it))
    spared: list[LocalNetwork] = []
    kept: set[Network] = set()
    warnings: list[CulvertError] = []
    for network in sorted(networks, key=lambda it: (it.device, str(it.prefix))):
        around = protected.around(network.prefix)
        inside = {*protected.inside(network.prefix), *named.inside(network.prefix)}
        if network.own and around and network.prefix not in inside:
            spared.append(network)
            kept |= inside
            warnings.append(_warning(Reason.LOCAL_NETWORK_OPEN, network, around[-1:]))
            around = []
        if around or inside:
            told = sorted(inside, key=str) or around[-1:]
            warnings.append(_warning(Reason.LOCAL_NETWORK_BLOCKED, network, told))
    if spared:
        desired = replace(desired, blocked=desired.blocked | kept, on_link=tuple(spared))
    return Shared(desired, tuple(warnings[:MOST_TOLD]))


class Nested:
    """A set of prefixes with fast search for the prefixes around and inside another one."""

    def __init__(self, prefixes: Iterable[Network]) -> None:
        self._known = {(it.version, _first(it), it.prefixlen): it for it in prefixes}
        self._ordered = sorted(self._known)
        self._lengths = sorted({(version, length) for version, _, length in self._known})

    def equals(self, prefix: Network) -> bool:
        return (prefix.version, _first(prefix), prefix.prefixlen) in self._known

    def around(self, prefix: Network) -> list[Network]:
        """The wider prefixes that contain it, the narrowest last."""
        wider = (
            (version, _first(prefix) >> (size := prefix.max_prefixlen - length) << size, length)
            for version, length in self._lengths
            if version == prefix.version and length < prefix.prefixlen
        )
        return [self._known[it] for it in wider if it in self._known]

    def narrowest(self, prefix: Network) -> Network | None:
        """The narrowest prefix that contains it, which may be itself."""
        return prefix if self.equals(prefix) else next(reversed(self.around(prefix)), None)

    def inside(self, prefix: Network) -> list[Network]:
        """The prefixes that it contains, itself included."""
        last = _first(prefix) | (1 << (prefix.max_prefixlen - prefix.prefixlen)) - 1
        begin = bisect_left(self._ordered, (prefix.version, _first(prefix), prefix.prefixlen))
        end = bisect_right(self._ordered, (prefix.version, last, prefix.max_prefixlen))
        return [self._known[it] for it in self._ordered[begin:end]]


def _first(prefix: Network) -> int:
    return int(prefix.network_address)


def _warning(reason: Reason, network: LocalNetwork, prefixes: list[Network]) -> CulvertError:
    named = ", ".join(map(str, prefixes[:MOST_NAMED])) + (", …" if len(prefixes) > MOST_NAMED else "")
    return CulvertError(reason, network=network.prefix, device=network.device, prefix=named)
