"""Decides which DNS answers wait for a tunnel, and for how long.

   query held ──► needs a tunnel?
                    │  yes: the profile knows the name or its alias's target, or TXT has the mark, or the answer has an
                    │       address in a protected prefix
                    │  no:  TXT has no mark and the answer has no protected address
                    ▼
        yes: Demanded ─► tunnel up ──────────► Replied, without addresses that no tunnel carries
                         refused, or timeout ─► HoldFailed (SERVFAIL)
        no, or an answer without addresses: Replied unchanged
        paused: Replied unchanged, but HoldFailed if a name of the profile has an address that is not protected

An answer is held for at most 2 s. Each tunnel that opens or is refused meanwhile gives a waiting answer 2 s from then on,
because the controller is busy with a page of many names; at most 4 s in all, less than resolvers wait (decision 39).

TXT can only add names: a stripped or missing TXT has no effect on names that the profile protects.

A resource's name opens its own tunnel. If that tunnel does not carry the answer, or the name is no resource's, the tunnel
of its alias's target (CNAME, DNAME) is demanded. So an answer opens at most two tunnels, however long its chain is, and
policy decides about each by the tunnel's own name.

An address that no tunnel carries is left out, and the rest of the answer stays (dns_answer.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_client.core.grant import Address, Tunnel
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel.events import Demander, QueryId

# Seconds.
_PATIENCE, _LONGEST = 2.0, 4.0


@dataclass(slots=True)
class Hold:
    """`addresses`: None until the name server has answered. Each name in `demanded` gets a tunnel or a refusal."""

    fqdn: str
    since: float
    until: float
    answered: bool = False
    addresses: frozenset[Address] | None = None
    aliases: tuple[str, ...] = ()
    demanded: list[str] = field(default_factory=list[str])
    tunnels: list[Tunnel] = field(default_factory=list[Tunnel])
    refusals: list[CulvertError] = field(default_factory=list[CulvertError])

    @property
    def names(self) -> tuple[str, ...]:
        """The asked name, then its aliases' targets."""
        return (self.fqdn, *self.aliases)

    @property
    def waits(self) -> bool:
        return len(self.tunnels) + len(self.refusals) < len(self.demanded)

    @property
    def uncarried(self) -> frozenset[Address]:
        """The addresses that no tunnel carries yet."""
        return frozenset(
            it for it in self.addresses or () if not any(tunnel.covers(it) for tunnel in self.tunnels)
        )

    @property
    def carrier(self) -> str:
        """The name whose tunnel was demanded last, or else the asked name."""
        return self.demanded[-1] if self.demanded else self.fqdn


@dataclass(frozen=True, slots=True)
class Demanded:
    """`asked`: `fqdn` or an alias of it."""

    demander: Demander
    fqdn: str
    asked: str


@dataclass(frozen=True, slots=True)
class Replied:
    """Release the answer with only these addresses; `error`: the reason for leaving the others out.

    `carrier`: as of Hold. `is_misled`: left-out addresses are of a family that the tunnel carries.
    """

    query: QueryId
    carrier: str
    addresses: frozenset[Address]
    without: frozenset[Address] = frozenset()
    error: CulvertError | None = None
    is_misled: bool = False


@dataclass(frozen=True, slots=True)
class HoldFailed:
    query: QueryId
    fqdn: str
    error: CulvertError
    carrier: str


Outcome = Demanded | Replied | HoldFailed


