"""Menu, icon, notices and details as data."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime

import pytest
from culvert_proto import CATALOGUE, CulvertError, Reason, local_pb2
from culvert_proto.screens.units import clock, size
from culvert_tray.commands import (
    AnswerClaims,
    CloseTunnel,
    CopyText,
    Enrol,
    EnterCode,
    OpenPage,
    Page,
    Pause,
    Quit,
    Resume,
    SelectGateway,
    SetFavourite,
    ShowDetails,
    ShowWindow,
    StartDaemon,
    WriteMail,
)
from culvert_tray.daemon import retry_wait
from culvert_tray.details import details
from culvert_tray.dialogs import CodeValidator
from culvert_tray.documentation import documentation
from culvert_tray.icon import IconKind, icon_kind
from culvert_tray.menu import (
    Action,
    Heading,
    Label,
    Menu,
    Submenu,
    Trouble,
    fold,
    menu,
    proof,
    resource_entries,
)
from culvert_tray.notices import FLAPPING, Memory, Notice, Refused, answer, down, holds, not_started, observe
from culvert_tray.pause import PauseLength
from culvert_tray.preferences import NoticeKind, Preferences
from culvert_tray.rows import resource_rows, search
from culvert_tray.style import DARK, LIGHT, Colours, Tone
from culvert_tray.view import View, list_public, not_running, starting
from hypothesis import given
from hypothesis import strategies as st
from PyQt6.QtCore import Qt
from PyQt6.QtGui import QColor, QImage, QPainter, QValidator
from PyQt6.QtSvg import QSvgRenderer

from . import statuses
from .statuses import NOW


def _heading(shown: Menu) -> str:
    return next(entry.text for entry in shown if isinstance(entry, Heading))


def _labels(shown: Menu) -> list[str]:
    """As a menu shows them, but whole."""
    labels = (
        (it.text, it.remedy) if isinstance(it, Trouble) else (it.text,)
        for it in shown
        if isinstance(it, Label | Trouble)
    )
    return [text for texts in labels for text in texts]


def _actions(shown: Menu) -> list[Action]:
    return [entry for entry in shown if isinstance(entry, Action)]


def _submenu(shown: Menu, start: str) -> Submenu:
    return next(entry for entry in shown if isinstance(entry, Submenu) and entry.text.startswith(start))


def test_connected() -> None:
    shown = menu(statuses.connected(), NOW)
    assert _heading(shown) == "Connected — 2 tunnels up"
    assert _labels(shown) == ["Signed in as alice · code valid for 5 h 12 min"]
    assert _submenu(shown, "wiki") == Submenu(
        "wiki.corp.example · gw-berlin",
        (
            Action("Open in the browser", OpenPage("wiki.corp.example")),
            Action("Copy address 10.20.0.10", CopyText("10.20.0.10")),
            Action("Details…", ShowDetails("t-wiki")),
            Action("Close", CloseTunnel("wiki.corp.example")),
        ),
    )
    assert _submenu(shown, "Resources").entries == (
        Action("Open mail.corp.example", OpenPage("mail.corp.example")),
        Action("All resources…", ShowWindow(Page.RESOURCES)),
    )
    assert [a.command for a in _actions(shown)] == [ShowWindow(), Quit()]


def test_gateways() -> None:
    status = statuses.connected()
    assert _submenu(menu(status, NOW), "Gateway · automatic").entries == (
        Action("Automatic", SelectGateway(""), checked=True),
        Action("gw-berlin · 12 ms", SelectGateway("gw-berlin"), checked=False),
        Action("gw-paris — offline", SelectGateway("gw-paris"), checked=False, enabled=False),
    )
    status.gateways[0].rtt_us = 0
    assert _actions(_submenu(menu(status, NOW), "Gateway").entries)[1].text == "gw-berlin"
    status.gateways[0].rtt_us = 340
    assert _actions(_submenu(menu(status, NOW), "Gateway").entries)[1].text == "gw-berlin · 0.3 ms"
    status.selected_gateway = "gw-paris"
    assert _submenu(menu(status, NOW), "Gateway · gw-paris").entries[2] == Action(
        "gw-paris — offline", SelectGateway("gw-paris"), checked=True, enabled=True
    )


def test_without_the_daemon_only_its_start_is_offered() -> None:
    shown = menu(not_running(), NOW)
    assert _heading(shown) == "Culvert is not running"
    assert _labels(shown) == ["No tunnel opens until it runs. What tunnels protect stays blocked."]
    assert [a.command for a in _actions(shown)] == [StartDaemon(), ShowWindow(), Quit()]
    assert [a.command for a in _actions(menu(starting(), NOW))] == [ShowWindow(), Quit()]


def test_not_enrolled() -> None:
    shown = menu(local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED), NOW)
    assert _heading(shown) == "This computer is not enrolled"
    assert _actions(shown)[0].command == Enrol()
    assert [entry.text for entry in shown if isinstance(entry, Submenu)] == ["Help"]


def test_only_enrolled_users_are_offered_to_add_an_organisation() -> None:
    another = local_pb2.Status(state=local_pb2.STATE_READY)
    not_enrolled = local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED)
    for view, offered in (
        (statuses.status(local_pb2.STATE_NEEDS_CODE), True),
        (statuses.two_organisations(), True),
        (another, False),
        (not_enrolled, False),
        (not_running(), False),
    ):
        commands = [it.command for it in _actions(_submenu(menu(view, NOW), "Help").entries)]
        assert (Enrol() in commands) is offered


@pytest.mark.parametrize(
    ("state", "code_seconds", "asked"),
    [
        (local_pb2.STATE_READY, 31 * 60, False),
        (local_pb2.STATE_READY, 30 * 60, True),
        (local_pb2.STATE_READY, 0, True),
        (local_pb2.STATE_NEEDS_CODE, 0, True),
        (local_pb2.STATE_OFFLINE, 0, False),
    ],
)
def test_a_code_is_asked_for_in_its_last_half_hour(
    state: local_pb2.State.ValueType, code_seconds: int, asked: bool
) -> None:
    shown = menu(statuses.status(state, code_seconds=code_seconds), NOW)
    assert (EnterCode() in [a.command for a in _actions(shown)]) is asked


def test_without_a_code_no_resource_is_offered() -> None:
    shown = menu(statuses.status(local_pb2.STATE_NEEDS_CODE, code_seconds=0), NOW)
    assert _heading(shown) == "A code is needed"
    assert not [e for e in shown if isinstance(e, Submenu) and e.text == "Resources"]


def test_offline_says_that_tunnels_stay() -> None:
    status = statuses.connected()
    status.state = local_pb2.STATE_OFFLINE
    assert _heading(menu(status, NOW)) == "Offline — controller cannot be reached, 2 tunnels up"


def test_a_denial_is_shown_with_its_remedy() -> None:
    shown = menu(statuses.denied(), NOW)
    assert _heading(shown) == "git.corp.example was denied"
    asks = Action("Ask bob@corp.example", WriteMail("bob@corp.example", "Access to git.corp.example"))
    assert shown[2] == Trouble(
        "No policy lets alice reach git.corp.example.", "Ask bob@corp.example, who owns it.", cure=asks
    )
    assert [it.text for it in fold(shown) if isinstance(it, Label)][1:] == [
        "⚠ No policy lets alice reach git.corp.example.",
        "Ask bob@corp.example, who owns it.",
    ]


def test_a_trouble_leads_to_its_reasons_page_at_a_controller_with_https() -> None:
    status = statuses.denied()
    for controller, page in (
        ("https://vpn.corp.example/", "https://vpn.corp.example/docs/reasons/NO_POLICY"),
        ("192.0.2.10:8444", ""),
        ("", ""),
    ):
        status.controller = controller
        assert [it.page for it in menu(status, NOW) if isinstance(it, Trouble)] == [page]


@pytest.mark.parametrize("reason", CATALOGUE)
def test_menu_window_and_notification_have_an_act_in_place_of_a_command(reason: Reason) -> None:
    error = CulvertError(reason, **dict.fromkeys(CATALOGUE[reason].fields(), "80"))
    blocked, denied = statuses.status(local_pb2.STATE_BLOCKED), statuses.status(local_pb2.STATE_READY)
    blocked.warnings.append(error.to_proto())
    denied.last_error.CopyFrom(error.to_proto())
    told = answer(error, denied)
    texts = [told.title, told.text]
    for status in (blocked, denied):
        shown = fold(menu(status, NOW))
        texts += [it.text for it in shown if isinstance(it, Label | Action)]
        acts = [it for it in shown if isinstance(it, Action)]
        assert (told.cure in acts) == (told.cure is not None)
    assert not re.search(
        r"sudo|systemctl|timedatectl|culvert (code|enroll|agree|leave|resume)", "\n".join(texts)
    )
    assert not error.shell or told.cure is not None
    if told.cure is not None and isinstance(told.cure.command, CopyText):
        assert told.cure.command.text == " ".join(filter(None, (error.message, error.remedy, error.shell)))


def test_an_act_against_a_denial_is_offered_once_and_to_one_organisation() -> None:
    error = CulvertError(Reason.CODE_TOO_OLD, name="git.corp.example", age="15 min")
    ending = statuses.status(local_pb2.STATE_READY, code_seconds=60)
    ending.last_error.CopyFrom(error.to_proto())
    asked = [
        it.text for it in fold(menu(ending, NOW)) if isinstance(it, Action) and it.command == EnterCode()
    ]
    assert asked == ["Enter code now…"]
    assert answer(error, ending).command == EnterCode()
    # The answer does not say whose code is too old.
    several = answer(error, statuses.two_organisations())
    assert (several.command, several.cure) == (None, None)


def test_a_failed_start_is_told_without_the_systems_commands() -> None:
    said = 'Job for culvertd.service failed.\nSee "systemctl status culvertd.service" for details.'
    told = not_started(said)
    assert told.text == "Job for culvertd.service failed. Your administrator can start it."
    assert told.cure is not None
    assert isinstance(told.cure.command, CopyText)
    assert told.cure.command.text.endswith(said)


def test_a_denial_is_the_heading_for_a_minute_and_its_reason_for_longer() -> None:
    status = statuses.connected()
    status.last_error.CopyFrom(statuses.denied().last_error)
    for since, kind, heading in (
        (0, IconKind.DENIED, "git.corp.example was denied"),
        (59, IconKind.DENIED, "git.corp.example was denied"),
        (60, IconKind.CONNECTED, "Connected — 2 tunnels up"),
    ):
        status.last_error_at = int(NOW) - since
        assert (icon_kind(status, NOW), _heading(menu(status, NOW))) == (kind, heading)
        assert "No policy lets alice reach git.corp.example." in _labels(menu(status, NOW))
    # A fault of the whole organisation is its state, not a denial.
    offline = statuses.wrong_clock()
    assert icon_kind(offline, NOW) is IconKind.OFFLINE


def test_a_state_is_proven_by_gateway_time_and_newest_packet() -> None:
    status = statuses.connected()
    assert proof(status, NOW) == f"Through gw-berlin since {clock(NOW - 4000, NOW)}"
    status.tunnels[1].heard_ms = int((NOW - 2) * 1000)
    status.tunnels[1].gateway = "gw-paris"
    since = clock(NOW - 4000, NOW)
    assert proof(status, NOW) == f"Through gw-berlin, gw-paris since {since} · last packet 2 s ago"
    assert proof(statuses.silent(), NOW) == ""
    assert proof(statuses.denied(), NOW) == ""
    assert proof(statuses.status(local_pb2.STATE_READY), NOW).startswith("A tunnel opens by itself")


def test_a_rows_menu_offers_what_its_resource_can_do() -> None:
    status = statuses.connected()
    wiki, _git, mail = status.resources
    assert [it.text for it in resource_entries(wiki, status, favourite=True) if isinstance(it, Action)] == [
        "Open in the browser",
        "Copy address 10.20.0.10",
        "Details…",
        "Close",
        "Remove from favourites",
    ]
    assert [it.text for it in resource_entries(mail, status, favourite=False) if isinstance(it, Action)] == [
        "Open in the browser",
        "Copy address 10.20.0.12",
        "Add to favourites",
    ]


def test_a_wildcard_is_no_page_to_open() -> None:
    status = statuses.wildcard()
    tunnel = _submenu(menu(status, NOW), "*.dev.corp.example")
    assert [it.text for it in tunnel.entries if isinstance(it, Action)] == [
        "Copy address 10.20.0.10",
        "Details…",
        "Close",
    ]
    del status.tunnels[:]
    used = Preferences(favourites=frozenset({"*.dev.corp.example"}), recent=("*.dev.corp.example",))
    for preferences in (Preferences(), used):
        assert [
            it.text for it in _actions(_submenu(menu(status, NOW, preferences), "Resources").entries)
        ] == [
            "Open git.corp.example",
            "Open mail.corp.example",
            "Open wiki.corp.example",
            "All resources…",
        ]
    [row] = search(resource_rows(status, Preferences()), "every dev")
    assert (row.title, row.note, row.button) == (
        "*.dev.corp.example",
        "dev · every name below dev.corp.example",
        "",
    )
    assert resource_entries(status.resources[-1], status, favourite=False) == (
        Action("Add to favourites", SetFavourite("*.dev.corp.example", wanted=True)),
    )


def test_a_tunnel_without_a_port_of_the_web_offers_no_page() -> None:
    status = statuses.connected()
    status.tunnels[0].page = ""
    assert "Open in the browser" not in [
        it.text for it in _submenu(menu(status, NOW), "wiki").entries if isinstance(it, Action)
    ]
    assert {it.key: it.button for it in resource_rows(status, Preferences())} == {
        "git.corp.example": "Open",
        "mail.corp.example": "Open",
        "wiki.corp.example": "",
    }


def test_a_long_list_is_cut() -> None:
    status = statuses.status(local_pb2.STATE_READY)
    status.resources.extend(local_pb2.Resource(fqdn=f"r{i:02}.corp.example") for i in range(10))
    entries = _submenu(menu(status, NOW), "Resources").entries
    assert entries[8:] == (Action("All resources…", ShowWindow(Page.RESOURCES)),)
    used = Preferences(
        favourites=frozenset({"r03.corp.example", "gone"}), recent=("r09.corp.example", "git.corp.example")
    )
    assert [
        e.text
        for e in _submenu(menu(status, NOW, used), "Recent and favourites").entries
        if isinstance(e, Action)
    ] == [
        "Open r03.corp.example",
        "Open r09.corp.example",
        "Open git.corp.example",
        "All resources…",
    ]


def test_more_tunnels_than_a_menu_has_room_for_are_in_the_window() -> None:
    status = statuses.status(local_pb2.STATE_CONNECTED)
    status.tunnels.extend(statuses.tunnel(f"r{i:02}", local_pb2.TUNNEL_STATE_UP) for i in range(40))
    shown = [it for it in menu(status, NOW) if isinstance(it, Submenu) and it.text.startswith("r")]
    assert len(shown) == 8
    assert Action("All tunnels…", ShowWindow(Page.TUNNELS)) in menu(status, NOW)


def test_of_many_gateways_the_menu_has_those_at_hand() -> None:
    status = statuses.many_gateways()
    status.selected_gateway = "gw-20"
    submenu = _submenu(menu(status, NOW), "Gateway · gw-20")
    nearest = [f"gw-{number}" for number in range(54, 60)]
    names = [
        it.command.gateway for it in _actions(submenu.entries[:-1]) if isinstance(it.command, SelectGateway)
    ]
    assert names == ["", "gw-07", "gw-20", *nearest]
    assert submenu.entries[-1] == Action("All gateways…", ShowWindow(Page.GATEWAYS))


def test_the_heading_says_when_a_code_ends_that_is_asked_for() -> None:
    status = statuses.status(local_pb2.STATE_READY, code_seconds=1200)
    heading = menu(status, NOW)[0]
    assert isinstance(heading, Heading)
    assert heading.text.startswith("Your code ends at ")
    assert heading.icon is IconKind.NEEDS_YOU
    status.code_postponed = True
    assert menu(status, NOW)[0] == Heading("Ready — no tunnel up", IconKind.READY)


def test_a_tunnel_that_is_not_up_is_not_called_connected() -> None:
    status = statuses.status(local_pb2.STATE_CONNECTED)
    status.tunnels.append(statuses.opening("wiki"))
    assert icon_kind(status, NOW) is IconKind.READY
    assert _heading(menu(status, NOW)) == "Ready — no tunnel up"
    assert _submenu(menu(status, NOW), "wiki") == Submenu(
        "wiki.corp.example · opening…", (Action("Close", CloseTunnel("wiki.corp.example")),)
    )


@pytest.mark.parametrize(
    ("state", "text", "icon"),
    [
        (local_pb2.STATE_CONNECTED, "Connected", IconKind.CONNECTED),
        (local_pb2.STATE_READY, "Ready — no tunnel up", IconKind.READY),
        (local_pb2.STATE_NEEDS_CODE, "A code is needed", IconKind.NEEDS_YOU),
    ],
)
def test_another_users_view_has_the_state_and_no_requests(
    state: local_pb2.State.ValueType, text: str, icon: IconKind
) -> None:
    status = local_pb2.Status(state=state, controller="192.0.2.10:8444")
    shown = menu(status, NOW)
    assert shown[0] == Heading(text, icon)
    assert _labels(shown) == ["Another user has enrolled this computer"]
    assert [a.command for a in _actions(shown)] == [ShowWindow(), Quit()]
    assert _observe(status) == [()]


@given(
    st.sampled_from(list(local_pb2.State.values())),
    st.integers(0, 4_000_000_000),
    st.lists(st.sampled_from(list(local_pb2.TunnelState.values())), max_size=3),
)
def test_every_status_has_a_menu_with_a_heading_and_a_way_out(
    state: local_pb2.State.ValueType, until: int, tunnels: list[local_pb2.TunnelState.ValueType]
) -> None:
    status = statuses.status(state)
    status.code_valid_until = until
    status.tunnels.extend(statuses.tunnel(f"t{i}", t) for i, t in enumerate(tunnels))
    shown = menu(status, NOW)
    assert isinstance(shown[0], Heading)
    assert shown[0].text
    assert shown[0].icon is icon_kind(status, NOW)
    assert shown[-1] == Action("Quit the tray (tunnels stay up)", Quit())


def test_no_line_of_the_menu_is_wider_than_a_screen() -> None:
    told = menu(statuses.unheard(), NOW)
    lines = _labels(fold(told))
    status = statuses.connected()
    status.tunnels[0].fqdn = ".".join(["l" * 60] * 4)
    [long] = [it for it in fold(menu(status, NOW)) if isinstance(it, Submenu) and it.text.startswith("lll")]
    assert len(long.text) == 80
    assert long.text.endswith("lll · gw-berlin")
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).replace("⚠ ", "") == " ".join(_labels(told))
    assert [it for it in fold(told) if not isinstance(it, Label)] == [
        entry
        for it in told
        for entry in ((it.cure,) if isinstance(it, Trouble) else (it,))
        if not isinstance(it, Label)
    ]


@pytest.mark.parametrize(
    ("pasted", "kept"),
    [
        (" 492039\n", "492039"),
        ("492 039 ", "492 039"),
        ("492-039", "492-039"),
        ("\tabcd-efgh-ijkl-mn22\n", "abcd-efgh-ijkl-mn22"),
    ],
)
def test_a_code_is_pasted_with_white_space_around_it(pasted: str, kept: str) -> None:
    found, text, _ = CodeValidator().validate(pasted, len(pasted))
    assert (found, text) == (QValidator.State.Acceptable, kept)
    assert CodeValidator().validate("492 x", 5)[0] is QValidator.State.Invalid


def test_a_pause_is_offered_and_while_it_lasts_only_its_end() -> None:
    offered = _submenu(menu(statuses.connected(), NOW), "Pause Culvert").entries
    assert offered == (
        Action("15 min", Pause(PauseLength.QUARTER)),
        Action("1 h", Pause(PauseLength.HOUR)),
        Action("Until tomorrow", Pause(PauseLength.TOMORROW)),
    )
    status = statuses.paused()
    status.code_valid_until = 0
    shown = menu(status, NOW)
    assert _heading(shown) == f"Paused until {clock(NOW + 900, NOW)}"
    assert [a.command for a in _actions(shown)] == [Resume(), ShowWindow(), Quit()]
    assert icon_kind(status, NOW) is IconKind.PAUSED
    assert _observe(status) == [()]


@pytest.mark.parametrize(
    ("length", "end"),
    [
        (PauseLength.QUARTER, "2026-12-31T23:55"),
        (PauseLength.HOUR, "2027-01-01T00:40"),
        (PauseLength.TOMORROW, "2027-01-01T06:00"),
    ],
)
def test_when_a_pause_ends(length: PauseLength, end: str) -> None:
    now = datetime(2026, 12, 31, 23, 40, tzinfo=UTC)
    assert length.end(now) == datetime.fromisoformat(end).replace(tzinfo=UTC)


def _observe(*views: View) -> list[tuple[Notice, ...]]:
    memory, told = Memory(), list[tuple[Notice, ...]]()
    for seen in views:
        memory, notices = observe(memory, seen, NOW)
        told.append(notices)
    return told


def test_a_tunnel_is_announced_once_and_not_when_it_was_up_before() -> None:
    ready, both = statuses.status(local_pb2.STATE_READY), statuses.connected()
    told = _observe(ready, both, ready, both)
    assert [[n.title for n in notices] for notices in told] == [
        [],
        ["git.corp.example is open", "wiki.corp.example is open"],
        [],
        [],
    ]
    assert _observe(both, not_running(), both) == [(), (), ()]


def test_a_gateway_that_does_not_answer_is_told_and_never_called_connected() -> None:
    silent = statuses.silent()
    assert icon_kind(silent, NOW) is IconKind.SILENT
    shown = menu(silent, NOW)
    assert _heading(shown) == "gw-berlin does not answer"
    assert _submenu(shown, "wiki").text == "wiki.corp.example · gw-berlin · does not answer"
    assert ("Last packet", "70 s ago") in details(silent, "t-wiki", NOW)
    through = {row.key: row.state for row in resource_rows(silent, Preferences())}
    assert through["wiki.corp.example"] == "gw-berlin does not answer"
    assert through["mail.corp.example"] == ""
    silent.tunnels[1].gateway = "gw-paris"
    assert _heading(menu(silent, NOW)) == "The gateways do not answer"
    [[], told, [], []] = _observe(
        statuses.connected(), statuses.silent(), statuses.silent(), statuses.connected()
    )
    assert [notice.title for notice in told] == [
        "The gateway gw-berlin does not answer: nothing comes back through the tunnel for wiki.corp.example."
    ]


def test_a_narrow_path_is_not_called_a_silent_gateway() -> None:
    narrow = statuses.narrow()
    assert icon_kind(narrow, NOW) is IconKind.SILENT
    shown = menu(narrow, NOW)
    assert _heading(shown) == "Only small packets reach gw-berlin"
    assert _submenu(shown, "wiki").text == "wiki.corp.example · gw-berlin · small packets only"
    assert ("State", "only small packets pass") in details(narrow, "t-wiki", NOW)
    through = {row.key: row.state for row in resource_rows(narrow, Preferences())}
    assert through["wiki.corp.example"] == "Only small packets reach gw-berlin"
    narrow.tunnels.append(statuses.tunnel("git", local_pb2.TUNNEL_STATE_NARROW))
    narrow.tunnels[1].gateway = "gw-paris"
    assert _heading(menu(narrow, NOW)) == "Only small packets reach the gateways"
    [[], told, [], []] = _observe(statuses.connected(), narrow, narrow, statuses.connected())
    assert [notice.title for notice in told] == [
        "Only small packets pass between here and the gateway gw-berlin, so large answers of wiki.corp.example get lost."
    ]


def test_a_move_to_another_gateway_is_notified() -> None:
    before, between, after = statuses.connected(), statuses.connected(), statuses.connected()
    between.tunnels[0].state = local_pb2.TUNNEL_STATE_OPENING
    after.tunnels[0].gateway = "gw-paris"
    told = _observe(before, between, after, after)
    assert [[n.title for n in notices] for notices in told] == [
        [],
        [],
        ["wiki.corp.example goes through gw-paris now"],
        [],
    ]


def test_a_needed_code_is_told_once_with_a_way_to_type_it() -> None:
    needed = statuses.status(local_pb2.STATE_NEEDS_CODE, code_seconds=0)
    first, second = _observe(needed, needed)
    assert [(n.title, n.command) for n in first] == [("A code is needed", EnterCode())]
    assert second == ()
    soon = statuses.status(local_pb2.STATE_READY, code_seconds=600)
    assert [n.title for n in _observe(soon)[0]] == [f"Your code ends at {clock(NOW + 600, NOW)}"]


def test_an_expired_certificate_asks_for_a_code_and_says_why() -> None:
    needed, expired = statuses.status(local_pb2.STATE_NEEDS_CODE, code_seconds=0), statuses.expired()
    told = _observe(needed, expired, expired)
    assert [[(n.title, n.command) for n in notices] for notices in told] == [
        [("A code is needed", EnterCode())],
        [("This computer's certificate has expired.", EnterCode())],
        [],
    ]
    shown = menu(expired, NOW)
    assert _heading(shown) == "A code is needed"
    assert EnterCode() in [it.command for it in _actions(shown)]
    assert any("certificate has expired" in text for text in _labels(shown))


def test_public_networks_that_wait_are_told_once_with_a_way_to_decide() -> None:
    asking, more = statuses.asking(), statuses.asking()
    more.awaiting_prefixes.append("9.9.9.0/24")
    assert AnswerClaims() in [it.command for it in _actions(menu(asking, NOW))]
    assert icon_kind(asking, NOW) is IconKind.NEEDS_YOU
    first, second, third = _observe(asking, asking, more)
    assert [(n.title, n.command) for n in first] == [("Public networks wait for your answer", AnswerClaims())]
    assert first[0].text == "8.8.8.0/24, 2606:4700::/32, 17.0.0.0/8"
    assert (second, len(third)) == ((), 1)
    assert list_public(more, "") == ("8.8.8.0/24", "2606:4700::/32", "17.0.0.0/8", "9.9.9.0/24")
    assert list_public(statuses.status(local_pb2.STATE_READY), "") == ()
    assert list_public(more, "", answered=True) == ("9.9.9.0/24",)
    assert list_public(more, "", answered=False) == ("1.1.1.0/24", "1.0.0.0/24")
    assert list_public(more, "vpn.other.example", answered=True) == list_public(not_running(), "") == ()


def test_a_denial_is_notified_again_only_after_it_ended() -> None:
    ready, denied = statuses.status(local_pb2.STATE_READY), statuses.denied()
    told = _observe(ready, denied, denied, ready, denied)
    assert [len(notices) for notices in told] == [0, 1, 0, 0, 1]
    assert told[1][0] == Notice(
        "No policy lets alice reach git.corp.example.",
        "Ask bob@corp.example, who owns it.",
        warning=True,
        kind=NoticeKind.DENIED,
        cause=Refused(("NO_POLICY", "name git.corp.example", "owner bob@corp.example", "user alice")),
        cure=Action("Ask bob@corp.example", WriteMail("bob@corp.example", "Access to git.corp.example")),
    )


def test_a_refusal_is_told_again_after_a_time_without_it() -> None:
    def tell(tries: dict[float, str]) -> list[float]:
        """`tries`: denied names by seconds. The times of notices."""
        memory, _ = observe(Memory(), statuses.status(local_pb2.STATE_READY), NOW)
        told: list[float] = []
        for at, name in tries.items():
            view = statuses.denied()
            view.last_error.fields["name"], view.last_error_at = f"{name}.corp.example", int(NOW + at)
            for seen in (NOW + at, NOW + at + 1):
                memory, notices = observe(memory, view, seen)
                told += [at] * len(notices)
        return told

    # A person, who tries again later; a program that tries each five minutes; a browser's error page; two of them.
    assert tell({0: "git", 30: "git", 200: "git"}) == [0, 200]
    assert tell(dict.fromkeys(range(0, 3600, 300), "git")) == [0, 300]
    assert tell(dict.fromkeys((0, 1, 6, 36, 96), "git")) == [0]
    assert tell({at: ("git", "mail")[at // 20 % 2] for at in range(0, 400, 20)}) == [0, 20]
    # A browser that opens its twenty tabs again, and a name a minute later.
    assert tell({at: f"n{at}" for at in (*range(0, 200, 2), 270)}) == [0, 2, 4, 6, 270]


ENDED: dict[str, tuple[list[View], View]] = {
    "a tunnel is open": (
        [statuses.status(local_pb2.STATE_READY), statuses.connected()],
        statuses.status(local_pb2.STATE_READY),
    ),
    "a tunnel goes another way": (
        [statuses.connected(), statuses.through("gw-paris")],
        statuses.connected(),
    ),
    "a code is needed": (
        [statuses.status(local_pb2.STATE_NEEDS_CODE, code_seconds=0)],
        statuses.connected(),
    ),
    "a code ends soon, and then has ended": (
        [statuses.status(local_pb2.STATE_READY, code_seconds=600)],
        statuses.status(local_pb2.STATE_NEEDS_CODE, code_seconds=0),
    ),
    "networks wait": ([statuses.asking()], statuses.status(local_pb2.STATE_READY)),
    "a refusal": (
        [statuses.status(local_pb2.STATE_READY), statuses.denied()],
        statuses.status(local_pb2.STATE_READY),
    ),
    "another refusal": ([statuses.connected(), statuses.silent()], statuses.denied()),
}


@pytest.mark.parametrize("what", ENDED)
def test_a_notice_ends_with_its_cause_and_not_before(what: str) -> None:
    before, after = ENDED[what]
    told = _observe(*before)[-1]
    assert told
    for notice in told:
        assert notice.cause is not None
        assert holds(notice.cause, before[-1], NOW)
        # The preference holds again when the daemon is back: without the daemon nothing is known.
        assert not holds(notice.cause, not_running(), NOW)
        assert not holds(notice.cause, after, NOW)


def test_the_absence_of_the_daemon_ends_when_it_is_back() -> None:
    told = down(not_running())
    assert told.cause is not None
    assert holds(told.cause, not_running(), NOW)
    assert not holds(told.cause, statuses.connected(), NOW)


def test_a_refusal_whose_numbers_change_is_told_once() -> None:
    views: list[View] = [statuses.status(local_pb2.STATE_READY)]
    for apart in ("90 min", "75 min", "1 h 0 min"):
        offline = statuses.status(local_pb2.STATE_OFFLINE)
        offline.last_error.CopyFrom(CulvertError(Reason.CLOCK_WRONG, apart=apart).to_proto())
        views.append(offline)
    assert [len(notices) for notices in _observe(*views)] == [0, 1, 0, 0]


def test_a_gateway_that_comes_and_goes_is_told_once_in_a_while() -> None:
    memory, told = Memory(), list[int]()
    for at, view in [
        (0, statuses.connected()),
        (1, statuses.silent()),
        (2, statuses.connected()),
        (3, statuses.silent()),
        (4, statuses.connected()),
        (2 + FLAPPING, statuses.silent()),
    ]:
        memory, notices = observe(memory, view, NOW + at)
        told.append(len(notices))
    assert told == [0, 1, 0, 0, 0, 1]


def test_a_warning_about_this_computer_is_told_once_and_shown_while_true() -> None:
    ready = statuses.status(local_pb2.STATE_READY)
    warned = statuses.status(local_pb2.STATE_READY)
    error = CulvertError(
        Reason.LOCAL_NETWORK_OPEN, network="10.20.9.0/24", device="br0", prefix="10.20.0.0/16"
    )
    warned.warnings.append(error.to_proto())
    first, second, cured, again = _observe(warned, warned, ready, warned)
    assert [(it.title, it.text, it.warning) for it in first] == [(error.message, error.remedy, True)]
    assert (second, cured, again) == ((), (), first)
    assert Trouble(error.message, error.remedy) in menu(warned, NOW)
    assert not any(isinstance(it, Trouble) for it in menu(ready, NOW))
    cause = first[0].cause
    assert cause is not None
    assert (holds(cause, warned, NOW), holds(cause, ready, NOW)) == (True, False)


def test_details_of_a_tunnel_and_of_one_that_is_gone() -> None:
    rows = dict(details(statuses.connected(), "t-wiki", NOW))
    assert rows["Received"] == "1.2 MB in 812 packets"
    assert rows["Dropped"] == "2 replayed"
    assert details(statuses.connected(), "t-gone", NOW) == ()
    assert [size(n) for n in (0, 999, 1000, 5_000_000_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "5000.0 GB",
    ]


def test_retries_grow_to_a_bound() -> None:
    waits = [retry_wait(n) for n in range(100)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.25, 5.0)


# Icons -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures() -> dict[IconKind, QImage]:
    """Each icon as a panel shows it: 22 pixels."""
    pictures: dict[IconKind, QImage] = {}
    for kind in IconKind:
        image = QImage(22, 22, QImage.Format.Format_ARGB32)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        renderer = QSvgRenderer(str(kind.path))
        assert renderer.isValid()
        renderer.render(painter)
        painter.end()
        pictures[kind] = image
    return pictures


def _pixels(image: QImage) -> list[QColor]:
    return [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]


def _luminance(colour: QColor) -> float:
    """WCAG 2.2, relative luminance."""
    channels = (colour.redF(), colour.greenF(), colour.blueF())
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: QColor, b: QColor) -> float:
    dark, light = sorted((_luminance(a), _luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def _main_colour(image: QImage) -> QColor:
    solid = [c.rgb() for c in _pixels(image) if c.alpha() == 255 and c.rgb() != QColor("white").rgb()]
    return QColor.fromRgb(max(set(solid), key=solid.count))


def test_shapes_differ_also_without_colour(pictures: dict[IconKind, QImage]) -> None:
    """A pixel is ink, glyph or nothing: two icons differ in at least a sixth of the pixels."""

    def shape(image: QImage) -> list[int]:
        return [0 if c.alpha() < 128 else 2 if c.lightness() > 200 else 1 for c in _pixels(image)]

    for a, b in itertools.combinations(IconKind, 2):
        differing = sum(p != q for p, q in zip(shape(pictures[a]), shape(pictures[b]), strict=True))
        assert differing > 22 * 22 / 6, f"{a.value} and {b.value} look alike"


def test_colours_differ_and_stand_out_on_light_and_dark_panels(pictures: dict[IconKind, QImage]) -> None:
    colours = {kind: _main_colour(image) for kind, image in pictures.items()}
    assert len({colour.name() for colour in colours.values()}) == len(IconKind)
    for kind, colour in colours.items():
        for panel in ("#f2f2f2", "#202326"):
            assert _contrast(colour, QColor(panel)) >= 3, f"{kind.value} on {panel}"


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_each_text_of_the_window_can_be_read(colours: Colours) -> None:
    """WCAG 2.2, 1.4.3. A disabled control's text has the colour of a note."""
    texts = (colours.text, colours.note, colours.link, colours.bad)
    grounds = (colours.ground, colours.surface)
    pairs = [(QColor(text), QColor(ground)) for text in texts for ground in grounds]
    pairs += [(QColor(text), QColor(colours.hover)) for text in (colours.text, colours.note)]
    pairs += [(QColor("white"), QColor(colours.accent)), *map(colours.mark, Tone)]
    for text, ground in pairs:
        assert _contrast(text, ground) >= 4.5, f"{text.name()} on {ground.name()}"


