"""The time line of one click: who did what when, from the browser's navigation to the page.

navigates ─► query ─► TXT ─► request ─► decided ─► programmed ─► reply ─► SAs in ─► released ─► first byte ─► page
└─ browser ─┘└───── culvertd ──────┘└─── controller, gateway ───┘└──────── culvertd ────────┘└────── browser ─────┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Actor(StrEnum):
    BROWSER = "browser"
    CULVERTD = "culvertd"
    CONTROLLER = "controller"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Step:
    """A step that took from `start` to `end`, in milliseconds after the click."""

    actor: Actor
    label: str
    start: float
    end: float

    @property
    def took(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Timeline:
    """The steps of one click, in order, each beginning where the one before it ended."""

    name: str
    steps: tuple[Step, ...]
    held: tuple[float, float]
    setup: tuple[float, float]

    @property
    def total(self) -> float:
        """From the click to the page, in milliseconds."""
        return self.steps[-1].end

    @property
    def held_ms(self) -> float:
        """The time for which the DNS answer was held."""
        return self.held[1] - self.held[0]

    @property
    def setup_ms(self) -> float:
        """From the request to the controller to its answer."""
        return self.setup[1] - self.setup[0]


# The daemon's step (culvert.local.v1.Step.name) that ends each bar.
_DAEMON = (
    ("query", Actor.BROWSER, "opens the page, asks for the name"),
    ("txt", Actor.CULVERTD, "hears TXT: it needs a tunnel"),
    ("request", Actor.CULVERTD, "asks the controller for it"),
    ("decided", Actor.CONTROLLER, "decides: certificate, code, policy"),
    ("programmed", Actor.GATEWAY, "is programmed: SAs and policy"),
    ("reply", Actor.CONTROLLER, "answers with the keys"),
    ("sas_in", Actor.CULVERTD, "puts its SAs in"),
    ("released", Actor.CULVERTD, "lets the DNS answer go"),
)


def compose(name: str, click: Mapping[str, float], page: Mapping[str, float]) -> Timeline:
    """Join the daemon's steps and the browser's, both wall-clock milliseconds.

    `click` maps the daemon's step names to times; `page` maps "click", "first_byte" and "load". Raises ValueError
    when a step that bounds the figures is missing.
    """
    missing = [step for step in ("query", "request", "reply", "released") if step not in click]
    if missing:
        raise ValueError(f"the daemon's time line has no step {', '.join(missing)}")
    zero = page["click"]
    at = {step: time - zero for step, time in click.items()}
    steps: list[Step] = []
    last = 0.0
    ends = [(actor, label, at[step]) for step, actor, label in _DAEMON if step in at]
    # The daemon may ask the controller before TXT has come: it knows the name from its profile.
    ends.sort(key=lambda end: end[2])
    ends += [
        (Actor.BROWSER, "connects; first byte", page["first_byte"] - zero),
        (Actor.BROWSER, "has the page", page["load"] - zero),
    ]
    for actor, label, end in ends:
        # The browser's clock has a tenth of a millisecond, the daemon's a microsecond.
        end = max(end, last)
        steps.append(Step(actor, label, last, end))
        last = end
    return Timeline(name, tuple(steps), (at["query"], at["released"]), (at["request"], at["reply"]))


def ticks(total: float, most: int = 8) -> list[float]:
    """Round values from 0 to `total`, at most `most` of them beside 0."""
    step = 10.0**-3
    while total / step > most:
        for factor in (2, 2.5, 2):
            step *= factor
            if total / step <= most:
                break
    count = int(total / step)
    return [step * number for number in range(count + 1)]
