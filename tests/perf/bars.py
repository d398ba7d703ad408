"""Bar charts as SVG: readable on light and dark paper, the same bytes for the same figures.

title                                     ▇▇▇▇▇▇ measured in this run
panel     group                           ▒▒▒▒▒▒ pale: the same switch, run another way
    label │▇▇▇▇▇▇▇▇▇ value                ┌────┐ hollow: as published
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Literal

Kind = Literal["ours", "pale", "other", "published"]

# Pixels. The heights: of the title with its subtitle, a panel's and a group's name, the space behind a group, a bar's row,
# a line of text, and a bar.
WIDTH, MARGIN = 880, 32
TITLE, PANEL, GROUP, GAP = 52, 28, 22, 12
ROW, LINE, BAR = 22, 16, 15
# The room for a value behind the longest bar.
VALUE = 110
# The width of the labels' font.
CHARACTERS_A_PIXEL = 1 / 7.2

STYLE = """
svg{--ink:#1d2733;--paper:#fbfaf7;--ours:#0b7a75;--pale:#8cc4bf;--other:#b9b4a6;--line:#d8d2c4;--soft:#5d6570}
@media(prefers-color-scheme:dark){
svg{--ink:#e8e6e1;--paper:#15191e;--ours:#38b6ac;--pale:#2a6f6a;--other:#5c6168;--line:#3a4148;--soft:#a3a9b0}}
text{font:13px system-ui,'Segoe UI','Liberation Sans','DejaVu Sans',sans-serif;fill:var(--ink)}
.paper{fill:var(--paper)}.axis{stroke:var(--line)}.soft{fill:var(--soft)}.bold{font-weight:600}
.title{font-size:20px;font-weight:600}
.ours{fill:var(--ours)}.pale{fill:var(--pale)}.other{fill:var(--other)}
.published{fill:none;stroke:var(--soft);stroke-width:1.5}
""".strip()


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    bars: list[Bar]


@dataclass(frozen=True, slots=True)
class Panel:
    """Groups on one scale. `digits`: decimals of the values."""

    name: str
    groups: list[Group]
    digits: int = 0

    def longest(self) -> float:
        return max((bar.value for group in self.groups for bar in group.bars), default=0.0)


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    subtitle: str
    panels: list[Panel]
    # Pixels for the labels.
    labels: int
    # Lengths compare from one panel to the next.
    one_scale: bool = False

    def bars(self) -> Iterator[Bar]:
        return (bar for panel in self.panels for group in panel.groups for bar in group.bars)

    def render(self) -> str:
        """The chart as an SVG document."""
        return _Drawing(self).document()

    def longest(self, panel: Panel) -> float:
        """The value that fills a panel's width."""
        return max(it.longest() for it in (self.panels if self.one_scale else [panel])) or 1.0


class _Drawing:
    """The elements of a chart's picture, top-down. Methods take and return heights in pixels from the top."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._elements: list[str] = []

    def document(self) -> str:
        chart = self._chart
        at = self._draw_heading()
        for panel in chart.panels:
            at = self._draw_panel(panel, at)
        height = at + MARGIN - 2 * GAP
        label = f"{chart.title}. " + "; ".join(f"{bar.label} {bar.value:,.2f}" for bar in chart.bars())
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" aria-label="{escape(label)}">\n<style>{STYLE}</style>\n'
            f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>\n'
        )
        return head + "\n".join(self._elements) + "\n</svg>\n"

    def _draw_heading(self) -> int:
        self._write(MARGIN, MARGIN + 14, self._chart.title, "title")
        self._write(MARGIN, MARGIN + 36, self._chart.subtitle, "soft")
        return MARGIN + TITLE

    def _draw_panel(self, panel: Panel, at: int) -> int:
        if panel.name:
            self._write(MARGIN, at + LINE, panel.name, "bold")
            at += PANEL
        start = MARGIN + self._chart.labels
        scale = (WIDTH - start - MARGIN - VALUE) / self._chart.longest(panel)
        for group in panel.groups:
            if group.name:
                self._write(start, at + LINE - 2, group.name, "soft")
                at += GROUP
            top = at
            for bar in group.bars:
                at = self._draw_bar(bar, at, start, scale, panel.digits)
            self._elements.append(f'<path class="axis" d="M{start - 0.5} {top}V{at}"/>')
            at += GAP
        return at + GAP

    def _draw_bar(self, bar: Bar, at: int, start: int, scale: float, digits: int) -> int:
        """The bar with its label and value. `scale`: pixels for a unit of the value."""
        lines = wrap(bar.label, round(self._chart.labels * CHARACTERS_A_PIXEL)) or [""]
        height = max(ROW, LINE * len(lines) + 6)
        middle = at + height / 2
        first = middle - LINE * (len(lines) - 1) / 2 + 4.5
        for line, text in enumerate(lines):
            self._write(start - 10, first + LINE * line, text, "", anchor="end")
        wide = max(2.0, bar.value * scale)
        # A stroke is drawn half outside of its rectangle.
        inset = 0.75 if bar.kind == "published" else 0.0
        self._elements.append(
            f'<rect class="{bar.kind}" x="{start + inset:.1f}" y="{middle - BAR / 2 + inset:.1f}" '
            f'width="{max(1.0, wide - 2 * inset):.1f}" height="{BAR - 2 * inset:.1f}" rx="2"/>'
        )
        self._write(start + wide + 8, middle + 4.5, f"{bar.value:,.{digits}f}", "bold")
        return at + height

    def _write(self, x: float, y: float, text: str, kind: str, anchor: str = "start") -> None:
        classes = f' class="{kind}"' if kind else ""
        self._elements.append(
            f'<text{classes} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )
