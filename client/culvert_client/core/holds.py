"""Which DNS answers wait for a tunnel, and for how long.

   query held ──► needs a tunnel?
                    │  yes: the profile knows the name, or TXT says so, or the answer points into a protected prefix
                    │  no:  TXT says nothing and the answer points elsewhere
                    ▼
        yes: Demanded ─► tunnel up, every address of the answer inside it ─────► Replied
                         refused, silent for 2 s, or an address outside of it ─► Failed (SERVFAIL)
        no, or an answer without addresses: Replied as it is
        paused: Replied as it is, but Failed where a name of the profile would lead to an address that is not protected

TXT only ever adds names (DESIGN D11): one that is stripped or silent opens nothing that the profile protects.
"""

from __future__ import annotations

from dataclasses import dataclass

from culvert_proto import CulvertError, Reason

from culvert_client.core.grant import Address, Tunnel
from culvert_client.core.profile import Profile

HELD_AT_MOST = 2.0
"""Seconds."""


@dataclass(slots=True)
class Hold:
    """`addresses` is None until the name server has answered."""

    fqdn: str
    until: float
    answered: bool = False
    addresses: frozenset[Address] | None = None
    demanded: bool = False
    tunnel: Tunnel | None = None
    refused: CulvertError | None = None


@dataclass(frozen=True, slots=True)
class Demanded:
    query: int
    fqdn: str


@dataclass(frozen=True, slots=True)
class Replied:
    """Release the name server's answer, which holds these addresses."""

    query: int
    fqdn: str
    addresses: frozenset[Address]


@dataclass(frozen=True, slots=True)
class Failed:
    query: int
    fqdn: str
    error: CulvertError


Outcome = Demanded | Replied | Failed


class Holds:
    """The held queries. Each method returns what follows from the event; the profile may change between two calls.

    While `passing`, answers do not wait for tunnels.
    """

    def __init__(self, *, passing: bool = False) -> None:
        self.passing = passing
        self._holds: dict[int, Hold] = {}
        # What TXT says for the names that are held; None while it is being asked.
        self._txt: dict[str, bool | None] = {}

    def hold(self, query: int, fqdn: str, profile: Profile, now: float) -> list[Outcome]:
        self._holds[query] = Hold(fqdn, now + HELD_AT_MOST)
        return self._advance(query, profile)

    def asks_txt(self, fqdn: str) -> bool:
        """Whether TXT is to be asked for this name now; once while the name is held."""
        if fqdn in self._txt:
            return False
        self._txt[fqdn] = None
        return True

    def txt(self, fqdn: str, says_yes: bool, profile: Profile) -> list[Outcome]:
        if not self.holds(fqdn):
            self._txt.pop(fqdn, None)
            return []
        self._txt[fqdn] = says_yes
        return self._advance_all([q for q, hold in self._holds.items() if hold.fqdn == fqdn], profile)

    def answered(self, query: int, addresses: frozenset[Address] | None, profile: Profile) -> list[Outcome]:
        """`addresses` None: the name server was silent, or what it said is malformed."""
        hold = self._holds.get(query)
        if hold is None:
            return []
        hold.answered, hold.addresses = True, addresses
        return self._advance(query, profile)

    def opened(self, queries: frozenset[int], tunnel: Tunnel, profile: Profile) -> list[Outcome]:
        for hold in self._found(queries):
            hold.tunnel = tunnel
        return self._advance_all(queries, profile)

    def refused(self, queries: frozenset[int], error: CulvertError, profile: Profile) -> list[Outcome]:
        for hold in self._found(queries):
            hold.refused = error
        return self._advance_all(queries, profile)

    def expire(self, now: float) -> list[Outcome]:
        late = [query for query, hold in self._holds.items() if hold.until <= now]
        return [self._fail(query, self._late(self._holds[query])) for query in late]

    def holds(self, fqdn: str) -> bool:
        return any(hold.fqdn == fqdn for hold in self._holds.values())

    def names(self) -> frozenset[str]:
        """What is held."""
        return frozenset(hold.fqdn for hold in self._holds.values())

    def deadline(self) -> float | None:
        return min((hold.until for hold in self._holds.values()), default=None)

    def _found(self, queries: frozenset[int]) -> list[Hold]:
        return [self._holds[query] for query in queries if query in self._holds]

    def _advance_all(self, queries: frozenset[int] | list[int], profile: Profile) -> list[Outcome]:
        return [outcome for query in sorted(queries) for outcome in self._advance(query, profile)]

    def _advance(self, query: int, profile: Profile) -> list[Outcome]:
        hold = self._holds.get(query)
        if hold is None:
            return []
        if hold.answered and hold.addresses is None:
            return [self._fail(query, CulvertError(Reason.DNS_UPSTREAM_FAILED, name=hold.fqdn))]
        if self.passing:
            return self._pass(query, hold, profile)
        needs = self._needs_tunnel(hold, profile)
        outcomes: list[Outcome] = []
        if needs and not hold.demanded:
            hold.demanded = True
            outcomes.append(Demanded(query, hold.fqdn))
        if needs is None:
            return outcomes
        if hold.addresses is not None and not (needs and hold.addresses):
            return [*outcomes, self._reply(query)]
        if hold.refused is not None:
            return [*outcomes, self._fail(query, hold.refused)]
        if hold.tunnel is not None and hold.addresses is not None:
            stray = [
                address for address in sorted(hold.addresses, key=str) if not hold.tunnel.covers(address)
            ]
            return [
                *outcomes,
                self._fail(query, _stray(hold, profile, stray[0])) if stray else self._reply(query),
            ]
        return outcomes

    def _pass(self, query: int, hold: Hold, profile: Profile) -> list[Outcome]:
        if hold.addresses is None:
            return []
        # What is protected is blocked. An address that somebody else made up for such a name would not be.
        leaves = profile.knows(hold.fqdn) and not all(map(profile.protects, hold.addresses))
        return [self._fail(query, CulvertError(Reason.PAUSED)) if leaves else self._reply(query)]

    def _needs_tunnel(self, hold: Hold, profile: Profile) -> bool | None:
        says_yes = self._txt.get(hold.fqdn)
        if says_yes or profile.knows(hold.fqdn):
            return True
        if hold.addresses is not None and any(map(profile.protects, hold.addresses)):
            return True
        return None if says_yes is None or hold.addresses is None else False

    def _reply(self, query: int) -> Replied:
        hold = self._remove(query)
        return Replied(query, hold.fqdn, hold.addresses or frozenset())

    def _fail(self, query: int, error: CulvertError) -> Failed:
        return Failed(query, self._remove(query).fqdn, error)

    def _remove(self, query: int) -> Hold:
        hold = self._holds.pop(query)
        if self._txt.get(hold.fqdn) is not None and not self.holds(hold.fqdn):
            del self._txt[hold.fqdn]
        return hold

    def _late(self, hold: Hold) -> CulvertError:
        if not hold.answered:
            return CulvertError(Reason.DNS_UPSTREAM_FAILED, name=hold.fqdn)
        return CulvertError(Reason.TIMEOUT, what=f"The tunnel for {hold.fqdn}")


def _stray(hold: Hold, profile: Profile, address: Address) -> CulvertError:
    name = f"{address}, which DNS gives for {hold.fqdn}"
    return CulvertError(Reason.NO_POLICY, user=profile.user, name=name, owner="your administrator")
