"""The parts that pages and dialogs are made of, in the roles of docs/design.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PyQt6.QtCore import QEvent, QObject, QSize, Qt
from PyQt6.QtGui import QGuiApplication, QIcon, QResizeEvent
from PyQt6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from culvert_tray.commands import Command
from culvert_tray.menu import Action, Submenu, Trouble, shorten
from culvert_tray.signals import connect
from culvert_tray.style import set_role, without_markup
from culvert_tray.tray_menu import TrayMenu

Dispatch = Callable[[Command], None]

_READABLE = 560
"""The longest line, in pixels: about 75 characters."""


# Below this width, in pixels, a banner's buttons come under its text.
_BESIDE = 640

_LONGEST_WORD = 48
"""Our tunable: characters. A label is at least as wide as its longest word."""


class _Label(QLabel):
    """A text whose long words, such as names without an end, are shortened. The whole is in the tool tip."""

    def setText(self, a0: str | None) -> None:  # noqa: N802  Qt's name
        text = a0 or ""
        shown = re.sub(r"\S+", lambda word: shorten(word[0], _LONGEST_WORD), text)
        super().setText(shown)
        self.setToolTip("" if shown == text else without_markup(text))
        self.setAccessibleName("" if shown == text else text)


class Scrolled(QScrollArea):
    """As high as its content, whose texts wrap; scrolled where less room is left than the content needs at least."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self._content = content
        self.setWidget(_AtLeast(content))
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # The keyboard reaches what it scrolls to.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def hasHeightForWidth(self) -> bool:  # noqa: N802  Qt's names
        return True

    def heightForWidth(self, a0: int) -> int:  # noqa: N802
        # Qt leaves the scroll bar where the content fits without it, but not beside it.
        bar = self.verticalScrollBar()
        needed = self._content.heightForWidth(a0 - (bar.sizeHint().width() if bar is not None else 0))
        return needed if needed >= 0 else self._content.sizeHint().height()

    def sizeHint(self) -> QSize:  # noqa: N802
        return self._content.sizeHint()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(self._content.minimumSizeHint().width(), 0)

    def eventFilter(self, a0: QObject | None, a1: QEvent | None) -> bool:  # noqa: N802
        if a1 is not None and a1.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(a0, a1)


class _AtLeast(QWidget):
    """Tells its scroll area the least height of its content; Qt's own answer is the height that the content prefers."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self._content = content
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(content)

    def heightForWidth(self, a0: int) -> int:  # noqa: N802  Qt's name
        layout = self._content.layout()
        return -1 if layout is None else layout.minimumHeightForWidth(a0)


def text_label(text: str, role: str = "", *, selectable: bool = True) -> QLabel:
    label = _Label()
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setText(text)
    if selectable:
        label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
    set_role(label, role)
    return label


def button(text: str, clicked: Callable[[], None], role: str = "") -> QPushButton:
    made = QPushButton(text)
    set_role(made, role)
    connect(made.clicked, lambda: clicked())
    return made


def action_button(action: Action, dispatch: Dispatch, role: str = "") -> QPushButton:
    made = button("", partial(dispatch, action.command), role)
    name_button(made, action.text)
    return made


def name_button(named: QPushButton, text: str, most: int = _LONGEST_WORD) -> None:
    """Give the button a text as it is, which may hold a long name. `most`: characters that are shown."""
    named.setText(shorten(text, most).replace("&", "&&"))
    named.setAccessibleName(text)
    named.setToolTip("" if len(text) <= most else without_markup(text))


def copy_text(text: str) -> None:
    if (clipboard := QGuiApplication.clipboard()) is not None:
        clipboard.setText(text)


class MenuButton(QPushButton):
    """Opens a submenu, whose text it has. `most`: characters that are shown."""

    def __init__(self, dispatch: Dispatch, most: int = _LONGEST_WORD) -> None:
        super().__init__()
        self._most = most
        self._popup = TrayMenu(dispatch)
        set_role(self, "menu")
        self.setMenu(self._popup)

    def show_menu(self, submenu: Submenu) -> None:
        name_button(self, submenu.text, self._most)
        self._popup.render_menu(submenu.entries)


def picture(path: Path, pixels: int, ratio: float) -> QLabel:
    label = QLabel()
    label.setPixmap(QIcon(str(path)).pixmap(QSize(pixels, pixels), ratio))
    label.setFixedSize(pixels, pixels)
    return label


def clear(layout: QBoxLayout) -> None:
    """Remove what is in it. One of its buttons may have caused this call, so each is deleted later."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()
        elif isinstance(inner := item.layout(), QBoxLayout):
            clear(inner)


class Banner(QFrame):
    """A trouble, with buttons beside it, or below it where it is narrow."""

    def __init__(self, trouble: Trouble, *beside: QPushButton, role: str = "bad") -> None:
        super().__init__()
        set_role(self, role)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(16, 10, 12, 10)
        self._row.setSpacing(12)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(text_label(trouble.text, "heading"))
        if trouble.remedy:
            texts.addWidget(text_label(trouble.remedy))
        self._row.addLayout(texts, 1)
        for each in beside:
            self._row.addWidget(each, 0, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)

    def resizeEvent(self, a0: QResizeEvent | None) -> None:  # noqa: N802  Qt's name
        super().resizeEvent(a0)
        is_wide = self.width() >= _BESIDE
        directions = QBoxLayout.Direction
        self._row.setDirection(directions.LeftToRight if is_wide else directions.TopToBottom)


class Card(QWidget):
    """In place of a list: what is missing, why, and the button that changes it. In the middle of its place."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._shown: tuple[object, ...] = ()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(24, 24, 24, 24)
        self._column.setSpacing(8)

    def tell(self, icon: Path, title: str, text: str, *actions: Action) -> None:
        """The first action is the primary one."""
        shown = (icon, title, text, actions)
        if shown == self._shown:
            return
        self._shown = shown
        clear(self._column)
        self._column.addStretch(2)
        centre = Qt.AlignmentFlag.AlignHCenter
        self._column.addWidget(picture(icon, 56, self.devicePixelRatio()), 0, centre)
        self._column.addSpacing(8)
        for label in (text_label(title, "title"), text_label(text)):
            label.setAlignment(centre)
            label.setMaximumWidth(_READABLE)
            label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
            row = QHBoxLayout()
            row.addStretch()
            row.addWidget(label, 100)
            row.addStretch()
            if label.text():
                self._column.addLayout(row)
        self._column.addSpacing(8)
        for number, action in enumerate(actions):
            made = action_button(action, self._dispatch, "" if number else "primary")
            self._column.addWidget(made, 0, centre)
        self._column.addStretch(3)
