"""Steps of the keys between two gateways, and the entries that mirror each other there: pure."""

from __future__ import annotations

import dataclasses

from culvert_service.gateways import mapped
from culvert_service.gateways.selector import Selector
from culvert_service.site_tunnels.flow import Flow, Place, flows, overlap
from culvert_service.site_tunnels.keys import Forget, Install, Keys, Step, Switch, next_step
from hypothesis import given
from hypothesis import strategies as st

GENERATIONS = st.frozensets(st.integers(1, 6), max_size=4)


@st.composite
def any_keys(draw: st.DrawFn) -> Keys:
    """Any rows that a process can leave when it dies."""
    current = draw(st.integers(0, 5))
    others = draw(GENERATIONS) - {current}
    draining = others & draw(GENERATIONS)
    lost = current == 0 or draw(st.booleans())
    switching = not lost and draw(st.booleans())
    return Keys(current, lost, switching, draw(st.booleans()), others, draining, draining & draw(GENERATIONS))


def done(keys: Keys, step: Step) -> Keys:
    """The rows after the step."""
    match step:
        case Forget(gone):
            others, draining = keys.others - gone, keys.draining - gone
            return dataclasses.replace(keys, others=others, draining=draining, drained=keys.drained - gone)
        case Switch(before):
            return dataclasses.replace(keys, switching=False, draining=keys.draining | before)
        case Install(generation):
            before = frozenset({keys.current} - {0})
            return Keys(generation, switching=True, others=keys.others | before, draining=keys.draining)


@given(any_keys(), st.none() | st.integers(1, 5))
def test_any_left_rows_end_in_keys_that_both_ends_use(keys: Keys, asked: int | None) -> None:
    # At most: forget, switch, renew what is old, switch, renew what was asked for, switch, nothing.
    for _ in range(7):
        step = next_step(keys, asked)
        match step:
            case None:
                break
            case Forget(generations):
                # Neither generations that a gateway may encrypt with nor those with packets under way are forgotten.
                assert all(one > keys.current or one in keys.drained for one in generations)
            case Switch(before):
                assert not any(one > keys.current for one in before)
            case Install(generation):
                assert generation > max(keys.others | {keys.current})
        keys = done(keys, step)
    else:
        raise AssertionError(f"it does not end: {keys}")
    assert keys.current > 0
    assert (keys.lost, keys.switching, keys.drained) == (False, False, frozenset())
    assert keys.others - keys.draining <= set(range(keys.current))


def test_each_request_renews_the_keys_once() -> None:
    assert next_step(Keys(3), 3) == Install(4)
    assert next_step(Keys(4), 3) is None
    assert next_step(Keys(4, old=True)) == Install(5)


def test_a_site_tunnel_carries_the_intersection_of_its_ends() -> None:
    web = Selector("10.1.0.0/24", 6, (443, 443))
    anything, six = Selector("10.2.0.0/24"), Selector("fd00:2::/64")
    [flow] = flows(Place((web,)), Place((anything, six, Selector("10.2.0.0/24", 17))))
    assert flow == Flow(web, anything)
    masks = {"src": 2**128 - 2**8, "dst": 2**128 - 2**8}
    assert flow.near.to(flow.far) == {
        "src": (mapped.number("10.1.0.0"), masks["src"]),
        "dst": (mapped.number("10.2.0.0"), masks["dst"]),
        "protocol": (6, 0xFF),
        "sport": (443, 443),
    }
    assert flow.far.to(flow.near)["dport"] == (443, 443)


def test_two_flows_with_packets_in_common() -> None:
    flow = Flow(Selector("10.1.0.0/24", 6, (400, 500)), Selector("10.2.0.0/24"))
    assert overlap(flow, Flow(Selector("10.1.0.7/32"), Selector("10.2.0.0/16")))
    assert not overlap(flow, Flow(Selector("10.1.0.0/24", 17), Selector("10.2.0.0/24")))
    assert not overlap(flow, Flow(Selector("10.1.0.0/24", 6, (501, 502)), Selector("10.2.0.0/24")))
    assert not overlap(flow, Flow(Selector("10.1.0.0/24"), Selector("10.3.0.0/24")))
