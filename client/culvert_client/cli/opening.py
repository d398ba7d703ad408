"""Prints a name's last opening as a chart, for `culvert why`."""

from __future__ import annotations

from culvert_proto.dns_name import make_readable
from culvert_proto.screens.opening import Opening, Part, Verdict
from culvert_proto.screens.units import clock, took
from rich.cells import cell_len, set_cell_size

from culvert_client.cli.language import _
from culvert_client.cli.words import out

_COLOURS = {
    Verdict.GOOD: "green",
    Verdict.SLOW: "yellow",
    Verdict.DENIED: "red",
    Verdict.FAILED: "red",
    Verdict.UNKNOWN: "dim",
}
# Our tunables: cells of the longest bar, and of a bar that is worth its place.
_LONGEST, _SHORTEST = 32, 6


def say_chart(opening: Opening, now: float, follows: str = "") -> None:
    """`now`: Unix seconds. `follows`: a sentence that is printed afterwards, and thus not here."""
    name, at = make_readable(opening.fqdn), clock(opening.at, now, seconds=True)
    if opening.total is None:
        head = _("{name}, {time}").format(name=name, time=at)
    else:
        head = _("{name}, {time}, opened in {total}").format(name=name, time=at, total=took(opening.total))
    out.print(head, style="bold", markup=False)
    names = max(cell_len(it.name) for it in opening.parts)
    texts = max(cell_len(it.text) for it in opening.parts)
    room = min(_LONGEST, out.width - names - texts - 6)
    longest = max((it.seconds or 0.0 for it in opening.parts), default=0.0)
    for part in opening.parts:
        bar = _bar(part, longest, room) if room >= _SHORTEST else ""
        line = f"  {set_cell_size(part.name, names)}  {set_cell_size(part.text, texts)}  {bar}".rstrip()
        out.print(line, style=_COLOURS[part.verdict], markup=False)
    if opening.conclusion != follows:
        out.print(opening.conclusion, markup=False)


def _bar(part: Part, longest: float, room: int) -> str:
    if not part.seconds or not longest:
        return ""
    return "█" * max(1, round(room * part.seconds / longest))
