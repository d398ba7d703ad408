"""A tunnel's life on the controller (RFC 9061 appendix D.2). Pure: an event in, the next state and what to do out.

                 install 1            install n                     switch n, drain g
    (no tunnel) ───────────► UP(g) ──────────────► RENEWING(g, n) ──────────────────► UP(n)
         open                 ▲ │      renew(g)      │ │ ▲ │        activate(n)
                              │ │                    │ │ └─┘ renew(g): the answer was lost: install a newer n
                              └─┴────────────────────┘
                                reopen: the device has lost its keys: install n, switch n, drain g

    every state: drained(g) removes a generation that drains; close ends the tunnel with all of its SAs.

"Install n" makes the gateway able to decrypt and encrypt with n; "switch n" moves its outbound traffic to n. A generation's
number is never used twice, so that a late message about a forgotten one cannot be mistaken.
"""

from __future__ import annotations

from dataclasses import dataclass

from culvert_proto import CulvertError, Reason


@dataclass(frozen=True, slots=True)
class Session:
    """`current` is what the gateway seals with; `pending` is installed and waits for the device; the rest drains."""

    current: int
    pending: int | None = None
    draining: frozenset[int] = frozenset()

    @property
    def generations(self) -> frozenset[int]:
        return self.draining | ({self.current} if self.pending is None else {self.current, self.pending})


@dataclass(frozen=True, slots=True)
class Renew:
    """The device asks for the generation after `generation`."""

    generation: int


@dataclass(frozen=True, slots=True)
class Activate:
    """The device can decrypt with `generation`."""

    generation: int


@dataclass(frozen=True, slots=True)
class Reopen:
    """The device asks for the tunnel although it is open."""


@dataclass(frozen=True, slots=True)
class Drained:
    generation: int


Event = Renew | Activate | Reopen | Drained


@dataclass(frozen=True, slots=True)
class Step:
    """The next state, and what brings it about, in the order of the fields."""

    session: Session
    install: int | None = None
    switch: int | None = None
    drain: int | None = None
    remove: frozenset[int] = frozenset()


class StaleGenerationError(CulvertError):
    """The event names a generation that it does not fit."""

    def __init__(self, current: int, asked: int) -> None:
        super().__init__(Reason.GENERATION_STALE, current=current, asked=asked)


def advance(session: Session, event: Event) -> Step:
    """Raises StaleGenerationError; the state is then as before."""
    match event:
        case Renew(generation):
            return _renew(session, generation)
        case Activate(generation):
            return _activate(session, generation)
        case Reopen():
            return _reopen(session)
        case Drained(generation):
            gone = session.draining & {generation}
            left = Session(session.current, session.pending, session.draining - gone)
            return Step(left, remove=gone)


def _renew(session: Session, generation: int) -> Step:
    if generation != session.current:
        raise StaleGenerationError(session.current, generation)
    fresh = _fresh(session)
    after = Session(session.current, fresh, session.draining)
    return Step(after, install=fresh, remove=_forgotten(session))


def _activate(session: Session, generation: int) -> Step:
    if generation == session.current:
        return Step(session)
    if generation != session.pending:
        raise StaleGenerationError(session.current, generation)
    after = Session(generation, None, session.draining | {session.current})
    return Step(after, switch=generation, drain=session.current)


def _reopen(session: Session) -> Step:
    fresh = _fresh(session)
    after = Session(fresh, None, session.draining | {session.current})
    return Step(after, install=fresh, switch=fresh, drain=session.current, remove=_forgotten(session))


def _fresh(session: Session) -> int:
    return max(session.generations) + 1


def _forgotten(session: Session) -> frozenset[int]:
    return frozenset() if session.pending is None else frozenset({session.pending})
