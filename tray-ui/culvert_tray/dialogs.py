"""Dialogs for a code, an invitation link and public networks, and the details of a tunnel.

Each dialog calls the daemon, shows a refusal with its remedy, and closes after a success.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs, urlsplit

import segno
from culvert_proto import CulvertError, local_pb2
from culvert_proto.dns_name import make_readable
from culvert_proto.invitation_link import parse_invitation
from PyQt6.QtCore import QRegularExpression, Qt
from PyQt6.QtGui import (
    QColor,
    QFontDatabase,
    QGuiApplication,
    QIcon,
    QImage,
    QPixmap,
    QRegularExpressionValidator,
)
from PyQt6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from culvert_tray.daemon import Answer, Daemon, Refusal
from culvert_tray.signals import connect
from culvert_tray.translation import tr
from culvert_tray.view import with_organisation

# Six digits (RFC 6238), or a recovery code with any grouping.
_CODE = QRegularExpression("[0-9]{3} ?[0-9]{3}|[A-Za-z2-7]{4}([- ]?[A-Za-z2-7]{4}){3}")

CodeTaken = Callable[[local_pb2.SubmitCodeResponse], None]

# The standard's quiet zone around a QR code, in modules (ISO/IEC 18004).
_QUIET = 4
_MODULE_PIXELS = 5


class _Problem(QLabel):
    """Shows a refusal and its remedy; hidden without one."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.hide()

    def tell(self, refusal: Refusal) -> None:
        self.setText(f"⚠ {make_readable(refusal.message)}\n{refusal.remedy}")
        self.show()
        if (window := self.window()) is not None:
            _fit(window)


def _fit(window: QWidget) -> None:
    """Make a window as high as its wrapped texts need; `adjustSize` alone stops at two thirds of the screen."""
    window.adjustSize()
    if (layout := window.layout()) is not None and layout.hasHeightForWidth():
        window.resize(window.width(), max(window.height(), layout.totalHeightForWidth(window.width())))


class CodeForm(QWidget):
    """A field for a code, with a submit button. Once the controller has accepted it, calls `taken` and accepts `dialog`."""

    def __init__(self, daemon: Daemon, dialog: QDialog, taken: CodeTaken, organisation: str) -> None:
        super().__init__()
        self._organisation = organisation
        self._daemon = daemon
        self._dialog = dialog
        self._taken = taken
        self.field = QLineEdit()
        self.field.setValidator(QRegularExpressionValidator(_CODE))
        self.field.setPlaceholderText("123456")
        self.field.setAccessibleName(tr("Code"))
        font = self.field.font()
        font.setPointSizeF(font.pointSizeF() * 1.6)
        self.field.setFont(font)
        wanted = tr("&Six digits from your authenticator, or a recovery code")
        label = QLabel(with_organisation(wanted, organisation.replace("&", "&&")))
        label.setBuddy(self.field)
        self._problem = _Problem()
        self._submit = QPushButton(tr("Submit"))
        self._submit.setEnabled(False)
        self.setMinimumWidth(380)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for widget in (label, self.field, self._problem, self._submit):
            layout.addWidget(widget)
        connect(self.field.textChanged, lambda: self._submit.setEnabled(self.field.hasAcceptableInput()))
        connect(self._submit.clicked, self._ask)

    def set_default(self) -> None:
        self._submit.setDefault(True)
        self.field.setFocus()

    def _ask(self) -> None:
        self.setEnabled(False)
        self._daemon.submit_code(self.field.text().replace(" ", ""), self._organisation, self._on_answer)

    def _on_answer(self, answer: Answer | Refusal) -> None:
        self.setEnabled(True)
        if isinstance(answer, local_pb2.SubmitCodeResponse):
            self._dialog.accept()
            self._taken(answer)
            return
        self._problem.tell(answer)
        self.field.clear()
        self.field.setFocus()


class CodeDialog(QDialog):
    def __init__(self, daemon: Daemon, taken: CodeTaken, organisation: str) -> None:
        super().__init__()
        self.setWindowTitle(with_organisation(tr("Enter a code"), organisation))
        form = CodeForm(daemon, self, taken, organisation)
        layout = QVBoxLayout(self)
        layout.addWidget(form)
        form.set_default()


