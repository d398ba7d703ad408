"""The plots of docs/performance.md."""

from __future__ import annotations

from xml.etree import ElementTree

from figures import Figure
from plots import DOCUMENT, IMAGES, Run, charts, profile_of

RUN = Run(
    [
        Figure("pipeline_64_mbit_s", 1568.2, "Mbit/s", "FPGA, AES", 2187.06),
        Figure("goodput_mbit_s", 6247.7, "Mbit/s", "veth", 24228.6),
        Figure("goodput_null_mbit_s", 161.0, "Mbit/s (bmv2)", "bypass (bmv2)", 248.9),
        Figure("goodput_null_mbit_s", 1989.4, "Mbit/s", "bmv2", 161.0),
    ]
)


def drawn(name: str) -> list[str]:
    """The texts of a plot."""
    root = ElementTree.fromstring(charts(RUN, {"first": 20.0, "then <less>": 10.0})[name].render())  # noqa: S314 - our own
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_only_measured_figures_are_drawn() -> None:
    assert drawn("perf-pipeline.svg").count("sluice") == 1
    assert "1,568" in drawn("perf-pipeline.svg")
    goodput = drawn("perf-goodput.svg")
    assert "wireguard-go" not in goodput
    assert [text for text in goodput if text in ("1,989", "161", "24,229")] == ["24,229", "1,989", "161"]
    assert drawn("perf-profile.svg")[2:] == ["first", "20", "then <less>", "10"]
    assert not any(charts(RUN, {})["perf-hashes.svg"].bars())


def test_the_document_shows_every_plot_and_has_the_profile_s_table() -> None:
    document = DOCUMENT.read_text()
    steps = profile_of(document)
    assert len(steps) > 2
    assert list(steps.values()) == sorted(steps.values(), reverse=True)
    for name in charts(RUN, steps):
        assert f"(images/{name})" in document
        assert (IMAGES / name).exists()
