"""Renders the menu data into a QMenu, also while it is open: texts change in place, a changed structure is rebuilt."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtGui import QAction, QActionGroup, QIcon, QPalette
from PyQt6.QtWidgets import QMenu

from culvert_tray.commands import Command, ShowWindow
from culvert_tray.menu import Action, Entry, Heading, Label, Menu, Separator, Submenu, Trouble, fold
from culvert_tray.signals import connect

Dispatch = Callable[[Command], None]


class TrayMenu(QMenu):
    def __init__(self, dispatch: Dispatch, parent: QMenu | None = None) -> None:
        super().__init__(parent)
        self._dispatch = dispatch
        self._shown: Menu = ()
        self._rows: list[QAction | TrayMenu] = []
        # Exactly one checkable entry is checked; Qt draws them as radio buttons.
        self._choice = QActionGroup(self)
        self.setAccessibleName("Culvert")
        # Labels are disabled actions; give them a readable contrast of 4.5:1 instead of the style's pale grey.
        palette = self.palette()
        text = palette.color(QPalette.ColorGroup.Active, QPalette.ColorRole.WindowText)
        text.setAlphaF(0.75)
        for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
            palette.setColor(QPalette.ColorGroup.Disabled, role, text)
        self.setPalette(palette)

    def render_menu(self, menu: Menu) -> None:
        menu = fold(menu)
        if menu == self._shown:
            return
        if _shape(menu) != _shape(self._shown):
            for row in self._rows:
                self.removeAction(row.menuAction() if isinstance(row, TrayMenu) else row)
                row.deleteLater()
            self._choice.deleteLater()
            self._choice = QActionGroup(self)
            self._rows = [self._add(entry) for entry in menu]
        for entry, row in zip(menu, self._rows, strict=True):
            _update(entry, row)
        self._shown = menu

    def _on_triggered(self, command: Command) -> None:
        # Undo Qt's change of the tick, which must follow the daemon's status.
        for entry, row in zip(self._shown, self._rows, strict=True):
            _update(entry, row)
        self._dispatch(command)

    def _add(self, entry: Entry) -> QAction | TrayMenu:
        if isinstance(entry, Submenu):
            submenu = TrayMenu(self._dispatch, self)
            self.addMenu(submenu)
            return submenu
        action = QAction(self)
        match entry:
            case Separator():
                action.setSeparator(True)
            case Label():
                action.setEnabled(False)
            case Heading():
                connect(action.triggered, lambda: self._on_triggered(ShowWindow()))
            case Trouble():
                # `fold` has made labels of it.
                pass
            case Action(command=command, checked=checked):
                if checked is not None:
                    self._choice.addAction(action)
                connect(action.triggered, lambda: self._on_triggered(command))
        self.insertAction(None, action)
        return action


def _update(entry: Entry, row: QAction | TrayMenu) -> None:
    match entry, row:
        case Submenu(text, entries), TrayMenu():
            row.setTitle(_plain(text))
            row.setAccessibleName(text)
            row.render_menu(entries)
        case Heading(text, icon), QAction():
            row.setText(_plain(text))
            row.setIcon(QIcon(str(icon.path)))
            row.setIconVisibleInMenu(True)
        case Label(text), QAction():
            row.setText(_plain(text))
        case Action(text, _, checked, enabled), QAction():
            row.setText(_plain(text))
            row.setEnabled(enabled)
            row.setCheckable(checked is not None)
            row.setChecked(bool(checked))
        case _:
            pass


def _plain(text: str) -> str:
    """Escape ampersands, which Qt interprets as mnemonics."""
    return text.replace("&", "&&")


def _shape(menu: Menu) -> list[object]:
    """The properties that can't change in place: kinds, commands and nesting."""
    return [
        (Submenu, _shape(entry.entries))
        if isinstance(entry, Submenu)
        else (Action, entry.command)
        if isinstance(entry, Action)
        else type(entry)
        for entry in menu
    ]
