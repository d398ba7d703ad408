"""The guided dialog that enrols this computer.

invitation link, name ──► for whom it is ──► QR code, recovery codes, first code ──► "Open wiki.corp.example"
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import segno
from culvert_proto import CulvertError, local_pb2
from culvert_proto.dns_name import is_wildcard, make_readable
from culvert_proto.invitation_link import parse_invitation
from PyQt6.QtCore import Qt
from PyQt6.QtGui import QColor, QImage, QPixmap, QTextDocument
from PyQt6.QtPrintSupport import QPrintDialog, QPrinter
from PyQt6.QtWidgets import (
    QDialog,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from culvert_tray.commands import Command, OpenPage
from culvert_tray.daemon import Answer, Daemon, Refusal
from culvert_tray.dialogs import CodeForm, CodeTaken, Problem, dialog_column, fit
from culvert_tray.icon import IconKind
from culvert_tray.menu import Action, Trouble
from culvert_tray.parts import Banner, Scrolled, action_button, button, clear, copy_text, picture, text_label
from culvert_tray.signals import connect
from culvert_tray.style import set_role
from culvert_tray.translation import later, tr
from culvert_tray.view import Status

Dispatch = Callable[[Command], None]

_STEPS = (later("Invitation"), later("Authenticator"), later("Ready"))
_OFFERED = 3
"""Our tunable: the resources that the last page offers."""

_WIDTH, _WIDE = 480, 680

# The standard's quiet zone around a QR code, in modules (ISO/IEC 18004).
_QUIET = 4
_MODULE_PIXELS = 5


class EnrolDialog(QDialog):
    def __init__(self, daemon: Daemon, taken: CodeTaken, dispatch: Dispatch) -> None:
        super().__init__()
        self._daemon = daemon
        self._taken = taken
        self._organisation = ""
        self.setWindowTitle(tr("Enrol this computer"))
        self.setMinimumWidth(_WIDTH)
        self._steps = text_label("", "note", selectable=False)
        self._steps.setTextFormat(Qt.TextFormat.RichText)
        self._invitation = _InvitationPage(self._ask_for_whom, self._ask, self.reject)
        self._ready = _ReadyPage(dispatch, self.accept)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._invitation)
        layout = dialog_column(self)
        layout.addWidget(self._steps)
        layout.addWidget(Scrolled(self._pages))
        self._say_step(0)

    def offer(self, link: str) -> None:
        """Fill in a link that another program has passed; the person must press the button."""
        if self._pages.currentIndex() == 0 and self._invitation.isEnabled():
            # Otherwise another enrolment is in progress.
            self._invitation.offer(link)

    def show_view(self, status: Status) -> None:
        if self._ready.show_view(status, self._organisation) and self._ready.isVisible():
            fit(self)

    def _say_step(self, current: int) -> None:
        steps = (f"{number} {tr(step)}" for number, step in enumerate(_STEPS, 1))
        said = (f"<b>{step}</b>" if at == current else step for at, step in enumerate(steps))
        self._steps.setText("&nbsp;&nbsp;›&nbsp;&nbsp;".join(said))

    def _ask_for_whom(self, link: str) -> None:
        self._invitation.setEnabled(False)
        self._daemon.show_invitation(link, self._on_shown)

    def _on_shown(self, answer: Answer | Refusal) -> None:
        self._invitation.setEnabled(True)
        if isinstance(answer, local_pb2.ShowInvitationResponse):
            self._invitation.show_whose(answer)
        else:
            self._invitation.refuse(answer)

    def _ask(self, link: str, name: str) -> None:
        self._invitation.setEnabled(False)
        self._daemon.enrol(link, name, self._on_answer)

    def _on_answer(self, answer: Answer | Refusal) -> None:
        self._invitation.setEnabled(True)
        if not isinstance(answer, local_pb2.EnrollResponse):
            self._invitation.refuse(answer)
            return
        self._invitation.forget()
        self._organisation = answer.organisation
        form = CodeForm(self._daemon, self._on_taken, answer.organisation, first=bool(answer.totp_uri))
        self._go_to(_authenticator_page(answer, form))
        form.set_default()

    def _on_taken(self, answer: local_pb2.SubmitCodeResponse) -> None:
        self._taken(answer)
        self._go_to(self._ready)
        self._ready.set_default()

    def _go_to(self, page: QWidget) -> None:
        """Show the next page alone: what was on the page before must not be found again."""
        before = self._pages.currentWidget()
        self._pages.setCurrentIndex(self._pages.addWidget(page))
        if before is not None:
            self._pages.removeWidget(before)
            before.deleteLater()
        self._say_step(2 if page is self._ready else 1)
        self.setMinimumWidth(_WIDTH if page is self._ready else _WIDE)
        fit(self)


class _InvitationPage(QWidget):
    """The invitation, and for whom it is before it is used. `show`: given the link; `enrol`: the link and a name."""

    def __init__(
        self, show: Callable[[str], None], enrol: Callable[[str, str], None], cancel: Callable[[], None]
    ) -> None:
        super().__init__()
        self._show, self._enrol = show, enrol
        self._whose: local_pb2.ShowInvitationResponse | None = None
        self._told: Trouble | None = None
        self._link = QLineEdit()
        self._link.setPlaceholderText("https://…/enroll#…")
        self._link.setAccessibleName(tr("Invitation link"))
        self._name = QLineEdit(socket.gethostname())
        self._name.setAccessibleName(tr("Name of this computer"))
        self._said = QVBoxLayout()
        self._problem = Problem()
        self._next = button(tr("Continue"), self._on_click, "primary")
        self._next.setDefault(True)
        self._next.setEnabled(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        for text, field in ((tr("Invitation &link"), self._link), (tr("&Name of this computer"), self._name)):
            label = QLabel(text)
            label.setBuddy(field)
            layout.addWidget(label)
            layout.addWidget(field)
            layout.addSpacing(8)
        layout.addLayout(self._said)
        layout.addWidget(self._problem)
        layout.addSpacing(8)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addStretch()
        leaves = button(tr("Cancel"), cancel)
        leaves.setAutoDefault(False)
        buttons.addWidget(leaves)
        buttons.addWidget(self._next)
        layout.addLayout(buttons)
        self.setTabOrder(self._next, leaves)
        connect(self._link.textChanged, self._on_link)
        connect(self._name.textChanged, self._check)

    def offer(self, link: str) -> None:
        try:
            parse_invitation(link)
        except CulvertError as refused:
            self._link.clear()
            self._problem.tell(refused)
            return
        self._problem.hide()
        self._link.setText(link.strip())
        self._link.setCursorPosition(0)
        # No default button: a Return typed for the browser must not be consent.
        self._next.setDefault(False)
        self._next.setAutoDefault(False)
        self._name.setFocus()

    def show_whose(self, answer: local_pb2.ShowInvitationResponse) -> None:
        self._whose = answer
        self._problem.hide()
        self._check()
        self._next.setFocus()

    def refuse(self, refusal: Refusal) -> None:
        self._on_link()
        # It would speak of the invitation as if it were of use.
        self._say(None)
        self._problem.tell(refusal)
        self._link.setFocus()

    def forget(self) -> None:
        self._link.clear()

    def _on_link(self) -> None:
        self._whose = None
        self._problem.hide()
        self._check()

    def _check(self) -> None:
        text = self._link.text().strip()
        try:
            host = parse_invitation(text).host
        except CulvertError:
            host = ""
        self._say(_say_whose(host, self._whose) if host else None)
        # With a link that cannot be read, the button gives the reason.
        ready = text.startswith(("https://", "culvert://")) and self._name.text().strip() != ""
        self._next.setText(tr("Continue") if self._whose is None else tr("Enrol"))
        self._next.setEnabled(ready)

    def _say(self, told: Trouble | None) -> None:
        if told == self._told:
            return
        self._told = told
        clear(self._said)
        if told is not None:
            self._said.addWidget(Banner(told, role="attention"))
        fit(self.window() or self)

    def _on_click(self) -> None:
        link = self._link.text().strip()
        if self._whose is None:
            self._show(link)
        else:
            self._enrol(link, self._name.text().strip())


def _say_whose(host: str, whose: local_pb2.ShowInvitationResponse | None) -> Trouble:
    if whose is None:
        told = tr("Continue only if you expect this invitation. It is not used yet.")
        return Trouble(tr("From {host}", host=host), told)
    if not whose.user:
        return Trouble(tr("From {host}", host=host), tr("Enrol only if you expect this invitation."))
    display_name = whose.user_display_name
    person = f"{display_name} ({whose.user})" if display_name else whose.user
    title = tr("For {person}, from {host}", person=person, host=host)
    told = tr("Enrol only if this is you. The invitation works once.")
    if whose.replaces:
        told += " " + tr(
            "This computer is enrolled there for {user} already: that ends, and its tunnels close.",
            user=whose.replaces,
        )
    return Trouble(title, told)


class _ReadyPage(QWidget):
    """The last page: opens a name, which is what the person enrolled for."""

    def __init__(self, dispatch: Dispatch, close: Callable[[], None]) -> None:
        super().__init__()
        self._dispatch, self._close = dispatch, close
        self._shown: tuple[tuple[str, ...], bool] | None = None
        self._buttons = QVBoxLayout()
        self._buttons.setSpacing(8)
        self._text = text_label("")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        row = QHBoxLayout()
        row.setSpacing(14)
        row.addWidget(
            picture(IconKind.CONNECTED.path, 44, self.devicePixelRatio()), 0, Qt.AlignmentFlag.AlignTop
        )
        texts = QVBoxLayout()
        texts.addWidget(text_label(tr("This computer is enrolled"), "title"))
        texts.addWidget(self._text)
        texts.addStretch()
        row.addLayout(texts, 1)
        layout.addLayout(row)
        layout.addSpacing(8)
        layout.addLayout(self._buttons)
        layout.addStretch()

    def show_view(self, status: Status, organisation: str) -> bool:
        """Whether this changed the page."""
        own = [it.fqdn for it in status.resources if it.organisation == organisation or not organisation]
        names = tuple(sorted(it for it in own if not is_wildcard(it))[:_OFFERED])
        shown = (names, bool(own))
        if shown == self._shown:
            return False
        self._shown = shown
        if names:
            text = tr("A tunnel opens by itself when you use a name of your organisation. Try it:")
        elif own:
            text = tr("A tunnel opens by itself when you use a name of your organisation.")
        else:
            text = tr("You may open nothing yet. Ask your administrator for access.")
        self._text.setText(text)
        clear(self._buttons)
        for number, name in enumerate(names):
            opened = Action(tr("Open {name}", name=make_readable(name)), OpenPage(name))
            made = action_button(opened, self._dispatch, "" if number else "primary")
            connect(made.clicked, lambda: self._close())
            self._buttons.addWidget(made)
        self._buttons.addWidget(button(tr("Close"), self._close), 0, Qt.AlignmentFlag.AlignRight)
        self.set_default()
        return True

    def set_default(self) -> None:
        item = self._buttons.itemAt(0)
        if item is not None and (first := item.widget()) is not None:
            first.setFocus()


def _authenticator_page(enrolled: local_pb2.EnrollResponse, form: CodeForm) -> QWidget:
    page = QWidget()
    layout = QVBoxLayout(page)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(8)
    tile = QFrame()
    tile.setStyleSheet("QFrame { background: white; border-radius: 10px; }")
    code = qr_code(enrolled.totp_uri)
    shown = QLabel()
    shown.setPixmap(code)
    shown.setFixedSize(code.size())
    shown.setAccessibleName(tr("QR code for your authenticator"))
    inside = QVBoxLayout(tile)
    inside.setContentsMargins(4, 4, 4, 4)
    inside.addWidget(shown)
    secret = text_label(
        tr("Can't scan it? Type this key: {key}", key=_group_secret(enrolled.totp_uri)), "note"
    )
    layout.addWidget(text_label(tr("Enrolled as {user}.", user=enrolled.user), "title"))
    if enrolled.zones:
        names, networks = ", ".join(enrolled.zones), ", ".join(enrolled.prefixes)
        told = tr("Addresses in {networks} are reached through tunnels alone.", networks=networks)
        carried = tr("Culvert opens tunnels for names under {names}.", names=names)
        layout.addWidget(text_label(" ".join(filter(None, (carried, told if networks else "")))))
    # Side by side, to fit on a low screen.
    beside = QVBoxLayout()
    beside.setSpacing(8)
    beside.addWidget(text_label(tr("Scan this with your authenticator app."), "heading"))
    beside.addWidget(secret)
    for widget in _recovery_codes(enrolled):
        beside.addWidget(widget)
    beside.addStretch()
    row = QHBoxLayout()
    row.setSpacing(16)
    row.addWidget(tile, 0, Qt.AlignmentFlag.AlignTop)
    row.addLayout(beside, 1)
    layout.addSpacing(4)
    layout.addLayout(row)
    layout.addSpacing(4)
    layout.addWidget(form)
    return page


def _recovery_codes(enrolled: local_pb2.EnrollResponse) -> list[QWidget]:
    """The widgets of the recovery codes, which are shown once."""
    codes: Sequence[str] = enrolled.recovery_codes
    if not codes:
        return []
    told = text_label(
        tr("Keep these recovery codes in case you lose your authenticator. Each works once, as a code:")
    )
    # Two columns fit on a low screen.
    rows = (codes[at : at + 2] for at in range(0, len(codes), 2))
    shown = text_label("\n".join("   ".join(row) for row in rows), "code")
    text = "\n".join(codes)
    whose = " · ".join(filter(None, (enrolled.user, enrolled.organisation)))
    paper = f"{tr('Recovery codes of Culvert')}\n{whose}\n\n{text}\n"
    problem = text_label("")
    problem.hide()

    def save() -> None:
        chosen = Path.home() / tr("culvert-recovery-codes.txt")
        path, _ = QFileDialog.getSaveFileName(shown, tr("Save the recovery codes"), str(chosen), "*.txt")
        if path:
            fault = _write_private(Path(path), paper)
            problem.setText(fault or tr("Saved. Keep the file where only you read it."))
            problem.show()

    def print_out() -> None:
        fault = _print(paper, shown)
        problem.setText(fault)
        problem.setVisible(bool(fault))

    buttons = QWidget()
    row = QHBoxLayout(buttons)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(8)
    for made in (
        button(tr("Copy"), partial(copy_text, text)),
        button(tr("Save…"), save),
        button(tr("&Print…"), print_out),
    ):
        made.setAutoDefault(False)
        row.addWidget(made)
    row.addStretch()
    set_role(problem, "note")
    return [told, shown, buttons, problem]


def _write_private(path: Path, text: str) -> str:
    """Write a file that only this person reads. Returns the fault in words; empty after a success."""
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except OSError as error:
        return tr("{path} cannot be written: {why}", path=path, why=error.strerror or str(error))
    return ""


def _print(text: str, parent: QWidget) -> str:
    """Ask for a printer, and print. Returns the fault in words; empty after a success, or if the person cancels."""
    printer = QPrinter(QPrinter.PrinterMode.HighResolution)
    dialog = QPrintDialog(printer, parent)
    dialog.setWindowTitle(tr("Print the recovery codes"))
    # A printer may be a file.
    before = os.umask(0o077)
    try:
        if dialog.exec() != QDialog.DialogCode.Accepted:
            return ""
        document = QTextDocument(text)
        font = document.defaultFont()
        font.setFamily("monospace")
        font.setPointSize(12)
        document.setDefaultFont(font)
        document.print(printer)
    finally:
        os.umask(before)
    failed = printer.printerState() in (QPrinter.PrinterState.Error, QPrinter.PrinterState.Aborted)
    return tr("The codes were not printed. Save or copy them instead.") if failed else ""


def qr_code(text: str) -> QPixmap:
    matrix = segno.make(text, error="m", micro=False).matrix
    side = len(matrix) + 2 * _QUIET
    image = QImage(side, side, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    for y, row in enumerate(matrix):
        for x, dark in enumerate(row):
            if dark:
                image.setPixelColor(x + _QUIET, y + _QUIET, QColor("black"))
    return QPixmap.fromImage(image.scaled(side * _MODULE_PIXELS, side * _MODULE_PIXELS))


def _group_secret(totp_uri: str) -> str:
    secret = parse_qs(urlsplit(totp_uri).query).get("secret", [""])[0]
    return " ".join(secret[i : i + 4] for i in range(0, len(secret), 4))
