"""Help ▸ Documentation: shows `help/LANGUAGE.md` in a window, without network access."""

from __future__ import annotations

from pathlib import Path

from culvert_proto.language import choose
from PyQt6.QtWidgets import QDialog, QTextBrowser, QVBoxLayout

from culvert_tray.dialogs import close_button
from culvert_tray.signals import connect
from culvert_tray.translation import tr


class DocumentationDialog(QDialog):
    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle(tr("Culvert's documentation"))
        text = QTextBrowser()
        text.setAccessibleName(self.windowTitle())
        text.setMarkdown(documentation(choose()))
        buttons = close_button()
        connect(buttons.rejected, self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(text)
        layout.addWidget(buttons)
        self.resize(640, 560)
        text.setFocus()


def documentation(language: str) -> str:
    return (Path(__file__).parent / f"help/{language}.md").read_text("utf-8")
