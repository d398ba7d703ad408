"""Notices by the desktop: org.freedesktop.Notifications (Desktop Notifications Specification 1.2).

One that asks for a code has a field to type it in where the server offers that (KDE's extension `inline-reply`), else a
button that opens the dialog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PyQt6.QtCore import QMetaType, QObject, pyqtSignal, pyqtSlot  # pyright: ignore[reportUnknownVariableType]
from PyQt6.QtDBus import (
    QDBusArgument,
    QDBusConnection,
    QDBusMessage,
    QDBusPendingCallWatcher,
    QDBusPendingReply,
    QDBusServiceWatcher,
)

from culvert_tray.commands import Command, EnterCode
from culvert_tray.notices import Notice
from culvert_tray.signals import connect
from culvert_tray.single import NAME
from culvert_tray.translation import tr

_SERVICE = "org.freedesktop.Notifications"
_PATH = "/org/freedesktop/Notifications"

# The specification: the desktop decides how long a notice stays, or the person.
_DESKTOP_DECIDES, _STAYS = -1, 0


class Notifications(QObject):
    """`clicked` has the command of the notice that was clicked on; `replied` the code typed into one, and whose it is."""

    clicked = pyqtSignal(object)
    replied = pyqtSignal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[int, Command | None] = {}
        self._offers: frozenset[str] | None = None
        self._bus = QDBusConnection.sessionBus()
        for signal, slot in (
            ("ActionInvoked", self._invoked),
            ("NotificationReplied", self._replied),
            ("NotificationClosed", self._closed),
        ):
            self._bus.connect(_SERVICE, _PATH, _SERVICE, signal, slot)  # pyright: ignore[reportUnknownMemberType, reportCallIssue, reportArgumentType]
        watcher = QDBusServiceWatcher(_SERVICE, self._bus, parent=self)
        connect(watcher.serviceOwnerChanged, self._ask_what_it_offers)
        self._ask_what_it_offers()

    @property
    def available(self) -> bool:
        """Whether a server has answered."""
        return self._offers is not None

    def show(self, notice: Notice) -> None:
        """Where nobody shows notices, nothing happens."""
        offers = self._offers or frozenset()
        asks_for_code = isinstance(notice.command, EnterCode)
        hints: dict[str, object] = {"desktop-entry": NAME}
        actions = ["default", tr("Open")]
        if asks_for_code and "inline-reply" in offers:
            actions += ["inline-reply", tr("Enter code")]
            hints["x-kde-reply-placeholder-text"] = tr("Six digits")
            hints["x-kde-reply-submit-button-text"] = tr("Submit")
        elif asks_for_code:
            actions += ["code", tr("Enter code…")]
        # A server that knows markup takes the text for it.
        text = (
            notice.text.replace("&", "&amp;").replace("<", "&lt;") if "body-markup" in offers else notice.text
        )
        arguments: list[object] = [
            "Culvert",
            QDBusArgument(0, QMetaType.Type.UInt.value),
            "dialog-warning" if notice.warning else "culvert",
            notice.title,
            text,
            QDBusArgument(actions, QMetaType.Type.QStringList.value),
            hints,
            _STAYS if asks_for_code else _DESKTOP_DECIDES,
        ]
        self._call("Notify", arguments, lambda answer: self._shown.update({int(answer): notice.command}))

    def _ask_what_it_offers(self) -> None:
        self._offers = None

        def told(answer: list[str]) -> None:
            self._offers = frozenset(map(str, answer))

        self._call("GetCapabilities", [], told)

    def _call(self, method: str, arguments: list[object], then: Callable[[Any], None]) -> None:
        message = QDBusMessage.createMethodCall(_SERVICE, _PATH, _SERVICE, method)
        message.setArguments(arguments)  # pyright: ignore[reportUnknownMemberType]
        watcher = QDBusPendingCallWatcher(self._bus.asyncCall(message), self)

        def finished(watcher: QDBusPendingCallWatcher) -> None:
            answer = QDBusPendingReply(watcher)
            if answer.isValid():
                then(answer.argumentAt(0))
            watcher.deleteLater()

        connect(watcher.finished, finished)

    @pyqtSlot(QDBusMessage)  # pyright: ignore[reportUntypedFunctionDecorator]
    def _invoked(self, message: QDBusMessage) -> None:
        number, action = message.arguments()
        if number in self._shown and action != "inline-reply":
            self.clicked.emit(self._shown[number])

    @pyqtSlot(QDBusMessage)  # pyright: ignore[reportUntypedFunctionDecorator]
    def _replied(self, message: QDBusMessage) -> None:
        number, text = message.arguments()
        command = self._shown.get(number)
        if isinstance(command, EnterCode):
            self.replied.emit(str(text), command.organisation)

    @pyqtSlot(QDBusMessage)  # pyright: ignore[reportUntypedFunctionDecorator]
    def _closed(self, message: QDBusMessage) -> None:
        self._shown.pop(message.arguments()[0], None)
