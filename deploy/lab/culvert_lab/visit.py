"""The outcome of opening a page."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Visit:
    """An opened page. `timings` are wall-clock milliseconds since the epoch, by step."""

    url: str
    status: int = 0
    title: str = ""
    text: str = ""
    timings: dict[str, float] = field(default_factory=dict[str, float])
    error: str = ""

    @property
    def page_ms(self) -> float:
        """From the click to the load event."""
        return self.timings["load"] - self.timings["click"]
