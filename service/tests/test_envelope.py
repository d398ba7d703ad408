"""Controllers send each other sealed messages through a database that must not read them."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from culvert_service.controllers.envelope import Answer, Caller, EnvelopeError, PeerCall, answer, pack, unpack
from culvert_service.controllers.replay import PROCESSES_MAX, WINDOW, Replay
from culvert_service.pki.master_key import MasterKey
from hypothesis import given
from hypothesis import strategies as st


def test_only_the_called_and_the_calling_controller_can_read() -> None:
    ours, others = MasterKey(bytes(32)), MasterKey(b"1" * 32)
    caller = Caller()
    payload = pack(caller.call("a" * 16, 7, "open", b"who"), "b" * 16, ours)
    assert b"who" not in base64.b64decode(payload)
    for holder, key in (("c" * 16, ours), ("b" * 16, others)):
        with pytest.raises(EnvelopeError):
            unpack(payload, holder, key)
    call = unpack(payload, "b" * 16, ours)
    assert isinstance(call, PeerCall)
    assert (call.holder, call.number, call.method, call.body) == ("a" * 16, 7, "open", b"who")
    answered = unpack(pack(answer(call, True, b"keys"), "a" * 16, ours), "a" * 16, ours)
    assert isinstance(answered, Answer)
    assert caller.open(answered) == b"keys"
    for bad in (replace(answered, done=False), replace(answered, sealed=answered.sealed[:-1])):
        with pytest.raises(EnvelopeError):
            caller.open(bad)
    with pytest.raises(EnvelopeError):
        Caller().open(answered)
    with pytest.raises(EnvelopeError):
        pack(answer(call, True, bytes(6000)), "a" * 16, ours)
    for junk in ("", "junk", "ÿ", base64.b64encode(bytes(40)).decode()):
        with pytest.raises(EnvelopeError):
            unpack(junk, "a" * 16, ours)


@given(numbers=st.lists(st.integers(min_value=1, max_value=3 * WINDOW)))
def test_no_call_is_taken_twice(numbers: list[int]) -> None:
    replay, taken = Replay(), set[int]()
    for number in numbers:
        late = max(taken, default=0) - number >= WINDOW
        assert replay.take("one", number) is (number not in taken and not late)
        if not late:
            taken.add(number)
    assert replay.take("two", 1)


def test_windows_of_ended_processes_are_dropped_and_the_running_ones_kept() -> None:
    replay = Replay()
    assert replay.take("runs", 1)
    for number in range(2 * PROCESSES_MAX):
        assert replay.take(f"ended {number}", 1)
        assert replay.take("runs", number + 2)
        assert len(replay) <= PROCESSES_MAX
    assert not replay.take("runs", 2 * PROCESSES_MAX + 1)
    assert not replay.take(f"ended {2 * PROCESSES_MAX - 1}", 1)
