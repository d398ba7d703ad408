"""Source addresses for packets that no tunnel carries yet: the inner addresses of the future tunnel. Pure.

```
protected prefix ──► the gateway of most resources in it, else of most resources ──► its inner addresses
resource in it through another gateway ───────────────────────────────────────────► that gateway's inner addresses
```
So a connection that begins before its tunnel continues in the tunnel. If the tunnel leads through another gateway than
expected, the connection ends when the tunnel opens, and the program has to retry.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from culvert_client.core.grant import Network, Source
from culvert_client.core.local_networks import Nested
from culvert_client.core.profile import Profile, Resource


class SourceAddresses:
    """Caches the sources of the last profile."""

    def __init__(self) -> None:
        self._profile = Profile()
        self._pinned: str = ""
        self._sources: tuple[Source, ...] = ()

    def of(self, profile: Profile, pinned: str) -> tuple[Source, ...]:
        if profile is not self._profile or pinned != self._pinned:
            self._profile, self._pinned = profile, pinned
            self._sources = sources(profile, pinned)
        return self._sources


def sources(profile: Profile, pinned: str) -> tuple[Source, ...]:
    """The sources, for gateways with known inner addresses. `pinned`: the person's gateway, or empty."""
    addresses = {it.name: it.inner_addresses for it in profile.gateways if it.inner_addresses}
    protected = Nested(profile.protected_prefixes)
    everywhere: Counter[str] = Counter()
    inside: defaultdict[Network, Counter[str]] = defaultdict(Counter)
    named: dict[Network, str] = {}
    for resource in profile.resources:
        gateway = _gateway(resource, pinned)
        if gateway not in addresses:
            continue
        everywhere[gateway] += 1
        for prefix in resource.prefixes:
            if (holder := protected.narrowest(prefix)) is not None:
                inside[holder][gateway] += 1
                named[prefix] = gateway
    if not everywhere:
        return ()
    usual = {it: _most(inside[it] or everywhere) for it in profile.protected_prefixes}
    leads = usual | named
    around = Nested(leads)
    prefixes: defaultdict[str, list[Network]] = defaultdict(list)
    for prefix, gateway in leads.items():
        # A resource with the same gateway as the prefix around it needs no entry.
        if prefix in usual or leads[around.around(prefix)[-1]] != gateway:
            prefixes[gateway].append(prefix)
    return tuple(Source(tuple(its), addresses[gateway]) for gateway, its in prefixes.items())


def _gateway(resource: Resource, pinned: str) -> str:
    """The expected gateway of the resource's tunnel."""
    if pinned in resource.gateways:
        return pinned
    return next(iter(resource.gateways), "")


def _most(counted: Counter[str]) -> str:
    [(gateway, _)] = counted.most_common(1)
    return gateway
