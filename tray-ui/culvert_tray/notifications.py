"""Shows notices with org.freedesktop.Notifications (Desktop Notifications Specification 1.2).

A notice for a code has an input field if the server offers it (KDE's extension `inline-reply`), otherwise a button that
opens the dialog.
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

from culvert_tray.commands import EnterCode
from culvert_tray.notices import Cause, Notice
from culvert_tray.signals import connect
from culvert_tray.single import NAME
from culvert_tray.translation import tr

_SERVICE = "org.freedesktop.Notifications"
_PATH = "/org/freedesktop/Notifications"

# Expiry times of the specification: the desktop decides, or the notice stays until the person closes it.
_DESKTOP_DECIDES, _STAYS = -1, 0


class Notifications(QObject):
    """`asked`: `available` is known; `clicked`: the command of a clicked notice; `replied`: a code typed into a notice, and
    its organisation."""

    asked = pyqtSignal()
    clicked = pyqtSignal(object)
    replied = pyqtSignal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[int, Notice] = {}
        # Notices without a number yet. One that ends meanwhile is closed when its number arrives.
        self._coming: list[Notice] = []
        self._ended: list[Notice] = []
        self._offers: frozenset[str] | None = None
        self._asks = False
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
    def available(self) -> bool | None:
        """Whether there is a server. None: it has not answered yet."""
        return None if self._asks else self._offers is not None

    def show(self, notice: Notice) -> None:
        """Show a notice; does nothing without a notification server."""
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
        # A server with markup interprets the text, so escape it.
        text = (
            notice.text.replace("&", "&amp;").replace("<", "&lt;") if "body-markup" in offers else notice.text
        )
        # The same notice once more comes up again, instead of a second one below it.
        before = next((number for number, it in self._shown.items() if it == notice), 0)
        arguments: list[object] = [
            "Culvert",
            QDBusArgument(before, QMetaType.Type.UInt.value),
            "dialog-warning" if notice.warning else "culvert",
            notice.title,
            text,
            QDBusArgument(actions, QMetaType.Type.QStringList.value),
            hints,
            _STAYS if asks_for_code else _DESKTOP_DECIDES,
        ]
        self._coming.append(notice)

        def shown(number: int) -> None:
            if notice in self._coming:
                self._coming.remove(notice)
            if notice in self._ended:
                self._ended.remove(notice)
                self._close(number)
            else:
                self._shown[number] = notice

        self._call("Notify", arguments, lambda answer: shown(int(answer)))

    def close_ended(self, holds: Callable[[Cause], bool]) -> None:
        """Close notices whose cause has ended."""
        self._ended += [
            it
            for it in self._coming
            if it not in self._ended and it.cause is not None and not holds(it.cause)
        ]
        over = [number for number, it in self._shown.items() if it.cause is not None and not holds(it.cause)]
        for number in over:
            del self._shown[number]
            self._close(number)

    def _close(self, number: int) -> None:
        arguments: list[object] = [QDBusArgument(number, QMetaType.Type.UInt.value)]
        self._call("CloseNotification", arguments, lambda _: None)

    def _ask_what_it_offers(self) -> None:
        """Ask a new server for its capabilities. The previous server's notices are gone."""
        self._offers = None
        self._asks = True
        for before in (self._shown, self._coming, self._ended):
            before.clear()

        def told(answer: list[str]) -> None:
            self._offers = frozenset(map(str, answer))

        def finished() -> None:
            self._asks = False
            self.asked.emit()

        self._call("GetCapabilities", [], told, finished)

    def _call(
        self,
        method: str,
        arguments: list[object],
        then: Callable[[Any], None],
        always: Callable[[], None] = lambda: None,
    ) -> None:
        message = QDBusMessage.createMethodCall(_SERVICE, _PATH, _SERVICE, method)
        message.setArguments(arguments)  # pyright: ignore[reportUnknownMemberType]
        watcher = QDBusPendingCallWatcher(self._bus.asyncCall(message), self)

        def finished(watcher: QDBusPendingCallWatcher) -> None:
            answer = QDBusPendingReply(watcher)
            if answer.isValid():
                then(answer.argumentAt(0))
            always()
            watcher.deleteLater()

        connect(watcher.finished, finished)

    @pyqtSlot(QDBusMessage)  # pyright: ignore[reportUntypedFunctionDecorator]
    def _invoked(self, message: QDBusMessage) -> None:
        number, action = message.arguments()
        if number in self._shown and action != "inline-reply":
            self.clicked.emit(self._shown[number].command)

    @pyqtSlot(QDBusMessage)  # pyright: ignore[reportUntypedFunctionDecorator]
    def _replied(self, message: QDBusMessage) -> None:
        number, text = message.arguments()
        notice = self._shown.get(number)
        command = notice.command if notice is not None else None
        if isinstance(command, EnterCode):
            self.replied.emit(str(text), command.organisation)

    @pyqtSlot(QDBusMessage)  # pyright: ignore[reportUntypedFunctionDecorator]
    def _closed(self, message: QDBusMessage) -> None:
        self._shown.pop(message.arguments()[0], None)
