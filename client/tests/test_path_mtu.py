"""The search for a path's largest packets, on paths that let through what they are told to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from culvert_client.core.path_mtu import CONFIRM_EVERY, LEAST, PROBES, RAISE_EVERY, UNMEASURED, PathMtu, Phase
from culvert_proto.contract import Suite
from culvert_proto.sa import inner_length, outer_length
from hypothesis import given
from hypothesis import strategies as st


@dataclass
class Path:
    """`mtu` passes; `link` is what this computer's own device takes. A round of probes takes a tenth of a second."""

    mtu: int
    link: int = 1500
    answers: bool = True
    now: float = 1000.0

    def round(self, search: PathMtu, *, lost: frozenset[int] = frozenset()) -> None:
        self.now = max(self.now, search.due)
        sent = search.probes(self.now)
        self.now += 0.1
        fits = {it for it in sent if it <= self.link}
        answered = {it for it in fits if it <= self.mtu and it not in lost} if self.answers else set[int]()
        search.take_results(answered, set(sent) - fits, self.now)

    def searched(self, search: PathMtu | None = None) -> PathMtu:
        """Until it is settled, in few rounds."""
        search = search or PathMtu(self.now)
        for _ in range(30):
            self.round(search)
            if search.is_settled:
                return search
        raise AssertionError(search.phase)


@pytest.mark.parametrize("mtu", [1280, 1400, 1420, 1492, 1500, 9000])
def test_the_usual_lengths_are_found_at_once_and_to_the_byte(mtu: int) -> None:
    path = Path(mtu, link=9000)
    search = PathMtu(path.now)
    assert search.mtu == LEAST
    path.round(search)
    assert search.mtu == mtu
    assert path.searched(search).mtu == mtu


def test_on_a_whole_ethernet_one_round_of_pings_that_leave_is_enough() -> None:
    path = Path(1500)
    path.round(search := PathMtu(path.now))
    assert search.mtu == 1500


@given(mtu=st.integers(LEAST, 9216), link=st.integers(1500, 9216))
def test_every_other_length_is_found_to_a_few_bytes_and_never_too_long(mtu: int, link: int) -> None:
    search = Path(mtu, link).searched()
    longest = min(mtu, link)
    assert longest - 4 < search.mtu <= longest


@given(mtu=st.integers(LEAST, 1500), data=st.data())
def test_lost_probes_never_make_it_too_long_and_a_few_do_not_make_it_short(
    mtu: int, data: st.DataObject
) -> None:
    path = Path(mtu)
    path.round(search := PathMtu(path.now))
    if not search.is_settled:
        lost = data.draw(st.frozensets(st.sampled_from(search.probes(path.now))))
        path.round(search, lost=lost)
    assert search.mtu <= mtu
    if not search.is_settled:
        path.searched(search)
    assert mtu - 4 < search.mtu <= mtu


def test_a_path_that_becomes_narrow_is_noticed_while_it_is_used() -> None:
    path = Path(1500)
    search = path.searched()
    search.note_use(path.now)
    assert search.due <= path.now + CONFIRM_EVERY
    path.mtu = 1400
    for _ in range(PROBES):
        assert search.mtu == 1500
        path.round(search)
    # Until more is known, what passes everywhere.
    assert (search.phase, search.mtu) == (Phase.BASE, LEAST)
    assert path.searched(search).mtu == 1400


def test_a_lost_probe_or_a_silent_path_keeps_the_mtu() -> None:
    path = Path(1500)
    search = path.searched()
    search.note_use(path.now)
    path.round(search, lost=frozenset({1500}))
    path.round(search)
    path.answers = False
    for _ in range(2 * PROBES):
        search.note_use(path.now)
        path.round(search)
    assert (search.phase, search.mtu) == (Phase.COMPLETE, 1500)


def test_doubt_brings_the_next_probe_forward_but_not_a_flood_of_them() -> None:
    path = Path(1500)
    search = path.searched()
    for _ in range(100):
        search.doubt(path.now)
    assert path.now < search.due <= path.now + 2
    assert search.probes(search.due) == (100, 1500)


def test_a_path_that_becomes_wide_is_noticed_after_a_while() -> None:
    path = Path(1400)
    search = path.searched()
    path.mtu = 1500
    assert search.due == pytest.approx(path.now + RAISE_EVERY)
    assert path.searched(search).mtu == 1500


def test_a_silent_path_has_a_cautious_mtu_and_is_probed_again() -> None:
    path = Path(1500, answers=False)
    search = path.searched()
    assert (search.phase, search.mtu, search.is_narrow) == (Phase.SILENT, UNMEASURED, False)
    assert search.reported == LEAST
    path.answers = True
    assert path.searched(search).mtu == 1500


def test_a_silent_paths_mtu_does_not_exceed_the_own_links() -> None:
    search = PathMtu(0)
    for now in range(PROBES):
        search.take_results((), [it for it in search.probes(now) if it > 1320], now)
    assert (search.phase, search.mtu) == (Phase.SILENT, 1359)


def test_an_own_link_for_small_packets_alone_is_told_and_ends_by_itself() -> None:
    path = Path(1500, link=1279, answers=False)
    search = path.searched()
    assert (search.phase, search.is_narrow, search.mtu) == (Phase.SILENT, True, LEAST)
    path.link = 1500
    for _ in range(PROBES):
        path.round(search)
    assert (search.phase, search.is_narrow, search.mtu) == (Phase.SILENT, False, UNMEASURED)


@pytest.mark.parametrize("mtu", [100, 576, 1279])
def test_a_path_for_small_packets_alone_is_told_and_ends_by_itself(mtu: int) -> None:
    path = Path(mtu)
    search = path.searched()
    assert (search.is_narrow, search.mtu) == (True, LEAST)
    path.mtu = 1500
    path.searched(search)
    assert (search.is_narrow, search.mtu) == (False, 1500)


def test_another_network_begins_anew_with_what_passes_everywhere() -> None:
    path = Path(1500)
    search = path.searched()
    search.begin(path.now)
    assert (search.mtu, search.due) == (LEAST, path.now)


@given(outer=st.integers(1280, 9216), version=st.sampled_from((4, 6)), suite=st.sampled_from(Suite))
def test_the_longest_inner_packet_fits_and_one_byte_more_does_not(
    outer: int, version: int, suite: Suite
) -> None:
    longest = inner_length(outer, version, suite)
    assert outer_length(longest, version, suite) <= outer < outer_length(longest + 1, version, suite)
