"""Finds the organisation of a name, an address or a tunnel, and passes events to it.

DNS stub, Watch ──► whose name ──┐
packet trap ──► whose address ───┼──► Organisation, one or several
SAs, counters ──► whose tunnel ──┘
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from culvert_client.controller.agent import CALL_TIMEOUT
from culvert_client.core.client_events import (
    AnswerSeen,
    Event,
    NameSeen,
    PacketTrapped,
    QueryHeld,
    SoftLimitReached,
    Woke,
)
from culvert_client.core.grant import Address, TunnelId
from culvert_client.core.profile import Profile
from culvert_client.daemon.organisation import Organisation
from culvert_client.moves import Sleep


class Router:
    """`organisations` by number, in the order of enrolment. `slept` as Process."""

    def __init__(self, slept: Callable[[], float]) -> None:
        self.organisations: dict[int, Organisation] = {}
        self._sleep = Sleep(slept)

    def all(self) -> list[Organisation]:
        return list(self.organisations.values())

    def others(self, organisation: Organisation) -> Sequence[Organisation]:
        return [it for it in self.all() if it is not organisation]

    def has(self, organisation: Organisation) -> bool:
        """Whether the organisation still exists; another one may have its number now."""
        return self.organisations.get(organisation.number) is organisation

    def owners(self) -> Collection[int]:
        """The uids for core/places.py."""
        return {it.owner for it in self.all() if it.owner is not None}

    def profiles(self) -> dict[int, Profile]:
        return {number: it.client.profile for number, it in self.organisations.items()}

    def of_name(self, fqdn: str) -> Organisation | None:
        return self.organisations.get(find_by_name(self.profiles(), fqdn) or 0)

    def want_page(self) -> bool:
        """Whether a zone allows a page for denied names."""
        return any(it.denial_page_zones for it in self.profiles().values())

    # ── the name service's questions ────────────────────────────────────────────────────────────────────────────────────

    def profile(self) -> Profile:
        return merge_profiles(self.profiles().values())

    def profile_beside(self, fqdn: str) -> Profile:
        profiles = self.profiles()
        profiles.pop(find_by_name(profiles, fqdn) or 0, None)
        return merge_profiles(profiles.values())

    def addresses_of(self, fqdn: str) -> Collection[Address]:
        profiles = self.profiles()
        number = find_by_name(profiles, fqdn)
        return profiles[number].addresses_of(fqdn) if number is not None else ()

    def full_name(self, label: str) -> str | None:
        return find_full_name(self.profiles(), label)

    def asks_controller_first(self, fqdn: str) -> bool:
        self.see_awake()
        organisation = self.organisations.get(find_by_name(self.profiles(), fqdn) or 0)
        return organisation is None or organisation.client.asks_controller_first(fqdn)

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def post_to(self, number: int | None, event: Event) -> None:
        """Pass an event to the organisation; without it, the event is dropped."""
        if (organisation := self.organisations.get(number or 0)) is not None:
            organisation.post(event)

    def post_to_all(self, event: Event) -> None:
        for organisation in self.all():
            organisation.post(event)

    def post_dns(self, event: Event) -> None:
        match event:
            case QueryHeld(fqdn=fqdn) | NameSeen(fqdn) | AnswerSeen(fqdn):
                self.post_to(find_by_name(self.profiles(), fqdn), event)
            case _:
                # An answer to a query: only the organisation that holds the query uses it.
                self.post_to_all(event)

    def post_trapped(self, event: PacketTrapped) -> None:
        self.post_to(find_by_address(self.profiles(), event.address), event)

    def post_soft_limit(self, event: SoftLimitReached) -> None:
        number, tunnel_id = owner_of(event.tunnel_id)
        self.post_to(number, SoftLimitReached(tunnel_id, event.spi))

    def on_roam(self) -> None:
        """The computer is in another network."""
        for organisation in self.all():
            organisation.on_roam()

    def reconnect(self) -> None:
        slept = self._sleep.take()
        for organisation in self.all():
            if (agent := organisation.connection.agent) is not None:
                # After a sleep, end calls at once: their timeouts stood still, and the connection is probably dead.
                agent.reconnect(0.0 if slept else CALL_TIMEOUT)
        # After the reconnection, because the event causes calls.
        if slept:
            self.post_to_all(Woke(slept))

    def see_awake(self) -> None:
        """Check for a sleep, which may have ended tunnels. Call it before an answer that depends on an open tunnel."""
        if self._sleep.is_news:
            self.reconnect()


# ── over profiles by number; pure ───────────────────────────────────────────────────────────────────────────────────────


def merge_profiles(profiles: Iterable[Profile]) -> Profile:
    """Merge the profiles, for decisions about all organisations together: held names, protected addresses."""
    all_of_them = list(profiles)
    if len(all_of_them) == 1:
        return all_of_them[0]
    return Profile(
        managed_zones=tuple(zone for it in all_of_them for zone in it.managed_zones),
        protected_prefixes=tuple(prefix for it in all_of_them for prefix in it.protected_prefixes),
    )


def find_by_name(profiles: Mapping[int, Profile], fqdn: str) -> int | None:
    """The organisation of a name. A single organisation gets every name, and decides itself."""
    if len(profiles) == 1:
        return next(iter(profiles))
    managing = (number for number, it in profiles.items() if it.manages(fqdn))
    knowing = (number for number, it in profiles.items() if it.knows(fqdn))
    return next(managing, next(knowing, None))


def find_full_name(profiles: Mapping[int, Profile], label: str) -> str | None:
    """As `Profile.full_name`; of several organisations, the one that was enrolled first."""
    names = (it.full_name(label) for it in profiles.values())
    return next((it for it in names if it is not None), None)


def find_by_address(profiles: Mapping[int, Profile], address: Address) -> int | None:
    return next((number for number, it in profiles.items() if it.protects(address)), None)


def find_by_resource(profiles: Mapping[int, Profile], name: str) -> list[int]:
    """The organisations that know this resource's name or DNS name."""
    return [number for number, it in profiles.items() if it.fqdn_of(name) is not None]


def shared_id(number: int, own: TunnelId) -> TunnelId:
    """The id of an organisation's tunnel in the shared datapath."""
    return TunnelId(f"{number}/{own}")


def owner_of(shared: TunnelId) -> tuple[int, TunnelId]:
    """The organisation's number, and the tunnel's id in that organisation, for a tunnel id of the datapath."""
    number, _, own = shared.partition("/")
    return int(number), TunnelId(own)
