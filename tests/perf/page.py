"""build/bench.html: the figures of one run, each beside its baseline, readable without a script or a network."""

from __future__ import annotations

from html import escape

from figures import Figure

STYLE = """
:root{color-scheme:light dark;--ink:#1d2733;--paper:#fbfaf7;--ours:#0b7a75;--base:#b9b4a6;--line:#e2ddd0}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e1;--paper:#15191e;--ours:#38b6ac;--base:#5c6168;--line:#2b3138}}
body{margin:3rem auto;max-width:64rem;padding:0 1.5rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}p.sub{margin:.25rem 0 2.5rem;opacity:.7}
section{border-top:1px solid var(--line);padding:1.1rem 0;display:grid;grid-template-columns:18rem 1fr;gap:1rem}
h2{font:600 1rem ui-monospace,monospace;margin:0;overflow-wrap:anywhere}
h2 small{display:block;font:400 .85rem system-ui;opacity:.7}
.bar{display:flex;align-items:center;gap:.6rem;margin:.15rem 0}.bar i{display:block;flex:none;
height:1.1rem;border-radius:3px;min-width:2px}
.bar b{font-weight:600}.bar span{white-space:nowrap;font-size:.9rem}.ours i{background:var(--ours)}
.base i{background:var(--base)}
@media(max-width:40rem){section{grid-template-columns:1fr}}
"""


def render(figures: list[Figure], measured: str, machine: str) -> str:
    """The report as an HTML document. `measured` is the date, `machine` a line about the hardware."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Culvert: figures</title><style>{STYLE}</style><h1>Culvert, measured</h1>"
        f'<p class="sub">{escape(measured)} · {escape(machine)}</p>'
        + "".join(
            _section([f for f in figures if (f.name, f.unit) == one])
            for one in dict.fromkeys((f.name, f.unit) for f in figures)
        )
        + "</html>\n"
    )


def _section(figures: list[Figure]) -> str:
    first = figures[0]
    # On another switch the program is ours, the figure is not.
    bars = [("ours", "bmv2" if "(bmv2" in first.unit else "Culvert", first.value, None)]
    bars += [("base", f.baseline, f.baseline_value, f.ratio) for f in figures if f.baseline_value is not None]
    longest = max(value for _, _, value, _ in bars) or 1.0
    rows = "".join(
        f'<div class="bar {kind}"><i style="width:{55 * value / longest:.1f}%"></i>'
        f"<span><b>{value:,.2f}</b> {escape(label)}{f' · ratio {ratio:.3f}' if ratio is not None else ''}</span></div>"
        for kind, label, value, ratio in bars
    )
    return f"<section><h2>{escape(first.name)}<small>{escape(first.unit)}</small></h2><div>{rows}</div></section>"
