"""A notification server on the session bus: prints what it is asked to show, and has each notice clicked on.

Run as a program. It stands for the one that a desktop has.
"""

from __future__ import annotations

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

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._shown = 0

    @pyqtSlot(*_TYPES, result="uint")  # pyright: ignore[reportUntypedFunctionDecorator]
    def Notify(self, *asked: Any) -> int:  # noqa: N802  the specification's name
        self._shown += 1
        number = self._shown
        print(asked[3], asked[4], asked[5], flush=True)
        QTimer.singleShot(300, lambda: self.ActionInvoked.emit(number, "default"))  # pyright: ignore[reportUnknownMemberType]
        return number


def main() -> None:
    app = QCoreApplication(sys.argv)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    place = QObject()
    _server = Server(place)
    bus = QDBusConnection.sessionBus()
    assert bus.registerObject(PATH, place)
    assert bus.registerService(NAME)
    print("ready", flush=True)
    app.exec()


if __name__ == "__main__":
    main()
