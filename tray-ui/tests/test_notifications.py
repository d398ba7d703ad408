"""Notices by the desktop's own server, with and without a field to type the code into."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from culvert_proto import local_pb2

from . import statuses
from .canned_daemon import RECOVERY_CODES, RIGHT_CODE, CannedDaemon
from .conftest import Start
from .desktop import Desktop, wait_until
from .test_link import LINK
from .test_window import wait_for_text

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class NotificationServer:
    """A call lists what it has been asked to show."""

    process: subprocess.Popen[bytes]
    told: Path

    def __call__(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.told.read_text().splitlines()[1:]]


Serve = Callable[..., NotificationServer]


@pytest.fixture
def serve(desktop: Desktop, tmp_path: Path) -> Iterator[Serve]:
    """serve(capabilities, *codes, on=desktop): starts the server."""
    servers: list[NotificationServer] = []

    def start(capabilities: str, *codes: str, on: Desktop = desktop) -> NotificationServer:
        told = tmp_path / "told"
        program = str(Path(__file__).with_name("notification_server.py"))
        with told.open("wb") as file:
            command = [sys.executable, program, capabilities, *codes]
            servers.append(NotificationServer(subprocess.Popen(command, env=on.env, stdout=file), told))
        wait_until(lambda: "ready" in told.read_text(), "no notification server")
        return servers[-1]

    yield start
    for server in servers:
        server.process.terminate()
        server.process.wait(10)


def _needs_code(canned: CannedDaemon) -> None:
    canned.show(statuses.status(local_pb2.STATE_NEEDS_CODE, now=time.time(), code_seconds=0))


def test_the_code_is_typed_into_the_notice(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    shown = serve("actions,body,inline-reply", "111111", RIGHT_CODE)
    _needs_code(canned)
    start_tray(desktop)
    wait_until(lambda: len(canned.asked) == 2, "the code did not arrive")
    assert [asked.code for asked in canned.asked] == ["111111", RIGHT_CODE]
    first, again = shown()
    assert (first["title"], first["expires"]) == ("A code is needed", 0)
    assert first["actions"] == ["default", "Open", "inline-reply", "Enter code"]
    assert first["hints"]["desktop-entry"] == "org.culvert.Tray"
    # The wrong one was refused, with the field once more.
    assert again["title"] == "The code is wrong."
    assert "inline-reply" in again["actions"]
    assert not any("Enter a code" in title for title in desktop.windows())


def test_no_notice_covers_the_dialog_that_asks_for_the_same_code(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    shown = serve("actions,body,inline-reply")
    canned.show(local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED))
    start_tray(desktop, LINK)
    wait_until(lambda: any("Enrol this computer" in it for it in desktop.windows()), "no dialog")
    time.sleep(1.5)
    _needs_code(canned)
    time.sleep(1)
    assert shown() == []
    # Without a code the request remains.
    desktop.key("Escape")
    wait_until(lambda: [it.get("title") for it in shown()] == ["A code is needed"], "not asked")


def test_each_click_on_a_refused_name_is_answered_in_one_notice(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    shown = serve("actions,body")
    canned.show(statuses.status(local_pb2.STATE_READY, now=time.time()))
    start_tray(desktop, "--window")
    wait_until(lambda: desktop.has_keyboard("Culvert"), "no window")
    # There is nothing to search before.
    wait_for_text(desktop, "git.corp.example")
    desktop.key("slash")
    desktop.type("git")
    for clicks in (1, 2):
        desktop.key("Return")
        wait_until(lambda clicks=clicks: len(shown()) == clicks, "no answer")
        canned.show(statuses.denied(now=time.time()))
        time.sleep(0.5)
    first, again = shown()
    assert (first["title"], first["number"]) == ("No policy lets alice reach git.corp.example.", 1)
    assert again == first


def test_a_code_typed_into_the_notice_goes_to_the_organisation_asking(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    shown = serve("actions,body,inline-reply", "111111", RIGHT_CODE)
    canned.show(statuses.two_organisations(now=time.time()))
    start_tray(desktop)
    wait_until(lambda: len(canned.asked) == 2, "the code did not arrive")
    beta = "vpn.beta.example"
    assert [(it.code, it.organisation) for it in canned.asked] == [("111111", beta), (RIGHT_CODE, beta)]
    assert [it["title"] for it in shown()] == [f"A code is needed · {beta}", f"The code is wrong. · {beta}"]


def test_a_recovery_code_tells_how_many_are_left(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    shown = serve("actions,body,inline-reply", RECOVERY_CODES[0])
    _needs_code(canned)
    start_tray(desktop)
    wait_until(lambda: [it["title"] for it in shown()][1:] == ["1 recovery code is left"], "not told")


def test_without_a_field_a_button_opens_the_dialog(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    shown = serve("actions,body,body-markup")
    _needs_code(canned)
    start_tray(desktop, LANG="de_DE.UTF-8", LC_ALL="")
    wait_until(lambda: any("Code eingeben" in it for it in desktop.windows()), "the click opens nothing")
    [told] = shown()
    assert told["title"] == "Ein Code wird benötigt"
    assert told["actions"] == ["default", "Öffnen", "code", "Code eingeben…"]


def test_a_server_that_knows_markup_is_not_fooled(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    shown = serve("actions,body,body-markup")
    canned.show(statuses.status(local_pb2.STATE_READY, now=time.time()))
    start_tray(desktop)
    desktop.wait_for_tray_icon()
    time.sleep(1)
    status = statuses.denied(now=time.time())
    status.last_error.ClearField("fields")
    status.last_error.remedy = "<b>Call & pay</b>"
    canned.show(status)
    wait_until(lambda: [it["text"] for it in shown()] == ["&lt;b>Call &amp; pay&lt;/b>"], "not escaped")


def test_a_notice_leaves_the_screen_when_its_cause_ends(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    shown = serve("actions,body,inline-reply")
    _needs_code(canned)
    start_tray(desktop)
    wait_until(lambda: [it.get("title") for it in shown()] == ["A code is needed"], "not asked")
    # As by the command line: the person never looked at the notice.
    canned.show(statuses.status(local_pb2.STATE_READY, now=time.time()))
    wait_until(lambda: shown()[1:] == [{"closed": 1}], "the notice stays")


def test_without_a_tray_a_closed_window_leaves_the_notifications(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start, serve: Serve
) -> None:
    """The server clicks on each notice, which shows the window."""

    def close(bare: Desktop) -> None:
        wait_until(lambda: bare.has_keyboard("Culvert"), "no window")
        bare.key("alt+F4")

    canned.show(statuses.connected(now=time.time()))
    with Desktop(tmp_path / "bare", width=900, height=700, panel=None) as bare:
        shown = serve("actions,body", on=bare)
        # It answers only after the window has been closed.
        shown.process.send_signal(signal.SIGSTOP)
        tray = start_tray(bare, "--window")
        started = time.monotonic()
        close(bare)
        wait_until(lambda: "Culvert" not in bare.windows(), "the window stays")
        shown.process.send_signal(signal.SIGCONT)
        wait_until(lambda: [it["title"] for it in shown()] == ["Culvert keeps running"], "not told")
        close(bare)
        wait_until(lambda: "Culvert" not in bare.windows(), "the window stays")
        # The window is not shown again when the tray gives up waiting for a panel.
        time.sleep(max(0.0, started + 4 - time.monotonic()))
        assert "Culvert" not in bare.windows()
        canned.show(statuses.silent(now=time.time()))
        wait_until(lambda: len(shown()) == 2, "no notice without a window")
        assert "gw-berlin does not answer" in shown()[1]["title"]
        close(bare)
        wait_until(lambda: "Culvert" not in bare.windows(), "the window stays")
        assert json.loads((Path(bare.env["HOME"]) / ".config/culvert/tray.json").read_text())["closing_told"]
        assert start_tray(bare).wait(10) == 0
        wait_until(lambda: bare.has_keyboard("Culvert"), "a second start shows no window")
        bare.key("ctrl+q")
        assert tray.wait(10) == 0
        assert len(shown()) == 2
