"""Whether the desktop is dark: as its portal says, else as Qt finds.

Qt asks the theme of GTK 3 under GNOME and Xfce, which stays light when the person chooses the dark style.
"""

from __future__ import annotations

from PyQt6.QtCore import QObject, Qt, pyqtSignal, pyqtSlot  # pyright: ignore[reportUnknownVariableType]
from PyQt6.QtDBus import (
    QDBusConnection,
    QDBusMessage,
    QDBusPendingCallWatcher,
    QDBusPendingReply,
    QDBusVariant,
)
from PyQt6.QtGui import QStyleHints

from culvert_tray.signals import connect

_SERVICE, _PATH = "org.freedesktop.portal.Desktop", "/org/freedesktop/portal/desktop"
_INTERFACE = "org.freedesktop.portal.Settings"
_SETTING = ("org.freedesktop.appearance", "color-scheme")
# The portal's values; 0 says that the person prefers nothing.
_PREFERS = {1: True, 2: False}


class ColourScheme(QObject):
    changed = pyqtSignal()

    def __init__(self, hints: QStyleHints, parent: QObject) -> None:
        super().__init__(parent)
        self._hints = hints
        self._preferred: bool | None = None
        connect(hints.colorSchemeChanged, lambda: self.changed.emit())  # pyright: ignore[reportUnknownLambdaType]
        bus = QDBusConnection.sessionBus()
        bus.connect(_SERVICE, _PATH, _INTERFACE, "SettingChanged", self._setting_changed)  # pyright: ignore[reportUnknownMemberType, reportCallIssue, reportArgumentType]
        question = QDBusMessage.createMethodCall(_SERVICE, _PATH, _INTERFACE, "Read")
        question.setArguments(list(_SETTING))  # pyright: ignore[reportUnknownMemberType]
        # Not awaited: a portal may take seconds to start.
        self._question = QDBusPendingCallWatcher(bus.asyncCall(question), self)
        connect(self._question.finished, self._answered)

    @property
    def is_dark(self) -> bool:
        return (
            self._hints.colorScheme() is Qt.ColorScheme.Dark if self._preferred is None else self._preferred
        )

    def _answered(self, watcher: QDBusPendingCallWatcher) -> None:
        answer = QDBusPendingReply(watcher)
        if answer.isValid():
            self._take(answer.argumentAt(0))

    @pyqtSlot(QDBusMessage)  # pyright: ignore[reportUntypedFunctionDecorator]
    def _setting_changed(self, message: QDBusMessage) -> None:
        namespace, key, value = message.arguments()
        if (namespace, key) == _SETTING:
            self._take(value)

    def _take(self, value: object) -> None:
        while isinstance(value, QDBusVariant):
            value = value.variant()
        self._preferred = _PREFERS.get(value) if isinstance(value, int) else None
        self.changed.emit()
