"""The window of "Open Culvert…", which also replaces the icon if the desktop has no tray."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version

from culvert_proto import local_pb2
from PyQt6.QtCore import QSize, Qt
from PyQt6.QtGui import QCloseEvent, QIcon, QKeySequence, QShortcut
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QTabWidget, QVBoxLayout, QWidget

from culvert_tray import menu as menus
from culvert_tray.commands import Command, Page
from culvert_tray.menu import Action, Heading, Label, Menu, Submenu
from culvert_tray.notices import DaemonDown, Notice, Refused, holds
from culvert_tray.pages import AboutPage, ActivityPage, DiagnosticsPage, ResourcesPage, TunnelsPage
from culvert_tray.preferences import Preferences
from culvert_tray.signals import connect
from culvert_tray.translation import tr
from culvert_tray.tray_menu import TrayMenu
from culvert_tray.view import Down, View, status_of

Dispatch = Callable[[Command], None]

_ICON = QSize(32, 32)


class StatusWindow(QWidget):
    def __init__(self, dispatch: Dispatch, closed: Callable[[], None]) -> None:
        super().__init__()
        self._closed = closed
        self.setWindowTitle("Culvert")
        self._head = _Head(dispatch)
        self._notice: Notice | None = None
        self._notice_text = _label("")
        self._notice_text.hide()
        self._resources, self._tunnels = ResourcesPage(dispatch), TunnelsPage(dispatch)
        self._activity, self.diagnostics = ActivityPage(dispatch), DiagnosticsPage(dispatch)
        self._about = AboutPage(version("culvert-tray"))
        self._pages: dict[Page, QWidget] = {
            Page.RESOURCES: self._resources,
            Page.TUNNELS: self._tunnels,
            Page.ACTIVITY: self._activity,
            Page.DIAGNOSTICS: self.diagnostics,
            Page.ABOUT: self._about,
        }
        self._tabs = QTabWidget()
        self._tabs.setDocumentMode(True)
        for number, (page, widget) in enumerate(self._pages.items(), 1):
            self._tabs.addTab(widget, tr(page.value))
            connect(QShortcut(QKeySequence(f"Alt+{number}"), self).activated, partial(self.show_page, page))
        layout = QVBoxLayout(self)
        layout.addWidget(self._head)
        layout.addWidget(self._tabs, 1)
        layout.addWidget(self._notice_text)
        self.resize(720, 560)
        self._tabs.setFocus()

    def show_view(
        self, view: View, activities: Iterable[local_pb2.Activity], preferences: Preferences, now: float
    ) -> None:
        status = status_of(view)
        self._head.show_view(view, now)
        self._resources.show_view(view, preferences)
        self._tunnels.show_view(status, now)
        self._activity.show_view(activities, preferences, now)
        self._about.show_view(status)
        cause = self._notice.cause if self._notice is not None else None
        # Hide it only: the cause may continue when the daemon is back.
        self._notice_text.setVisible(self._notice is not None and (cause is None or holds(cause, view, now)))

    def show_page(self, page: Page) -> None:
        self._tabs.setCurrentWidget(self._pages[page])

    def show_notice(self, notice: Notice) -> None:
        if isinstance(notice.cause, Refused | DaemonDown):
            # The head shows it while it lasts.
            return
        self._notice = notice
        self._notice_text.setText(f"{notice.title}\n{notice.text}".strip())
        self._notice_text.show()

    def clear_answer(self) -> None:
        """Remove the answer to the previous click."""
        if self._notice is not None and self._notice.cause is None:
            self._notice = None
            self._notice_text.hide()

    def closeEvent(self, a0: QCloseEvent | None) -> None:  # noqa: N802  Qt's name
        super().closeEvent(a0)
        self._closed()


class _Head(QWidget):
    """The status as text, the person's remedy, the gateway and the pause."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._shown: Menu = ()
        self._texts = QWidget()
        self._popups = [TrayMenu(dispatch), TrayMenu(dispatch)]
        self._openers: list[QPushButton] = []
        self._controls = QHBoxLayout()
        for popup in self._popups:
            opener = QPushButton()
            opener.setMenu(popup)
            self._openers.append(opener)
            self._controls.addWidget(opener)
        self._controls.addStretch()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(self._texts)
        self._layout.addLayout(self._controls)

    def show_view(self, view: View, now: float) -> None:
        controls = () if isinstance(view, Down) else menus.controls(view)
        submenus = [entry for entry in controls if isinstance(entry, Submenu)]
        head = (*menus.head(view, now), *(entry for entry in controls if isinstance(entry, Action)))
        if head != self._shown:
            self._shown = head
            self._write(head)
        for at, (opener, popup) in enumerate(zip(self._openers, self._popups, strict=True)):
            opener.setVisible(at < len(submenus))
            if at < len(submenus):
                opener.setText(submenus[at].text.replace("&", "&&"))
                popup.render_menu(submenus[at].entries)

    def _write(self, head: Menu) -> None:
        old, self._texts = self._texts, QWidget()
        layout = QVBoxLayout(self._texts)
        layout.setContentsMargins(0, 0, 0, 0)
        for entry in head:
            match entry:
                case Heading(text, icon):
                    layout.addLayout(_heading(text, QIcon(str(icon.path)), self.devicePixelRatio()))
                case Label(text):
                    layout.addWidget(_label(text))
                case Action(text, command):
                    button = QPushButton(text.replace("&", "&&"))
                    connect(button.clicked, partial(self._on_click, command))
                    layout.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
                case _:
                    pass
        self._layout.replaceWidget(old, self._texts)
        # Delete it later, because one of its buttons may have caused this call.
        old.hide()
        old.deleteLater()

    def _on_click(self, command: Command, _checked: bool) -> None:
        self._dispatch(command)


def _heading(text: str, icon: QIcon, ratio: float) -> QHBoxLayout:
    row = QHBoxLayout()
    picture = QLabel()
    picture.setPixmap(icon.pixmap(_ICON, ratio))
    heading = _label(text)
    font = heading.font()
    font.setPointSizeF(font.pointSizeF() * 1.3)
    font.setBold(True)
    heading.setFont(font)
    row.addWidget(picture)
    row.addWidget(heading, 1)
    return row


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return label
