"""A table that shows rows as data, and keeps the selection when the rows change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

from culvert_tray.rows import Row
from culvert_tray.signals import connect
from culvert_tray.translation import tr


class Table(QTableWidget):
    """`activated`: called with the key of a row that is double-clicked, or selected and entered."""

    def __init__(
        self, name: str, columns: Sequence[str], widest: int, activated: Callable[[str], None]
    ) -> None:
        super().__init__(0, len(columns))
        self._shown: tuple[Row, ...] = ()
        self.setAccessibleName(name)
        self.setHorizontalHeaderLabels([tr(it) for it in columns])  # pyright: ignore[reportUnknownMemberType]
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setWordWrap(True)
        # Tab leaves the table; arrow keys move in it.
        self.setTabKeyNavigation(False)
        if (rows := self.verticalHeader()) is not None:
            rows.hide()
            rows.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        if (header := self.horizontalHeader()) is not None:
            header.setHighlightSections(False)
            header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
            header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
            header.setSectionResizeMode(widest, QHeaderView.ResizeMode.Stretch)
        connect(self.activated, lambda index: activated(self._shown[index.row()].key))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType, reportUnknownMemberType]

    def selected_key(self) -> str | None:
        """The key of the selected row."""
        row = self.currentRow()
        return self._shown[row].key if 0 <= row < len(self._shown) else None

    def show_rows(self, rows: tuple[Row, ...]) -> None:
        if rows == self._shown:
            return
        chosen = self.selected_key()
        self._shown = rows
        self.setRowCount(len(rows))
        for y, row in enumerate(rows):
            for x, text in enumerate(row.cells):
                item = self.item(y, x)
                if item is None:
                    self.setItem(y, x, QTableWidgetItem(text))
                elif item.text() != text:
                    item.setText(text)
        again = next((y for y, row in enumerate(rows) if row.key == chosen), -1)
        self.setCurrentCell(again, 0 if again >= 0 else -1)
