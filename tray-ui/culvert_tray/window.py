"""The same menu data as a window: for desktops without a tray, and behind "Open Culvert…"."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import QSize, Qt
from PyQt6.QtGui import QCloseEvent, QIcon
from PyQt6.QtWidgets import (
    QGridLayout,
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QRadioButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from culvert_tray.commands import Command, ShowWindow
from culvert_tray.menu import Action, Entry, Heading, Label, Menu, Separator, Submenu
from culvert_tray.notices import Notice
from culvert_tray.signals import connect

Dispatch = Callable[[Command], None]

_ICON = QSize(32, 32)
_COLUMNS = 2


class StatusWindow(QWidget):
    def __init__(self, dispatch: Dispatch, closed: Callable[[], None]) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._closed = closed
        self._shown: Menu | None = None
        self._buttons: dict[Command, QWidget] = {}
        self.setWindowTitle("Culvert")
        self.setMinimumWidth(440)
        self._notice = QLabel()
        self._notice.setWordWrap(True)
        self._notice.setTextFormat(Qt.TextFormat.PlainText)
        self._notice.hide()
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        layout = QVBoxLayout(self)
        layout.addWidget(self._scroll)
        layout.addWidget(self._notice)
        self.resize(520, 560)

    def render_menu(self, menu: Menu) -> None:
        if menu == self._shown:
            return
        self._shown = menu
        focused = next((command for command, b in self._buttons.items() if b.hasFocus()), None)
        self._buttons = {}
        content = QWidget()
        layout = QVBoxLayout(content)
        for entry in menu:
            self._add(entry, layout)
        layout.addStretch()
        if (old := self._scroll.takeWidget()) is not None:
            # One of its buttons may be what brought us here.
            old.deleteLater()
        self._scroll.setWidget(content)
        if focused in self._buttons:
            self._buttons[focused].setFocus()

    def show_notice(self, notice: Notice) -> None:
        self._notice.setText(f"{notice.title}\n{notice.text}")
        self._notice.show()

    def closeEvent(self, a0: QCloseEvent | None) -> None:  # noqa: N802  Qt's name
        super().closeEvent(a0)
        self._closed()

    def _add(self, entry: Entry, layout: QLayout) -> None:
        match entry:
            case Heading(text, icon):
                row = QHBoxLayout()
                picture = QLabel()
                picture.setPixmap(QIcon(str(icon.path)).pixmap(_ICON, self.devicePixelRatio()))
                heading = _label(text)
                font = heading.font()
                font.setPointSizeF(font.pointSizeF() * 1.3)
                font.setBold(True)
                heading.setFont(font)
                row.addWidget(picture)
                row.addWidget(heading, 1)
                if isinstance(layout, QVBoxLayout):
                    layout.addLayout(row)
            case Label(text):
                layout.addWidget(_label(text))
            case Submenu(text, entries):
                group = QGroupBox(text.replace("&", "&&"))
                rows = QVBoxLayout(group)
                grid = QGridLayout()
                rows.addLayout(grid)
                for inner in entries:
                    place = rows if not isinstance(inner, Action) or inner.checked is not None else grid
                    self._add(inner, place)
                layout.addWidget(group)
            case Action(command=ShowWindow()) | Separator():
                pass
            case Action(text, command, checked, enabled):
                plain = text.replace("&", "&&")
                button = QPushButton(plain) if checked is None else QRadioButton(plain)
                button.setAutoExclusive(False)
                button.setEnabled(enabled)
                button.setChecked(bool(checked))
                button.setAccessibleName(text)

                def clicked() -> None:
                    # Qt has moved the mark already; it moves for the person when the daemon says so.
                    button.setChecked(bool(checked))
                    self._dispatch(command)

                connect(button.clicked, clicked)
                self._buttons[command] = button
                if isinstance(layout, QGridLayout):
                    layout.addWidget(button, layout.count() // _COLUMNS, layout.count() % _COLUMNS)
                else:
                    layout.addWidget(button)


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return label
