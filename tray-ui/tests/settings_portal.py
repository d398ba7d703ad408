"""A desktop's portal on the session bus that says whether the person prefers dark: `light` or `dark`, then each line read.

Run as a program; it stands for the portal that GNOME, KDE and Xfce have, and ends with its input.
"""

from __future__ import annotations

import signal
import sys

from PyQt6.QtCore import QCoreApplication, QObject, QSocketNotifier, pyqtClassInfo, pyqtSignal, pyqtSlot  # pyright: ignore[reportUnknownVariableType]
from PyQt6.QtDBus import QDBusAbstractAdaptor, QDBusConnection, QDBusVariant

_APPEARANCE = ("org.freedesktop.appearance", "color-scheme")
_PREFERS = {"dark": 1, "light": 2}


@pyqtClassInfo("D-Bus Interface", "org.freedesktop.portal.Settings")  # pyright: ignore[reportOptionalCall, reportUntypedClassDecorator]
class Settings(QDBusAbstractAdaptor):
    SettingChanged = pyqtSignal("QString", "QString", "QDBusVariant")

    def __init__(self, parent: QObject, scheme: str) -> None:
        super().__init__(parent)
        self._scheme = scheme

    @pyqtSlot("QString", "QString", result="QDBusVariant")  # pyright: ignore[reportUntypedFunctionDecorator]
    def Read(self, namespace: str, key: str) -> QDBusVariant:  # noqa: N802  the specification's name
        return QDBusVariant(_PREFERS[self._scheme] if (namespace, key) == _APPEARANCE else 0)

    def choose(self, scheme: str) -> None:
        self._scheme = scheme
        self.SettingChanged.emit(*_APPEARANCE, QDBusVariant(_PREFERS[scheme]))


def main() -> None:
    app = QCoreApplication(sys.argv)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    place = QObject()
    settings = Settings(place, sys.argv[1])
    bus = QDBusConnection.sessionBus()
    assert bus.registerObject("/org/freedesktop/portal/desktop", place)
    assert bus.registerService("org.freedesktop.portal.Desktop")
    lines = QSocketNotifier(sys.stdin.fileno(), QSocketNotifier.Type.Read)  # pyright: ignore[reportCallIssue, reportArgumentType]

    def read_line() -> None:
        if scheme := sys.stdin.readline().strip():
            settings.choose(scheme)
        else:
            app.quit()

    lines.activated.connect(read_line)  # pyright: ignore[reportUnknownMemberType]
    print("ready", flush=True)
    app.exec()


if __name__ == "__main__":
    main()
