"""Every state of menu, window and dialogs, in both languages, light and dark: build/screens/LANGUAGE-SHADE-*.png.

A run shows each language and each shade once; `make screens` shows all four.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from culvert_tray.translation import forms
from PyQt6.QtCore import Qt
from PyQt6.QtGui import QImage

from . import statuses
from .accessible import AccessibilityBus
from .canned_daemon import RIGHT_CODE, CannedDaemon
from .conftest import Start
from .desktop import Desktop, Shade, wait_until
from .test_desktop import SCREENS, open_menu, status_named
from .test_link import LINK
from .test_window import DARK

pytestmark = pytest.mark.slow

ENGLISH = {
    "not-enrolled": "This computer is not enrolled",
    "ready": "Ready — no tunnel up",
    "connecting": "Connecting to wiki.corp.example…",
    "connected": "Connected — 2 tunnels up",
    "code-needed": "A code is needed",
    "code-ending": "Enter code now…",
    "denied": "No policy lets alice reach git.corp.example.",
    "offline": "Offline — controller cannot be reached, 2 tunnels up",
    "expired": "This computer's certificate has expired.",
    "clock": "Offline — not connected to the controller",
    "silent": "gw-berlin does not answer",
    "narrow": "Only small packets reach gw-berlin",
    "blocked": "charon (process 812) has UDP port 4500, which tunnels need. Protected addresses stay blocked.",
    "unheard": "dnsmasq (process 812) has it. Names of the intranet may not be found.",
    "paused": "Resume now",
    "asking": "Public networks wait for your answer…",
    "organisations": "Signed in as bea · no valid code · vpn.beta.example",
}
GERMAN = {
    "not-enrolled": "Dieser Computer ist nicht registriert",
    "ready": "Bereit — kein Tunnel offen",
    "connecting": "Verbindung zu wiki.corp.example wird aufgebaut…",
    "connected": "Verbunden — 2 Tunnel offen",
    "code-needed": "Ein Code wird benötigt",
    "code-ending": "Code jetzt eingeben…",
    "denied": "Keine Richtlinie erlaubt alice den Zugriff auf git.corp.example.",
    "offline": "Offline — Controller nicht erreichbar, 2 Tunnel offen",
    "expired": "Das Zertifikat dieses Computers ist abgelaufen.",
    "clock": "Offline — nicht mit dem Controller verbunden",
    "silent": "gw-berlin antwortet nicht",
    "narrow": "Nur kleine Pakete erreichen gw-berlin",
    "blocked": "charon (Prozess 812) hat den UDP-Port 4500 belegt, den Tunnel brauchen. "
    "Geschützte Adressen bleiben gesperrt.",
    "unheard": "dnsmasq (Prozess 812) hat ihn. Namen des Intranets werden vielleicht nicht gefunden.",
    "paused": "Jetzt fortsetzen",
    "asking": "Öffentliche Netze warten auf eine Antwort…",
    "organisations": "Angemeldet als bea · kein gültiger Code · vpn.beta.example",
}
PAGES = {
    "en": (
        "git.corp.example",
        "1.2 MB received",
        "was denied",
        "Run diagnostics",
        "Notify me when",
        "This computer is laptop",
    ),
    "de": (
        "git.corp.example",
        "1,2 MB empfangen",
        "wurde abgelehnt",
        "Diagnose starten",
        "Benachrichtigen, wenn",
        "Dieser Computer ist laptop",
    ),
}


TWO = (("light", "de", GERMAN), ("dark", "en", ENGLISH))
ALL = (*TWO, ("light", "en", ENGLISH), ("dark", "de", GERMAN))


@pytest.fixture(scope="module")
def shaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Desktop, Shade]]:
    shade: Shade = request.param
    with Desktop(tmp_path_factory.mktemp(shade), width=1100, height=760, panel=shade) as desktop:
        if shade == "dark":
            settings = Path(desktop.env["HOME"]) / ".config"
            settings.mkdir(exist_ok=True)
            (settings / "kdeglobals").write_text(DARK)
        # Without a notification server, which desktops have, Qt draws balloons that cover the icon.
        program = Path(__file__).with_name("notification_server.py")
        server = subprocess.Popen([sys.executable, program, "body,inline-reply"], env=desktop.env)
        yield desktop, shade
        server.terminate()
        server.wait(10)


@pytest.mark.parametrize(
    ("shaded", "language", "titles"),
    ALL if "CULVERT_ALL_SCREENS" in os.environ else TWO,
    indirect=["shaded"],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_each_state_is_shown_in_the_desktops_language(
    shaded: tuple[Desktop, Shade],
    canned: CannedDaemon,
    start_tray: Start,
    language: str,
    titles: dict[str, str],
) -> None:
    desktop, shade = shaded
    locale = {"de": "de_DE.UTF-8", "en": "en_GB.UTF-8"}[language]
    canned.activities = statuses.activities(now=time.time())
    start_tray(desktop, "--window", LC_ALL=locale, XDG_CURRENT_DESKTOP="KDE", KDE_SESSION_VERSION="5")
    prefix = f"{language}-{shade}"
    untranslated = {text for text, told in forms("de").items() if told[0] != text}

    def seen() -> list[str]:
        bus = AccessibilityBus(desktop.env["DBUS_SESSION_BUS_ADDRESS"], f"screens-{time.monotonic_ns()}")
        return [node.name for node in bus.nodes("Culvert") if node.showing]

    def shoot(name: str, *texts: str) -> None:
        if texts:
            wait_until(
                lambda: all(map("\n".join(seen()).__contains__, texts)), f"{name}: {texts} is not shown"
            )
        time.sleep(0.3)
        if language != "en":
            assert not set(seen()) & untranslated, name
        desktop.screenshot(SCREENS / f"{prefix}-{name}.png")

    for name, text in titles.items():
        canned.show(status_named(name))
        shoot(f"window-{name}", text)
        open_menu(desktop)
        shoot(f"menu-{name}")
        desktop.key("Escape")
    canned.show(status_named("connected"))
    desktop.click_tray(1)
    wait_until(lambda: desktop.has_keyboard("Culvert"), "no window")
    for number, text in enumerate(PAGES[language], 1):
        desktop.key(f"alt+{number}")
        shoot(f"window-{number}", text)
    canned.show(status_named("page-slow"))
    desktop.key("alt+2")
    shoot("window-opening", {"en": "The page is slow, not Culvert", "de": "Die Seite ist langsam"}[language])
    canned.show(statuses.many_gateways(now=time.time()))
    desktop.key("alt+3")
    shoot(
        "window-gateways",
        {
            "en": "Culvert chooses a gateway for each tunnel.",
            "de": "Culvert wählt für jeden Tunnel ein Gateway.",
        }[language],
    )
    desktop.key("alt+F4")
    # Help, and its last entry but one: the documentation.
    open_menu(desktop)
    desktop.key("Up", "Up", "Right")
    shoot("menu-help")
    desktop.key("Up", "Up", "Return")
    shoot("documentation", {"en": "Culvert's documentation", "de": "Dokumentation von Culvert"}[language])
    desktop.key("Escape")
    canned.show(status_named("not-enrolled"))
    open_menu(desktop)
    desktop.key("Down", "Down", "Return")
    shoot("enrol", {"en": "Invitation link", "de": "Einladungslink"}[language])
    desktop.type("culvert://enroll?token=used")
    desktop.key("Return")
    shoot(
        "enrol-refused",
        {"en": "The invitation is not valid", "de": "Die Einladung ist nicht gültig"}[language],
    )
    desktop.key("ctrl+a")
    desktop.type(LINK)
    desktop.key("Return")
    shoot("enrol-whose", {"en": "For Alice Liddell (alice)", "de": "Für Alice Liddell (alice)"}[language])
    desktop.key("Return")
    shoot(
        "enrol-code",
        "abcd-efgh-ijkl-mn22",
        {"en": "Enrolled as alice", "de": "Registriert als alice"}[language],
        {"en": "names under corp.example", "de": "Namen unter corp.example"}[language],
    )
    desktop.type("111111")
    desktop.key("Return")
    shoot("code-wrong", {"en": "The code is wrong.", "de": "Der Code ist falsch."}[language])
    desktop.type(RIGHT_CODE)
    desktop.key("Return")
    wait_until(lambda: len(canned.asked) == 5, "no code")
    canned.show(status_named("ready"))
    shoot("enrol-ready", {"en": "Open git.corp.example", "de": "git.corp.example öffnen"}[language])
    desktop.key("Escape")
    canned.show(status_named("asking"))
    open_menu(desktop)
    desktop.key("Down", "Down", "Return")
    shoot("claims", {"en": "The organisation asks", "de": "Die Organisation möchte"}[language])
    desktop.key({"en": "alt+a", "de": "alt+z"}[language])
    shoot("claims-refused", {"en": "collides with", "de": "überschneidet sich"}[language])
    desktop.key({"en": "alt+d", "de": "alt+a"}[language])
    wait_until(lambda: len(canned.asked) == 7, "no answer")
    assert [(it.agreed, it.prefixes[0]) for it in canned.asked[-2:]] == [
        (True, "8.8.8.0/24"),
        (False, "8.8.8.0/24"),
    ]
    if shade == "dark":
        page = QImage(str(SCREENS / f"{prefix}-documentation.png")).copy(400, 300, 300, 200)
        mean = page.scaled(1, 1, transformMode=Qt.TransformationMode.SmoothTransformation)
        assert mean.pixelColor(0, 0).lightness() < 128
