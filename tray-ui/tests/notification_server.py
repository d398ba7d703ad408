"""A notification server on the session bus: prints what it is asked to show, and does with it what a person would.

    notification_server.py CAPABILITY[,CAPABILITY…] CODE…

Each notice with a field gets the next CODE typed into it, and is closed. Any other is clicked on: its button "code", if it
has one. Run as a program; it stands for the one that a desktop has.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from PyQt6.QtCore import QCoreApplication, QObject, QTimer, pyqtClassInfo, pyqtSignal, pyqtSlot  # pyright: ignore[reportUnknownVariableType]
from PyQt6.QtDBus import QDBusAbstractAdaptor, QDBusConnection

NAME = "org.freedesktop.Notifications"
PATH = "/org/freedesktop/Notifications"
_TYPES = ("QString", "uint", "QString", "QString", "QString", "QStringList", "QVariantMap", "int")


@pyqtClassInfo("D-Bus Interface", NAME)  # pyright: ignore[reportOptionalCall, reportUntypedClassDecorator]
class Server(QDBusAbstractAdaptor):
    ActionInvoked = pyqtSignal("uint", "QString")
    NotificationReplied = pyqtSignal("uint", "QString")
    NotificationClosed = pyqtSignal("uint", "uint")

    def __init__(self, parent: QObject, capabilities: list[str], codes: list[str]) -> None:
        super().__init__(parent)
        self._shown = 0
        self._capabilities, self._codes = capabilities, codes

    @pyqtSlot(result="QStringList")  # pyright: ignore[reportUntypedFunctionDecorator]
    def GetCapabilities(self) -> list[str]:  # noqa: N802  the specification's name
        return self._capabilities

    @pyqtSlot(*_TYPES, result="uint")  # pyright: ignore[reportUntypedFunctionDecorator]
    def Notify(self, *asked: Any) -> int:  # noqa: N802
        _, replaced, _, title, text, actions, hints, expires = asked
        self._shown += not replaced
        number = replaced or self._shown
        told = {"title": title, "text": text, "actions": actions, "hints": hints, "expires": expires}
        told["number"] = number
        print(json.dumps(told), flush=True)
        QTimer.singleShot(300, lambda: self._person(number, actions))  # pyright: ignore[reportUnknownMemberType]
        return number

    @pyqtSlot("uint")  # pyright: ignore[reportUntypedFunctionDecorator]
    def CloseNotification(self, number: int) -> None:  # noqa: N802
        print(json.dumps({"closed": number}), flush=True)
        self.NotificationClosed.emit(number, 3)

    def _person(self, number: int, actions: list[str]) -> None:
        if "inline-reply" not in actions:
            self.ActionInvoked.emit(number, "code" if "code" in actions else "default")
        elif self._codes:
            self.NotificationReplied.emit(number, self._codes.pop(0))
            self.NotificationClosed.emit(number, 2)


def main() -> None:
    app = QCoreApplication(sys.argv)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    place = QObject()
    _server = Server(place, sys.argv[1].split(","), sys.argv[2:])
    bus = QDBusConnection.sessionBus()
    assert bus.registerObject(PATH, place)
    assert bus.registerService(NAME)
    print("ready", flush=True)
    app.exec()


if __name__ == "__main__":
    main()
