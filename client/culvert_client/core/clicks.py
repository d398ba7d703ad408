"""The time line of each demand for a tunnel: what a person waited for, step by step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from culvert_proto import CulvertError

KEPT = 20

StepName = Literal["query", "txt", "request", "decided", "programmed", "reply", "sas_in", "released"]


@dataclass(slots=True)
class Click:
    """`steps` are `now` values, in seconds."""

    fqdn: str
    steps: dict[StepName, float] = field(default_factory=dict)
    error: CulvertError | None = None

    @property
    def started(self) -> float:
        return min(self.steps.values())


class Clicks:
    """The newest time lines. One line for a name at a time; it ends with a release or an error."""

    def __init__(self) -> None:
        self._running: dict[str, Click] = {}
        self._shown: deque[Click] = deque(maxlen=KEPT)

    def step(self, fqdn: str, name: StepName, at: float, *, starts: bool = False) -> None:
        """Note the first time that a step happens. Only `starts` begins a line."""
        click = self._running.get(fqdn)
        if click is None:
            if not starts:
                return
            click = self._running[fqdn] = Click(fqdn)
        click.steps.setdefault(name, at)
        # A name that turns out to need no tunnel never asks for one, and leaves no line.
        if name == "request" and click not in self._shown:
            self._shown.appendleft(click)

    def goes_on_as(self, fqdn: str, name: str) -> None:
        """The line of a name that stands for another one is that of the other's tunnel. It shows the asked name."""
        if fqdn != name and (click := self._running.pop(fqdn, None)) is not None:
            self._running.setdefault(name, click)

    def end(self, fqdn: str, error: CulvertError | None = None) -> None:
        click = self._running.pop(fqdn, None)
        if click is not None:
            click.error = error

    def newest(self) -> list[Click]:
        return list(self._shown)
