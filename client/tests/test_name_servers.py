"""The memory of name servers, without a socket and without a clock."""

from __future__ import annotations

from culvert_client.config import Endpoint
from culvert_client.core.name_servers import (
    REST_AT_MOST,
    REST_FIRST,
    SILENT_NAMES,
    SLOW_ANSWERS,
    TXT_SILENCE,
    NameServers,
    TxtSilence,
)

FIRST, SECOND, THIRD = (Endpoint(f"192.0.2.{number}", 53) for number in (1, 2, 3))
ALL = (FIRST, SECOND, THIRD)


def test_a_silent_server_is_asked_last_until_it_answers() -> None:
    known = NameServers(ALL)
    known.silent(FIRST, 0.0)
    assert known.order() == (SECOND, THIRD, FIRST)
    assert known.trial(REST_FIRST - 0.1) is None
    assert known.trial(REST_FIRST) == FIRST
    # A single query tries the server.
    assert known.trial(REST_FIRST) is None
    known.note_exchange(FIRST, in_time=True, now=REST_FIRST)
    assert known.order() == ALL


def test_rests_grow_to_a_bound_and_silence_in_a_rest_adds_nothing() -> None:
    known = NameServers(ALL)
    now, rests = 0.0, list[float]()
    known.silent(FIRST, now)
    for _ in range(20):
        began = now
        for _ in range(100):
            known.silent(FIRST, now)
        while known.trial(now) is None:
            now += 1.0
        rests.append(now - began)
    assert rests[0] == REST_FIRST
    assert rests == sorted(rests)
    assert rests[-1] == REST_AT_MOST


def test_all_name_servers_silent_keeps_the_networks_order() -> None:
    known = NameServers(ALL)
    for server in (SECOND, FIRST, THIRD):
        known.silent(server, 0.0)
    assert known.order() == ALL
    assert known.trial(1e6) is None


def test_a_server_that_is_slow_again_and_again_goes_behind_the_others() -> None:
    known = NameServers(ALL)
    for number in range(SLOW_ANSWERS):
        assert known.order() == ALL, number
        known.note_exchange(FIRST, in_time=False, now=0.0)
    assert known.order() == (SECOND, THIRD, FIRST)


def test_slow_answers_between_fast_ones_do_not_add_up() -> None:
    known = NameServers(ALL)
    for _ in range(100):
        known.note_exchange(FIRST, in_time=False, now=0.0)
        known.note_exchange(FIRST, in_time=True, now=0.0)
    assert known.order() == ALL


def test_another_network_is_not_judged_by_the_one_before() -> None:
    known = NameServers(ALL)
    known.silent(FIRST, 0.0)
    known.use((FIRST, SECOND))
    assert known.order() == (SECOND, FIRST)
    known.forget()
    assert known.order() == (FIRST, SECOND)
    known.silent(THIRD, 0.0)
    assert known.order() == (FIRST, SECOND)


def test_txt_is_not_waited_for_where_several_names_had_no_answer() -> None:
    silence = TxtSilence()
    for number in range(SILENT_NAMES):
        assert silence.expects("another.corp.example", 0.0)
        silence.silent(f"n{number}.corp.example", 0.0)
        assert not silence.expects(f"n{number}.corp.example", 0.0)
    assert not silence.expects("another.corp.example", TXT_SILENCE - 1)
    assert silence.expects("another.corp.example", TXT_SILENCE)
    silence.silent("another.corp.example", TXT_SILENCE)
    silence.note_answer()
    assert silence.expects("another.corp.example", TXT_SILENCE)
