"""Ensures a single tray for each person: the first owns a name on the session bus; later ones pass their purpose to it.

The desktop passes a clicked link in the same way, and starts the tray for it (Desktop Entry Specification, "D-Bus
Activation"). So a link's one-time token is not in arguments, which every user of the computer can read.
"""

from __future__ import annotations

from typing import Any

from culvert_proto.invitation_link import LONGEST
from PyQt6.QtCore import QMetaType, QObject, pyqtClassInfo, pyqtSignal, pyqtSlot  # pyright: ignore[reportUnknownVariableType]
from PyQt6.QtDBus import QDBusAbstractAdaptor, QDBusArgument, QDBusConnection, QDBusMessage

NAME = "org.culvert.Tray"
"""Also that of the desktop file."""

SHOW = "show"
"""Show the window; every other word is a link."""

_PATH = "/org/culvert/Tray"
_INTERFACE = "org.freedesktop.Application"
_PATIENCE = 5_000  # milliseconds


class First(QObject):
    """Receives the purposes of later starts and of the desktop."""

    told = pyqtSignal(str)

    def __init__(self) -> None:
        super().__init__()
        self._application = _Application(self)
        self._bus = QDBusConnection.sessionBus()

    def begin(self) -> bool:
        """Whether this is the first tray; always true without a session bus."""
        if not self._bus.isConnected():
            return True
        # Register the object before the name, because a call may arrive as soon as the name exists.
        self._bus.registerObject(_PATH, self)
        return self._bus.registerService(NAME)

    def tell(self, word: str) -> None:
        """Pass a purpose to the running tray."""
        call = QDBusMessage.createMethodCall(NAME, _PATH, _INTERFACE, "Activate" if word == SHOW else "Open")
        links = [] if word == SHOW else [QDBusArgument([word], QMetaType.Type.QStringList.value)]
        call.setArguments([*links, {}])  # pyright: ignore[reportUnknownMemberType]
        self._bus.call(call, timeout=_PATIENCE)


@pyqtClassInfo("D-Bus Interface", _INTERFACE)  # pyright: ignore[reportOptionalCall, reportUntypedClassDecorator]
class _Application(QDBusAbstractAdaptor):
    def __init__(self, first: First) -> None:
        super().__init__(first)
        self._first = first

    @pyqtSlot("QVariantMap")  # pyright: ignore[reportUntypedFunctionDecorator]
    def Activate(self, platform_data: dict[str, Any]) -> None:  # noqa: N802  the specification's names
        self._first.told.emit(SHOW)

    @pyqtSlot("QStringList", "QVariantMap")  # pyright: ignore[reportUntypedFunctionDecorator]
    def Open(self, uris: list[str], platform_data: dict[str, Any]) -> None:  # noqa: N802
        for uri in uris[:1]:
            # Longer links are refused, so the rest need not be passed.
            self._first.told.emit(uri[: LONGEST + 1])

    @pyqtSlot("QString", "QVariantList", "QVariantMap")  # pyright: ignore[reportUntypedFunctionDecorator]
    def ActivateAction(self, name: str, parameter: list[Any], platform_data: dict[str, Any]) -> None:  # noqa: N802
        self._first.told.emit(SHOW)
