"""Words in the person's language, and denials that are made anew where they are read."""

import gettext
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import polib
import pytest
from culvert_proto import CATALOGUE, CulvertError, Reason, error_pb2, language, local_pb2
from culvert_proto.language import Words, list_preferred, use, words
from culvert_proto.phrases import DAYS, MONTHS, Phrase
from culvert_proto.screens.activity import describe
from culvert_proto.screens.units import clock, drops, round_trip
from hypothesis import given
from hypothesis import strategies as st

OPENS = Phrase(
    "{day}, {number} {month}, {time} ({zone})",
    day=DAYS[0],
    number="02",
    month=MONTHS[2],
    time="08:00",
    zone="Europe/Berlin",
)
NO_POLICY = CulvertError(Reason.NO_POLICY, user="alice", name="git.corp.example", owner="May")


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    use([])


def german() -> None:
    assert use(["de_AT.UTF-8"]) == "de"


def over_the_wire(error: CulvertError) -> error_pb2.Error:
    return error_pb2.Error.FromString(error.to_proto().SerializeToString())


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "de"),
        ({"LANG": "de_DE.UTF-8", "LC_MESSAGES": "en_GB.UTF-8"}, "en"),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "de_CH"}, "de"),
        ({"LANG": "fr_FR.UTF-8", "LANGUAGE": "fr:de:en"}, "de"),
        ({"LANG": "fr_FR.UTF-8", "LANGUAGE": "en:de"}, "en"),
        ({"LANG": "C.UTF-8", "LANGUAGE": "de"}, "en"),
        ({"LANG": "de@euro"}, "de"),
        ({"LANG": "denied"}, "en"),
        ({"LANG": "../../etc/passwd"}, "en"),
    ],
)
def test_the_language_follows_the_environment(environment: dict[str, str], wanted: str) -> None:
    assert use(list_preferred(environment)) == wanted


def test_a_denial_from_afar_is_said_in_german() -> None:
    wire = over_the_wire(NO_POLICY)
    german()
    got = CulvertError.from_proto(wire)
    assert got.message == "Keine Richtlinie erlaubt alice den Zugriff auf git.corp.example."
    # A name is a name, also where it is a month's.
    assert got.remedy == "May fragen: Dort liegt die Zuständigkeit."


@pytest.mark.parametrize(
    ("reason", "fields", "told"),
    [
        (
            Reason.CODE_TOO_OLD,
            {"name": "git", "age": Phrase("{number} minutes", number=15)},
            "höchstens 15 Minuten alt",
        ),
        (
            Reason.OUTSIDE_HOURS,
            {"name": "git", "opens": OPENS, "owner": "bob"},
            "ab Montag, 02. März, 08:00 Uhr (Europe/Berlin).",
        ),
        (
            Reason.TIMEOUT,
            {"what": Phrase("The answer of {peer}", peer="https://vpn:8443")},
            "Antwort von https://vpn:8443",
        ),
        (Reason.LOCAL_PERMISSION, {"what": Phrase("enter a code")}, "einen Code eingeben"),
        (
            Reason.INVITATION_UNREADABLE,
            {"why": Phrase("it is too long")},
            "nicht lesbar: er ist zu lang.",
        ),
        (Reason.CLOSED_BY_ADMIN, {"why": Phrase("a newer {what}", what="word")}, "a newer word"),
    ],
)
def test_words_that_fill_a_field_are_translated_too(
    reason: Reason, fields: dict[str, str], told: str
) -> None:
    wire = over_the_wire(CulvertError(reason, **fields))
    german()
    assert told in CulvertError.from_proto(wire).message


@pytest.mark.parametrize("reason", Reason)
def test_an_error_without_fields_keeps_its_sent_words(reason: Reason) -> None:
    older = error_pb2.Error(reason=error_pb2.Reason.ValueType(reason), message="Sent so.", remedy="Do that.")
    german()
    got = CulvertError.from_proto(older)
    assert (got.message == "Sent so.") == bool(CATALOGUE[reason].fields())


@given(
    number=st.integers(min_value=max(Reason) + 1, max_value=2**31 - 1),
    fields=st.dictionaries(st.text(), st.text()),
)
def test_an_unknown_reason_shows_the_text_that_came(number: int, fields: dict[str, str]) -> None:
    wire = error_pb2.Error(message="Sent so.", remedy="Do that.", fields=fields)
    wire.reason = error_pb2.Reason.ValueType(number)
    german()
    got = CulvertError.from_proto(wire)
    assert (got.message, got.remedy, got.fields) == ("Sent so.", "Do that.", fields)
    use([])


TEXTS = st.dictionaries(st.sampled_from(["why", "what", "name", "age", "opens"]), st.text())


