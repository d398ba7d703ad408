"""The life of a site tunnel's keys (RFC 9061 appendix D.2). Pure: the state from the rows in, the next step out.

    none yet, lost, old ─► renew n: rows ─► installed at both ─► n current ─► switch: both encrypt with n ─► drain ─► forget
                                            │ not at both                     │ not at both
                                            └─► forget n                      └─► repeat; the old generation stays

Both gateways can decrypt with n before one of them encrypts with n, and still decrypt with the old generation, which the
other may still use. A controller may die between any two steps: the rows tell the next step, and each step may be
repeated.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """`current`: the generation to encrypt with; 0 before the first. `lost`: a gateway lacks it. `switching`: a gateway may
    not encrypt with it yet. `old`: its soft limit in seconds has passed, or its suite has changed. `others`: the other
    generations, of which some are `draining`, and of these some have `drained`.
    """

    current: int
    lost: bool = False
    switching: bool = False
    old: bool = False
    others: frozenset[int] = frozenset()
    draining: frozenset[int] = frozenset()
    drained: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete these generations: no gateway encrypts with them any more, or none ever did."""

    generations: frozenset[int]


@dataclass(frozen=True, slots=True)
class Switch:
    """Make both gateways encrypt with the current generation; then the generations `before` drain."""

    before: frozenset[int]


@dataclass(frozen=True, slots=True)
class Install:
    """Create and install this generation."""

    generation: int


Step = Forget | Switch | Install


def next_step(keys: Keys, asked: int | None = None) -> Step | None:
    """`asked`: the generation whose soft limit a gateway has reported."""
    unfinished = frozenset(one for one in keys.others - keys.draining if one > keys.current)
    if useless := unfinished | keys.drained:
        return Forget(useless)
    if keys.switching:
        return Switch(keys.others - keys.draining)
    if keys.lost or keys.old or asked == keys.current:
        return Install(max(keys.others | {keys.current}) + 1)
    return None
