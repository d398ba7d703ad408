"""The verdicts of `culvert doctor` on the daemon's examination."""

from __future__ import annotations

import pytest
from culvert_client.cli import hops
from culvert_client.cli.verdict import Verdict
from culvert_proto import local_pb2

DAY = 24 * 3600
NOW = 1_700_000_000
WIKI, GIT = "wiki.corp.example", "git.corp.example"


def seen(**fields: object) -> local_pb2.ExamineResponse:
    whole = {"certificate_from": NOW - 4 * DAY, "certificate_until": NOW + 10 * DAY} | fields
    return local_pb2.ExamineResponse(**whole)  # pyright: ignore[reportArgumentType]


def judged(*verdicts: Verdict) -> list[bool]:
    assert all(it.what and (it.good or it.remedy) for it in verdicts)
    return [it.good for it in verdicts]


@pytest.mark.parametrize(
    ("ahead", "good", "said"),
    [
        (0, True, "Within 1 s"),
        (-60, True, "Within 60 s"),
        (61, False, "61 s behind"),
        (-86_400, False, "24 h ahead of"),
        (None, False, "did not say"),
    ],
)
def test_the_clock_is_held_against_the_controllers(ahead: int | None, good: bool, said: str) -> None:
    told = hops.clock(seen() if ahead is None else seen(clock_ahead=ahead))
    assert judged(told) == [good]
    assert said in told.what


@pytest.mark.parametrize(
    ("begun", "left", "good", "said"),
    [
        (4 * DAY, 10 * DAY, True, "10 d"),
        (13 * DAY, DAY, False, "24 h and was not renewed"),
        (14 * DAY, -1, False, "expired"),
        (-1, 14 * DAY, False, "not valid yet"),
        (DAY, DAY, True, "24 h"),
    ],
)
def test_a_certificate_that_should_have_been_renewed_is_told(
    begun: int, left: int, good: bool, said: str
) -> None:
    told = hops.certificate(seen(certificate_from=NOW - begun, certificate_until=NOW + left), NOW)
    assert judged(told) == [good]
    assert said in told.what


def path(mtu: int) -> local_pb2.GatewayPath:
    return local_pb2.GatewayPath(name="gw-berlin", mtu=mtu)


def tunnel(answered: int) -> local_pb2.TunnelPath:
    return local_pb2.TunnelPath(fqdn=WIKI, gateway="gw-berlin", mtu=1438, outer=1500, answered=answered)


@pytest.mark.parametrize(
    ("gateway", "tunnels", "good"),
    [
        (path(1500), [tunnel(1438)], [True]),
        (path(1500), [], [True]),
        (path(1400), [], [True]),
        (path(1400), [tunnel(1320)], [False]),
        (path(1500), [tunnel(1320)], [False]),
        (path(1500), [tunnel(0)], [True]),
        (path(0), [tunnel(1438)], []),
    ],
    ids=["wide", "no tunnel", "narrow without a tunnel", "narrow outside", "narrow inside", "silent inside", "silent"],
)  # fmt: skip
def test_packets_that_do_not_fit_are_told(
    gateway: local_pb2.GatewayPath, tunnels: list[local_pb2.TunnelPath], good: list[bool]
) -> None:
    assert judged(*hops.mtu(seen(gateways=[gateway], tunnels=tunnels))) == good


def name(fqdn: str, answered: bool = True, marked: bool = True) -> local_pb2.NameAnswer:
    return local_pb2.NameAnswer(fqdn=fqdn, answered=answered, marked=marked)


@pytest.mark.parametrize(
    ("names", "good"),
    [
        ([name(WIKI), name(GIT)], [True]),
        ([name(WIKI), name(GIT, marked=False)], [False]),
        ([name(WIKI, answered=False, marked=False), name(GIT, marked=False)], [False, False]),
        ([], []),
    ],
)
def test_a_name_that_is_not_marked_is_told(names: list[local_pb2.NameAnswer], good: list[bool]) -> None:
    assert judged(*hops.txt(seen(names=names))) == good


@pytest.mark.parametrize(
    ("canary", "good", "hint"), [(True, True, True), (False, True, False), (None, False, True)]
)
def test_in_watch_mode_browsers_must_not_hide_their_names(
    canary: bool | None, good: bool, hint: bool
) -> None:
    told = hops.watch_mode(canary)
    assert (told.good, bool(told.remedy)) == (good, hint)
