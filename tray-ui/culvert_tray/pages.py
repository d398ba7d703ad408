"""The pages of the window. Each shows rows of `rows.py`, with buttons for the selected row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from culvert_proto import local_pb2
from culvert_proto.screens.organisations import is_enrolled, split_status
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
    WHOSE,
    Row,
    activity_rows,
    resource_rows,
    tunnel_rows,
)
from culvert_tray.signals import connect
from culvert_tray.table import Table
from culvert_tray.translation import later, plural, tr
from culvert_tray.view import Down, Status, View, is_redacted, is_up, status_of

Dispatch = Callable[[Command], None]

NOTICES = {
    NoticeKind.OPENED: later("A &name is opened for the first time"),
    NoticeKind.CODE: later("A &code is needed, or ends soon"),
    NoticeKind.DENIED: later("&Something is refused"),
    NoticeKind.FAILED_OVER: later("A &tunnel moves to another gateway"),
}
DOCTOR_COLUMNS = ("", later("Check"), later("Verdict"))


class ResourcesPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._status, self._preferences, self._nothing = Status(), Preferences(), ""
        self._search = QLineEdit()
        self._search.setPlaceholderText(tr("Search resources"))
        self._search.setAccessibleName(tr("Search resources"))
        self._search.setClearButtonEnabled(True)
        self._table = Table(tr("Resources"), RESOURCE_COLUMNS, 2, lambda fqdn: dispatch(OpenPage(fqdn)))
        self._empty = _empty("")
        self._open = _button(tr("&Open in the browser"), lambda: self._with(OpenPage))
        self._copy = _button(tr("&Copy address"), self._copy_address)
        self._favourite = _button(tr("Add to &favourites"), self._toggle)
        _fill(self, self._search, self._table, self._empty, _row(self._open, self._copy, self._favourite))
        connect(self._search.textChanged, self._draw)
        connect(self._search.returnPressed, lambda: self._with(OpenPage))
        connect(self._table.itemSelectionChanged, self._offer)
        for keys in ("/", "Ctrl+F"):
            connect(QShortcut(QKeySequence(keys), self).activated, self._search.setFocus)

    def show_view(self, view: View, preferences: Preferences) -> None:
        self._status, self._preferences = status_of(view), preferences
        self._nothing = _without_resources(view)
        self._draw()

    def _draw(self) -> None:
        rows = resource_rows(self._status, self._search.text(), self._preferences)
        self._table.setColumnHidden(RESOURCE_COLUMNS.index(WHOSE), not self._status.organisations)
        self._table.show_rows(rows)
        self._table.setVisible(bool(rows))
        self._empty.setVisible(not rows)
        typed = self._search.text()
        found_none = tr("No row contains “{text}”.", text=typed) if typed else ""
        self._empty.setText(found_none if self._status.resources else self._nothing)
        if rows and typed and self._table.selected_key() is None:
            self._table.setCurrentCell(0, 0)
        self._offer()

    def _offer(self) -> None:
        chosen = self._table.selected_key()
        for button in (self._open, self._copy, self._favourite):
            button.setEnabled(chosen is not None)
        is_favourite = chosen in self._preferences.favourites
        self._favourite.setText(tr("Remove from &favourites") if is_favourite else tr("Add to &favourites"))

    def _with(self, command: Callable[[str], Command]) -> None:
        if (chosen := self._table.selected_key()) is not None:
            self._dispatch(command(chosen))

    def _copy_address(self) -> None:
        for resource in self._status.resources:
            if resource.fqdn == self._table.selected_key() and resource.addresses:
                self._dispatch(CopyText(resource.addresses[0].split("/")[0]))

    def _toggle(self) -> None:
        wanted = self._table.selected_key() not in self._preferences.favourites
        self._with(lambda fqdn: SetFavourite(fqdn, wanted))


class TunnelsPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._status = Status()
        self._table = Table(tr("Tunnels"), TUNNEL_COLUMNS, 0, lambda _: self._details_of())
        self._empty = _empty(
            tr("No tunnel is open. A tunnel opens by itself when you use a resource's name.")
        )
        self._open = _button(tr("&Open in the browser"), lambda: self._with(OpenPage))
        self._details = _button(tr("&Details…"), self._details_of)
        self._close = _button(tr("C&lose tunnel"), lambda: self._with(CloseTunnel))
        _fill(self, self._table, self._empty, _row(self._open, self._details, self._close))
        connect(self._table.itemSelectionChanged, self._offer)

    def show_view(self, status: Status, now: float) -> None:
        self._status = status
        rows = tunnel_rows(status, now)
        self._table.setColumnHidden(TUNNEL_COLUMNS.index(WHOSE), not status.organisations)
        self._table.show_rows(rows)
        self._table.setVisible(bool(rows))
        self._empty.setVisible(not rows)
        self._offer()

    def _find_chosen(self) -> local_pb2.Tunnel | None:
        return next((it for it in self._status.tunnels if it.fqdn == self._table.selected_key()), None)

    def _offer(self) -> None:
        chosen = self._find_chosen()
        self._open.setEnabled(chosen is not None and is_up(chosen))
        self._details.setEnabled(chosen is not None and bool(chosen.tunnel_id))
        self._close.setEnabled(chosen is not None)

    def _with(self, command: Callable[[str], Command]) -> None:
        if (chosen := self._find_chosen()) is not None:
            self._dispatch(command(chosen.fqdn))

    def _details_of(self) -> None:
        if (chosen := self._find_chosen()) is not None and chosen.tunnel_id:
            self._dispatch(ShowDetails(chosen.tunnel_id, chosen.organisation))


class ActivityPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._table = Table(tr("Activity"), ACTIVITY_COLUMNS, 1, lambda _: None)
        self._empty = _empty(tr("Nothing has happened since the daemon started."))
        self._boxes: dict[NoticeKind, QCheckBox] = {}
        group = QGroupBox(tr("Notify me when"))
        choices = QVBoxLayout(group)
        for kind, text in NOTICES.items():
            box = self._boxes[kind] = QCheckBox(tr(text))
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
        self._table = Table(tr("Diagnostics"), DOCTOR_COLUMNS, 2, lambda _: None)
        self._said = _empty(
            tr("Each step from this computer to the gateway is checked, without changing anything.")
        )
        self._run = _button(tr("&Run diagnostics"), lambda: dispatch(RunDiagnostics()))
        report = _button(tr("&Save a report…"), lambda: dispatch(SaveReport()))
        report.setToolTip(tr("A zip for your administrator. No secret is in it."))
        _fill(self, self._table, self._said, _row(self._run, report))
        self._table.hide()

    def show_running(self) -> None:
        self._run.setEnabled(False)
        self._run.setText(tr("Checking…"))

    def show_verdicts(self, verdicts: tuple[Verdict, ...] | str) -> None:
        self._run.setEnabled(True)
        self._run.setText(tr("&Run again"))
        told = () if isinstance(verdicts, str) else verdicts
        self._table.show_rows(
            tuple(
                Row(
                    it.title,
                    ("✓" if it.good else "✗", it.title, "\n".join(filter(None, (it.what, it.remedy)))),
                )
                for it in told
            )
        )
        self._table.setVisible(bool(told))
        if isinstance(verdicts, str):
            self._said.setText(verdicts)
        else:
            wrong = sum(not it.good for it in told)
            found = plural(
                "%n of {all} checks failed.",
                "%n of {all} checks failed.",
                wrong,
                all=len(told),
            )
            self._said.setText(found if wrong else tr("All checks passed."))
        self._said.show()


class AboutPage(QWidget):
    def __init__(self, version: str) -> None:
        super().__init__()
        self._version = version
        self._text = _empty("")
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        _fill(self, self._text)

    def show_view(self, status: Status) -> None:
        ways = {"kernel": tr("the kernel's IPsec"), "userspace": tr("Culvert's own IPsec")}
        lines = (
            tr("Culvert: a name opens, and a tunnel carries it."),
            tr("Tray {tray}, daemon {daemon}", tray=self._version, daemon=status.version or tr("unknown")),
            *(line for _of, part in split_status(status) for line in _enrolment(part)),
            tr("Packets go through {way}", way=ways.get(status.datapath, status.datapath))
            if status.datapath
            else "",
        )
        self._text.setText("\n\n".join(filter(None, lines)))


def _enrolment(status: Status) -> tuple[str, ...]:
    enrolled = tr(
        "This computer is {device}, enrolled by {user}", device=status.device_name, user=status.user
    )
    return (
        tr("Controller {name}", name=status.controller) if status.controller else "",
        enrolled if status.user else "",
    )


def _without_resources(view: View) -> str:
    """The text in place of the list, which says what to do."""
    if isinstance(view, Down):
        return tr("Resources are shown while the Culvert daemon runs.")
    if not is_enrolled(view):
        return tr("Enrol this computer to see the resources that you may open.")
    if is_redacted(view):
        return tr("Only the user who enrolled this computer sees its resources.")
    return tr("You have no access to a resource yet. Ask your administrator.")


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