class ClaimsDialog(QDialog):
    """Lists all public networks that an organisation wants to carry. Neither Agree nor Decline is the default button."""

    def __init__(self, daemon: Daemon, prefixes: Sequence[str], organisation: str) -> None:
        super().__init__()
        self._daemon, self._prefixes, self._organisation = daemon, tuple(prefixes), organisation
        self.setWindowTitle(with_organisation(tr("Public networks"), organisation))
        self.setMinimumWidth(460)
        asked = QLabel(
            tr(
                "The organisation asks to carry your traffic to these public networks. It would see where that "
                "traffic goes, and could read what is not encrypted."
            )
        )
        asked.setWordWrap(True)
        networks = QPlainTextEdit("\n".join(self._prefixes))
        networks.setReadOnly(True)
        networks.setAccessibleName(tr("Public networks"))
        networks.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        networks.setTabChangesFocus(True)
        until = QLabel(tr("Until you agree, Culvert does not carry traffic to them."))
        until.setWordWrap(True)
        self._problem = _Problem()
        agree, decline = QPushButton(tr("&Agree")), QPushButton(tr("&Decline"))
        buttons = QHBoxLayout()
        buttons.addStretch()
        for button in (decline, agree):
            button.setAutoDefault(False)
            buttons.addWidget(button)
        connect(decline.clicked, lambda: self._answer(agreed=False))
        connect(agree.clicked, lambda: self._answer(agreed=True))
        layout = QVBoxLayout(self)
        for widget in (asked, networks, until, self._problem):
            layout.addWidget(widget)
        layout.addLayout(buttons)

    def _answer(self, *, agreed: bool) -> None:
        self.setEnabled(False)
        self._daemon.answer_claims(self._prefixes, self._organisation, self._on_answer, agreed=agreed)

    def _on_answer(self, answer: Answer | Refusal) -> None:
        self.setEnabled(True)
        if isinstance(answer, local_pb2.AnswerClaimsResponse):
            self.accept()
        else:
            self._problem.tell(answer)


class EnrolDialog(QDialog):
    """Two pages: the invitation link; then the authenticator's QR code, the recovery codes and a first code."""

    def __init__(self, daemon: Daemon, taken: CodeTaken) -> None:
        super().__init__()
        self._daemon = daemon
        self._taken = taken
        self.setWindowTitle(tr("Enrol this computer"))
        self.setMinimumWidth(460)
        self._link = QLineEdit()
        self._link.setPlaceholderText("https://…/enroll#…")
        self._link.setAccessibleName(tr("Invitation link"))
        self._name = QLineEdit(socket.gethostname())
        self._name.setAccessibleName(tr("Name of this computer"))
        self._whose = QLabel()
        self._whose.setTextFormat(Qt.TextFormat.PlainText)
        self._whose.setWordWrap(True)
        self._whose.hide()
        self._problem = _Problem()
        self._enrol = QPushButton(tr("Enrol"))
        self._enrol.setDefault(True)
        self._enrol.setEnabled(False)
        self._page = QWidget()
        form = QFormLayout(self._page)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow(tr("Invitation &link"), self._link)
        form.addRow(tr("&Name of this computer"), self._name)
        form.addRow(self._whose)
        form.addRow(self._problem)
        form.addRow(self._enrol)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._page)
        QVBoxLayout(self).addWidget(self._pages)
        connect(self._link.textChanged, self._check)
        connect(self._name.textChanged, self._check)
        connect(self._enrol.clicked, self._ask)

    def offer(self, link: str) -> None:
        """Fill in a link that another program has passed; the person must press the button."""
        if self._pages.currentIndex() != 0 or not self._page.isEnabled():
            # Another enrolment is in progress.
            return
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
        self._enrol.setDefault(False)
        self._enrol.setAutoDefault(False)
        self._name.setFocus()

    def _check(self) -> None:
        text = self._link.text().strip()
        try:
            host = parse_invitation(text).host
        except CulvertError:
            host = ""
        self._whose.setText(tr("From {host}. Enrol only if you expect this invitation.", host=host))
        self._whose.setVisible(host != "")
        # With a link that cannot be read, the button gives the reason.
        ready = text.startswith(("https://", "culvert://")) and self._name.text().strip() != ""
        self._enrol.setEnabled(ready)

    def _ask(self) -> None:
        self._page.setEnabled(False)
        self._daemon.enrol(self._link.text().strip(), self._name.text().strip(), self._on_answer)

    def _on_answer(self, answer: Answer | Refusal) -> None:
        self._page.setEnabled(True)
        if not isinstance(answer, local_pb2.EnrollResponse):
            self._problem.tell(answer)
            self._link.setFocus()
            return
        self._link.clear()
        form = CodeForm(self._daemon, self, self._taken, answer.organisation)
        self._pages.addWidget(_authenticator_page(answer, form))
        self._pages.setCurrentIndex(1)
        _fit(self)
        form.set_default()


