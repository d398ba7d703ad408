"""`make plots`: docs/images/perf-*.svg, from build/bench.jsonl and the profile's table in docs/performance.md."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from bars import Bar, Chart, Group, Panel
from figures import Figure

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs/images"
DOCUMENT = ROOT / "docs/performance.md"

# Korona et al., "FPGA implementation of IPsec protocol suite for multigigabit networks", tables 3 to 5.
FPGA_DES_MBIT_S = {64: 4120.0, 240: 8018.0, 1500: 10227.0}
HASHES = {
    "siphash_2_4": "SipHash-2-4",
    "blake2b": "BLAKE2b",
    "hmac_sha256": "HMAC-SHA-256",
    "hmac_sha512": "HMAC-SHA-512",
    "sha3_512": "SHA3-512",
}
TREATMENTS = {
    "bypass": "Bypass: forwarded as it is",
    "aes_udp": "AES-GCM-256, ESP in UDP",
    "aes": "AES-GCM-256, raw ESP",
    "null": "NULL with HMAC-SHA-256, raw ESP",
}


class Run:
    """The figures of one run."""

    def __init__(self, figures: list[Figure]) -> None:
        self._figures = figures

    def value(self, name: str) -> float | None:
        """The figure of our own switch."""
        # A figure of another switch names it in its unit.
        return next((it.value for it in self._figures if it.name == name and "(" not in it.unit), None)

    def baseline(self, name: str, baseline: str) -> float | None:
        found = (it.baseline_value for it in self._figures if (it.name, it.baseline) == (name, baseline))
        return next(found, None)


def charts(run: Run, profile: dict[str, float]) -> dict[str, Chart]:
    """By file name. What was not measured is left out."""
    return {
        "perf-pipeline.svg": pipeline(run),
        "perf-goodput.svg": goodput(run),
        "perf-round-trips.svg": round_trips(run),
        "perf-hashes.svg": hashes(run),
        "perf-profile.svg": steps(profile),
    }


def pipeline(run: Run) -> Chart:
    groups: list[Group] = []
    for size, des in FPGA_DES_MBIT_S.items():
        name = f"pipeline_{size}_mbit_s"
        bars = _bars(
            Bar("sluice", _or_nan(run.value(name)), "ours"),
            Bar("FPGA, AES", _or_nan(run.baseline(name, "FPGA, AES")), "published"),
            Bar("FPGA, DES", des, "published"),
        )
        groups.append(Group(f"{size:,} bytes", bars))
    subtitle = "Mbit/s, parse to deparse and sealed with AES-GCM-256 on one core. Hollow: Korona et al."
    return Chart("The pipeline alone", subtitle, [Panel("", groups)], labels=110)


def goodput(run: Run) -> Chart:
    ours, name = run.value("goodput_mbit_s"), "goodput_mbit_s"
    client = _bars(
        Bar("no tunnel: veth", _or_nan(run.baseline(name, "veth")), "other"),
        Bar("Culvert", _or_nan(ours), "ours"),
        Bar("wireguard-go", _or_nan(run.baseline(name, "wireguard-go")), "other"),
    )
    sites = [
        Group(
            treatment,
            _bars(
                Bar("super-frames", _or_nan(run.value(f"superframe_{key}_mbit_s")), "ours"),
                Bar("packet by packet", _or_nan(run.value(f"goodput_{key}_mbit_s")), "pale"),
                Bar("bmv2", _or_nan(run.baseline(f"goodput_{key}_mbit_s", "bmv2")), "other"),
            ),
        )
        for key, treatment in TREATMENTS.items()
    ]
    panels = [Panel("Client to gateway", [Group("", client)]), Panel("Between two sites", sites)]
    subtitle = "Mbit/s. Green: through sluice, pale: with frames no longer than the wire's, as bmv2 has them"
    return Chart("Goodput of one TCP connection", subtitle, panels, labels=140, one_scale=True)


def round_trips(run: Run) -> Chart:
    groups = [
        Group(
            quantile,
            _bars(
                Bar("Culvert", _or_nan(run.value(name)), "ours"),
                Bar("wireguard-go", _or_nan(run.baseline(name, "wireguard-go")), "other"),
            ),
        )
        for name, quantile in (("rtt_p50_us", "Median"), ("rtt_p99_us", "99th percentile"))
    ]
    subtitle = "Microseconds, shorter is better"
    return Chart("A ping through the tunnel and back", subtitle, [Panel("", groups)], labels=110)


def hashes(run: Run) -> Chart:
    panels = [
        Panel(
            title,
            [
                Group(
                    label,
                    _bars(
                        Bar("sluice", _or_nan(run.value(f"hash_{key}_{what}")), "ours"),
                        Bar(
                            "Scholz et al.",
                            _or_nan(run.baseline(f"hash_{key}_{what}", "Scholz et al. 2019")),
                            "published",
                        ),
                    ),
                )
                for key, label in HASHES.items()
            ],
            digits,
        )
        for what, title, digits in (
            ("cycles_byte", "For each byte of a long packet", 2),
            ("cycles_64", "For a packet of 64 bytes", 0),
        )
    ]
    subtitle = "Processor cycles, shorter is better. Hollow: as published, where it was"
    return Chart("Hashes over the whole packet", subtitle, panels, labels=110)


def steps(profile: dict[str, float]) -> Chart:
    last = len(profile) - 1
    bars = [Bar(step, ns, "ours" if at == last else "pale") for at, (step, ns) in enumerate(profile.items())]
    subtitle = "Nanoseconds for a packet of 1,438 bytes on the way out; each step is on top of those above it"
    return Chart("What the profile paid for", subtitle, [Panel("", [Group("", bars)])], labels=360)


def profile_of(document: str) -> dict[str, float]:
    """The table of steps and their nanoseconds."""
    rows = re.search(r"\| step \| ns a packet \|\n\|[-|]+\|\n((?:\|.*\|\n)+)", document)
    cells = (
        [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows[1].splitlines()]
        if rows
        else []
    )
    return {step: float(ns.replace(",", "")) for step, ns in cells}


def _bars(*bars: Bar) -> list[Bar]:
    """The bars that have a value."""
    return [bar for bar in bars if bar.value == bar.value]


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _figure(line: str) -> Figure:
    given = json.loads(line)
    names = ("name", "value", "unit", "baseline", "baseline_value")
    return Figure(*(given[name] for name in names))


def main() -> None:
    measured = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build/bench.jsonl"
    if not measured.exists():
        sys.exit(f"{measured} is not there: run `make bench` first")
    run = Run([_figure(line) for line in measured.read_text().splitlines()])
    for name, chart in charts(run, profile_of(DOCUMENT.read_text())).items():
        if any(chart.bars()):
            (IMAGES / name).write_text(chart.render())
            print(IMAGES / name)


if __name__ == "__main__":
    main()
