"""The time line as a picture: a waterfall, the time that the DNS answer was held shaded behind it."""

from __future__ import annotations

from html import escape

from culvert_lab.timeline import Actor, Step, Timeline, ticks

WIDTH = 1120
LABEL, LEFT, RIGHT, TOP, ROW, BAR = 142, 392, 96, 138, 36, 16
PLOT = WIDTH - LEFT - RIGHT
INK, SOFT, LINE, GROUND, SHADE = "#16262e", "#5a6d75", "#dde5e5", "#ffffff", "#e9f3f1"
COLOURS = {
    Actor.BROWSER: "#3d6fb6",
    Actor.CULVERTD: "#0d7a72",
    Actor.CONTROLLER: "#c07a1c",
    Actor.GATEWAY: "#8a4f9e",
}


def render(line: Timeline) -> str:
    """The SVG document."""
    bottom = TOP + ROW * len(line.steps)
    height = bottom + 48
    scale = PLOT / max(line.total, 0.001)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="Inter, Segoe UI, Liberation Sans, DejaVu Sans, sans-serif" role="img" '
        f'aria-label="{escape(_summary(line))}">',
        f'<rect width="{WIDTH}" height="{height}" fill="{GROUND}"/>',
        _text(40, 50, f"One click: {line.name}", size=26, weight=700),
        _text(40, 78, _summary(line), size=15, fill=SOFT),
        _draw_hold(line, scale, bottom),
        *_grid(line, scale, bottom),
    ]
    for row, step in enumerate(line.steps):
        parts.append(_row(step, TOP + ROW * row, scale))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _summary(line: Timeline) -> str:
    return (
        f"The page in {line.total:.1f} ms. The DNS answer waited {line.held_ms:.1f} ms, "
        f"the tunnel was set up in {line.setup_ms:.1f} ms of them."
    )


def _draw_hold(line: Timeline, scale: float, bottom: int) -> str:
    x, width = LEFT + line.held[0] * scale, max(1.0, line.held_ms * scale)
    label = f"answer held {line.held_ms:.1f} ms"
    middle = min(max(x + width / 2, LEFT + 60), WIDTH - RIGHT - 60)
    return (
        f'<rect x="{x:.1f}" y="{TOP - 12}" width="{width:.1f}" height="{bottom - TOP + 12}" fill="{SHADE}"/>'
        f'<path d="M{x:.1f} {TOP - 8}v-4h{width:.1f}v4" fill="none" stroke="{COLOURS[Actor.CULVERTD]}"/>'
        + _text(middle, TOP - 20, label, size=12, fill=COLOURS[Actor.CULVERTD], anchor="middle", weight=600)
    )


def _grid(line: Timeline, scale: float, bottom: int) -> list[str]:
    parts: list[str] = []
    for value in ticks(line.total):
        x = LEFT + value * scale
        parts.append(
            f'<path d="M{x:.1f} {TOP - 6}V{bottom + 4}" stroke="{LINE}"/>'
            + _text(x, bottom + 22, f"{value:g}", size=12, fill=SOFT, anchor="middle")
        )
    parts.append(_text(WIDTH - 40, TOP - 14, "took, ms", size=12, fill=SOFT, anchor="end"))
    parts.append(_text(LEFT - 16, bottom + 22, "ms after the click", size=12, fill=SOFT, anchor="end"))
    return parts


def _row(step: Step, y: int, scale: float) -> str:
    x, width = LEFT + step.start * scale, max(2.5, step.took * scale)
    colour, base = COLOURS[step.actor], y + ROW / 2 + 5
    return (
        f'<path d="M40 {y + ROW}H{WIDTH - 40}" stroke="{LINE}" stroke-opacity=".6"/>'
        + _text(40, base, step.actor.value, size=14, weight=600, fill=colour)
        + _text(LABEL, base, step.label, size=14)
        + f'<rect x="{x:.1f}" y="{y + (ROW - BAR) / 2}" width="{width:.1f}" height="{BAR}" rx="3" fill="{colour}"/>'
        + _text(WIDTH - 40, base, f"{step.took:.1f}", size=14, anchor="end", numeric=True)
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    fill: str = INK,
    weight: int = 400,
    anchor: str = "start",
    numeric: bool = False,
) -> str:
    style = ' style="font-variant-numeric:tabular-nums"' if numeric else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}"{style}>{escape(text)}</text>'
    )
