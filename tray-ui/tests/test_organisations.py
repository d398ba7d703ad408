"""Menu, lists and notices with two organisations; with one they are as in the other tests."""

from __future__ import annotations

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.screens.units import clock
from culvert_tray.commands import EnterCode, OpenPage, Page, SelectGateway, ShowDetails, ShowWindow
from culvert_tray.details import details
from culvert_tray.menu import Action, Heading, Label, Menu, Submenu, Trouble, menu
from culvert_tray.notices import Memory, observe
from culvert_tray.preferences import Preferences
from culvert_tray.rows import resource_rows, search, tunnel_rows

from . import statuses
from .statuses import NOW

CORP, BETA = "vpn.corp.example", "vpn.beta.example"


def submenu(shown: Menu, start: str) -> Submenu:
    return next(entry for entry in shown if isinstance(entry, Submenu) and entry.text.startswith(start))


def test_the_heading_is_the_best_state_and_each_has_its_need() -> None:
    shown = menu(statuses.two_organisations(), NOW)
    assert [entry.text for entry in shown if isinstance(entry, Heading)] == ["Connected — 1 tunnel up"]
    assert [entry.text for entry in shown if isinstance(entry, Label)] == [
        f"Signed in as alice · code valid for 5 h 12 min · {CORP}",
        f"Signed in as bea · no valid code · {BETA}",
    ]
    assert Action(f"Enter code now… · {BETA}", EnterCode(BETA)) in shown


def test_a_tunnel_and_a_resource_say_whose_they_are() -> None:
    status = statuses.two_organisations()
    wiki = submenu(menu(status, NOW), "wiki")
    assert wiki.text == f"wiki.corp.example · {CORP} · gw-berlin"
    assert Action("Details…", ShowDetails("t-wiki", CORP)) in wiki.entries
    # Resources of the organisation that needs a code cannot be opened yet.
    assert [
        it.command for it in submenu(menu(status, NOW), "Resources").entries if isinstance(it, Action)
    ] == [
        OpenPage("git.corp.example"),
        OpenPage("mail.corp.example"),
        ShowWindow(Page.RESOURCES),
    ]
    status.organisations[1].state = local_pb2.STATE_READY
    status.organisations[1].code_valid_until = status.code_valid_until
    opened = Action(f"Open wiki.beta.example · {BETA}", OpenPage("wiki.beta.example"))
    assert opened in submenu(menu(status, NOW), "Resources").entries


def test_gateways_of_the_same_name_are_told_apart() -> None:
    choices = submenu(menu(statuses.two_organisations(), NOW), "Gateways").entries
    assert [entry.text for entry in choices if isinstance(entry, Submenu)] == [
        f"Gateway · automatic · {CORP}",
        f"Gateway · automatic · {BETA}",
    ]
    assert (
        Action("gw-berlin", SelectGateway("gw-berlin", BETA), checked=False)
        in submenu(choices[1:], "Gateway").entries
    )


def test_an_unreachable_organisation_has_its_own_label() -> None:
    status = statuses.two_organisations()
    status.organisations[1].state = local_pb2.STATE_OFFLINE
    error = CulvertError(Reason.CAPTIVE_PORTAL, controller="beta")
    status.organisations[1].last_error.CopyFrom(error.to_proto())
    shown = menu(status, NOW)
    assert Label(f"Offline — controller cannot be reached · {BETA}") in shown
    page = "https://vpn.beta.example:443/docs/reasons/CAPTIVE_PORTAL"
    assert Trouble(error.message, error.remedy, page) in shown


def test_lists_and_details_name_the_organisation() -> None:
    status = statuses.two_organisations()
    assert [row.note for row in search(resource_rows(status, Preferences()), "wiki")] == [
        f"10.30.0.10 · {BETA}",
        f"10.20.0.10 · {CORP}",
    ]
    assert len(search(resource_rows(status, Preferences()), "wiki beta")) == 1
    [row] = tunnel_rows(status, NOW)
    assert row.note.endswith(f" · {CORP}")
    assert dict(details(status, "t-wiki", NOW, CORP))["Organisation"] == CORP
    # Another controller may call one of its tunnels the same.
    assert details(status, "t-wiki", NOW, BETA) == ()
    alone = statuses.connected()
    assert not any(row.note.endswith(" · ") for row in tunnel_rows(alone, NOW))
    assert "Organisation" not in dict(details(alone, "t-wiki", NOW))


def test_a_code_is_asked_for_by_name_and_each_refusal_is_told_once() -> None:
    status = statuses.two_organisations()
    memory, first = observe(Memory(), status, NOW)
    assert [(it.title, it.command) for it in first] == [(f"A code is needed · {BETA}", EnterCode(BETA))]
    error = CulvertError(Reason.NO_POLICY, user="bea", name="git.beta.example", owner="bob")
    status.organisations[1].last_error.CopyFrom(error.to_proto())
    memory, second = observe(memory, status, NOW)
    assert [it.title for it in second] == [f"{error.message} · {BETA}"]
    status.organisations[0].code_valid_until = int(NOW + 60)
    memory, third = observe(memory, status, NOW)
    assert [it.title for it in third] == [f"Your code ends at {clock(NOW + 60, NOW)} · {CORP}"]
    assert observe(memory, status, NOW)[1] == ()
