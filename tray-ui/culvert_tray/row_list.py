"""A list of rows: tile, name, note, state, one button, and a menu for the rest. A change of rows keeps the selection."""

from __future__ import annotations

from PyQt6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRect,
    QSize,
    Qt,
    pyqtSignal,
)
from PyQt6.QtGui import QColor, QContextMenuEvent, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPen
from PyQt6.QtWidgets import QAbstractItemView, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from culvert_tray.rows import Row
from culvert_tray.style import BODY, HEADING, NOTE, Tone, colours, font, without_markup

_ROW_HEIGHT, _MARGIN, _GAP = 56, 10, 12
_TILE, _BUTTON_HEIGHT, _MORE = 36, 30, 30
# A state keeps at most this share of a row; where there is less, it moves in front of the note.
_STATE_SHARE = 0.34
_NARROW = 520

_Index = QModelIndex | QPersistentModelIndex


class _Rows(QAbstractListModel):
    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[Row, ...] = ()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802  Qt's
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return row.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return row.spoken
        if role == Qt.ItemDataRole.ToolTipRole:
            return without_markup(row.spoken)
        return None

    def replace(self, rows: tuple[Row, ...]) -> None:
        if [it.key for it in rows] == [it.key for it in self.rows]:
            changed = [at for at, (old, new) in enumerate(zip(self.rows, rows, strict=True)) if old != new]
            self.rows = rows
            for at in changed:
                self.dataChanged.emit(self.index(at), self.index(at))
            return
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()


class RowList(QListView):
    """`wraps`: notes may have several lines. `has_menu`: rows have a menu."""

    pressed = pyqtSignal(str)
    """The key of a row with a button, when that was pressed or the row was entered."""
    menu_wanted = pyqtSignal(str, QPoint)
    """The key of a row, and where on the screen its menu belongs."""
    chosen = pyqtSignal()
    """Another row is the selected one."""

    def __init__(self, name: str, *, wraps: bool = False, has_menu: bool = False) -> None:
        super().__init__()
        self._model = _Rows()
        self._begun: tuple[str, str] | None = None
        self._delegate = _Delegate(self, wraps=wraps, has_menu=has_menu)
        self.has_menu = has_menu
        self.setModel(self._model)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName(name)
        self.setMouseTracking(True)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setUniformItemSizes(not wraps)

    def row_at(self, index: _Index) -> Row | None:
        return self._model.rows[index.row()] if index.isValid() else None

    def selected_key(self) -> str | None:
        row = self.row_at(self.currentIndex())
        return row.key if row is not None else None

    def show_rows(self, rows: tuple[Row, ...]) -> None:
        if rows == self._model.rows:
            return
        selected = self.selected_key()
        self._model.replace(rows)
        again = next((at for at, row in enumerate(rows) if row.key == selected), None)
        if again is not None and self.selected_key() != selected:
            self.setCurrentIndex(self._model.index(again))

    def select_first(self) -> None:
        if self._model.rows:
            self.setCurrentIndex(self._model.index(0))

    def keyPressEvent(self, e: QKeyEvent | None) -> None:  # noqa: N802  Qt's name
        row = self.row_at(self.currentIndex())
        if e is not None and row is not None and e.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._press(row)
            return
        super().keyPressEvent(e)

    def mouseDoubleClickEvent(self, e: QMouseEvent | None) -> None:  # noqa: N802  Qt's name
        super().mouseDoubleClickEvent(e)
        index = self.indexAt(e.position().toPoint()) if e is not None else QModelIndex()
        row = self.row_at(index)
        if (
            e is not None
            and row is not None
            and not self._delegate.hits(self.visualRect(index), row, e.position())
        ):
            self._press(row)

    def currentChanged(self, current: QModelIndex, previous: QModelIndex) -> None:  # noqa: N802  Qt's name
        super().currentChanged(current, previous)
        self.chosen.emit()

    def mousePressEvent(self, e: QMouseEvent | None) -> None:  # noqa: N802  Qt's name
        self._begun = self._part_at(e)
        super().mousePressEvent(e)

    def mouseReleaseEvent(self, e: QMouseEvent | None) -> None:  # noqa: N802  Qt's name
        super().mouseReleaseEvent(e)
        # The rows may have moved since the button of the mouse went down.
        begun, self._begun = self._begun, None
        if e is None or begun is None or self._part_at(e) != begun:
            return
        key, part = begun
        match part:
            case "button":
                self.pressed.emit(key)
            case "more":
                self.menu_wanted.emit(key, e.globalPosition().toPoint())
            case _:
                pass

    def _part_at(self, e: QMouseEvent | None) -> tuple[str, str] | None:
        """The key of the row under the mouse, and its part there."""
        if e is None or e.button() is not Qt.MouseButton.LeftButton:
            return None
        index = self.indexAt(e.position().toPoint())
        row = self.row_at(index)
        return (row.key, self._delegate.hits(self.visualRect(index), row, e.position())) if row else None

    def mouseMoveEvent(self, e: QMouseEvent | None) -> None:  # noqa: N802  Qt's name
        super().mouseMoveEvent(e)
        if e is not None:
            self._delegate.pointer = e.position()
            self._update_all()

    def leaveEvent(self, a0: QEvent | None) -> None:  # noqa: N802  Qt's name
        super().leaveEvent(a0)
        self._delegate.pointer = None
        self._update_all()

    def contextMenuEvent(self, a0: QContextMenuEvent | None) -> None:  # noqa: N802  Qt's name
        if a0 is None or not self.has_menu:
            return
        by_key = a0.reason() is QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(a0.pos())
        if (row := self.row_at(index)) is not None:
            below = self.visualRect(index).bottomLeft() + QPoint(_MARGIN + _TILE, -_MARGIN)
            self.menu_wanted.emit(row.key, self.mapToGlobal(below) if by_key else a0.globalPos())

    def press_selected(self) -> None:
        if (row := self.row_at(self.currentIndex())) is not None:
            self._press(row)

    def _press(self, row: Row) -> None:
        if row.button:
            self.pressed.emit(row.key)

    def _update_all(self) -> None:
        if (viewport := self.viewport()) is not None:
            viewport.update()


