"""The pages of the window. Each shows rows that `rows.py` makes, and offers what can be done with the chosen one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from culvert_proto import local_pb2
from PyQt6.QtCore import Qt
from PyQt6.QtGui import QKeySequence, QShortcut
from PyQt6.QtWidgets import (
    QCheckBox,
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from culvert_tray.commands import (
    CloseTunnel,
    Command,
    CopyText,
    OpenPage,
    RunDiagnostics,
    SaveReport,
    SetFavourite,
    SetNotices,
    ShowDetails,
)
from culvert_tray.doctor import Verdict
from culvert_tray.preferences import NoticeKind, Preferences
from culvert_tray.rows import (
    ACTIVITY_COLUMNS,
    RESOURCE_COLUMNS,
    TUNNEL_COLUMNS,
    Row,
    activity_rows,
    resource_rows,
    tunnel_rows,
)
from culvert_tray.signals import connect
from culvert_tray.table import Table
from culvert_tray.view import Status, is_up

Dispatch = Callable[[Command], None]

NOTICES = {
    NoticeKind.OPENED: "A &name is opened for the first time",
    NoticeKind.CODE: "A &code is needed, or ends soon",
    NoticeKind.DENIED: "&Something is refused",
    NoticeKind.FAILED_OVER: "A &tunnel moves to another gateway",
}
DOCTOR_COLUMNS = ("", "Check", "Verdict")


class ResourcesPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._status, self._preferences = Status(), Preferences()
        self._search = QLineEdit()
        self._search.setPlaceholderText("Search resources")
        self._search.setAccessibleName("Search resources")
        self._search.setClearButtonEnabled(True)
        self._table = Table("Resources", RESOURCE_COLUMNS, 2, lambda fqdn: dispatch(OpenPage(fqdn)))
        self._empty = _empty("No resource is known. Your administrator can give you access to some.")
        self._open = _button("&Open in the browser", lambda: self._with(OpenPage))
        self._copy = _button("&Copy address", self._copy_address)
        self._favourite = _button("&Favourite", self._toggle)
        self._favourite.setCheckable(True)
        _fill(self, self._search, self._table, self._empty, _row(self._open, self._copy, self._favourite))
        connect(self._search.textChanged, self._draw)
        connect(self._search.returnPressed, lambda: self._with(OpenPage))
        connect(self._table.itemSelectionChanged, self._offer)
        for keys in ("/", "Ctrl+F"):
            connect(QShortcut(QKeySequence(keys), self).activated, self._search.setFocus)

    def show_view(self, status: Status, preferences: Preferences) -> None:
        self._status, self._preferences = status, preferences
        self._draw()

    def _draw(self) -> None:
        rows = resource_rows(self._status, self._search.text(), self._preferences)
        self._table.show_rows(rows)
        self._table.setVisible(bool(rows))
        self._empty.setVisible(not rows)
        typed = self._search.text()
        if self._status.resources:
            self._empty.setText(f"Nothing here has “{typed}” in it." if typed else "")
        if rows and typed and self._table.chosen() is None:
            self._table.setCurrentCell(0, 0)
        self._offer()

    def _offer(self) -> None:
        chosen = self._table.chosen()
        for button in (self._open, self._copy, self._favourite):
            button.setEnabled(chosen is not None)
        self._favourite.setChecked(chosen in self._preferences.favourites)

    def _with(self, command: Callable[[str], Command]) -> None:
        if (chosen := self._table.chosen()) is not None:
            self._dispatch(command(chosen))

    def _copy_address(self) -> None:
        for resource in self._status.resources:
            if resource.fqdn == self._table.chosen() and resource.addresses:
                self._dispatch(CopyText(resource.addresses[0].split("/")[0]))

    def _toggle(self) -> None:
        wanted = self._table.chosen() not in self._preferences.favourites
        self._with(lambda fqdn: SetFavourite(fqdn, wanted))


class TunnelsPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._status = Status()
        self._table = Table("Tunnels", TUNNEL_COLUMNS, 0, lambda _: self._details_of())
        self._empty = _empty("No tunnel is open. One opens by itself when you use the name of a resource.")
        self._open = _button("&Open in the browser", lambda: self._with(OpenPage))
        self._details = _button("&Details…", self._details_of)
        self._close = _button("C&lose", lambda: self._with(CloseTunnel))
        _fill(self, self._table, self._empty, _row(self._open, self._details, self._close))
        connect(self._table.itemSelectionChanged, self._offer)

    def show_view(self, status: Status, now: float) -> None:
        self._status = status
        rows = tunnel_rows(status, now)
        self._table.show_rows(rows)
        self._table.setVisible(bool(rows))
        self._empty.setVisible(not rows)
        self._offer()

    def _chosen(self) -> local_pb2.Tunnel | None:
        return next((it for it in self._status.tunnels if it.fqdn == self._table.chosen()), None)

    def _offer(self) -> None:
        chosen = self._chosen()
        self._open.setEnabled(chosen is not None and is_up(chosen))
        self._details.setEnabled(chosen is not None and bool(chosen.tunnel_id))
        self._close.setEnabled(chosen is not None)

    def _with(self, command: Callable[[str], Command]) -> None:
        if (chosen := self._chosen()) is not None:
            self._dispatch(command(chosen.fqdn))

    def _details_of(self) -> None:
        if (chosen := self._chosen()) is not None and chosen.tunnel_id:
            self._dispatch(ShowDetails(chosen.tunnel_id))


class ActivityPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._table = Table("Activity", ACTIVITY_COLUMNS, 1, lambda _: None)
        self._empty = _empty("Nothing has happened since the daemon started.")
        self._boxes: dict[NoticeKind, QCheckBox] = {}
        group = QGroupBox("Notify me when")
        choices = QVBoxLayout(group)
        for kind, text in NOTICES.items():
            box = self._boxes[kind] = QCheckBox(text)
            connect(box.clicked, lambda wanted, kind=kind: dispatch(SetNotices(kind, wanted)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            choices.addWidget(box)
        _fill(self, self._table, self._empty, group)

    def show_view(
        self, activities: Iterable[local_pb2.Activity], preferences: Preferences, now: float
    ) -> None:
        rows = activity_rows(activities, now)
        self._table.show_rows(rows)
        self._table.setVisible(bool(rows))
        self._empty.setVisible(not rows)
        for kind, box in self._boxes.items():
            box.setChecked(kind not in preferences.muted)


class DiagnosticsPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._table = Table("Diagnostics", DOCTOR_COLUMNS, 2, lambda _: None)
        self._said = _empty(
            "Each step from this computer to the gateway is checked, without changing anything."
        )
        self._run = _button("&Run diagnostics", lambda: dispatch(RunDiagnostics()))
        report = _button("&Save a report…", lambda: dispatch(SaveReport()))
        report.setToolTip("A zip for your administrator. No secret is in it.")
        _fill(self, self._table, self._said, _row(self._run, report))
        self._table.hide()

    def running(self) -> None:
        self._run.setEnabled(False)
        self._run.setText("Checking…")

    def show_verdicts(self, verdicts: tuple[Verdict, ...] | str) -> None:
        self._run.setEnabled(True)
        self._run.setText("&Run again")
        told = () if isinstance(verdicts, str) else verdicts
        self._table.show_rows(
            tuple(
                Row(it.hop, ("✓" if it.good else "✗", it.hop, "\n".join(filter(None, (it.what, it.remedy)))))
                for it in told
            )
        )
        self._table.setVisible(bool(told))
        if isinstance(verdicts, str):
            self._said.setText(verdicts)
        else:
            wrong = sum(not it.good for it in told)
            found = f"{wrong} of {len(told)} checks found something."
            self._said.setText(found if wrong else "Everything is as it should be.")
        self._said.show()


class AboutPage(QWidget):
    def __init__(self, version: str) -> None:
        super().__init__()
        self._version = version
        self._text = _empty("")
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        _fill(self, self._text)

    def show_view(self, status: Status) -> None:
        ways = {"kernel": "the kernel's IPsec", "userspace": "Culvert's own IPsec"}
        lines = (
            "Culvert: a name opens, and a tunnel carries it.",
            f"Tray {self._version}, daemon {status.version or 'unknown'}",
            f"Controller {status.controller}" if status.controller else "",
            f"This computer is {status.device_name}, enrolled by {status.user}" if status.user else "",
            f"Packets go through {ways.get(status.datapath, status.datapath)}" if status.datapath else "",
        )
        self._text.setText("\n\n".join(filter(None, lines)))


def _empty(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
    label.setMargin(8)
    return label


def _button(text: str, clicked: Callable[[], None]) -> QPushButton:
    button = QPushButton(text)
    connect(button.clicked, lambda: clicked())
    return button


def _row(*buttons: QPushButton) -> QWidget:
    row = QWidget()
    layout = QHBoxLayout(row)
    layout.setContentsMargins(0, 0, 0, 0)
    for button in buttons:
        layout.addWidget(button)
    layout.addStretch()
    return row


def _fill(page: QWidget, *widgets: QWidget) -> None:
    layout = QVBoxLayout(page)
    for widget in widgets:
        layout.addWidget(widget, 4 if isinstance(widget, Table) else int(isinstance(widget, QLabel)))