@given(
    st.sampled_from(Reason), TEXTS, st.text() | st.sampled_from(["{number} hours", "{path}: {why}"]), TEXTS
)
def test_no_field_of_a_hostile_peer_breaks_the_words(
    reason: Reason, fields: dict[str, str], template: str, named: dict[str, str]
) -> None:
    german()
    wire = error_pb2.Error(reason=error_pb2.Reason.ValueType(reason), fields=fields)
    for name in fields:
        wire.phrases[name].CopyFrom(error_pb2.Phrase(template=template, fields=named))
    CulvertError.from_proto(wire)
    use([])


@pytest.mark.parametrize(
    "error", [NO_POLICY, CulvertError(Reason.OUTSIDE_HOURS, name="git", opens=OPENS, owner="bob")]
)
def test_the_daemon_passes_on_what_it_was_told_unchanged(error: CulvertError) -> None:
    wire = over_the_wire(error)
    assert CulvertError.from_proto(wire).to_proto() == wire


def test_a_previous_version_reads_texts_and_sends_no_phrases() -> None:
    wire = over_the_wire(
        CulvertError(Reason.CODE_TOO_OLD, name="git", age=Phrase("{number} hours", number=2))
    )
    assert wire.fields["age"] == "2 hours"
    wire.ClearField("phrases")
    german()
    assert "höchstens 2 hours alt" in CulvertError.from_proto(wire).message


def test_a_phrase_without_its_fields_is_shown_as_it_was_sent() -> None:
    wire = over_the_wire(
        CulvertError(Reason.CODE_TOO_OLD, name="git", age=Phrase("{number} hours", number=2))
    )
    wire.phrases["age"].ClearField("fields")
    german()
    assert "höchstens 2 hours alt" in CulvertError.from_proto(wire).message


def test_activities_and_times_are_translated_to_german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    german()
    moved = local_pb2.Activity(
        kind=local_pb2.ACTIVITY_KIND_FAILED_OVER, fqdn="wiki", gateway="berlin", gateway_before="paris"
    )
    assert describe(moved) == "wiki ist von paris auf berlin umgezogen."
    at = datetime.fromisoformat("2026-03-04T14:05:00+00:00").timestamp()
    assert clock(at, at) == "14:05"
    assert clock(at, at + 86400) == "Mi, 4. Mär, 14:05"
    assert round_trip(local_pb2.Gateway(online=True, rtt_us=1_500)) == "1,5 ms"
    assert (
        drops({"icv": 3, "replay": 0, "no_policy": 1, "newer": 2}) == "3 nicht echt, 2 newer, 1 ohne Tunnel"
    )
    use([])
    assert clock(at, at + 86400) == "Wed 4 Mar, 14:05"
    assert drops({"icv": 3}) == "3 not authentic"


def test_plurals_have_their_forms(tmp_path: Path) -> None:
    (tmp_path / "de.po").write_text(
        'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
        'msgid "{n} code"\nmsgid_plural "{n} codes"\nmsgstr[0] "{n} Code"\nmsgstr[1] ""\n"{n} Codes"\n'
    )
    here = Words(tmp_path)
    german()
    assert [here.plural("{n} code", "{n} codes", n) for n in (0, 1, 2)] == ["0 Codes", "1 Code", "2 Codes"]
    assert here("not there") == "not there"


def test_a_guessed_translation_is_not_used(tmp_path: Path) -> None:
    """It may name another text's fields (translate/pootle issue 324). Templates mark a file's header so, too."""
    (tmp_path / "de.po").write_text("""#, fuzzy
msgid ""
msgstr "Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#, fuzzy, python-brace-format
#| msgid "{number} gateways"
msgid "{count} resources"
msgstr "{number} Gateways"

#, python-brace-format
msgid "{count} fuzzy things"
msgstr "{count} unscharfe Dinge"
""")
    here = Words(tmp_path)
    german()
    assert here("{count} resources") == "{count} resources"
    assert here("{count} fuzzy things") == "{count} unscharfe Dinge"


def test_english_programs_do_not_load_the_reader_of_catalogues() -> None:
    """The daemon, the controller and an English CLI start without it."""
    code = "import sys; from culvert_proto.language import words; assert words('x') == 'x'; print('polib' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_gettexts_own_tools_read_the_same(tmp_path: Path) -> None:
    """The files are what translators' programs take them for."""
    source = Path(language.__file__).parent / "locale/de.po"
    compiled = tmp_path / "de.mo"
    subprocess.run(["msgfmt", "--check-format", "-o", compiled, source], check=True)
    with compiled.open("rb") as file:
        independent = gettext.GNUTranslations(file)
    german()
    texts = [entry.msgid for entry in polib.pofile(str(source)) if not entry.msgid_plural]
    assert len(texts) > 100
    for text in texts:
        assert independent.gettext(text) == words(text) != ""
