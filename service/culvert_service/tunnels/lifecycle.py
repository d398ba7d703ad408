"""A tunnel's life on the controller (RFC 9061 appendix D.2). Pure: an event in; the next state and the actions out.

                 install 1            install n                     switch n, drain g
    (no tunnel) ───────────► UP(g) ──────────────► RENEWING(g, n) ──────────────────► UP(n)
         open                 ▲ │      renew(g)      │ │ ▲ │        activate(n)
                              │ │                    │ │ └─┘ renew(g): the answer was lost: install a newer n
                              └─┴────────────────────┘
                                reopen: the device has lost its keys: install n, switch n, drain g

    every state: drained(g) removes a generation that drains; close ends the tunnel with all of its SAs.

"Install n" makes the gateway able to decrypt and encrypt with n; "switch n" moves its outbound traffic to n. A generation's
number is never used twice, so that a late message about an old generation cannot mean a newer one.
"""

from __future__ import annotations

from dataclasses import dataclass

from culvert_proto import CulvertError, Reason


@dataclass(frozen=True, slots=True)
class Generations:
    """A tunnel's key generations. The gateway encrypts with `current`; `pending` is installed and waits for the device."""

    current: int
    pending: int | None = None
    draining: frozenset[int] = frozenset()

    @property
    def numbers(self) -> frozenset[int]:
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
class Transition:
    """The next state, and the actions that lead to it, in the order of the fields."""

    generations: Generations
    install: int | None = None
    switch: int | None = None
    drain: int | None = None
    remove: frozenset[int] = frozenset()


class StaleGenerationError(CulvertError):
    """The event names a generation that is neither current nor pending."""

    def __init__(self, current: int, asked: int) -> None:
        super().__init__(Reason.GENERATION_STALE, current=current, asked=asked)


def advance(generations: Generations, event: Event) -> Transition:
    """Raises StaleGenerationError; the state is then as before."""
    match event:
        case Renew(generation):
            return _renew(generations, generation)
        case Activate(generation):
            return _activate(generations, generation)
        case Reopen():
            return _reopen(generations)
        case Drained(generation):
            gone = generations.draining & {generation}
            left = Generations(generations.current, generations.pending, generations.draining - gone)
            return Transition(left, remove=gone)


def _renew(generations: Generations, generation: int) -> Transition:
    if generation != generations.current:
        raise StaleGenerationError(generations.current, generation)
    fresh = _find_next_number(generations)
    after = Generations(generations.current, fresh, generations.draining)
    return Transition(after, install=fresh, remove=_find_forgotten(generations))


def _activate(generations: Generations, generation: int) -> Transition:
    if generation == generations.current:
        return Transition(generations)
    if generation != generations.pending:
        raise StaleGenerationError(generations.current, generation)
    after = Generations(generation, None, generations.draining | {generations.current})
    return Transition(after, switch=generation, drain=generations.current)


def _reopen(generations: Generations) -> Transition:
    fresh = _find_next_number(generations)
    after = Generations(fresh, None, generations.draining | {generations.current})
    return Transition(
        after, install=fresh, switch=fresh, drain=generations.current, remove=_find_forgotten(generations)
    )


def _find_next_number(generations: Generations) -> int:
    return max(generations.numbers) + 1


def _find_forgotten(generations: Generations) -> frozenset[int]:
    return frozenset() if generations.pending is None else frozenset({generations.pending})
