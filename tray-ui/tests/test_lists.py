"""The window's lists, and what the person prefers, as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from culvert_proto import CulvertError, Reason, local_pb2
from culvert_tray.autostart import is_autostarted, set_autostart
from culvert_tray.commands import AnswerClaims, CopyText, EnterCode, SelectGateway
from culvert_tray.doctor import Verdict, refusal_in, verdicts_in
from culvert_tray.menu import Action
from culvert_tray.preferences import (
    MOST_ANNOUNCED,
    MOST_RECENT,
    NoticeKind,
    Preferences,
    at_hand,
    with_favourite,
    with_notices,
    with_recent,
)
from culvert_tray.preferences_file import read_preferences, write_preferences
from culvert_tray.rows import activity_rows, gateway_rows, resource_rows, search, tunnel_rows
from culvert_tray.style import Tone
from culvert_tray.view import not_running

from . import statuses
from .statuses import NOW


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", ["mail", "git", "wiki"]),
        ("  WIKI ", ["wiki"]),
        ("10.20 git", ["git"]),
        ("berlin", ["git", "wiki"]),
        ("nothing", []),
    ],
)
def test_resources_are_searched_by_every_word_and_favourites_come_first(typed: str, found: list[str]) -> None:
    preferences = Preferences(favourites=frozenset({"mail.corp.example"}))
    rows = search(resource_rows(statuses.connected(), preferences), typed)
    assert [row.key.split(".")[0] for row in rows] == found


@pytest.mark.parametrize(
    "typed", ["bücher", "BÜCH", "bu\u0308cher", "xn--bcher", "Bücher.Corp.Example.", "books"]
)
def test_a_name_is_found_and_shown_as_people_write_it(typed: str) -> None:
    name = "xn--bcher-kva.corp.example"
    status = statuses.connected()
    status.resources.append(local_pb2.Resource(name="books", fqdn=name, addresses=["10.20.0.99"]))
    status.tunnels[0].fqdn = name
    [row] = search(resource_rows(status, Preferences()), typed)
    assert (row.key, row.title, row.state) == (name, "bücher.corp.example", "through gw-berlin")
    assert tunnel_rows(status, NOW)[0].title == "bücher.corp.example"


def test_a_tunnel_is_a_row_also_before_it_has_anything() -> None:
    status = statuses.connected()
    status.tunnels.append(statuses.opening("mail"))
    status.tunnels[0].heard_ms = int((NOW - 2) * 1000)
    rows = tunnel_rows(status, NOW)
    assert (rows[0].title, rows[0].state, rows[0].note, rows[0].tone) == (
        "wiki.corp.example",
        "gw-berlin · 12 ms",
        "carries packets · open for 1 h 7 min · last packet 2 s ago · 1.2 MB received, 88.1 kB sent",
        Tone.GOOD,
    )
    assert (rows[2].title, rows[2].state, rows[2].note) == ("mail.corp.example", "opening…", "")


def test_gateways_are_listed_by_name_and_chosen_if_online() -> None:
    status = statuses.many_gateways()
    automatic, first, *_others, last = gateway_rows(status)
    assert (automatic.title, automatic.state, automatic.button) == ("Automatic", "chosen", "")
    assert (first.title, first.state, first.note, first.button) == (
        "gw-01",
        "59 ms",
        "198.51.100.1",
        "Choose",
    )
    assert (last.title, last.state, last.button) == ("gw-00", "offline", "")
    status.selected_gateway = "gw-07"
    # Not by a round trip, which changes.
    assert [row.title for row in search(gateway_rows(status), "18")] == ["gw-18"]
    [row] = search(gateway_rows(status), "07")
    assert (row.state, row.note, row.button) == ("chosen · 90 ms", "198.51.100.7 · 2 tunnels up", "")
    named = [row.note for row in gateway_rows(statuses.two_organisations())]
    assert [note.rpartition(" · ")[2] for note in named] == [
        *["vpn.corp.example"] * 3,
        *["vpn.beta.example"] * 2,
    ]


def test_activities_are_listed_newest_first_with_remedies() -> None:
    rows = activity_rows(statuses.activities(), NOW)
    assert [(row.title, row.note) for row in rows][:2] == [
        (
            "git.corp.example was denied.",
            "No policy lets alice reach git.corp.example. Ask bob@corp.example, who owns it.",
        ),
        ("wiki.corp.example moved from gw-paris to gw-berlin.", ""),
    ]
    newer = local_pb2.Activity(number=9, kind=99, fqdn="x", error=CulvertError(Reason.PAUSED).to_proto())  # pyright: ignore[reportArgumentType]
    [row] = activity_rows([newer], NOW)
    assert row.title == "x Culvert is paused."


@pytest.mark.parametrize(("typed", "found"), [("", 4), ("GW-PARIS wiki", 2), ("bob denied", 1), ("77777", 0)])
def test_activities_are_searched_by_what_is_shown(typed: str, found: int) -> None:
    activities = statuses.activities()
    activities[0].number = 77777
    assert len(search(activity_rows(activities, NOW), typed)) == found


def test_tunnels_are_searched_by_name_gateway_and_address() -> None:
    rows = tunnel_rows(statuses.through("gw-paris"), NOW)
    for typed, found in (("wiki", 1), ("corp PARIS", 1), ("10.20.0.10", 2), ("no", 0)):
        assert len(search(rows, typed)) == found


def test_recent_names_are_kept_in_order_without_an_end() -> None:
    preferences = with_recent(
        Preferences(recent=("mail.corp.example", "git.corp.example")), statuses.connected()
    )
    assert preferences.recent == ("wiki.corp.example", "git.corp.example", "mail.corp.example")
    assert with_recent(preferences, statuses.connected()) is preferences
    assert with_recent(preferences, not_running()) is preferences
    full = Preferences(recent=tuple(map(str, range(MOST_RECENT))))
    assert len(with_recent(full, statuses.connected()).recent) == MOST_RECENT
    many = Preferences(announced=tuple(map(str, range(MOST_ANNOUNCED))))
    kept = with_recent(many, statuses.connected()).announced
    assert kept[:3] == ("wiki.corp.example", "git.corp.example", "0")
    assert len(kept) == MOST_ANNOUNCED == 500
    assert at_hand(with_favourite(preferences, "b", True), ["a", "b", "git.corp.example"], 8) == [
        "b",
        "git.corp.example",
    ]


def test_preferences_outlive_the_tray(tmp_path: Path) -> None:
    path = tmp_path / "culvert" / "tray.json"
    assert read_preferences(path) == Preferences()
    for wanted in (
        Preferences(
            frozenset({"a, b"}),
            ("a", "b"),
            frozenset({NoticeKind.CODE, NoticeKind.OPENED}),
            closing_told=True,
            announced=("b", "c"),
        ),
        with_notices(with_notices(Preferences(), NoticeKind.CODE, False), NoticeKind.CODE, True),
    ):
        write_preferences(path, wanted)
        assert read_preferences(path) == wanted
    path.write_text('{"favourites": [], "recent": ["a", "b"], "muted": []}')
    assert read_preferences(path).announced == ("a", "b")
    path.write_text('{"favourites": [], "recent": [], "muted": ["code"]}')
    assert read_preferences(path).muted == {NoticeKind.CODE, NoticeKind.CODE_ENDS}
    for broken in ("", "[]", "7", '{"favourites": 7, "recent": [], "muted": []}'):
        path.write_text(broken)
        assert read_preferences(path) == Preferences()
    path.unlink()
    path.mkdir()
    write_preferences(path, Preferences())


def test_the_tray_starts_with_the_session_unless_it_is_turned_off(tmp_path: Path) -> None:
    entries = [tmp_path / f"{it}/autostart/culvert-tray.desktop" for it in ("home", "etc")]
    assert is_autostarted(entries) is None
    entries[1].parent.mkdir(parents=True)
    entries[1].write_text("[Desktop Entry]\nExec=culvert-tray\n")
    assert is_autostarted(entries) is True
    set_autostart(entries, wanted=False)
    assert is_autostarted(entries) is False
    set_autostart(entries, wanted=True)
    assert is_autostarted(entries) is True
    set_autostart(entries, wanted=True)
    # As GNOME Tweaks does.
    entries[0].write_text("[Desktop Entry]\nExec=culvert-tray\nX-GNOME-Autostart-enabled = false\n")
    assert is_autostarted(entries) is False


def test_each_verdict_has_the_persons_act_or_a_text_for_the_administrator() -> None:
    what, remedy, shell = "The clock is 4 min behind.", "Set the clock.", "Run: timedatectl set-ntp true"

    def cure(hop: str, shell: str = shell) -> Action | None:
        return Verdict("Clock", False, what, remedy, hop, "beta", shell).cure

    copied = CopyText(f"Clock: {what} {remedy} {shell}")
    assert cure("clock") == cure("datapath") == Action("Copy for your administrator", copied)
    assert cure("code") == cure("certificate") == Action("Enter a code", EnterCode("beta"))
    assert cure("public networks") == Action("Decide…", AnswerClaims("beta"))
    assert cure("gateway") == Action("Let Culvert choose", SelectGateway("", "beta"))
    # A code does not help against each fault of a certificate.
    assert {cure("certificate", ""), cure("gateway", ""), cure("clock", "")} == {None}


def test_a_failed_diagnosis_is_said_without_its_command() -> None:
    error = {
        "reason": "DAEMON_DOWN",
        "message": "It does not answer.",
        "remedy": "Start it.",
        "shell": "Run: x",
    }
    assert refusal_in(json.dumps({"error": error})) == "It does not answer. Start it."
    assert refusal_in("[]") == refusal_in("culvert: not found") == ""


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '[{"title": "x"}]'])
def test_malformed_verdicts_are_ignored(text: str) -> None:
    assert verdicts_in(text) == ()
    whole = '[{"title": "code", "good": false, "what": "No valid code.", "remedy": "Enter one."}]'
    assert verdicts_in(whole) == (Verdict("code", False, "No valid code.", "Enter one."),)
