"""The tray on a real desktop, driven by mouse and keyboard. Screenshots land in build/screens/tray-*.png."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from culvert_proto import local_pb2
from culvert_tray.icon import IconKind
from culvert_tray.menu import Action, Entry, Heading, Menu, Submenu, menu
from PyQt6.QtGui import QColor, QImage

from . import statuses
from .accessible import AccessibilityBus, Node
from .canned_daemon import RIGHT_CODE, CannedDaemon
from .conftest import Start
from .desktop import Desktop, wait_until
from .test_link import LINK

pytestmark = pytest.mark.slow

SCREENS = Path(__file__).parents[2] / "build" / "screens"
PROGRAM = "Culvert"

COLOURS = {
    IconKind.OFF: "#808080",
    IconKind.READY: "#2e7fd6",
    IconKind.CONNECTING: "#9a66d8",
    IconKind.CONNECTED: "#1f8f52",
    IconKind.NEEDS_YOU: "#cc6410",
    IconKind.OFFLINE: "#d63c3c",
    IconKind.SILENT: "#a8842c",
    IconKind.BLOCKED: "#c2408e",
    IconKind.PAUSED: "#5b7083",
    IconKind.DENIED: "#b5584a",
}


def _shows(desktop: Desktop, kind: IconKind) -> bool:
    icon = desktop.tray_icon()
    if icon is None:
        return False
    shot = SCREENS / "tray-now.png"
    desktop.screenshot(shot)
    image = QImage(str(shot))
    shot.unlink()
    x, y, width, height = icon
    colour = QColor(COLOURS[kind]).rgb()
    pixels = [image.pixel(x + i, y + j) for i in range(width) for j in range(height)]
    return pixels.count(colour) > 12


def _wait_for(desktop: Desktop, kind: IconKind) -> None:
    wait_until(lambda: _shows(desktop, kind), f"the icon does not become {kind.value}")


def open_menu(desktop: Desktop, button: int = 3) -> None:
    def opened() -> bool:
        if not desktop.menus(PROGRAM):
            # Once more: a balloon that has just come up takes the first click.
            desktop.click_tray(button)
            deadline = time.monotonic() + 2
            while not desktop.menus(PROGRAM) and time.monotonic() < deadline:
                time.sleep(0.1)
        return len(desktop.menus(PROGRAM)) == 1

    wait_until(opened, "no menu")
    time.sleep(0.3)


def _choose(desktop: Desktop, shown: Menu, *texts: str) -> None:
    """Walk to an entry with the keyboard alone."""
    for depth, text in enumerate(texts):
        reachable = [e for e in shown if _reachable(e)]
        position = next(i for i, e in enumerate(reachable) if _text(e).startswith(text))
        # A submenu opens with its first entry chosen.
        desktop.key(*["Down"] * (position + (1 if depth == 0 else 0)))
        entry = reachable[position]
        if isinstance(entry, Submenu):
            desktop.key("Right")
            time.sleep(0.3)
            shown = entry.entries
    if texts and not isinstance(entry, Submenu):  # pyright: ignore[reportPossiblyUnboundVariable]
        desktop.key("Return")


def _reachable(entry: Entry) -> bool:
    return isinstance(entry, Heading | Submenu) or (isinstance(entry, Action) and entry.enabled)


def _text(entry: Entry) -> str:
    return entry.text if isinstance(entry, Heading | Submenu | Action) else ""


def _nodes(desktop: Desktop, name: str) -> list[Node]:
    return AccessibilityBus(desktop.env["DBUS_SESSION_BUS_ADDRESS"], name).nodes(PROGRAM)


def _connecting() -> local_pb2.Status:
    status = statuses.status(local_pb2.STATE_CONNECTING, now=time.time())
    status.tunnels.append(statuses.opening("wiki"))
    return status


def _offline() -> local_pb2.Status:
    status = statuses.connected(now=time.time())
    status.state = local_pb2.STATE_OFFLINE
    return status


def status_named(name: str) -> local_pb2.Status:
    now = time.time()
    return {
        "not-enrolled": lambda: local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED),
        "ready": lambda: statuses.status(local_pb2.STATE_READY, now=now),
        "connecting": _connecting,
        "connected": lambda: statuses.connected(now=now),
        "page-slow": lambda: statuses.opened(now=now, page=2.4),
        "code-needed": lambda: statuses.status(local_pb2.STATE_NEEDS_CODE, now=now, code_seconds=0),
        "code-ending": lambda: statuses.status(local_pb2.STATE_READY, now=now, code_seconds=1200),
        "denied": lambda: statuses.denied(now=now),
        "offline": _offline,
        "expired": lambda: statuses.expired(now=now),
        "clock": lambda: statuses.wrong_clock(now=now),
        "silent": lambda: statuses.silent(now=now),
        "narrow": lambda: statuses.narrow(now=now),
        "blocked": lambda: statuses.blocked(now=now),
        "unheard": lambda: statuses.unheard(now=now),
        "paused": lambda: statuses.paused(now=now),
        "asking": lambda: statuses.asking(now=now),
        "organisations": lambda: statuses.two_organisations(now=now),
    }[name]()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("not-enrolled", IconKind.NEEDS_YOU),
        ("ready", IconKind.READY),
        ("connecting", IconKind.CONNECTING),
        ("connected", IconKind.CONNECTED),
        ("code-needed", IconKind.NEEDS_YOU),
        ("code-ending", IconKind.NEEDS_YOU),
        ("denied", IconKind.DENIED),
        ("offline", IconKind.OFFLINE),
        ("expired", IconKind.NEEDS_YOU),
        ("clock", IconKind.OFFLINE),
        ("silent", IconKind.SILENT),
        ("narrow", IconKind.SILENT),
        ("blocked", IconKind.BLOCKED),
        ("paused", IconKind.PAUSED),
        ("asking", IconKind.NEEDS_YOU),
    ],
)
def test_each_state_has_its_icon_and_menu(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start, name: str, kind: IconKind
) -> None:
    canned.show(status_named(name))
    start_tray(desktop)
    _wait_for(desktop, kind)
    open_menu(desktop)
    desktop.screenshot(SCREENS / f"tray-{name}.png")


def test_without_the_daemon_the_icon_is_off_and_it_comes_back_by_itself(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.stop()
    start_tray(desktop)
    _wait_for(desktop, IconKind.OFF)
    open_menu(desktop)
    desktop.screenshot(SCREENS / "tray-off.png")
    desktop.key("Escape")
    canned.show(statuses.connected(now=time.time()))
    canned.start()
    _wait_for(desktop, IconKind.CONNECTED)
    canned.stop()
    _wait_for(desktop, IconKind.OFF)


def test_a_tunnel_is_closed_with_the_keyboard(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    status = statuses.connected(now=time.time())
    canned.show(status)
    start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)
    open_menu(desktop)
    shown = menu(status, time.time())
    _choose(desktop, shown, "wiki.corp.example")
    desktop.picture(SCREENS / "tray-tunnel.png")
    desktop.key("Escape", "Escape")
    open_menu(desktop)
    _choose(desktop, shown, "wiki.corp.example", "Close")
    wait_until(lambda: canned.asked == [local_pb2.CloseTunnelRequest(name="wiki.corp.example")], "not closed")


def test_a_gateway_is_pinned(desktop: Desktop, canned: CannedDaemon, start_tray: Start) -> None:
    status = statuses.connected(now=time.time())
    canned.show(status)
    start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Gateway")
    desktop.screenshot(SCREENS / "tray-gateways.png")
    desktop.key("Down", "Return")
    wait_until(lambda: canned.asked == [local_pb2.SelectGatewayRequest(gateway="gw-berlin")], "not pinned")


def test_many_gateways_are_at_hand_in_the_menu_and_searched(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start
) -> None:
    status = statuses.many_gateways(now=time.time())
    canned.show(status)
    with Desktop(tmp_path / "small", width=1366, height=768) as small:
        tray = start_tray(small)
        _wait_for(small, IconKind.CONNECTED)
        open_menu(small)
        _choose(small, menu(status, time.time()), "Gateway")
        wait_until(lambda: len(small.menus(PROGRAM)) == 2, "no gateways")
        small.screenshot(SCREENS / "tray-many-gateways.png")
        assert all(small.holds(it) for it in small.menus(PROGRAM))
        small.key("Up", "Return")
        wait_until(lambda: small.has_keyboard("Culvert"), "no window")
        small.key("slash")
        small.type("42")
        time.sleep(0.5)
        small.screenshot(SCREENS / "window-gateways.png")
        small.key("Return")
        wait_until(lambda: canned.asked == [local_pb2.SelectGatewayRequest(gateway="gw-42")], "not chosen")
        _end(tray)


def test_a_code_is_typed_in_and_a_wrong_one_can_be_corrected(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    status = status_named("code-needed")
    canned.show(status)
    start_tray(desktop)
    _wait_for(desktop, IconKind.NEEDS_YOU)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Enter code now")
    wait_until(lambda: any("Enter a code" in title for title in desktop.windows()), "no dialog")
    time.sleep(0.3)
    desktop.type("111111")
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 1, "no code")
    time.sleep(0.5)
    desktop.screenshot(SCREENS / "tray-code-wrong.png")
    names = [node.name for node in _nodes(desktop, "code")]
    assert "Code" in names
    assert any("The code is wrong." in name for name in names)
    desktop.type(RIGHT_CODE)
    desktop.key("Return")
    wait_until(lambda: not any("Enter a code" in title for title in desktop.windows()), "still open")
    assert [request.code for request in canned.asked] == ["111111", RIGHT_CODE]


def test_the_menus_gateway_and_code_name_their_organisation(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    status = status_named("organisations")
    canned.show(status)
    start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Gateways", "Gateway · automatic · vpn.beta", "gw-berlin")
    wait_until(lambda: len(canned.asked) == 1, "no gateway")
    assert (canned.asked[0].gateway, canned.asked[0].organisation) == ("gw-berlin", "vpn.beta.example")
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Enter code now")
    wait_until(lambda: any("vpn.beta.example" in title for title in desktop.windows()), "no dialog")
    time.sleep(0.3)
    desktop.type(RIGHT_CODE)
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 2, "no code")
    assert (canned.asked[1].code, canned.asked[1].organisation) == (RIGHT_CODE, "vpn.beta.example")


def test_enrolling_shows_the_qr_code_and_takes_a_first_code(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    status = status_named("not-enrolled")
    canned.show(status)
    start_tray(desktop)
    _wait_for(desktop, IconKind.NEEDS_YOU)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Enrol")
    wait_until(lambda: any("Enrol this computer" in title for title in desktop.windows()), "no dialog")
    time.sleep(0.3)
    desktop.type("culvert://enroll?token=used")
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 1, "no request")
    time.sleep(0.5)
    desktop.screenshot(SCREENS / "tray-enrol-refused.png")
    desktop.key("ctrl+a")
    desktop.type(LINK)
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 2, "no request")
    time.sleep(0.5)
    assert any("For Alice Liddell (alice)" in node.name for node in _nodes(desktop, "whose"))
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 3, "no enrolment")
    time.sleep(0.5)
    desktop.screenshot(SCREENS / "tray-enrol-code.png")
    desktop.key("alt+p")
    wait_until(lambda: any("Print the recovery codes" in title for title in desktop.windows()), "no printing")
    time.sleep(0.3)
    desktop.screenshot(SCREENS / "tray-enrol-print.png")
    # The first printer is a file, for there is no other here.
    desktop.key("Return")
    home = Path(desktop.env["HOME"])
    wait_until(lambda: any(it.stat().st_size for it in home.glob("*.pdf")), "nothing printed")
    [printed] = home.glob("*.pdf")
    assert printed.stat().st_mode & 0o077 == 0
    desktop.type(RIGHT_CODE)
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 4, "no code")
    assert canned.asked[3].code == RIGHT_CODE
    canned.show(statuses.wildcard(now=time.time()))
    wait_until(
        lambda: any(it.showing and it.name == "Open git.corp.example" for it in _nodes(desktop, "ready")),
        "no page to open",
    )
    desktop.screenshot(SCREENS / "tray-enrol-ready.png")
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 5, "no page is opened")
    assert canned.asked[4] == local_pb2.OpenTunnelRequest(name="git.corp.example")


def test_a_refused_page_says_why_and_whom_to_ask(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    status = status_named("ready")
    canned.show(status)
    start_tray(desktop)
    _wait_for(desktop, IconKind.READY)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Resources", "Open git")
    wait_until(lambda: canned.asked == [local_pb2.OpenTunnelRequest(name="git.corp.example")], "not asked")
    time.sleep(0.7)
    desktop.screenshot(SCREENS / "tray-notice-denied.png")
    desktop.click_tray(1)
    wait_until(lambda: "Culvert" in desktop.windows(), "no window")
    time.sleep(0.5)
    names = "\n".join(node.name for node in _nodes(desktop, "denied") if node.showing)
    assert "No policy lets alice reach git.corp.example." in names
    assert "Ask bob@corp.example, who owns it." in names


def test_a_balloon_goes_when_its_cause_ends(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    def is_told() -> bool:
        names = [node.name for node in _nodes(desktop, f"balloon-{time.monotonic_ns()}") if node.showing]
        return any("gw-berlin does not answer: nothing comes back" in name for name in names)

    canned.show(statuses.connected(now=time.time()))
    start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)
    canned.show(statuses.silent(now=time.time()))
    wait_until(is_told, "no balloon")
    canned.show(statuses.connected(now=time.time()))
    # By itself it would go after 10 s.
    wait_until(lambda: not is_told(), "the balloon stays", 5.0)


def test_details_follow_the_tunnel(desktop: Desktop, canned: CannedDaemon, start_tray: Start) -> None:
    status = statuses.connected(now=time.time())
    canned.show(status)
    start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "wiki.corp.example", "Details")
    wait_until(lambda: any("Tunnel" in title for title in desktop.windows()), "no dialog")
    time.sleep(0.5)
    desktop.screenshot(SCREENS / "tray-details.png")
    names = [node.name for node in _nodes(desktop, "details")]
    assert "Received: 1.2 MB in 812 packets" in names
    canned.show(statuses.status(local_pb2.STATE_READY, now=time.time()))
    wait_until(lambda: "State: closed" in [n.name for n in _nodes(desktop, "details")], "not followed")


def test_the_tray_pauses_and_resumes(desktop: Desktop, canned: CannedDaemon, start_tray: Start) -> None:
    status = statuses.connected(now=time.time())
    canned.show(status)
    start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Pause")
    desktop.screenshot(SCREENS / "tray-pause.png")
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 1, "not paused")
    assert abs(time.time() + 900 - canned.asked[0].until) < 30
    status = statuses.paused(now=time.time())
    canned.show(status)
    _wait_for(desktop, IconKind.PAUSED)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Resume")
    wait_until(lambda: canned.asked[1:] == [local_pb2.ResumeRequest()], "not resumed")


def test_a_second_start_shows_the_first_ones_window(
    desktop: Desktop, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(status_named("connected"))
    first = start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)
    assert "Culvert" not in desktop.windows()
    assert start_tray(desktop).wait(10) == 0
    wait_until(lambda: desktop.has_keyboard("Culvert"), "no window")
    desktop.run("xdotool", "getactivewindow", "windowminimize")
    wait_until(lambda: "Culvert" not in desktop.windows(), "the window stays")
    assert start_tray(desktop).wait(10) == 0
    wait_until(lambda: desktop.has_keyboard("Culvert"), "the window stays minimised")
    first.kill()
    first.wait()
    start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)


def test_quitting_leaves_the_tunnels_alone(desktop: Desktop, canned: CannedDaemon, start_tray: Start) -> None:
    status = statuses.connected(now=time.time())
    canned.show(status)
    tray = start_tray(desktop)
    _wait_for(desktop, IconKind.CONNECTED)
    open_menu(desktop)
    _choose(desktop, menu(status, time.time()), "Quit")
    assert tray.wait(10) == 0
    assert canned.asked == []


def test_the_tray_scales_to_200_percent_on_a_dark_panel(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.connected(now=time.time()))
    with Desktop(tmp_path / "dark", width=1200, height=900, panel="dark") as dark:
        tray = start_tray(dark, QT_SCALE_FACTOR="2")
        _wait_for(dark, IconKind.CONNECTED)
        open_menu(dark)
        dark.screenshot(SCREENS / "tray-200-percent.png")
        _end(tray)


def test_without_a_tray_host_a_window_carries_the_same(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start
) -> None:
    status = statuses.connected(now=time.time())
    canned.show(status)
    with Desktop(tmp_path / "bare", width=900, height=700, panel=None) as bare:
        tray = start_tray(bare)
        wait_until(lambda: "Culvert" in bare.windows(), "no window")
        time.sleep(0.7)
        bare.screenshot(SCREENS / "window-resources.png")
        names = [node.name for node in _nodes(bare, "window")]
        assert {"Connected — 2 tunnels up", "Gateway · automatic"} <= set(names)
        assert any(name.startswith("wiki.corp.example, through gw-berlin") for name in names)
        wait_until(lambda: bare.has_keyboard("Culvert"), "the window has not the keyboard")
        bare.key("alt+F4")
        assert tray.wait(10) == 0


def test_a_panel_that_starts_later_shows_the_icon(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.connected(now=time.time()))
    with Desktop(tmp_path / "late", panel=None) as late:
        tray = start_tray(late)
        wait_until(lambda: late.has_keyboard("Culvert"), "no window in place of the icon")
        late.start_panel("light")
        _wait_for(late, IconKind.CONNECTED)
        # The window is not the only place any more.
        late.key("alt+F4")
        wait_until(lambda: "Culvert" not in late.windows(), "the window stays")
        open_menu(late)
        canned.show(statuses.silent(now=time.time()))
        late.key("Escape")
        _wait_for(late, IconKind.SILENT)
        _end(tray)


def test_without_a_session_bus_no_host_is_waited_for() -> None:
    program = "from PyQt6.QtCore import QCoreApplication; from culvert_tray.late_host import LateHost; "
    program += "app = QCoreApplication([]); LateHost()"
    nowhere = os.environ | {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
    subprocess.run([sys.executable, "-c", program], env=nowhere, check=True)


def test_hosts_on_the_bus_have_the_icon_whenever_they_start(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.connected(now=time.time()))
    with Desktop(tmp_path / "late", panel=None) as late:
        tray = start_tray(late)
        wait_until(lambda: "Culvert" in late.windows(), "no window in place of the icon")
        # The second one stands for a desktop's shell that starts anew.
        for _ in range(2):
            host = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("tray_host.py")],
                env=late.env, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert host.stdout is not None
            ready, (item, name) = (host.stdout.readline().split() for _ in range(2))
            assert (ready, item) == (["ready"], "item")
            # A host lists the icons by their titles.
            title = ("--method", "org.freedesktop.DBus.Properties.Get", "org.kde.StatusNotifierItem", "Title")
            place = ("--session", "--dest", name, "--object-path", "/StatusNotifierItem")
            assert late.run("gdbus", "call", *place, *title) == "(<'Culvert'>,)\n"
            host.terminate()
            host.wait(10)
        _end(tray)


def test_a_signal_while_the_tray_starts_ends_it_without_a_fault(desktop: Desktop, start_tray: Start) -> None:
    tray = start_tray(desktop)
    loaded = Path(f"/proc/{tray.pid}/maps")
    # Qt begins to connect with the display.
    wait_until(lambda: "libqxcb" in loaded.read_text(), "the tray does not start")
    _end(tray)


def _end(tray: subprocess.Popen[bytes]) -> None:
    tray.terminate()
    assert tray.wait(10) == 0


@pytest.mark.parametrize("display", ["missing", "ends during the start", "ends"])
def test_a_display_that_goes_away_ends_the_tray_with_one_line(
    tmp_path: Path, canned: CannedDaemon, display: str
) -> None:
    canned.show(statuses.connected(now=time.time()))
    with Desktop(tmp_path / "desktop", panel=None) as desktop:
        if display == "missing":
            desktop.end_display()
        with subprocess.Popen(
            [sys.executable, "-m", "culvert_tray.app", "--socket", str(canned.socket), "--window"],
            env=desktop.env,
            stderr=subprocess.PIPE,
            text=True,
        ) as tray:
            if display == "ends":
                wait_until(lambda: desktop.has_keyboard("Culvert"), "no window")
            elif display == "ends during the start":
                wait_until(lambda: "libqxcb" in Path(f"/proc/{tray.pid}/maps").read_text(), "no plug-in")
            if display != "missing":
                desktop.end_display()
            _, said = tray.communicate(timeout=20)
    assert tray.returncode == 1
    assert len(said.splitlines()) == 1
    # Xlib, which Qt uses too, may be the first to notice.
    assert re.search(
        {"missing": "there is no desktop here", "ends": "The X11 connection broke"}.get(
            display, "brok|there is no desktop here"
        ),
        said,
    )
