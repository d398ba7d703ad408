"""The catalogue is whole: every reason of the wire has words, and the words need only what raisers are told to give."""

import re

import pytest
from culvert_proto import CATALOGUE, CulvertError, Reason, error_pb2
from hypothesis import given
from hypothesis import strategies as st

_COMMAND = re.compile(r"\b(sudo|systemctl|timedatectl|ss) |\brun: |: culvert ")


def test_reasons_mirror_the_wire() -> None:
    wire = {name.removeprefix("REASON_"): number for name, number in error_pb2.Reason.items() if number}
    assert {reason.name: int(reason) for reason in Reason} == wire


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_says_what_happened_and_what_to_do(reason: Reason) -> None:
    entry = CATALOGUE[reason]
    error = CulvertError(reason, **dict.fromkeys(entry.fields(), "X"))
    for text in (error.message, error.remedy, error.shell):
        assert not text or text[0].isupper()
        assert "{" not in text
    assert error.message
    assert error.remedy
    # Window, menu and notification show these two.
    assert not _COMMAND.search(f"{error.message} {error.remedy}")
    assert not error.shell or _COMMAND.search(error.shell)
    assert error.entry.http >= 400


def test_a_missing_field_is_the_raisers_fault() -> None:
    with pytest.raises(KeyError):
        CulvertError(Reason.NO_POLICY, user="alice")


@pytest.mark.parametrize("reason", Reason)
def test_an_error_survives_the_wire(reason: Reason) -> None:
    sent = CulvertError(reason, **dict.fromkeys(CATALOGUE[reason].fields(), "X"))
    got = CulvertError.from_proto(error_pb2.Error.FromString(sent.to_proto().SerializeToString()))
    assert (got.reason, got.message, got.remedy) == (sent.reason, sent.message, sent.remedy)


@given(
    number=st.integers(min_value=max(Reason) + 1, max_value=2**31 - 1), message=st.text(), remedy=st.text()
)
def test_a_newer_peers_reason_keeps_its_words(number: int, message: str, remedy: str) -> None:
    wire = error_pb2.Error(message=message, remedy=remedy)
    wire.reason = error_pb2.Reason.ValueType(number)
    got = CulvertError.from_proto(error_pb2.Error.FromString(wire.SerializeToString()))
    assert (got.reason, got.message, got.remedy) == (Reason.INTERNAL, message, remedy)


def test_a_long_wait_is_told_as_a_duration() -> None:
    locked = CulvertError(Reason.CODE_LOCKED, seconds=3600)
    assert locked.remedy == "Wait 1 h and try again."
    assert (locked.retry_after, locked.fields["seconds"]) == (3600, "3600")
    assert CulvertError.from_proto(locked.to_proto()).remedy == locked.remedy