class _Delegate(QStyledItemDelegate):
    def __init__(self, shown: RowList, *, wraps: bool, has_menu: bool) -> None:
        super().__init__(shown)
        self._list, self._wraps, self._has_menu = shown, wraps, has_menu
        self.pointer: QPointF | None = None

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: N802  Qt's name
        viewport = self._list.viewport()
        width = viewport.width() if viewport is not None else option.rect.width()
        row = self._list.row_at(index)
        if not self._wraps or row is None:
            return QSize(width, _ROW_HEIGHT)
        area = _Area(QRect(0, 0, width, _ROW_HEIGHT), row, has_menu=self._has_menu)
        title = _height(row.title, HEADING, area.text.width(), strong=True)
        note = _height(area.note(row), NOTE, area.text.width()) if area.note(row) else 0
        return QSize(width, max(_ROW_HEIGHT, 2 * _MARGIN + title + note + 2))

    def hits(self, rect: QRect, row: Row, at: QPointF) -> str:
        """The part of a row that the point is in: "button", "more", or none."""
        area = _Area(rect, row, has_menu=self._has_menu)
        point = at.toPoint()
        if area.button.contains(point):
            return "button"
        return "more" if area.more.contains(point) else ""

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: _Index) -> None:
        row = self._list.row_at(index)
        if painter is None or row is None:
            return
        roles, area = colours(), _Area(option.rect, row, has_menu=self._has_menu)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        selected = bool(option.state & QStyle.StateFlag.State_Selected) and self._list.hasFocus()
        hovered = self.pointer is not None and option.rect.contains(self.pointer.toPoint())
        if selected or hovered:
            painter.setPen(QPen(QColor(roles.link), 2) if selected else Qt.PenStyle.NoPen)
            painter.setBrush(QColor(roles.ground))
            painter.drawRoundedRect(option.rect.adjusted(2, 2, -2, -2), 8, 8)
        _paint_tile(painter, area.tile, row)
        painter.setPen(QColor(roles.text))
        _write(painter, area.title(self._wraps, row), row.title, HEADING, wraps=self._wraps, strong=True)
        painter.setPen(QColor(roles.note))
        _write(painter, area.below(self._wraps, row), area.note(row), NOTE, wraps=self._wraps)
        if area.state.width() > 0:
            quiet = self._wraps or row.tone is Tone.QUIET
            painter.setPen(QColor(roles.note) if quiet else roles.mark(row.tone)[0])
            _write(painter, area.state, row.state, NOTE, align=Qt.AlignmentFlag.AlignRight)
        over = self.hits(option.rect, row, self.pointer) if hovered and self.pointer is not None else ""
        if row.button:
            painter.setPen(QPen(QColor(roles.line), 1))
            painter.setBrush(QColor(roles.hover if over == "button" else roles.surface))
            painter.drawRoundedRect(area.button, 7, 7)
            painter.setPen(QColor(roles.text))
            _write(painter, area.button, row.button, BODY, align=Qt.AlignmentFlag.AlignHCenter, strong=True)
        if self._has_menu:
            if over == "more":
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(roles.hover))
                painter.drawRoundedRect(area.more, 7, 7)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(roles.note))
            for step in (-6, 0, 6):
                painter.drawEllipse(QPointF(area.more.center()) + QPointF(step + 0.5, 0.5), 1.8, 1.8)
        painter.restore()


