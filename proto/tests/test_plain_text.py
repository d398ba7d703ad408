"""Names in any script pass; characters that would show them as other names do not."""

from __future__ import annotations

import pytest
from culvert_proto import plain_text


@pytest.mark.parametrize(
    "name",
    [
        "Jürgen Müller",
        "李小龍",
        "Олена",
        "דוד בן־גוריון",
        "محمد علی",
        "می\u200cخواهم",
        "👩\u200d💻 Ada",
        "O'Brien-Smith",
    ],
)
def test_a_name_in_any_script_is_plain(name: str) -> None:
    assert plain_text.check(name) == plain_text.strip(name) == name


@pytest.mark.parametrize("mark", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
def test_a_character_that_turns_text_is_refused_and_stripped(mark: str) -> None:
    with pytest.raises(ValueError, match="turns the direction"):
        plain_text.check(f"laptop{mark}gnp.exe")
    assert plain_text.strip(f"laptop{mark}gnp.exe") == "laptopgnp.exe"


@pytest.mark.parametrize("text", ["", "   ", "\u200b", "\u00ad\u200d", "\u2060"])
def test_a_name_must_be_seen(text: str) -> None:
    with pytest.raises(ValueError, match="can be seen"):
        plain_text.check(text)
    assert plain_text.strip(text) == ""


@pytest.mark.parametrize("text", ["a\nb", "a\u2028b", "a\0b", "a\x9bb", "\ud800"])
def test_a_name_is_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        plain_text.check(text)


def test_two_spellings_of_a_name_are_one() -> None:
    assert plain_text.check("Mu\u0308ller  A. ") == "Müller A."
