"""Writes a picture of each page of the window, of the menus and of the dialogs into a folder, for a comparison of desktops.

cd tray-ui; python -m tests.pictures FOLDER
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from culvert_tray.commands import Page
from culvert_tray.menu import menu
from culvert_tray.preferences import Preferences
from culvert_tray.style import install_style, make_application
from culvert_tray.translation import install
from culvert_tray.tray_menu import TrayMenu
from culvert_tray.window import StatusWindow
from PyQt6.QtCore import QPoint
from PyQt6.QtGui import QImage
from PyQt6.QtWidgets import QApplication, QLineEdit, QTabWidget, QToolButton, QWidget

from . import statuses
from .cut_texts import dialogs

# Seconds in which a picture of a window at rest does not change.
_REST = 0.1


def shown() -> Iterator[tuple[str, QWidget]]:
    """Each with a name."""
    status = statuses.many_gateways()
    window = StatusWindow(lambda _: None, lambda: None)
    window.show_view(status, statuses.activities(), Preferences(autostart=True), statuses.NOW)
    for page in Page:
        window.show_page(page)
        tab = window.findChildren(QTabWidget)[0].currentWidget()
        for field in tab.findChildren(QLineEdit) if tab is not None else ():
            field.setText("corp" if page is Page.RESOURCES else "")
        yield page.name.lower(), window
    field = QLineEdit("wiki")
    for name, made in (
        ("menu", TrayMenu(lambda _: None)),
        ("menu of a field", field.createStandardContextMenu()),
    ):
        assert made is not None
        if isinstance(made, TrayMenu):
            made.render_menu(menu(status, statuses.NOW))
        made.popup(QPoint(0, 0))
        yield name, made
        made.hide()
    yield from dialogs()


def main(folder: Path) -> None:
    app = make_application(["culvert-tray"])
    install(app)
    install_style(app)
    folder.mkdir(parents=True)
    kept: list[QWidget] = []
    for name, window in shown():
        kept.append(window)
        window.show()
        _picture(app, window).save(str(folder / f"{name}.png"))
    # Leave without the destructors: some dialogs still wait.
    os._exit(0)


def _picture(app: QApplication, window: QWidget) -> QImage:
    """The window once its layout and its animations have come to rest."""
    before, now = QImage(), QImage()
    while now.isNull() or now != before or _fades(window):
        until = time.monotonic() + _REST
        while time.monotonic() < until:
            app.processEvents()
            time.sleep(0.01)
        before, now = now, window.grab().toImage()
    return now


def _fades(window: QWidget) -> bool:
    """Whether the button that clears a field is still on its way."""
    fields = (it for it in window.findChildren(QLineEdit) if it.text() and it.isVisible())
    return any(it.property("opacity") != 1.0 for field in fields for it in field.findChildren(QToolButton))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
