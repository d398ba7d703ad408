"""Time lines of demands for tunnels: when each step happened while a person waited."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from culvert_proto import CulvertError

KEPT = 20

StepName = Literal[
    "query", "answered", "txt", "request", "decided", "programmed", "reply", "sas_in", "released"
]


@dataclass(slots=True)
class Click:
    """`steps`: `now` values by step, in seconds. `tunnel`: the name of the tunnel, if `fqdn` is an alias of it."""

    fqdn: str
    steps: dict[StepName, float] = field(default_factory=dict)
    error: CulvertError | None = None
    tunnel: str = ""

    @property
    def started(self) -> float:
        return min(self.steps.values())


class _Named(Protocol):
    @property
    def fqdn(self) -> str: ...

    @property
    def tunnel(self) -> str: ...


One = TypeVar("One", bound=_Named)


def list_kept(clicks: Iterable[One], tunnels: Container[str]) -> list[One]:
    """The newest 20, and the last one of each tunnel. `clicks`: newest first; `tunnels`: names."""
    kept: list[One] = []
    later: set[str] = set()
    for place, click in enumerate(clicks):
        name = click.tunnel or click.fqdn
        if place < KEPT or (name in tunnels and name not in later):
            kept.append(click)
        later.add(name)
    return kept


class Clicks:
    """The kept time lines. A name has at most one running line, which ends with a release or an error. `tunnels`: the names
    of the present tunnels, which the owner changes."""

    def __init__(self, tunnels: Container[str]) -> None:
        self._tunnels = tunnels
        self._running: dict[str, Click] = {}
        self._shown: list[Click] = []

    def step(self, fqdn: str, name: StepName, at: float, *, starts: bool = False) -> None:
        """Note the first occurrence of a step. Only a step with `starts` begins a line."""
        click = self._running.get(fqdn)
        if click is None:
            if not starts:
                return
            click = self._running[fqdn] = Click(fqdn)
        click.steps.setdefault(name, at)
        # Show a line only from the request on: a name that needs no tunnel has no request.
        if name == "request" and click not in self._shown:
            self._shown = list_kept([click, *self._shown], self._tunnels)

    def goes_on_as(self, fqdn: str, name: str) -> None:
        """Continue an alias's line as the line of its tunnel's `name`; the line still shows the alias."""
        if fqdn == name or (click := self._running.pop(fqdn, None)) is None:
            return
        click.tunnel = name
        self._running.setdefault(name, click)

    def end(self, fqdn: str, error: CulvertError | None = None) -> None:
        click = self._running.pop(fqdn, None)
        if click is not None:
            click.error = error

    def newest(self) -> list[Click]:
        return list(self._shown)
