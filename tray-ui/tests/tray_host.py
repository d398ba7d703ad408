"""A host of tray icons by StatusNotifierItem, as KDE and GNOME's extensions have one: prints each item that registers.

Run as a program; a desktop starts it whenever it likes, also after the trays.
"""

from __future__ import annotations

import signal
import sys

from PyQt6.QtCore import QCoreApplication, QObject, pyqtClassInfo, pyqtProperty, pyqtSignal, pyqtSlot  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]
from PyQt6.QtDBus import QDBusAbstractAdaptor, QDBusConnection

NAME = "org.kde.StatusNotifierWatcher"


@pyqtClassInfo("D-Bus Interface", NAME)  # pyright: ignore[reportOptionalCall, reportUntypedClassDecorator]
class Watcher(QDBusAbstractAdaptor):
    StatusNotifierHostRegistered = pyqtSignal()

    @pyqtSlot(str)  # pyright: ignore[reportUntypedFunctionDecorator]
    def RegisterStatusNotifierItem(self, item: str) -> None:  # noqa: N802  the specification's names
        print("item", item, flush=True)

    @pyqtSlot(str)  # pyright: ignore[reportUntypedFunctionDecorator]
    def RegisterStatusNotifierHost(self, host: str) -> None:  # noqa: N802
        pass

    @pyqtProperty(bool)  # pyright: ignore[reportUntypedFunctionDecorator]
    def IsStatusNotifierHostRegistered(self) -> bool:  # noqa: N802
        return True

    @pyqtProperty(int)  # pyright: ignore[reportUntypedFunctionDecorator]
    def ProtocolVersion(self) -> int:  # noqa: N802
        return 0


def main() -> None:
    app = QCoreApplication(sys.argv)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    place = QObject()
    _watcher = Watcher(place)
    bus = QDBusConnection.sessionBus()
    assert bus.registerObject("/StatusNotifierWatcher", place)
    assert bus.registerService(NAME)
    print("ready", flush=True)
    app.exec()


if __name__ == "__main__":
    main()
