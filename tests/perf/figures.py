"""A measured figure, beside a baseline of the same run, and its line in build/bench.jsonl."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and what it is compared with. Without a baseline, `baseline` is empty and the ratio is None."""

    name: str
    value: float
    unit: str
    baseline: str = ""
    baseline_value: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline_value if self.baseline_value else None

    def line(self) -> str:
        """The JSON object of this figure, without a line end."""
        return json.dumps(
            {
                "name": self.name,
                "value": round(self.value, 3),
                "unit": self.unit,
                "baseline": self.baseline,
                "baseline_value": None if self.baseline_value is None else round(self.baseline_value, 3),
                "ratio": None if self.ratio is None else round(self.ratio, 4),
            }
        )


def quotient(name: str, dividend: float, divisor: float, baseline: str) -> Figure:
    """A figure that is itself a ratio, of two goodputs in Mbit/s; `baseline` says what the divisor is."""
    return Figure(name, dividend / divisor, f"{dividend:,.0f} over {divisor:,.0f} Mbit/s", baseline, 1.0)


def percentile(values: list[float], share: float) -> float:
    """The nearest-rank percentile; `share` between 0 and 1. Raises ValueError without values."""
    if not values:
        raise ValueError("no values to rank")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]
