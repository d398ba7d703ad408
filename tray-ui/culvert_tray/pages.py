"""The pages of the window. Each shows rows of `rows.py`, or a card that says why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from culvert_proto import local_pb2
from culvert_proto.screens.opening import last_opening
from culvert_proto.screens.organisations import is_enrolled, split_status
from PyQt6.QtCore import QPoint, Qt
from PyQt6.QtGui import QKeySequence, QShortcut
from PyQt6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QLineEdit, QScrollArea, QVBoxLayout, QWidget

from culvert_tray.commands import (
    AnswerClaims,
    CloseTunnel,
    Command,
    CopyText,
    Enrol,
    OpenPage,
    Page,
    Quit,
    RunDiagnostics,
    SaveReport,
    SelectGateway,
    SetAutostart,
    SetFavourite,
    SetLanguage,
    SetNotices,
    ShowWindow,
    StartDaemon,
)
from culvert_tray.doctor import Verdict
from culvert_tray.icon import IconKind
from culvert_tray.menu import (
    Action,
    Menu,
    Submenu,
    about_entries,
    gateway_menus,
    resource_entries,
    tunnel_entries,
)
from culvert_tray.opening_card import OpeningCard
from culvert_tray.parts import Card, MenuButton, action_button, button, clear, picture, text_label
from culvert_tray.preferences import NoticeKind, Preferences
from culvert_tray.row_list import RowList
from culvert_tray.rows import (
    Row,
    activity_rows,
    gateway_key,
    gateway_rows,
    resource_rows,
    search,
    tunnel_rows,
)
from culvert_tray.signals import connect
from culvert_tray.style import Tone, set_role
from culvert_tray.translation import later, plural, tr
from culvert_tray.tray_menu import TrayMenu
from culvert_tray.view import Down, Status, View, is_redacted, list_public, status_of, with_organisation

Dispatch = Callable[[Command], None]

NOTICES = {
    NoticeKind.OPENED: later("A &name is opened for the first time"),
    NoticeKind.CODE: later("A &code is needed"),
    NoticeKind.CODE_ENDS: later("A code &ends soon"),
    NoticeKind.DENIED: later("&Something is denied"),
    NoticeKind.FAILED_OVER: later("A &tunnel moves to another gateway"),
}


# Each in itself, for a person who reads no other.
_LANGUAGES = {"en": "English", "de": "Deutsch"}


class _SearchedList(QWidget):
    """A list of rows with a search line, and a card in its place where there are none. `card`: says why there are none."""

    def __init__(
        self, dispatch: Dispatch, name: str, hint: str, *, wraps: bool = False, has_menu: bool = False
    ) -> None:
        super().__init__()
        self._rows: tuple[Row, ...] = ()
        self.search = QLineEdit()
        self.search.setPlaceholderText(hint)
        self.search.setAccessibleName(hint)
        self.search.setClearButtonEnabled(True)
        self.list = RowList(name, wraps=wraps, has_menu=has_menu)
        self.card, self._no_match = Card(dispatch), Card(dispatch)
        _fill(self, self.search, self.list, self.card, self._no_match, margin=0)
        connect(self.search.textChanged, self._draw)
        for keys in ("/", "Ctrl+F"):
            connect(QShortcut(QKeySequence(keys), self).activated, self.search.setFocus)
        down = QShortcut(QKeySequence("Down"), self.search, context=Qt.ShortcutContext.WidgetShortcut)
        connect(down.activated, self._enter_list)

    def show_rows(self, rows: tuple[Row, ...]) -> None:
        self._rows = rows
        self._draw()

    def _draw(self) -> None:
        typed = self.search.text()
        found = search(self._rows, typed)
        self.list.show_rows(found)
        self.list.setVisible(bool(found))
        self.search.setVisible(bool(self._rows))
        self.card.setVisible(not self._rows)
        self._no_match.setVisible(bool(self._rows) and not found)
        title = tr("Nothing here contains “{text}”", text=typed)
        self._no_match.tell(IconKind.READY.path, title, tr("An entry must contain each word that you type."))
        if typed and self.list.selected_key() is None:
            self.list.select_first()

    def _enter_list(self) -> None:
        self.list.setFocus()
        if self.list.selected_key() is None:
            self.list.select_first()


class ResourcesPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._status, self._preferences = Status(), Preferences()
        self._menu = TrayMenu(dispatch)
        self._found = _SearchedList(dispatch, tr("Resources"), tr("Search resources"), has_menu=True)
        _fill(self, self._found)
        connect(self._found.search.returnPressed, self._found.list.press_selected)
        connect(self._found.list.pressed, lambda fqdn: dispatch(OpenPage(fqdn)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        connect(self._found.list.menu_wanted, self._pop_up)
        connect(QShortcut(QKeySequence("Ctrl+C"), self).activated, self._copy_address)
        connect(QShortcut(QKeySequence("Ctrl+D"), self).activated, self._toggle)

    def show_view(self, view: View, preferences: Preferences) -> None:
        self._status, self._preferences = status_of(view), preferences
        self._found.show_rows(resource_rows(self._status, preferences))
        if not self._status.resources:
            _tell_why_empty(self._found.card, view)

    def _pop_up(self, fqdn: str, at: QPoint) -> None:
        resource = next((it for it in self._status.resources if it.fqdn == fqdn), None)
        if resource is not None:
            favourite = fqdn in self._preferences.favourites
            _pop_up(self._menu, resource_entries(resource, self._status, favourite=favourite), at)

    def _copy_address(self) -> None:
        for resource in self._status.resources:
            if resource.fqdn == self._found.list.selected_key() and resource.addresses:
                self._dispatch(CopyText(resource.addresses[0].split("/")[0]))

    def _toggle(self) -> None:
        if (chosen := self._found.list.selected_key()) is not None:
            self._dispatch(SetFavourite(chosen, chosen not in self._preferences.favourites))


class TunnelsPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._status, self._now = Status(), 0.0
        self._menu = TrayMenu(dispatch)
        self._opening = OpeningCard(dispatch)
        self._found = _SearchedList(dispatch, tr("Tunnels"), tr("Search tunnels"), has_menu=True)
        # Below the list, whose rows must not move under the mouse when one is chosen.
        _fill(self, self._found, self._opening)
        connect(self._found.list.chosen, self._draw_opening)
        connect(self._found.list.pressed, lambda fqdn: dispatch(CloseTunnel(fqdn)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        connect(self._found.list.menu_wanted, self._pop_up)
        connect(QShortcut(QKeySequence("Delete"), self).activated, self._close)

    def show_view(self, view: View, now: float) -> None:
        self._status, self._now = status_of(view), now
        rows = tunnel_rows(self._status, now)
        self._found.show_rows(rows)
        if needs_card(view):
            _tell_why_empty(self._found.card, view)
        elif not rows:
            text = tr("A tunnel opens by itself when you use a resource's name.")
            resources = Action(tr("All resources…"), ShowWindow(Page.RESOURCES))
            self._found.card.tell(IconKind.READY.path, tr("No tunnel is open"), text, resources)
        self._draw_opening()

    def _draw_opening(self) -> None:
        """The last opening of the chosen tunnel, or else of any name."""
        chosen = self._found.list.selected_key()
        self._opening.show_opening(last_opening(self._status, chosen or ""), self._now)

    def show_timed(self) -> None:
        self._opening.show_timed()

    def _pop_up(self, fqdn: str, at: QPoint) -> None:
        tunnel = next((it for it in self._status.tunnels if it.fqdn == fqdn), None)
        if tunnel is not None:
            _pop_up(self._menu, tunnel_entries(tunnel), at)

    def _close(self) -> None:
        if (chosen := self._found.list.selected_key()) is not None:
            self._dispatch(CloseTunnel(chosen))


class GatewaysPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._choices: dict[str, SelectGateway] = {}
        self._found = _SearchedList(dispatch, tr("Gateways"), tr("Search gateways"))
        _fill(self, self._found)
        connect(self._found.search.returnPressed, self._found.list.press_selected)
        connect(self._found.list.pressed, lambda key: dispatch(self._choices[key]))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    def show_view(self, status: Status) -> None:
        self._choices = {
            gateway_key(name, of): SelectGateway(name, of)
            for of, part in split_status(status)
            for name in ("", *(it.name for it in part.gateways))
        }
        self._found.show_rows(gateway_rows(status))


class ActivityPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._found = _SearchedList(dispatch, tr("Activity"), tr("Search the activity"), wraps=True)
        text = tr("Names that you open, denials and pauses are listed here until Culvert is restarted.")
        self._found.card.tell(IconKind.READY.path, tr("Nothing has happened yet"), text)
        _fill(self, self._found)

    def show_view(self, activities: Iterable[local_pb2.Activity], now: float) -> None:
        self._found.show_rows(activity_rows(activities, now))


class DiagnosticsPage(QWidget):
    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._list = RowList(tr("Diagnostics"), wraps=True)
        self._cures: dict[str, Action | None] = {}
        connect(self._list.pressed, lambda title: self._cure(title, dispatch))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        self._said = text_label(
            tr("Each step from this computer to the gateway is checked, without changing anything.")
        )
        self._run = button(tr("&Run diagnostics"), lambda: dispatch(RunDiagnostics()), "primary")
        report = button(tr("&Save a report…"), lambda: dispatch(SaveReport()))
        report.setToolTip(tr("A zip for your administrator. No secret is in it."))
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._said, 1)
        head.addWidget(self._run)
        head.addWidget(report)
        layout = _column(self)
        layout.addLayout(head)
        layout.addWidget(self._list, 1)
        layout.addStretch()
        self._list.hide()

    def show_running(self) -> None:
        self._run.setEnabled(False)
        self._run.setText(tr("Checking…"))

    def show_verdicts(self, verdicts: tuple[Verdict, ...] | str) -> None:
        self._run.setEnabled(True)
        self._run.setText(tr("&Run again"))
        # Faults first: a person looks no further.
        told = () if isinstance(verdicts, str) else tuple(sorted(verdicts, key=lambda it: it.good))
        self._cures = {it.title: it.cure for it in told}
        self._list.show_rows(tuple(map(_verdict_row, told)))
        self._list.setVisible(bool(told))
        # Disabled while it ran, the button has lost the keyboard.
        self._list.select_first()
        self._list.setFocus()
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

    def _cure(self, title: str, dispatch: Dispatch) -> None:
        if (cure := self._cures.get(title)) is not None:
            dispatch(cure.command)


def _verdict_row(verdict: Verdict) -> Row:
    """A remedy that is a button of its own is not said, too."""
    cure = verdict.cure
    is_said = cure is None or isinstance(cure.command, CopyText)
    note = "\n".join(filter(None, (verdict.what, verdict.remedy if is_said else "")))
    mark, tone = ("✓", Tone.GOOD) if verdict.good else ("×", Tone.BAD)
    button = cure.text if cure is not None else ""
    return Row(verdict.title, verdict.title, note, mark=mark, tone=tone, button=button)


class SettingsPage(QWidget):
    """The person's choices, also those that other parts of the window offer, such as the gateway."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._boxes: dict[NoticeKind, QCheckBox] = {}
        self._answers: tuple[tuple[str, str, bool], ...] = ()
        column = _scrolled_column(self)
        choices = _card(column, tr("Notify me when"))
        for kind, text in NOTICES.items():
            box = self._boxes[kind] = QCheckBox(tr(text))
            connect(box.clicked, lambda wanted, kind=kind: dispatch(SetNotices(kind, wanted)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            choices.addWidget(box)
        told = tr("The answer to something that you click is always shown.")
        choices.addWidget(text_label(told, "note"))
        program = _card(column, tr("This program"))
        self._autostart = QCheckBox(tr("Start &with the session"))
        connect(self._autostart.clicked, lambda wanted: dispatch(SetAutostart(wanted)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        self._language = MenuButton(dispatch)
        program.addWidget(self._autostart)
        language = text_label(tr("&Language"), selectable=False)
        language.setBuddy(self._language)
        program.addLayout(_beside(language, self._language))
        self._gateways = QVBoxLayout()
        self._gateways.setSpacing(8)
        self._openers: list[MenuButton] = []
        self._gateways_card = QFrame()
        _card(column, tr("Preferred gateway"), self._gateways_card).addLayout(self._gateways)
        self._networks = QVBoxLayout()
        self._networks.setSpacing(8)
        self._networks_card = QFrame()
        _card(column, tr("Public networks"), self._networks_card).addLayout(self._networks)
        logs = _card(column, tr("Log and report"))
        journal = tr(
            "The log is in the system's journal, as culvertd. A report tells your administrator how Culvert is doing here."
        )
        save = button(tr("Save a &report…"), lambda: dispatch(SaveReport()))
        logs.addLayout(_beside(text_label(journal), save))
        column.addStretch()

    def show_view(self, view: View, preferences: Preferences) -> None:
        for kind, box in self._boxes.items():
            box.setChecked(kind not in preferences.muted)
        self._autostart.setVisible(preferences.autostart is not None)
        self._autostart.setChecked(bool(preferences.autostart))
        names = {"": tr("As the desktop")} | _LANGUAGES
        languages = (
            Action(name, SetLanguage(it), checked=it == preferences.language) for it, name in names.items()
        )
        self._language.show_menu(Submenu(names[preferences.language], tuple(languages)))
        self._show_gateways(() if isinstance(view, Down) else gateway_menus(view))
        answers = tuple(
            (of, ", ".join(networks), answered)
            for of, _part in split_status(status_of(view))
            for answered in (True, False)
            if (networks := list_public(view, of, answered))
        )
        self._networks_card.setVisible(bool(answers))
        if answers != self._answers:
            self._answers = answers
            clear(self._networks)
            for of, networks, answered in answers:
                told = tr("Agreed: {networks}") if answered else tr("Declined: {networks}")
                said = with_organisation(told.format(networks=networks), of)
                change = Action(tr("Change…"), AnswerClaims(of, answered))
                self._networks.addLayout(_beside(text_label(said), action_button(change, self._dispatch)))

    def _show_gateways(self, menus: Iterable[Submenu]) -> None:
        shown = tuple(menus)
        self._gateways_card.setVisible(bool(shown))
        if len(shown) != len(self._openers):
            clear(self._gateways)
            self._openers = [MenuButton(self._dispatch) for _ in shown]
            for opener in self._openers:
                self._gateways.addWidget(opener, 0, Qt.AlignmentFlag.AlignLeft)
        for opener, submenu in zip(self._openers, shown, strict=True):
            opener.show_menu(submenu)


def _card(column: QVBoxLayout, title: str, card: QFrame | None = None) -> QVBoxLayout:
    """The layout of a new card at the column's end, below the card's title."""
    card = card or QFrame()
    set_role(card, "card")
    inside = QVBoxLayout(card)
    inside.setContentsMargins(16, 14, 16, 14)
    inside.setSpacing(4)
    inside.addWidget(text_label(title, "heading"))
    column.addWidget(card)
    return inside


def _beside(text: QWidget, control: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(12)
    row.addWidget(text, 1)
    row.addWidget(control, 0, Qt.AlignmentFlag.AlignVCenter)
    return row


class AboutPage(QWidget):
    def __init__(self, dispatch: Dispatch, version: str) -> None:
        super().__init__()
        self._dispatch, self._version = dispatch, version
        self._offered: tuple[Action, ...] = ()
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(8)
        self._text = text_label("")
        card = QFrame()
        set_role(card, "card")
        row = QHBoxLayout(card)
        row.setContentsMargins(16, 16, 16, 16)
        row.setSpacing(16)
        mark = picture(IconKind.OFF.path.with_name("mark.svg"), 56, self.devicePixelRatio())
        row.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        texts = QVBoxLayout()
        texts.setSpacing(8)
        texts.addWidget(text_label("Culvert", "title"))
        texts.addWidget(self._text)
        row.addLayout(texts, 1)
        column = _scrolled_column(self)
        column.addWidget(card)
        column.addLayout(self._buttons)
        column.addStretch()

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
        offered = (*about_entries(status), Action(tr("Quit (tunnels stay up)"), Quit()))
        if offered != self._offered:
            self._offered = offered
            clear(self._buttons)
            for action in offered:
                self._buttons.addWidget(action_button(action, self._dispatch))
            self._buttons.addStretch()


def _enrolment(status: Status) -> tuple[str, ...]:
    enrolled = tr(
        "This computer is {device}, enrolled by {user}", device=status.device_name, user=status.user
    )
    return (
        tr("Controller {name}", name=status.controller) if status.controller else "",
        enrolled if status.user else "",
    )


def needs_card(view: View) -> bool:
    """Whether nothing can be listed before the person acts."""
    return isinstance(view, Down) or view.state == local_pb2.STATE_NOT_ENROLLED


def _tell_why_empty(card: Card, view: View) -> None:
    if isinstance(view, Down):
        start = (Action(tr("Start Culvert"), StartDaemon()),) if view.stopped else ()
        card.tell(IconKind.OFF.path, view.message, view.remedy, *start)
    elif not is_enrolled(view):
        text = tr(
            "Your administrator sends you an invitation. Its link, and an authenticator app, are all you need."
        )
        title = tr("This computer is not enrolled")
        card.tell(IconKind.NEEDS_YOU.path, title, text, Action(tr("Enrol this computer…"), Enrol()))
    elif is_redacted(view):
        text = tr("Only the user who enrolled this computer sees its resources.")
        card.tell(IconKind.READY.path, tr("Another user has enrolled this computer"), text)
    else:
        text = tr("Ask your administrator for access. What you are given appears here by itself.")
        card.tell(IconKind.READY.path, tr("You may open nothing yet"), text)


def _pop_up(menu: TrayMenu, entries: Menu, at: QPoint) -> None:
    menu.render_menu(entries)
    menu.popup(at)


def _column(page: QWidget, margin: int = 12) -> QVBoxLayout:
    layout = QVBoxLayout(page)
    layout.setContentsMargins(0, margin, 0, 0)
    layout.setSpacing(12)
    return layout


def _scrolled_column(page: QWidget) -> QVBoxLayout:
    """A column that scrolls: long names beside a refusal may leave a low screen little room."""
    inside = QWidget()
    column = QVBoxLayout(inside)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(12)
    room = QScrollArea()
    room.setWidgetResizable(True)
    room.setWidget(inside)
    _column(page).addWidget(room)
    return column


def _fill(page: QWidget, *widgets: QWidget, margin: int = 12) -> None:
    layout = _column(page, margin)
    for widget in widgets:
        layout.addWidget(widget, int(isinstance(widget, RowList | Card | _SearchedList)))