class _Area:
    """The places of a row's parts. They do not meet."""

    def __init__(self, rect: QRect, row: Row, *, has_menu: bool) -> None:
        self.rect = rect
        inner = rect.adjusted(_MARGIN, 0, -_MARGIN, 0)
        middle = rect.top() + min(rect.height(), _ROW_HEIGHT) // 2
        self.tile = QRect(inner.left(), middle - _TILE // 2, _TILE, _TILE)
        right = inner.right()
        self.more = QRect()
        if has_menu:
            self.more = QRect(right - _MORE + 1, middle - _MORE // 2, _MORE, _MORE)
            right = self.more.left() - 4
        self.button = QRect()
        if row.button:
            width = QFontMetrics(font(BODY, strong=True)).horizontalAdvance(row.button) + 28
            self.button = QRect(right - width + 1, middle - _BUTTON_HEIGHT // 2, width, _BUTTON_HEIGHT)
            right = self.button.left() - _GAP
        self._narrow = rect.width() < _NARROW
        self.state = QRect()
        if row.state and not self._narrow:
            wanted = QFontMetrics(font(NOTE)).horizontalAdvance(row.state) + 4
            width = min(wanted, int(rect.width() * _STATE_SHARE))
            self.state = QRect(right - width + 1, middle - 10, width, 20)
            right = self.state.left() - _GAP
        left = self.tile.right() + 1 + _GAP
        self.text = QRect(left, rect.top(), right - left, rect.height())

    def note(self, row: Row) -> str:
        return " · ".join(filter(None, (row.state, row.note))) if self._narrow else row.note

    def title(self, wraps: bool, row: Row) -> QRect:
        if not self.note(row):
            return self.text
        if wraps:
            height = _height(row.title, HEADING, self.text.width(), strong=True)
            return QRect(self.text.left(), self.text.top() + _MARGIN, self.text.width(), height)
        return QRect(self.text.left(), self.text.top() + 9, self.text.width(), 19)

    def below(self, wraps: bool, row: Row) -> QRect:
        top = self.title(wraps, row).bottom() + 2
        height = _height(self.note(row), NOTE, self.text.width()) if wraps else 18
        return QRect(self.text.left(), top, self.text.width(), height)


def _paint_tile(painter: QPainter, tile: QRect, row: Row) -> None:
    foreground, background = colours().mark(row.tone)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(background)
    painter.drawRoundedRect(tile, 9, 9)
    painter.setPen(foreground)
    _write(painter, tile, row.mark, HEADING + 1, align=Qt.AlignmentFlag.AlignHCenter, strong=True)
    if row.favourite:
        painter.setPen(colours().mark(Tone.ATTENTION)[0])
        corner = QRect(tile.right() - 9, tile.top() - 6, 16, 16)
        _write(painter, corner, "★", NOTE, align=Qt.AlignmentFlag.AlignHCenter)


def _height(text: str, pixels: float, width: int, *, strong: bool = False) -> int:
    area = QRect(0, 0, max(1, width), 10_000)
    flags = Qt.TextFlag.TextWordWrap
    return QFontMetrics(font(pixels, strong=strong)).boundingRect(area, flags, text).height()


def _write(
    painter: QPainter,
    area: QRect,
    text: str,
    pixels: float,
    *,
    align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft,
    wraps: bool = False,
    strong: bool = False,
) -> None:
    chosen = font(pixels, strong=strong)
    painter.setFont(chosen)
    if wraps:
        painter.drawText(area, align | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextWordWrap, text)
        return
    short = QFontMetrics(chosen).elidedText(text, Qt.TextElideMode.ElideRight, area.width())
    painter.drawText(area, align | Qt.AlignmentFlag.AlignVCenter, short)
