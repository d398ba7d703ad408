"""Finds the organisation that a name, an address or a tunnel belongs to, and passes events on to it.

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
        """Another one may have its number by now."""
        return self.organisations.get(organisation.number) is organisation

    def owners(self) -> Collection[int]:
        """The uids for core/places.py."""
        return {it.owner for it in self.all() if it.owner is not None}

    def profiles(self) -> dict[int, Profile]:
        return {number: it.client.profile for number, it in self.organisations.items()}

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
        """An event of no organisation, or of one that has left, is dropped."""
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
                # The answer to a query: the organisation that holds it knows.
                self.post_to_all(event)

    def post_trapped(self, event: PacketTrapped) -> None:
        self.post_to(find_by_address(self.profiles(), event.address), event)

    def post_soft_limit(self, event: SoftLimitReached) -> None:
        number, tunnel_id = owner_of(event.tunnel_id)
        self.post_to(number, SoftLimitReached(tunnel_id, event.spi))

    def moved(self) -> None:
        """This computer is somewhere else."""
        for organisation in self.all():
            organisation.moved()

    def reconnect(self) -> None:
        slept = self._sleep.take()
        for organisation in self.all():
            if (agent := organisation.connection.agent) is not None:
                # The clock of a call's timeout stood still in the sleep, and the connection may be long dead.
                agent.reconnect(0.0 if slept else CALL_TIMEOUT)
        # Its calls need the new connections.
        if slept:
            self.post_to_all(Woke(slept))

    def see_awake(self) -> None:
        """Call this before an answer that rests on an open tunnel: the tunnel may have been lost in a sleep."""
        if self._sleep.is_news:
            self.reconnect()


# ── over profiles by number; pure ───────────────────────────────────────────────────────────────────────────────────────


def merge_profiles(profiles: Iterable[Profile]) -> Profile:
    """For what treats all alike: which names are held, and which addresses are protected."""
    all_of_them = list(profiles)
    if len(all_of_them) == 1:
        return all_of_them[0]
    return Profile(
        managed_zones=tuple(zone for it in all_of_them for zone in it.managed_zones),
        protected_prefixes=tuple(prefix for it in all_of_them for prefix in it.protected_prefixes),
    )


def find_by_name(profiles: Mapping[int, Profile], fqdn: str) -> int | None:
    """A single organisation is asked about every name: it knows itself which are its own."""
    if len(profiles) == 1:
        return next(iter(profiles))
    managing = (number for number, it in profiles.items() if it.manages(fqdn))
    knowing = (number for number, it in profiles.items() if it.knows(fqdn))
    return next(managing, next(knowing, None))


def find_full_name(profiles: Mapping[int, Profile], label: str) -> str | None:
    """As `Profile.full_name`; the organisation that was enrolled first has the name."""
    names = (it.full_name(label) for it in profiles.values())
    return next((it for it in names if it is not None), None)


def find_by_address(profiles: Mapping[int, Profile], address: Address) -> int | None:
    return next((number for number, it in profiles.items() if it.protects(address)), None)


def find_by_resource(profiles: Mapping[int, Profile], name: str) -> list[int]:
    """The organisations that a person can mean by a resource's name or a name in DNS."""
    return [number for number, it in profiles.items() if it.fqdn_of(name) is not None]


def shared_id(number: int, own: TunnelId) -> TunnelId:
    """As the datapath knows a tunnel of that organisation."""
    return TunnelId(f"{number}/{own}")


def owner_of(shared: TunnelId) -> tuple[int, TunnelId]:
    """The organisation's number, and the tunnel's id in that organisation, for a tunnel id of the datapath."""
    number, _, own = shared.partition("/")
    return int(number), TunnelId(own)
