"""What becomes of the keys of a tunnel between two gateways (RFC 9061 appendix D.2). Pure: what its rows say in, what is to
be done next out.

    none yet, lost, old ─► renew n: rows ─► installed at both ─► n is current ─► switch: both seal with n ─► drain ─► forget
                                            │ not at both                        │ not at both
                                            └─► forget n                         └─► again; what was before stays

Both gateways open what is sealed with n before one of them seals with it, and go on to open what the other still seals with
the generation before. Whoever works on it may die between any two steps: the rows tell which is next, and each may be done
twice.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """`current` is the generation to seal with, 0 before the first. `lost`: a gateway lacks it. `switching`: one may not
    seal with it yet. `old`: its soft limit in seconds has passed, or another suite is wanted. Others drain, and of those
    some have `drained`.
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
    """Nothing is sealed with these any more, or never was."""

    generations: frozenset[int]


@dataclass(frozen=True, slots=True)
class Switch:
    """Both gateways are to seal with the current one; then these drain."""

    before: frozenset[int]


@dataclass(frozen=True, slots=True)
class Renew:
    """This generation is to be made and installed."""

    generation: int


Step = Forget | Switch | Renew


def next_step(keys: Keys, asked: int | None = None) -> Step | None:
    """`asked`: the generation after which a gateway has asked for another."""
    unfinished = frozenset(one for one in keys.others - keys.draining if one > keys.current)
    if useless := unfinished | keys.drained:
        return Forget(useless)
    if keys.switching:
        return Switch(keys.others - keys.draining)
    if keys.lost or keys.old or asked == keys.current:
        return Renew(max(keys.others | {keys.current}) + 1)
    return None
