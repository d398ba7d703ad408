"""The window on a real desktop, driven by mouse and keyboard. Screenshots land in build/screens/window-*.png."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from culvert_proto import local_pb2
from PyQt6.QtGui import QImage

from . import statuses
from .accessible import AccessibilityBus, Node
from .canned_daemon import CannedDaemon
from .conftest import Start
from .desktop import Desktop, wait_until

pytestmark = pytest.mark.slow

DARK = """[General]
ColorScheme=Dark
[Colors:Window]
BackgroundNormal=32,35,38
ForegroundNormal=252,252,252
[Colors:View]
BackgroundNormal=20,22,24
BackgroundAlternate=29,31,34
ForegroundNormal=252,252,252
[Colors:Button]
BackgroundNormal=41,44,48
ForegroundNormal=252,252,252
[Colors:Selection]
BackgroundNormal=61,174,233
ForegroundNormal=252,252,252
"""

SCREENS = Path(__file__).parents[2] / "build" / "screens"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    """Without a tray host."""
    with Desktop(tmp_path_factory.mktemp("desktop"), width=900, height=700, panel=None) as desktop:
        yield desktop


def _nodes(desktop: Desktop) -> list[Node]:
    bus = AccessibilityBus(desktop.env["DBUS_SESSION_BUS_ADDRESS"], f"window-{time.monotonic_ns()}")
    return [node for node in bus.nodes("Culvert") if node.showing]


def wait_for_text(desktop: Desktop, text: str) -> None:
    wait_until(lambda: any(text in node.name for node in _nodes(desktop)), f"the window does not show {text}")


def _window(desktop: Desktop) -> None:
    wait_until(lambda: desktop.has_keyboard("Culvert"), "no window")
    time.sleep(0.5)


def test_a_resource_is_searched_and_opened_with_the_keyboard(
    bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    status = statuses.status(local_pb2.STATE_READY, now=time.time())
    status.resources.extend(
        local_pb2.Resource(name=f"r{i:02}", fqdn=f"r{i:02}.corp.example", addresses=[f"10.20.1.{i}"])
        for i in range(40)
    )
    canned.show(status)
    start_tray(bare, "--window")
    _window(bare)
    bare.key("slash")
    bare.type("1.17")
    wait_for_text(bare, "r17.corp.example")
    bare.screenshot(SCREENS / "window-search.png")
    assert not any("r16.corp.example" in node.name for node in _nodes(bare))
    bare.key("ctrl+d")
    wait_for_text(bare, "favourite")
    bare.key("Return")
    wait_until(lambda: canned.asked == [local_pb2.OpenTunnelRequest(name="r17.corp.example")], "not asked")


def test_tunnels_are_listed_and_closed(bare: Desktop, canned: CannedDaemon, start_tray: Start) -> None:
    canned.show(statuses.connected(now=time.time()))
    start_tray(bare, "--window")
    _window(bare)
    bare.key("alt+2", "Tab", "Down")
    wait_for_text(bare, "1.2 MB")
    bare.screenshot(SCREENS / "window-tunnels.png")
    bare.key("Return")
    wait_until(lambda: len(canned.asked) == 1, "not closed")
    assert isinstance(canned.asked[0], local_pb2.CloseTunnelRequest)


def test_the_last_opening_is_measured_at_a_click(
    bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.opened(now=time.time()))
    start_tray(bare, "--window")
    _window(bare)
    bare.key("alt+2")
    wait_for_text(bare, "Server and page were not measured.")
    bare.key("alt+m")
    wait_until(lambda: canned.asked == [local_pb2.TimeHopsRequest(name="wiki.corp.example")], "not measured")
    canned.show(statuses.opened(now=time.time(), page=2.4))
    wait_for_text(bare, "The page is slow, not Culvert: its server took 2.4 s for the first byte.")
    wait_for_text(bare, "2.4 s, slow")
    wait_for_text(bare, "Measure now")
    bare.screenshot(SCREENS / "window-opening.png")


def test_the_chosen_tunnels_opening_is_shown(bare: Desktop, canned: CannedDaemon, start_tray: Start) -> None:
    status = statuses.opened(now=time.time(), page=2.4)
    click = status.clicks.add(fqdn="git.corp.example", started_us=round((time.time() - 300) * 1e6))
    click.steps.add(name="query")
    click.steps.add(name="released", at_us=470_000)
    canned.show(status)
    start_tray(bare, "--window")
    _window(bare)
    bare.key("alt+2")
    wait_for_text(bare, "wiki.corp.example opened at")
    bare.key("slash")
    bare.type("git")
    wait_for_text(bare, "git.corp.example opened at")
    bare.screenshot(SCREENS / "window-opening-chosen.png")
    bare.key("alt+m")
    wait_until(lambda: canned.asked == [local_pb2.TimeHopsRequest(name="git.corp.example")], "not measured")


def test_a_name_neither_turns_the_text_around_nor_becomes_markup(
    bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    status = statuses.connected(now=time.time())
    status.user = "ali\u202eec"
    status.tunnels[0].gateway = "<h1>gw\u2066</h1>"
    canned.show(status)
    start_tray(bare, "--window")
    _window(bare)
    bare.key("alt+2")
    wait_for_text(bare, "ali\ufffdec")
    wait_for_text(bare, "<h1>gw\ufffd</h1>")
    assert not any({"\u202e", "\u2066"} & set(node.name) for node in _nodes(bare))
    bare.screenshot(SCREENS / "window-strange-names.png")


def test_activity_is_live_and_a_notice_that_is_off_stays_off(
    bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.status(local_pb2.STATE_READY, now=time.time()))
    *before, denied = statuses.activities(now=time.time())
    canned.activities = before
    tray = start_tray(bare, "--window")
    _window(bare)
    bare.key("alt+3")
    wait_for_text(bare, "wiki.corp.example moved from gw-paris to gw-berlin.")
    canned.happen(denied)
    wait_for_text(bare, "git.corp.example was denied.")
    bare.screenshot(SCREENS / "window-activity.png")
    bare.key("alt+5")
    wait_for_text(bare, "Notify me when")
    bare.key("alt+s")
    time.sleep(0.3)
    bare.screenshot(SCREENS / "window-settings.png")
    canned.show(statuses.denied(now=time.time()))
    time.sleep(0.7)
    assert not any(node.name.startswith("No policy") and "\n" in node.name for node in _nodes(bare))
    tray.terminate()
    tray.wait(10)
    assert json.loads((Path(bare.env["HOME"]) / ".config/culvert/tray.json").read_text())["muted"] == [
        "denied"
    ]


def test_tunnels_and_activity_are_searched(bare: Desktop, canned: CannedDaemon, start_tray: Start) -> None:
    canned.show(statuses.connected(now=time.time()))
    canned.activities = statuses.activities(now=time.time())
    start_tray(bare, "--window")
    _window(bare)
    for page, typed, kept, gone in (
        ("2", "wiki", "wiki.corp.example, gw-berlin", "git.corp.example, gw-berlin"),
        ("3", "moved paris", "moved from gw-paris", "was denied"),
    ):
        bare.key(f"alt+{page}")
        wait_for_text(bare, gone)
        bare.key("ctrl+f")
        bare.type(typed)
        wait_until(lambda gone=gone: not any(gone in it.name for it in _nodes(bare)), f"{gone} stays")
        wait_for_text(bare, kept)
        bare.screenshot(SCREENS / f"window-search-{page}.png")
        # A search never closes a tunnel.
        bare.key("Return")
        bare.type("zzz")
        wait_for_text(bare, "Nothing here contains")
        bare.screenshot(SCREENS / f"window-search-{page}-nothing.png")
    assert canned.asked == []


def test_diagnostics_show_the_doctors_verdicts(
    bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.status(local_pb2.STATE_NEEDS_CODE, now=time.time(), code_seconds=0))
    start_tray(bare, "--window", RES_OPTIONS="timeout:1 attempts:1")
    _window(bare)
    bare.key("alt+4")
    bare.screenshot(SCREENS / "window-diagnostics-before.png")
    bare.key("alt+r")
    wait_for_text(bare, "No valid code.")
    bare.screenshot(SCREENS / "window-diagnostics.png")
    assert not any("culvert code" in node.name for node in _nodes(bare))
    # The list selects the row that begins with what is typed.
    bare.type("code")
    bare.key("Return")
    wait_until(lambda: any("Enter a code" in title for title in bare.windows()), "no dialog for the code")
    bare.key("Escape")
    bare.key("alt+6")
    wait_for_text(bare, "This computer is laptop")
    assert {"Documentation", "Add an organisation…", "Quit (tunnels stay up)"} <= {
        it.name for it in _nodes(bare)
    }
    bare.screenshot(SCREENS / "window-about.png")


def test_the_window_uses_dark_colours_and_scales_to_200_percent(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.connected(now=time.time()))
    canned.activities = statuses.activities(now=time.time())
    with Desktop(tmp_path / "desktop", width=1500, height=1200, panel=None) as dark:
        settings = Path(dark.env["HOME"]) / ".config"
        settings.mkdir(exist_ok=True)
        (settings / "kdeglobals").write_text(DARK)
        tray = start_tray(
            dark, "--window", QT_SCALE_FACTOR="2", XDG_CURRENT_DESKTOP="KDE", KDE_SESSION_VERSION="5"
        )
        _window(dark)
        dark.screenshot(SCREENS / "window-dark-resources.png")
        dark.key("alt+3")
        wait_for_text(dark, "git.corp.example was denied.")
        dark.screenshot(SCREENS / "window-dark-activity.png")
        tray.terminate()
        assert tray.wait(10) == 0
    picture = QImage(str(SCREENS / "window-dark-activity.png"))
    assert picture.pixelColor(750, 1000).lightness() < 60


def test_without_the_daemon_the_window_says_so(
    bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.stop()
    start_tray(bare, "--window")
    _window(bare)
    wait_for_text(bare, "Culvert is not running")
    bare.screenshot(SCREENS / "window-off.png")


@pytest.mark.parametrize(
    ("program", "shown"), [("exit 0", ""), ("echo 'Access denied' >&2; exit 1", "Access denied")]
)
def test_the_daemon_is_started_through_the_system_and_a_refusal_is_shown(
    tmp_path: Path, bare: Desktop, canned: CannedDaemon, start_tray: Start, program: str, shown: str
) -> None:
    """There is no systemd here: a program in its place records its arguments."""
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n{program}\n')
    systemctl.chmod(0o755)
    canned.stop()
    start_tray(bare, "--window", PATH=f"{tmp_path}:{os.environ['PATH']}")
    _window(bare)
    wait_for_text(bare, "Start Culvert")
    bare.key("Tab", "space")
    wait_until((tmp_path / "called").exists, "systemctl is not called")
    if shown:
        wait_for_text(bare, shown)
        bare.screenshot(SCREENS / "window-start-refused.png")
    assert (tmp_path / "called").read_text() == "start culvertd.service\n"


def test_a_page_opens_at_the_port_that_its_tunnel_carries(
    tmp_path: Path, bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    """There is no browser here: a program in its place records the address."""
    opener = tmp_path / "xdg-open"
    opener.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/opened\n')
    opener.chmod(0o755)
    canned.show(statuses.status(local_pb2.STATE_READY, now=time.time()))
    for name, page in (("mail", ""), ("wiki", "https://wiki.corp.example/")):
        tunnel = statuses.tunnel(name, local_pb2.TUNNEL_STATE_UP, now=time.time())
        tunnel.page = page
        canned.granted[tunnel.fqdn] = tunnel
    start_tray(bare, "--window", PATH=f"{tmp_path}:{os.environ['PATH']}")
    _window(bare)
    bare.key("slash")
    bare.type("mail")
    bare.key("Return")
    wait_for_text(bare, "mail.corp.example has no web page")
    bare.screenshot(SCREENS / "window-without-page.png")
    bare.key("ctrl+a")
    bare.type("wiki")
    bare.key("Return")
    wait_until((tmp_path / "opened").exists, "no page")
    assert (tmp_path / "opened").read_text() == "https://wiki.corp.example/\n"


def test_a_notice_leaves_the_window_when_its_cause_ends(
    bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.connected(now=time.time()))
    start_tray(bare, "--window")
    _window(bare)
    wait_for_text(bare, "Connected — 2 tunnels up")
    canned.show(statuses.through("gw-paris", now=time.time()))
    wait_for_text(bare, "wiki.corp.example goes through gw-paris now")
    bare.screenshot(SCREENS / "window-notice.png")
    canned.show(statuses.status(local_pb2.STATE_READY, now=time.time()))
    wait_for_text(bare, "Ready — no tunnel up")
    wait_until(lambda: not any("gw-paris now" in node.name for node in _nodes(bare)), "the notice stays")
    bare.screenshot(SCREENS / "window-notice-over.png")


def test_the_heads_text_is_not_repeated(bare: Desktop, canned: CannedDaemon, start_tray: Start) -> None:
    canned.show(statuses.connected(now=time.time()))
    start_tray(bare, "--window")
    wait_for_text(bare, "Connected — 2 tunnels up")
    canned.show(statuses.silent(now=time.time()))
    wait_for_text(bare, "gw-berlin does not answer")
    time.sleep(0.5)
    bare.screenshot(SCREENS / "window-silent.png")
    said = [node.name for node in _nodes(bare) if node.showing and "nothing comes back" in node.name]
    assert len(said) == 1


def test_the_answer_to_a_click_goes_with_the_next_click(
    bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.status(local_pb2.STATE_READY, now=time.time()))
    start_tray(bare, "--window")
    _window(bare)
    bare.key("slash")
    bare.type("git")
    bare.key("Return")
    wait_for_text(bare, "No policy lets alice reach")
    bare.screenshot(SCREENS / "window-answer.png")
    bare.key("ctrl+d")
    wait_until(lambda: not any("No policy" in node.name for node in _nodes(bare)), "the answer stays")


def test_settings_change_the_language_and_the_start_with_the_session(
    tmp_path: Path, bare: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    entry = tmp_path / "xdg/autostart/culvert-tray.desktop"
    entry.parent.mkdir(parents=True)
    entry.write_text("[Desktop Entry]\nType=Application\nName=Culvert\nExec=culvert-tray\n")
    own = Path(bare.env["HOME"]) / ".config/autostart/culvert-tray.desktop"
    canned.show(statuses.asking(now=time.time()))
    environment = {"XDG_CONFIG_DIRS": str(tmp_path / "xdg")}
    tray = start_tray(bare, "--window", **environment)
    _window(bare)
    bare.key("alt+5")
    wait_for_text(bare, "Agreed: 9.9.9.0/24")
    bare.key("alt+w")
    wait_until(own.exists, "it still starts with the session")
    bare.key("alt+w")
    wait_until(lambda: not own.exists(), "it does not start with the session")
    bare.key("alt+l")
    time.sleep(0.5)
    bare.screenshot(SCREENS / "window-settings-language.png")
    bare.key("Up", "Return")
    wait_for_text(bare, "Benachrichtigen, wenn")
    wait_for_text(bare, "Bereit — kein Tunnel offen")
    assert not any("Notify me" in node.name for node in _nodes(bare))
    bare.screenshot(SCREENS / "window-settings-german.png")
    stored = json.loads((Path(bare.env["HOME"]) / ".config/culvert/tray.json").read_text())
    assert stored["language"] == "de"
    tray.terminate()
    assert tray.wait(10) == 0
