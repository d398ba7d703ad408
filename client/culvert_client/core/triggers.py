"""Demands besides a query that waits: a name seen on its way (DNS watch), a packet without a tunnel (trap).

   NameSeen ──► the profile knows it ─► opens            AnswerSeen, answers released ──► learned: address → name
            └─► inside a zone: TXT ─► yes ─► opens                                          │
   PacketTrapped ──► whose address? the profile's resource, else the one learned ◄──────────┘ ─► opens

Nothing waits for these demands. Each name is asked for once in a while, and all of them together
no faster than a bucket fills, so that a program that knocks on every door does not drown the controller.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from typing import TypeVar

from culvert_proto.token_bucket import TokenBucket

from culvert_client.core.client_events import AnswerSeen, AskTxt, NameSeen, PacketTrapped
from culvert_client.core.grant import Address, Network
from culvert_client.core.holds import Demanded
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel.events import Trigger

# Our tunables.
SAME_NAME_EVERY = 5.0
"""Seconds."""
DEMANDS = TokenBucket(per_second=2.0, burst=16.0)
QUIET_AFTER_CLOSE = 60.0
"""Seconds in which packets do not open again what a person has closed: its open connections go on knocking."""
KEPT_AT_MOST = 1024
"""Entries of each memory."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Triggers:
    def __init__(self) -> None:
        self._learned: OrderedDict[Address, str] = OrderedDict()
        self._next: OrderedDict[str, float] = OrderedDict()
        self._closed: dict[str, float] = {}
        self._asking: OrderedDict[str, None] = OrderedDict()
        self._full_at = 0.0
        self._indexed: Profile | None = None
        self._resources: list[tuple[Network, str]] = []

    def learn(self, fqdn: str, addresses: Iterable[Address], profile: Profile) -> None:
        """Remember the name's protected addresses; packets to others are never trapped."""
        for address in filter(profile.protects, addresses):
            _put(self._learned, address, fqdn)

    def take_event(
        self, event: NameSeen | AnswerSeen | PacketTrapped, profile: Profile, now: float
    ) -> Sequence[Demanded | AskTxt]:
        match event:
            case NameSeen(fqdn):
                self.forget_close(profile.tunnel_of(fqdn))
                if profile.knows(fqdn):
                    return self._demand(Trigger.NAME_SEEN, profile.tunnel_of(fqdn), now)
                # The profile does not know the name yet: ask TXT.
                asks = profile.manages(fqdn) and fqdn not in self._asking and self._admits(f"TXT {fqdn}", now)
                if asks:
                    _put(self._asking, fqdn, None)
                return [AskTxt(fqdn)] if asks else []
            case AnswerSeen(fqdn, addresses, aliases):
                if profile.manages(fqdn):
                    self.learn(profile.reached((fqdn, *aliases)), addresses, profile)
                return []
            case PacketTrapped(address):
                name = self._name_of(address, profile)
                if name is None or self._closed.get(name, now) > now:
                    return []
                return self._demand(Trigger.PACKET_TRAPPED, name, now)

    def txt(self, fqdn: str, marked: str, profile: Profile, now: float) -> list[Demanded]:
        """Handle a TXT answer, which may belong to another query."""
        if fqdn not in self._asking:
            return []
        del self._asking[fqdn]
        if not profile.manages(marked):
            return []
        return self._demand(Trigger.NAME_SEEN, profile.tunnel_of(marked), now, asked=fqdn)

    def note_close(self, names: Iterable[str], now: float) -> None:
        self._closed = {name: until for name, until in self._closed.items() if until > now}
        self._closed |= dict.fromkeys(names, now + QUIET_AFTER_CLOSE)

    def forget_close(self, name: str) -> None:
        self._closed.pop(name, None)

    def _name_of(self, address: Address, profile: Profile) -> str | None:
        if not profile.protects(address):
            return None
        if self._indexed is not profile:
            self._indexed = profile
            self._resources = [
                (ip_network(it, strict=False), resource.fqdn)
                for resource in profile.resources
                for it in resource.addresses
            ]
        # The profile takes precedence over learned addresses.
        for prefix, fqdn in self._resources:
            if address in prefix:
                return fqdn
        fqdn = self._learned.get(address)
        return None if fqdn is None else profile.tunnel_of(fqdn)

    def _demand(self, by: Trigger, name: str, now: float, asked: str = "") -> list[Demanded]:
        return [Demanded(by, name, asked or name)] if self._admits(name, now) else []

    def _admits(self, about: str, now: float) -> bool:
        if self._next.get(about, now) > now or DEMANDS.wait(self._full_at, now):
            return False
        self._full_at = DEMANDS.take(self._full_at, now)
        _put(self._next, about, now + SAME_NAME_EVERY)
        return True


def _put(kept: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    """Add an item, and drop the oldest if there are too many."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > KEPT_AT_MOST:
        kept.popitem(last=False)
