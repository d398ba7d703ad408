"""English texts that were stored are found again in the catalogue, whatever fills their fields."""

from __future__ import annotations

import string

import pytest
from culvert_proto import CATALOGUE, CulvertError, Reason
from culvert_proto.language import words
from culvert_proto.phrases import Phrase
from culvert_proto.stored_text import localise_text


def _fields(template: str) -> dict[str, str]:
    """Values that are no text of the catalogue."""
    names = dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(template) if name)
    return {name: f"zz{number}" for number, name in enumerate(names)}


TEXTS = [text for text in words.texts("de") if not text.startswith(("{one},", "{device} of"))]


def test_each_text_of_the_catalogue_is_found_by_its_template() -> None:
    """Also where another template would fit as well."""
    wrong: list[str] = []
    for text in TEXTS:
        fields = _fields(text)
        stored, expected = text.format(**fields), words(text, "de").format(**fields)
        letters = sum(map(str.isalpha, "".join(part for part, *_ in string.Formatter().parse(text))))
        if letters >= 5 and localise_text(stored, "de") != expected:
            wrong.append(f"{stored!r}: {localise_text(stored, 'de')!r} instead of {expected!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("reason", CATALOGUE)
def test_each_reason_is_told_with_its_remedy(reason: Reason) -> None:
    """As one text, as the state of a gateway has it."""
    entry = CATALOGUE[reason]
    fields = _fields(f"{entry.message} {entry.remedy}")
    error = CulvertError(reason, **fields)
    assert localise_text(error.message, "de") == words(entry.message, "de").format(**fields)
    assert localise_text(error.remedy, "de") == words(entry.remedy, "de").format(**fields)
    assert localise_text(f"{error.message} {error.remedy}", "de") == " ".join(error.localise("de"))


def test_phrases_inside_are_told_too() -> None:
    closed = CulvertError(Reason.CLOSED_BY_ADMIN, why=Phrase("the device was revoked"))
    assert localise_text(closed.message, "de") == closed.localise("de")[0]
    why = Phrase("its name has no address ({why})", why=Phrase("name or service not known"))
    lost = CulvertError(Reason.DNS_UPDATE_UNREACHABLE, server="ns1.corp.example", why=why)
    assert localise_text(lost.message, "de") == (
        "Der Nameserver ns1.corp.example antwortet nicht: zum Namen gibt es keine Adresse (Name oder Dienst unbekannt)."
    )
    several = "192.0.2.1: it refuses the connection; 2001:db8::1: nothing came within 5 s"
    assert localise_text(several, "de") == (
        "192.0.2.1: die Verbindung wird abgelehnt; 2001:db8::1: innerhalb von 5 s kam nichts"
    )
    assert localise_text("CANCELLED: the session is closed", "de") == "CANCELLED: die Sitzung ist geschlossen"


def test_other_texts_stay_as_they_are() -> None:
    for text in (
        "",
        "Said otherwise once.",
        "NOT_FOUND: no such table entry",
        "a; b",
        "{",
        "{name} {",
        "x" * 5000,
    ):
        assert localise_text(text, "de") == text
    text = "The gateway gw-berlin cannot be reached."
    assert localise_text(text, "en") == text
