"""The window of "Open Culvert…", which also replaces the icon if the desktop has no tray."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version

from culvert_proto import local_pb2
from PyQt6.QtCore import QSize, Qt
from PyQt6.QtGui import QCloseEvent, QKeySequence, QResizeEvent, QShortcut
from PyQt6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QTabWidget, QVBoxLayout, QWidget

from culvert_tray import menu as menus
from culvert_tray.commands import AnswerClaims, Command, EnterCode, Page, Quit, ShowReason
from culvert_tray.menu import Action, Heading, Label, Menu, Submenu, Trouble
from culvert_tray.notices import Notice, holds
from culvert_tray.pages import (
    AboutPage,
    ActivityPage,
    DiagnosticsPage,
    GatewaysPage,
    ResourcesPage,
    SettingsPage,
    TunnelsPage,
    needs_card,
)
from culvert_tray.parts import Banner, MenuButton, Scrolled, action_button, clear, picture, text_label
from culvert_tray.preferences import NoticeKind, Preferences
from culvert_tray.signals import connect
from culvert_tray.style import set_role
from culvert_tray.translation import tr
from culvert_tray.view import Down, View, status_of

Dispatch = Callable[[Command], None]

_SIZE = QSize(860, 640)
# The most room, in pixels, that tabs and page keep: for the card of an opening and two rows.
_LOWEST = 400
# The head's margins, left and right together.
_MARGINS = 32
_ICON = 44
# The characters of a control that stands beside the status.
_OPENER = 32
# Below this width, in pixels, the controls come under the status.
_BESIDE = 640


class StatusWindow(QWidget):
    def __init__(self, dispatch: Dispatch, closed: Callable[[], None]) -> None:
        super().__init__()
        self._dispatch, self._closed = dispatch, closed
        self.setWindowTitle("Culvert")
        self._head = _Head(dispatch)
        self._view: View | None = None
        self._notice: Notice | None = None
        self._said = QWidget()
        self._said_layout = QVBoxLayout(self._said)
        self._said_layout.setContentsMargins(0, 0, 0, 0)
        self._said.hide()
        self._resources, self._tunnels = ResourcesPage(dispatch), TunnelsPage(dispatch)
        self._gateways = GatewaysPage(dispatch)
        self._activity, self.diagnostics = ActivityPage(dispatch), DiagnosticsPage(dispatch)
        self._settings, self._about = SettingsPage(dispatch), AboutPage(dispatch, version("culvert-tray"))
        self._pages: dict[Page, QWidget] = {
            Page.RESOURCES: self._resources,
            Page.TUNNELS: self._tunnels,
            Page.GATEWAYS: self._gateways,
            Page.ACTIVITY: self._activity,
            Page.DIAGNOSTICS: self.diagnostics,
            Page.SETTINGS: self._settings,
            Page.ABOUT: self._about,
        }
        self._tabs = _Tabs()
        self._tabs.setDocumentMode(True)
        for number, (page, widget) in enumerate(self._pages.items(), 1):
            self._tabs.addTab(widget, tr(page.value))
            connect(QShortcut(QKeySequence(f"Alt+{number}"), self).activated, partial(self._show_tab, number))
        connect(self._tabs.currentChanged, self._on_page)
        connect(QShortcut(QKeySequence("Ctrl+Q"), self).activated, lambda: dispatch(Quit()))
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(24, 20, 24, 20)
        layout.setSpacing(12)
        for widget in (self._head, self._said):
            layout.addWidget(widget)
        layout.addWidget(self._tabs, 1)
        outside = QVBoxLayout(self)
        outside.setContentsMargins(0, 0, 0, 0)
        outside.addWidget(Scrolled(content))
        room = screen.availableSize() if (screen := self.screen()) is not None else _SIZE
        self.resize(_SIZE.boundedTo(room))
        self._tabs.setFocus()

    def show_view(
        self, view: View, activities: Iterable[local_pb2.Activity], preferences: Preferences, now: float
    ) -> None:
        self._view = view
        status = status_of(view)
        self._head.show_view(view, now)
        self._resources.show_view(view, preferences)
        self._tunnels.show_view(view, now)
        self._gateways.show_view(status)
        # The menus list a few.
        self._tabs.setTabVisible(self._tabs.indexOf(self._gateways), menus.has_many_gateways(status))
        self._activity.show_view(activities, now)
        self._settings.show_view(view, preferences)
        self._about.show_view(status)
        cause = self._notice.cause if self._notice is not None else None
        # Hide it only: the cause may continue when the daemon is back.
        self._said.setVisible(self._notice is not None and (cause is None or holds(cause, view, now)))
        self._on_page()

    @property
    def page(self) -> Page:
        return next(page for page, widget in self._pages.items() if widget is self._tabs.currentWidget())

    def show_page(self, page: Page) -> None:
        self._tabs.setCurrentWidget(self._pages[page])

    def _show_tab(self, number: int) -> None:
        """`number`: counts the visible tabs from 1."""
        visible = [at for at in range(self._tabs.count()) if self._tabs.isTabVisible(at)]
        if number <= len(visible):
            self._tabs.setCurrentIndex(visible[number - 1])

    def show_timed(self) -> None:
        """The times that the person asked for are in the status, or refused."""
        self._tunnels.show_timed()

    def show_notice(self, notice: Notice) -> None:
        if notice.cause is not None and notice.kind is not NoticeKind.FAILED_OVER:
            # The head or a row shows it while it lasts.
            return
        self._notice = notice
        clear(self._said_layout)
        role = "attention" if notice.warning else "card"
        told = Trouble(notice.title, notice.text)
        cures = [action_button(it, self._dispatch) for it in (notice.cure,) if it is not None]
        self._said_layout.addWidget(Banner(told, *cures, role=role))
        self._said.show()

    def clear_answer(self) -> None:
        """Remove the answer to the previous click."""
        if self._notice is not None and self._notice.cause is None:
            self._notice = None
            self._said.hide()

    def closeEvent(self, a0: QCloseEvent | None) -> None:  # noqa: N802  Qt's name
        super().closeEvent(a0)
        self._closed()

    def _on_page(self) -> None:
        self._tabs.updateGeometry()
        # The page's card says the same.
        listed = self._tabs.currentWidget() in (self._resources, self._tunnels)
        self._head.setVisible(not (listed and self._view is not None and needs_card(self._view)))


class _Tabs(QTabWidget):
    """Its pages have lists, which shrink and scroll themselves before the window does."""

    def hasHeightForWidth(self) -> bool:  # noqa: N802  Qt's names
        return False

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """That of the page that is shown, and not of the one that needs most."""
        page, bar = self.currentWidget(), self.tabBar()
        if page is None or bar is None:
            return super().minimumSizeHint()
        needed = page.minimumSizeHint().height()
        if (layout := page.layout()) is not None and layout.hasHeightForWidth():
            needed = max(needed, layout.minimumHeightForWidth(self.width()))
        return QSize(super().minimumSizeHint().width(), min(bar.sizeHint().height() + needed, _LOWEST))


class _Head(QFrame):
    """The status as text with its proof, the person's remedy, the gateway and the pause."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        set_role(self, "card")
        self._dispatch = dispatch
        self._shown: tuple[object, ...] = ()
        self._openers = [MenuButton(dispatch, _OPENER), MenuButton(dispatch, _OPENER)]
        self._controls = QHBoxLayout()
        self._controls.setSpacing(8)
        for opener in self._openers:
            self._controls.addWidget(opener)
        self._resume = QHBoxLayout()
        self._controls.addLayout(self._resume)
        self._texts, self._banners = QVBoxLayout(), QVBoxLayout()
        self._texts.setSpacing(2)
        self._banners.setSpacing(8)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._row.setSpacing(12)
        self._icon = QVBoxLayout()
        self._status = QHBoxLayout()
        self._status.setSpacing(14)
        self._status.addLayout(self._icon)
        self._status.addLayout(self._texts, 1)
        self._row.addLayout(self._status, 1)
        self._row.addLayout(self._controls)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(_MARGINS // 2, 14, _MARGINS // 2, 14)
        layout.setSpacing(12)
        layout.addLayout(self._row)
        layout.addLayout(self._banners)

    def resizeEvent(self, a0: QResizeEvent | None) -> None:  # noqa: N802  Qt's name
        super().resizeEvent(a0)
        self._arrange()

    def minimumSizeHint(self) -> QSize:  # noqa: N802  Qt's name
        """As wide as the wider of status and controls: they need not stand side by side."""
        widest = max(it.minimumSize().width() for it in (self._status, self._controls, self._banners))
        return QSize(widest + _MARGINS, super().minimumSizeHint().height())

    def _arrange(self) -> None:
        needed = (
            self._status.minimumSize().width() + self._row.spacing() + self._controls.minimumSize().width()
        )
        beside = self.width() >= max(_BESIDE, needed + _MARGINS)
        directions = QBoxLayout.Direction
        self._row.setDirection(directions.LeftToRight if beside else directions.TopToBottom)

    def show_view(self, view: View, now: float) -> None:
        controls = () if isinstance(view, Down) else menus.controls(view)
        submenus = [entry for entry in controls if isinstance(entry, Submenu)]
        resume = tuple(entry for entry in controls if isinstance(entry, Action))
        proof = "" if isinstance(view, Down) else menus.proof(view, now)
        shown = (menus.head(view, now), proof, resume)
        if shown != self._shown:
            self._shown = shown
            self._write(*shown)
        for at, opener in enumerate(self._openers):
            opener.setVisible(at < len(submenus))
            if at < len(submenus):
                opener.show_menu(submenus[at])
        self._arrange()

    def _write(self, head: Menu, proof: str, resume: tuple[Action, ...]) -> None:
        for layout in (self._icon, self._texts, self._banners, self._resume):
            clear(layout)
        for action in resume:
            self._resume.addWidget(action_button(action, self._dispatch, "primary"))
        for entry in head:
            match entry:
                case Heading(text, icon):
                    self._icon.addWidget(picture(icon.path, _ICON, self.devicePixelRatio()))
                    self._icon.addStretch()
                    self._texts.addWidget(text_label(text, "title"))
                    if proof:
                        self._texts.addWidget(text_label(proof))
                case Label(text):
                    self._texts.addWidget(text_label(text, "note"))
                case Trouble():
                    more = Action(tr("More…"), ShowReason(entry.page)) if entry.page else None
                    shown = [action_button(it, self._dispatch) for it in (entry.cure, more) if it is not None]
                    self._banners.addWidget(Banner(entry, *shown))
                case Action(text, EnterCode() | AnswerClaims()):
                    ask = action_button(entry, self._dispatch, "primary")
                    self._texts.addSpacing(6)
                    self._texts.addWidget(ask, 0, Qt.AlignmentFlag.AlignLeft)
                case Action():
                    made = action_button(entry, self._dispatch)
                    self._texts.addSpacing(6)
                    self._texts.addWidget(made, 0, Qt.AlignmentFlag.AlignLeft)
                case _:
                    pass
        self._texts.addStretch()