class Holds:
    """The held queries. Each method returns the outcomes of an event; the profile may change between two calls.

    `passing`: answers do not wait for tunnels, because of a pause.
    """

    def __init__(self, *, passing: bool = False) -> None:
        self.passing = passing
        self._holds: dict[QueryId, Hold] = {}
        # For each held name, the name with TXT's mark: empty without a mark, None while the TXT query runs.
        self._txt: dict[str, str | None] = {}

    def hold(self, query: QueryId, fqdn: str, profile: Profile, now: float) -> list[Outcome]:
        self._holds[query] = Hold(fqdn, now, now + _PATIENCE)
        return self._advance(query, profile)

    def asks_txt(self, fqdn: str) -> bool:
        """Whether to query TXT for this name now; true once while the name is held."""
        if fqdn in self._txt:
            return False
        self._txt[fqdn] = None
        return True

    def txt(self, fqdn: str, marked: str, profile: Profile) -> list[Outcome]:
        if not self.holds(fqdn):
            self._txt.pop(fqdn, None)
            return []
        self._txt[fqdn] = marked
        return self._advance_all([q for q, hold in self._holds.items() if hold.fqdn == fqdn], profile)

    def take_answer(
        self, query: QueryId, addresses: frozenset[Address] | None, aliases: tuple[str, ...], profile: Profile
    ) -> list[Outcome]:
        """`addresses` None: no answer, or a malformed one."""
        hold = self._holds.get(query)
        if hold is None:
            return []
        hold.answered, hold.addresses, hold.aliases = True, addresses, aliases
        return self._advance(query, profile)

    def take_tunnel(
        self, queries: frozenset[QueryId], tunnel: Tunnel, profile: Profile, now: float
    ) -> list[Outcome]:
        self._extend(now)
        for hold in self._find(queries):
            hold.tunnels.append(tunnel)
        return self._advance_all(queries, profile)

    def refuse(
        self, queries: frozenset[QueryId], error: CulvertError, profile: Profile, now: float
    ) -> list[Outcome]:
        self._extend(now)
        for hold in self._find(queries):
            hold.refusals.append(error)
        return self._advance_all(queries, profile)

    def expire(self, now: float) -> list[Outcome]:
        late = [query for query, hold in self._holds.items() if hold.until <= now]
        return [self._fail(query, self._late(self._holds[query])) for query in late]

    def name_of(self, query: QueryId) -> str | None:
        """The name of a held query; None after its answer was released."""
        hold = self._holds.get(query)
        return hold.fqdn if hold is not None else None

    def holds(self, fqdn: str) -> bool:
        return any(hold.fqdn == fqdn for hold in self._holds.values())

    def carriers(self) -> frozenset[str]:
        """The names whose tunnels held answers wait for, and held names without a demand yet."""
        return frozenset(name for hold in self._holds.values() for name in hold.demanded or [hold.fqdn])

    def deadline(self) -> float | None:
        return min((hold.until for hold in self._holds.values()), default=None)

    def _extend(self, now: float) -> None:
        for hold in self._holds.values():
            if hold.waits:
                hold.until = min(now + _PATIENCE, hold.since + _LONGEST)

    def _find(self, queries: frozenset[QueryId]) -> list[Hold]:
        return [self._holds[query] for query in queries if query in self._holds]

    def _advance_all(self, queries: frozenset[QueryId] | list[QueryId], profile: Profile) -> list[Outcome]:
        return [outcome for query in sorted(queries) for outcome in self._advance(query, profile)]

    def _advance(self, query: QueryId, profile: Profile) -> list[Outcome]:
        hold = self._holds.get(query)
        if hold is None:
            return []
        if hold.answered and hold.addresses is None:
            return [self._fail(query, CulvertError(Reason.DNS_UPSTREAM_FAILED, name=hold.fqdn))]
        if self.passing:
            return self._pass(query, hold, profile)
        needs = self._needs_tunnel(hold, profile)
        if needs is None:
            return []
        if hold.addresses is not None and not (needs and hold.addresses):
            return [*self._demand(query, hold, profile, needs=needs), self._reply(query)]
        outcomes = self._demand(query, hold, profile, needs=needs)
        if hold.addresses is None or hold.waits:
            return outcomes
        if hold.refusals and hold.uncarried == hold.addresses:
            return [self._fail(query, hold.refusals[-1])]
        return [self._reply_carried(query, hold, profile)]

    def _demand(self, query: QueryId, hold: Hold, profile: Profile, *, needs: bool) -> list[Outcome]:
        name = self._to_demand(hold, profile) if needs and not hold.waits else None
        if name is None:
            return []
        hold.demanded.append(name)
        return [Demanded(query, name, hold.fqdn)]

    def _to_demand(self, hold: Hold, profile: Profile) -> str | None:
        """The next name whose tunnel to demand."""
        reached = profile.reached(hold.names)
        if hold.demanded:
            before = map(profile.tunnel_of, hold.demanded)
            is_new = profile.knows(reached) and profile.tunnel_of(reached) not in before
            return reached if is_new and hold.uncarried else None
        if profile.knows(hold.fqdn):
            return hold.fqdn
        return reached if profile.knows(reached) else self._mark(hold, profile) or reached

    def _mark(self, hold: Hold, profile: Profile) -> str:
        """The name with TXT's mark; empty outside of the zones, where the mark has no meaning."""
        marked = self._txt.get(hold.fqdn)
        return marked if marked and profile.manages(marked) else ""

    def _pass(self, query: QueryId, hold: Hold, profile: Profile) -> list[Outcome]:
        if hold.addresses is None:
            return []
        # Protected addresses are blocked, but a forged address outside of them would not be: fail such answers.
        leaves = any(map(profile.knows, hold.names)) and not all(map(profile.protects, hold.addresses))
        return [self._fail(query, CulvertError(Reason.PAUSED)) if leaves else self._reply(query)]

    def _needs_tunnel(self, hold: Hold, profile: Profile) -> bool | None:
        if self._mark(hold, profile) or any(map(profile.knows, hold.names)):
            return True
        if hold.addresses is not None and any(map(profile.is_intranet, hold.addresses)):
            return True
        return None if self._txt.get(hold.fqdn) is None or hold.addresses is None else False

    def _reply(self, query: QueryId) -> Replied:
        hold = self._remove(query)
        return Replied(query, hold.carrier, hold.addresses or frozenset())

    def _reply_carried(self, query: QueryId, hold: Hold, profile: Profile) -> Replied:
        uncarried = hold.uncarried
        if not uncarried:
            return self._reply(query)
        self._remove(query)
        families = {prefix.version for it in hold.tunnels for prefix in it.remote_prefixes}
        return Replied(
            query,
            hold.carrier,
            (hold.addresses or frozenset()) - uncarried,
            uncarried,
            _uncarried_error(hold, profile, min(uncarried, key=str)),
            is_misled=any(it.version in families for it in uncarried),
        )

    def _fail(self, query: QueryId, error: CulvertError) -> HoldFailed:
        hold = self._remove(query)
        return HoldFailed(query, hold.fqdn, error, hold.carrier)

    def _remove(self, query: QueryId) -> Hold:
        hold = self._holds.pop(query)
        if self._txt.get(hold.fqdn) is not None and not self.holds(hold.fqdn):
            del self._txt[hold.fqdn]
        return hold

    def _late(self, hold: Hold) -> CulvertError:
        if not hold.answered:
            failed = CulvertError(Reason.DNS_UPSTREAM_FAILED, name=hold.fqdn)
            return hold.refusals[-1] if hold.refusals else failed
        return CulvertError(Reason.TIMEOUT, what=Phrase("The tunnel for {name}", name=hold.carrier))


def _uncarried_error(hold: Hold, profile: Profile, address: Address) -> CulvertError:
    name = Phrase("{address}, which DNS gives for {name}", address=address, name=hold.fqdn)
    return CulvertError(Reason.NO_POLICY, user=profile.user, name=name, owner=Phrase("your administrator"))
