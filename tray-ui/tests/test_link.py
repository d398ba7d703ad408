"""Invitation links that a browser hands over."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from culvert_proto import local_pb2
from culvert_tray.single import NAME

from .accessible import AccessibilityBus
from .canned_daemon import CannedDaemon
from .conftest import Start
from .desktop import Desktop, wait_until

PACKAGED = Path(__file__).parents[2] / "deploy/deb/files/tray"
SCREENS = Path(__file__).parents[2] / "build" / "screens"
LINK = f"culvert://enroll?controller=https://vpn.corp.example:8443&token=fresh&ca=sha256:{'5e' * 32}"
TITLE = "Enrol this computer"


@pytest.mark.slow
def test_a_link_opens_the_enrolment_which_waits_for_the_person(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED))
    start_tray(desktop, LINK)
    _until_open(desktop)
    assert any("From vpn.corp.example" in text for text in _texts(desktop))
    desktop.screenshot(SCREENS / "tray-link.png")
    desktop.key("Return")
    time.sleep(0.3)
    assert canned.asked == []
    desktop.key("Tab", "space")
    whose = "For Alice Liddell (alice), from vpn.corp.example"
    wait_until(lambda: any(whose in text for text in _texts(desktop)), "it does not say for whom")
    desktop.screenshot(SCREENS / "tray-link-whose.png")
    assert canned.asked == [local_pb2.ShowInvitationRequest(link=LINK)]
    desktop.key("Return")
    time.sleep(0.3)
    assert len(canned.asked) == 1
    desktop.key("space")
    wait_until(lambda: len(canned.asked) == 2, "not enrolled")
    assert isinstance(canned.asked[1], local_pb2.EnrollRequest)
    assert canned.asked[1].link == LINK


@pytest.mark.slow
def test_a_second_start_hands_its_link_over_and_a_hostile_one_is_refused(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED))
    start_tray(desktop)
    desktop.wait_for_tray_icon()
    assert start_tray(desktop, LINK.replace("https:", "http:")).wait(10) == 0
    _until_open(desktop)
    refusal = "its controller is not an https URL"
    wait_until(lambda: any(refusal in text for text in _texts(desktop)), "no reason")
    desktop.screenshot(SCREENS / "tray-link-refused.png")
    desktop.key("Return")
    assert start_tray(desktop, LINK).wait(10) == 0
    wait_until(lambda: any("From vpn.corp.example" in text for text in _texts(desktop)), "not replaced")
    assert not any(refusal in text for text in _texts(desktop))
    assert canned.asked == []


@pytest.mark.slow
def test_a_clicked_link_starts_the_tray_and_its_token_is_in_no_arguments(
    tmp_path: Path, canned: CannedDaemon
) -> None:
    canned.show(local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED))
    home = tmp_path / "desktop"
    command = f"{sys.executable} -m culvert_tray.app --socket {canned.socket}"
    for name, place in ((f"{NAME}.desktop", "applications"), (f"{NAME}.service", "dbus-1/services")):
        installed = home / ".local/share" / place / name
        installed.parent.mkdir(parents=True)
        # As in the package, but for where the program is.
        said = re.sub("^Exec=.*", f"Exec={command}", (PACKAGED / name).read_text(), flags=re.MULTILINE)
        installed.write_text(said.replace("TryExec=culvert-tray", f"TryExec={sys.executable}"))
    with Desktop(home) as desktop:
        desktop.run("gio", "mime", "x-scheme-handler/culvert", f"{NAME}.desktop")
        desktop.run("gio", "open", LINK)
        _until_open(desktop)
        wait_until(lambda: any("From vpn.corp.example" in text for text in _texts(desktop)), "not shown")
        called = ("gdbus", "call", "--session", "--dest", "org.freedesktop.DBus", "--object-path", "/")
        owner = desktop.run(*called, "--method", "org.freedesktop.DBus.GetConnectionUnixProcessID", NAME)
        tray = int(re.sub(r"\(uint32 (\d+),\)\s*", r"\1", owner))
        try:
            assert "culvert_tray" in Path(f"/proc/{tray}/cmdline").read_text()
            assert "token" not in Path(f"/proc/{tray}/cmdline").read_text()
            assert "fresh" not in Path(f"/proc/{tray}/environ").read_text(errors="replace")
            # To the one that runs.
            desktop.run("gio", "open", LINK.replace("https:", "http:"))
            refusal = "its controller is not an https URL"
            wait_until(lambda: any(refusal in text for text in _texts(desktop)), "not handed over")
        finally:
            os.kill(tray, signal.SIGTERM)
            wait_until(lambda: not Path(f"/proc/{tray}").exists(), "the tray stays")
    assert canned.asked == []


def _until_open(desktop: Desktop) -> None:
    wait_until(lambda: any(TITLE in title for title in desktop.windows()), "no dialog")
    wait_until(
        lambda: any(desktop.has_keyboard(it) for it in desktop.windows() if TITLE in it), "no keyboard"
    )
    time.sleep(0.3)


def _texts(desktop: Desktop) -> list[str]:
    address = desktop.env["DBUS_SESSION_BUS_ADDRESS"]
    nodes = AccessibilityBus(address, f"link-{address}").nodes("Culvert")
    return [node.name for node in nodes if node.showing]
