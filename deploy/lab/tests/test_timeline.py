"""The time line: what the daemon and the browser noted, joined and drawn."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from culvert_lab import timeline_svg, timeline_text
from culvert_lab.timeline import Timeline, compose, ticks
from hypothesis import given
from hypothesis import strategies as st

CLICK = {
    "query": 1007.0,
    "txt": 1008.5,
    "request": 1009.0,
    "decided": 1010.0,
    "programmed": 1016.0,
    "reply": 1017.0,
    "sas_in": 1019.0,
    "released": 1020.0,
}
PAGE = {"click": 1000.0, "first_byte": 1030.0, "load": 1078.0}


def test_figures_come_from_the_steps() -> None:
    line = compose("wiki.corp.example", CLICK, PAGE)
    assert (line.total, line.held_ms, line.setup_ms) == (78.0, 13.0, 8.0)
    assert [step.end for step in line.steps] == [7, 8.5, 9, 10, 16, 17, 19, 20, 30, 78]


def test_the_request_may_come_before_txt() -> None:
    line = compose("x", CLICK | {"txt": 1009.5}, PAGE)
    assert [step.end for step in line.steps][:4] == [7, 9, 9.5, 10]
    assert "controller" in line.steps[1].label


def test_a_step_that_was_not_noted_is_left_out() -> None:
    line = compose("x", {step: at for step, at in CLICK.items() if step != "decided"}, PAGE)
    assert [step.end for step in line.steps] == [7, 8.5, 9, 16, 17, 19, 20, 30, 78]


def test_a_figure_without_its_step_is_refused() -> None:
    with pytest.raises(ValueError, match="released"):
        compose("x", {step: at for step, at in CLICK.items() if step != "released"}, PAGE)


@given(st.lists(st.floats(0, 5000), min_size=10, max_size=10))
def test_steps_never_go_backwards_and_the_picture_is_xml(times: list[float]) -> None:
    click = dict(zip(CLICK, times, strict=False))
    line = compose("a<b>&", click, {"click": 0.0, "first_byte": times[8], "load": times[9]})
    assert all(step.took >= 0 for step in line.steps)
    ET.fromstring(timeline_svg.render(line))  # noqa: S314 - our own output
    timeline_text.render(line, colour=False)


def test_the_picture_names_every_step() -> None:
    line = compose("wiki.corp.example", CLICK, PAGE)
    picture, text = timeline_svg.render(line), timeline_text.render(line, colour=False)
    for step in line.steps:
        assert step.label in picture
        assert f"{step.took:.1f} ms" in text
    assert "\x1b" not in text


@given(st.floats(0.01, 1e5))
def test_ticks_are_few_and_inside(total: float) -> None:
    found = ticks(total)
    assert 3 <= len(found) <= 9
    assert found[0] == 0
    assert found[-1] <= total * 1.0001


def test_a_timeline_of_zero_length_is_drawn() -> None:
    line = Timeline(
        "x", compose("x", dict.fromkeys(CLICK, 0.0), dict.fromkeys(PAGE, 0.0)).steps, (0, 0), (0, 0)
    )
    ET.fromstring(timeline_svg.render(line))  # noqa: S314 - our own output