def _authenticator_page(enrolled: local_pb2.EnrollResponse, form: CodeForm) -> QWidget:
    page = QWidget()
    layout = QVBoxLayout(page)
    layout.setContentsMargins(0, 0, 0, 0)
    picture = QLabel()
    code = qr_code(enrolled.totp_uri)
    picture.setPixmap(code)
    picture.setMinimumSize(code.size())
    picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
    picture.setAccessibleName(tr("QR code for your authenticator"))
    secret = QLabel(tr("Can't scan it? Type this key: {key}", key=_group_secret(enrolled.totp_uri)))
    secret.setTextFormat(Qt.TextFormat.PlainText)
    secret.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    secret.setWordWrap(True)
    welcome = QLabel(tr("Enrolled as {user}.", user=enrolled.user))
    welcome.setTextFormat(Qt.TextFormat.PlainText)
    # Side by side, to fit on a low screen.
    beside = QVBoxLayout()
    for widget in (secret, *_recovery_codes(enrolled.recovery_codes)):
        beside.addWidget(widget)
    beside.addStretch()
    row = QHBoxLayout()
    row.addWidget(picture)
    row.addLayout(beside, 1)
    layout.addWidget(welcome)
    if enrolled.zones:
        names, networks = ", ".join(enrolled.zones), ", ".join(enrolled.prefixes)
        told = tr("Addresses in {networks} are reached through tunnels alone.", networks=networks)
        protected = told if networks else ""
        carried = QLabel(
            " ".join(
                filter(None, (tr("Culvert opens tunnels for names under {names}.", names=names), protected))
            )
        )
        carried.setTextFormat(Qt.TextFormat.PlainText)
        carried.setWordWrap(True)
        layout.addWidget(carried)
    layout.addWidget(QLabel(tr("Scan this with your authenticator:")))
    layout.addLayout(row)
    layout.addWidget(form)
    page.setMinimumWidth(560)
    return page


def _recovery_codes(codes: Sequence[str]) -> list[QWidget]:
    """The widgets of the recovery codes, which are shown once."""
    if not codes:
        return []
    told = QLabel(
        tr("Keep these recovery codes in case you lose your authenticator. Each works once, as a code:")
    )
    told.setWordWrap(True)
    # Two columns fit on a low screen.
    rows = (codes[at : at + 2] for at in range(0, len(codes), 2))
    shown = QLabel("\n".join("   ".join(row) for row in rows))
    shown.setTextFormat(Qt.TextFormat.PlainText)
    shown.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    shown.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    copy = QPushButton(tr("Copy the recovery codes"))
    if (clipboard := QGuiApplication.clipboard()) is not None:
        connect(copy.clicked, lambda: clipboard.setText("\n".join(codes)))
    copy.setAutoDefault(False)
    return [told, shown, copy]


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


def close_button() -> QDialogButtonBox:
    """Without Qt's own icon, which is black and cannot be seen on a dark desktop."""
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    if (button := buttons.button(QDialogButtonBox.StandardButton.Close)) is not None:
        button.setIcon(QIcon())
    return buttons


class DetailsDialog(QDialog):
    """Follows its tunnel while it is open."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.setWindowTitle(title)
        self.setMinimumWidth(420)
        self._values: dict[str, QLabel] = {}
        self._form = QFormLayout()
        buttons = close_button()
        connect(buttons.rejected, self.reject)
        layout = QVBoxLayout(self)
        layout.addLayout(self._form)
        layout.addWidget(buttons)

    def show_rows(self, rows: tuple[tuple[str, str], ...]) -> None:
        for label, value in rows or ((tr("State"), tr("closed")),):
            if label not in self._values:
                field = self._values[label] = QLabel()
                field.setTextFormat(Qt.TextFormat.PlainText)
                field.setTextInteractionFlags(
                    Qt.TextInteractionFlag.TextSelectableByMouse
                    | Qt.TextInteractionFlag.TextSelectableByKeyboard
                )
                self._form.addRow(label, field)
            self._values[label].setText(value)
            self._values[label].setAccessibleName(f"{label}: {value}")