def test_each_state_has_its_own_icon() -> None:
    off, offline = not_running(), statuses.status(local_pb2.STATE_OFFLINE)
    views: list[View] = [
        off,
        statuses.status(local_pb2.STATE_READY),
        statuses.status(local_pb2.STATE_CONNECTING),
        statuses.connected(),
        statuses.status(local_pb2.STATE_NEEDS_CODE, code_seconds=0),
        offline,
        statuses.silent(),
        statuses.blocked(),
        statuses.paused(),
        statuses.denied(),
    ]
    assert [icon_kind(seen, NOW) for seen in views] == list(IconKind)


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_documentation_tells_the_meaning_of_each_icon(language: str) -> None:
    first_table = documentation(language).split("\n\n")[3].splitlines()
    assert len(first_table[2:]) == len(IconKind)


def test_a_call_postpones_the_request_for_a_code_until_the_last_minutes() -> None:
    def told(left: int, *, postponed: bool) -> tuple[IconKind, list[str]]:
        view = statuses.connected()
        view.code_valid_until, view.code_postponed = int(NOW + left), postponed
        known = Memory(started=True, announced=frozenset(it.fqdn for it in view.tunnels))
        return icon_kind(view, NOW), [it.title for it in observe(known, view, NOW)[1]]

    assert told(1200, postponed=False) == (
        IconKind.NEEDS_YOU,
        [f"Your code ends at {clock(NOW + 1200, NOW)}"],
    )
    assert told(1200, postponed=True) == (IconKind.CONNECTED, [])
    assert told(300, postponed=True) == (IconKind.NEEDS_YOU, [f"Your code ends at {clock(NOW + 300, NOW)}"])


