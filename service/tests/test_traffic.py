"""Rates from counters, as two looks at a gateway tell them."""

from __future__ import annotations

import uuid

from culvert_service.controllers.envelope import PAYLOAD_MAX
from culvert_service.gateways.sampling import Carried
from culvert_service.tunnels.traffic import Rate, Traffic, pack_rates, unpack_rates

WIKI, GIT = uuid.UUID(int=1), uuid.UUID(int=2)
TUNNELS = {10: WIKI, 11: WIKI, 20: GIT}


def test_a_rate_is_the_bytes_between_two_readings_per_second() -> None:
    traffic = Traffic()
    traffic.look("gw", {10: 1000, 20: 5}, {11: 500}, TUNNELS, 100.0)
    assert traffic.rates() == {}
    traffic.look("gw", {10: 3000, 20: 5}, {11: 600}, TUNNELS, 102.0)
    assert traffic.rates() == {WIKI: Rate(1000, 50)}
    traffic.look("gw", {10: 3000, 20: 5}, {11: 600}, TUNNELS, 103.0)
    assert traffic.rates() == {}


def test_new_keys_count_from_zero_and_a_count_that_fell_counts_nothing() -> None:
    """An SA's count is of all its policy entries: one that is written anew takes its count along, and the others' stay."""
    traffic = Traffic()
    traffic.look("gw", {10: 1000, 20: 700_000}, {}, TUNNELS, 0.0)
    traffic.look("gw", {10: 1000, 11: 40, 20: 350_000, 99: 5}, {}, TUNNELS, 1.0)
    assert traffic.rates() == {WIKI: Rate(40, 0)}
    traffic.look("gw", {10: 1000, 11: 40, 20: 350_030, 99: 5}, {}, TUNNELS, 2.0)
    assert traffic.rates() == {GIT: Rate(30, 0)}


def test_a_gateway_carries_the_sum_of_its_tunnels_until_it_is_taken() -> None:
    """Site tunnels are in no row of a device's tunnel, and are counted all the same."""
    traffic, site = Traffic(), 99
    for at in range(4):
        traffic.look("gw", {10: 1000 * at, site: 7 * at}, {11: 10 * at}, TUNNELS, 2.0 * at)
    assert traffic.take("gw") == Carried(3 * 1007, 30, 6.0)
    assert traffic.take("gw") == Carried(0, 0, 0.0)
    # A switch that began anew, or another controller that had the gateway meanwhile: what it counted before is not ours.
    traffic.forget("gw")
    traffic.look("gw", {10: 9_000_000}, {}, TUNNELS, 9.0)
    assert traffic.take("gw") == Carried()
    traffic.look("gw", {10: 9_000_100}, {}, TUNNELS, 10.0)
    assert traffic.take("gw") == Carried(100, 0, 1.0)
    traffic.look("gw", {10: 9_000_200}, {}, TUNNELS, 11.0)
    traffic.keep([])
    assert traffic.take("gw") == Carried()


def test_the_rates_of_a_dropped_gateway_are_forgotten() -> None:
    traffic = Traffic()
    for at in (0, 1):
        traffic.look("gw", {10: 10 * at}, {}, TUNNELS, at)
        traffic.look("other", {20: 10 * at}, {}, TUNNELS, at)
    traffic.keep(["other"])
    assert traffic.rates() == {GIT: Rate(10, 0)}
    traffic.look("gw", {10: 500}, {}, TUNNELS, 2.0)
    assert traffic.rates() == {GIT: Rate(10, 0)}


def test_packed_rates_keep_the_fastest_that_fit() -> None:
    rates = {uuid.UUID(int=at): Rate(at, 2 * at) for at in range(1000)}
    told = pack_rates(rates)
    assert len(told) * 4 / 3 < PAYLOAD_MAX - 1000
    assert unpack_rates(told) == {tunnel: rate for tunnel, rate in rates.items() if rate.from_device >= 850}
