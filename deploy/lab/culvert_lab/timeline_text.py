"""The time line on a terminal: one line a step, bars to scale, real milliseconds. Without colours when piped."""

from __future__ import annotations

from culvert_lab.timeline import Actor, Timeline

BAR_COLUMNS = 44
EIGHTHS = " ▏▎▍▌▋▊▉"
COLOURS = {Actor.BROWSER: 34, Actor.CULVERTD: 36, Actor.CONTROLLER: 33, Actor.GATEWAY: 35}


def render(line: Timeline, *, colour: bool) -> str:
    """The lines, each ended by a newline."""
    width = max(len(step.label) for step in line.steps)
    scale = BAR_COLUMNS / max(line.total, 0.001)
    rows = [
        f"  {'':10} {'':{width}}  {'took':>8}  {'at':>8}  0 {'─' * (BAR_COLUMNS - 12)} {line.total:.1f} ms"
    ]
    for step in line.steps:
        bar = _bar(step.start * scale, step.end * scale)
        if colour:
            bar = f"\x1b[{COLOURS[step.actor]}m{bar}\x1b[0m"
        rows.append(
            f"  {step.actor:10} {step.label:{width}}  {step.took:5.1f} ms  {step.end:5.1f} ms  {bar}".rstrip()
        )
    rows.append("")
    rows.append(
        f"  {line.name}: page in {line.total:.1f} ms; DNS answer held {line.held_ms:.1f} ms; "
        f"tunnel set up in {line.setup_ms:.1f} ms"
    )
    return "\n".join(rows) + "\n"


def _bar(start: float, end: float) -> str:
    """From column `start` to column `end`; the end is drawn to an eighth of a column, and nothing is too short to see."""
    first = int(start)
    eighths = max(1, round((end - first) * 8))
    return " " * first + "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