def test_the_last_minutes_are_told_once_more_as_a_warning() -> None:
    view = statuses.connected()
    view.code_valid_until = int(NOW + 1200)
    memory, [first] = observe(Memory(announced=frozenset(it.fqdn for it in view.tunnels)), view, NOW)
    assert not first.warning
    memory, [last] = observe(memory, view, NOW + 900)
    assert first.kind is last.kind is NoticeKind.CODE_ENDS
    assert [it.kind for it in observe(memory, view, NOW + 1200)[1]] == [NoticeKind.CODE]
    assert (last.warning, last.text.partition(". ")[0]) == (True, "Open tunnels close then")
    assert first.cause is not None
    assert not holds(first.cause, view, NOW + 900)
    assert observe(memory, view, NOW + 1000)[1] == ()


def test_a_postponed_request_can_still_be_answered_from_the_menu() -> None:
    view = statuses.connected()
    view.code_valid_until, view.code_postponed = int(NOW + 1200), True
    assert any(isinstance(it, Action) and it.command == EnterCode() for it in menu(view, NOW))


def test_a_tunnel_that_a_policy_closes_earlier_is_told_in_time() -> None:
    view = statuses.connected()
    view.tunnels[0].code_until, view.tunnels[0].code_seconds = int(NOW + 500), 600
    known = Memory(started=True, announced=frozenset(it.fqdn for it in view.tunnels))
    assert observe(known, view, NOW)[1] == ()
    assert icon_kind(view, NOW) is IconKind.CONNECTED
    memory, [told] = observe(known, view, NOW + 360)
    assert told.title == f"wiki.corp.example closes at {clock(NOW + 500, NOW)} without a new code"
    assert icon_kind(view, NOW + 360) is IconKind.NEEDS_YOU
    view.tunnels[0].code_until = int(NOW + 1100)
    assert told.cause is not None
    assert not holds(told.cause, view, NOW + 400)
    assert observe(memory, view, NOW + 400)[1] == ()


def test_a_start_without_the_controller_asks_for_no_code() -> None:
    """The daemon keeps no code over a restart: the controller says whether the last one is still valid."""
    view = statuses.status(local_pb2.STATE_OFFLINE, code_seconds=0)
    assert observe(Memory(), view, NOW)[1] == ()
    assert "Signed in as alice · code not known while offline" in _labels(menu(view, NOW))
    assert icon_kind(view, NOW) is IconKind.OFFLINE


def test_a_code_that_ends_in_a_pause_is_not_called_valid() -> None:
    view = statuses.paused()
    view.code_valid_until = int(NOW - 60)
    assert "Signed in as alice · no valid code" in _labels(menu(view, NOW))
