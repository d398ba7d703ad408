"""Notices on a desktop without a tray: org.freedesktop.Notifications (Desktop Notifications Specification 1.2)."""

from __future__ import annotations

from PyQt6.QtCore import QMetaType, QObject, pyqtSignal, pyqtSlot  # pyright: ignore[reportUnknownVariableType]
from PyQt6.QtDBus import (
    QDBusArgument,
    QDBusConnection,
    QDBusMessage,
    QDBusPendingCallWatcher,
    QDBusPendingReply,
)

from culvert_tray.signals import connect

_SERVICE = "org.freedesktop.Notifications"
_PATH = "/org/freedesktop/Notifications"

# The specification: the desktop decides how long a notice stays.
_DESKTOP_DECIDES = -1


class Notifications(QObject):
    """`clicked`: the person has clicked on the newest notice."""

    clicked = pyqtSignal()

    def __init__(self) -> None:
        super().__init__()
        self._newest: int | None = None
        self._bus = QDBusConnection.sessionBus()
        self._bus.connect(_SERVICE, _PATH, _SERVICE, "ActionInvoked", self._invoked)  # pyright: ignore[reportUnknownMemberType, reportCallIssue, reportArgumentType]

    def show(self, title: str, text: str, icon: str) -> None:
        """Where nobody shows notices, nothing happens."""
        message = QDBusMessage.createMethodCall(_SERVICE, _PATH, _SERVICE, "Notify")
        arguments = [
            "Culvert",
            QDBusArgument(0, QMetaType.Type.UInt.value),
            icon,
            title,
            # A server may take the text for markup.
            text.replace("&", "&amp;").replace("<", "&lt;"),
            QDBusArgument(["default", "Open"], QMetaType.Type.QStringList.value),
            {"desktop-entry": "culvert-tray"},
            _DESKTOP_DECIDES,
        ]
        message.setArguments(arguments)  # pyright: ignore[reportUnknownMemberType]
        watcher = QDBusPendingCallWatcher(self._bus.asyncCall(message), self)
        connect(watcher.finished, self._shown)

    def _shown(self, watcher: QDBusPendingCallWatcher) -> None:
        answer = QDBusPendingReply(watcher)
        self._newest = int(answer.argumentAt(0)) if answer.isValid() else None
        watcher.deleteLater()

    @pyqtSlot(QDBusMessage)  # pyright: ignore[reportUntypedFunctionDecorator]
    def _invoked(self, message: QDBusMessage) -> None:
        if message.arguments()[:1] == [self._newest]:
            self.clicked.emit()
