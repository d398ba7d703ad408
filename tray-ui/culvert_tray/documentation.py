"""Help ▸ Documentation: shows `help/LANGUAGE.md` in a window, without network access."""

from __future__ import annotations

from pathlib import Path

from culvert_proto.language import choose
from PyQt6.QtCore import QSize, QUrl
from PyQt6.QtGui import QIcon
from PyQt6.QtWidgets import QDialog, QTextBrowser

from culvert_tray.dialogs import close_button, dialog_column
from culvert_tray.icon import IconKind
from culvert_tray.signals import connect
from culvert_tray.translation import tr

_ICON = 22
_ICONS = {kind.path.name: kind.path for kind in IconKind}


class DocumentationDialog(QDialog):
    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle(tr("Culvert's documentation"))
        text = _Text()
        text.setAccessibleName(self.windowTitle())
        text.setMarkdown(documentation(choose()))
        if (shown := text.document()) is not None:
            shown.setDocumentMargin(16)
        buttons = close_button()
        connect(buttons.rejected, self.reject)
        layout = dialog_column(self)
        layout.addWidget(text)
        layout.addWidget(buttons)
        self.resize(720, 600)
        text.setFocus()


class _Text(QTextBrowser):
    """Shows the icons that the text names, by the names of their files."""

    def loadResource(self, type: int, name: QUrl) -> object:  # noqa: N802  Qt's names
        if (path := _ICONS.get(name.fileName())) is not None:
            return QIcon(str(path)).pixmap(QSize(_ICON, _ICON), self.devicePixelRatio())
        return super().loadResource(type, name)


def documentation(language: str) -> str:
    return (Path(__file__).parent / f"help/{language}.md").read_text("utf-8")
