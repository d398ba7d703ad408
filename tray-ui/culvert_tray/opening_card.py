"""The bar of a name's last opening: "Is it me or the tunnel?" (screens/opening.py)."""

from __future__ import annotations

from collections.abc import Callable

from culvert_proto.dns_name import is_wildcard, make_readable
from culvert_proto.screens.opening import Opening, Part, Verdict
from culvert_proto.screens.units import clock, took
from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QPainter, QPaintEvent, QPen, QResizeEvent
from PyQt6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from culvert_tray.commands import Command, TimeHops
from culvert_tray.parts import button, text_label
from culvert_tray.style import colours, set_role
from culvert_tray.translation import tr

Dispatch = Callable[[Command], None]

_HEIGHT, _GAP, _LEAST = 12, 3, 8
_UNMEASURED = 28
"""The width in pixels of a hop without a time."""
# Below this width, in pixels, the hops stand in two rows.
_BESIDE = 620


class OpeningCard(QFrame):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        set_role(self, "card")
        self._dispatch = dispatch
        self._opening: Opening | None = None
        self._title, self._conclusion = text_label("", "heading"), text_label("")
        self._bar = _Bar()
        self._hops = QGridLayout()
        self._hops.setHorizontalSpacing(16)
        self._hops.setVerticalSpacing(8)
        self._measure = button("", self._time)
        self._shown: tuple[tuple[Part, ...], int] = ((), 0)
        head = QHBoxLayout()
        head.setSpacing(12)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self._title)
        texts.addWidget(self._conclusion)
        head.addLayout(texts, 1)
        head.addWidget(self._measure, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addLayout(head)
        layout.addWidget(self._bar)
        layout.addLayout(self._hops)
        self.show_opening(None, 0)
        self.show_timed()

    def show_opening(self, opening: Opening | None, now: float) -> None:
        """`now`: Unix seconds."""
        self.setVisible(opening is not None)
        if opening is None:
            self._opening = None
            return
        name, at = make_readable(opening.fqdn), clock(opening.at, now)
        if opening.is_over and opening.total is None:
            title = tr("{name} did not open at {time}", name=name, time=at)
        elif opening.total is not None:
            title = tr("{name} opened at {time} in {total}", name=name, time=at, total=took(opening.total))
        else:
            title = tr("{name} at {time}", name=name, time=at)
        self._title.setText(title)
        self._conclusion.setText(opening.conclusion)
        self._measure.setVisible(not is_wildcard(opening.fqdn))
        if opening != self._opening:
            self._opening = opening
            self._bar.show_parts(opening.parts)
            self._arrange()
        self._keep_height()

    def show_timed(self) -> None:
        """The measurement has ended."""
        self._measure.setText(tr("&Measure now"))
        self._measure.setToolTip(tr("Connects to the server, and asks for its start page once."))
        self._measure.setEnabled(True)

    def resizeEvent(self, a0: QResizeEvent | None) -> None:  # noqa: N802  Qt's name
        super().resizeEvent(a0)
        self._arrange()
        self._keep_height()

    def _keep_height(self) -> None:
        """Lines that wrap have no least height: in a low window the list gives way instead."""
        if (layout := self.layout()) is not None:
            self.setMinimumHeight(layout.totalHeightForWidth(self.width()))

    def _time(self) -> None:
        if self._opening is not None:
            self._measure.setEnabled(False)
            self._measure.setText(tr("Measuring…"))
            self._dispatch(TimeHops(self._opening.fqdn))

    def _arrange(self) -> None:
        parts = self._opening.parts if self._opening is not None else ()
        columns = len(parts) if self.width() >= _BESIDE else (len(parts) + 1) // 2
        if (shown := (parts, columns)) == self._shown:
            return
        self._shown = shown
        while (item := self._hops.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for number, part in enumerate(parts):
            row, column = divmod(number, columns)
            self._hops.addWidget(_hop(part), row, column, Qt.AlignmentFlag.AlignTop)
        for column in range(len(parts)):
            self._hops.setColumnStretch(column, int(column < columns))


def _hop(part: Part) -> QWidget:
    widget = QWidget()
    column = QVBoxLayout(widget)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    column.addWidget(text_label(part.name, "note"))
    column.addWidget(text_label(part.text, _ROLES[part.verdict]))
    return widget


_ROLES = {
    Verdict.GOOD: "",
    Verdict.SLOW: "slow",
    Verdict.DENIED: "failed",
    Verdict.FAILED: "failed",
    Verdict.UNKNOWN: "note",
}


class _Bar(QWidget):
    """A segment for each hop, as wide as its share of the time; one without a time is hollow."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: tuple[Part, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802  Qt's name
        return QSize(0, _HEIGHT)

    def show_parts(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts
        self.update()

    def paintEvent(self, a0: QPaintEvent | None) -> None:  # noqa: N802  Qt's name
        super().paintEvent(a0)
        roles = colours()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        filled = {
            Verdict.GOOD: roles.good,
            Verdict.SLOW: roles.attention,
            Verdict.DENIED: roles.bad,
            Verdict.FAILED: roles.bad,
        }
        left = 0.0
        for part, width in zip(self._parts, _widths(self._parts, self.width()), strict=True):
            hollow = part.verdict not in filled
            painter.setPen(QPen(QColor(roles.note), 1) if hollow else Qt.PenStyle.NoPen)
            painter.setBrush(Qt.BrushStyle.NoBrush if hollow else QColor(filled[part.verdict]))
            painter.drawRoundedRect(QRectF(left + 0.5, 0.5, width - 1, _HEIGHT - 1), 4, 4)
            left += width + _GAP


def _widths(parts: tuple[Part, ...], room: int) -> list[float]:
    untimed = sum(part.seconds is None for part in parts)
    timed = len(parts) - untimed
    total = sum(part.seconds or 0.0 for part in parts)
    share = room - _GAP * (len(parts) - 1) - _UNMEASURED * untimed - _LEAST * timed
    return [
        _UNMEASURED if part.seconds is None else _LEAST + (share * part.seconds / total if total else 0.0)
        for part in parts
    ]
