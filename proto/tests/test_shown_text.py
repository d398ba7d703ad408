"""No text of others turns the text around it, commands a terminal, or hides a character."""

from __future__ import annotations

import unicodedata

import pytest
from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.shown_text import make_all_plain, make_plain
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("photo\u202egpj.exe", "photo\ufffdgpj.exe"),
        ("\u2067a\u2069", "\ufffda\ufffd"),
        ("\x1b[2Jgone", "\ufffd[2Jgone"),
        ("\x9b2J", "\ufffd2J"),
        ("pay\u200bpal", "pay\ufffdpal"),
        ("a\u2028b", "a\ufffdb"),
        ("two\nlines\tand tabs", "two\nlines\tand tabs"),
        ("Jürgen Müller · שלום · 山田 · 👩‍💻", "Jürgen Müller · שלום · 山田 · 👩‍💻"),
    ],
)
def test_strange_characters_are_seen_to_be_there(text: str, shown: str) -> None:
    assert make_plain(text) == shown


@given(st.text())
def test_nothing_is_left_that_has_a_direction_or_a_command(text: str) -> None:
    shown = make_plain(text)
    assert len(shown) == len(text)
    assert not {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"} & set(
        map(unicodedata.bidirectional, shown)
    )
    assert not any(unicodedata.category(it) == "Cc" for it in shown if it not in "\t\n")


def test_every_text_of_a_message_is_made_plain() -> None:
    strange = "a\u202eb"
    status = local_pb2.Status(user=strange, declined_prefixes=[strange], code_valid_until=7)
    status.tunnels.add(fqdn=strange, drops={"icv": 2})
    status.last_error.CopyFrom(
        CulvertError(Reason.NO_POLICY, user=strange, name=strange, owner=strange).to_proto()
    )
    status.organisations.add(name=strange).last_error.CopyFrom(status.last_error)
    made = make_all_plain(status)
    assert made is status
    assert "\u202e" not in str(made) + made.last_error.message + "".join(made.last_error.fields.values())
    assert b"\xe2\x80\xae" not in made.SerializeToString()
    assert (made.user, made.tunnels[0].drops["icv"], made.code_valid_until) == ("a\ufffdb", 2, 7)
