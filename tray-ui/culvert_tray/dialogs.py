"""Dialogs for a code and for public networks, and the details of a tunnel.

Each dialog calls the daemon, shows a refusal with its remedy, and closes after a success.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from culvert_proto import local_pb2
from PyQt6.QtCore import QRegularExpression, QTimer
from PyQt6.QtGui import QFontDatabase, QIcon, QRegularExpressionValidator, QValidator
from PyQt6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from culvert_tray.commands import CopyText
from culvert_tray.daemon import Answer, Daemon, Refusal
from culvert_tray.menu import Trouble, trouble
from culvert_tray.parts import Banner, Scrolled, button, clear, copy_text, text_label
from culvert_tray.signals import connect
from culvert_tray.style import set_role
from culvert_tray.translation import tr
from culvert_tray.view import Down, with_organisation

# Six digits (RFC 6238), or a recovery code, with any grouping.
_CODE = QRegularExpression("[0-9]{3}[- ]?[0-9]{3}|[A-Za-z2-7]{4}([- ]?[A-Za-z2-7]{4}){3}")

CodeTaken = Callable[[local_pb2.SubmitCodeResponse], None]


class Problem(QWidget):
    """Shows a refusal and its remedy; hidden without one."""

    def __init__(self) -> None:
        super().__init__()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self.hide()

    def tell(self, refusal: Refusal) -> None:
        clear(self._layout)
        is_down = isinstance(refusal, Down)
        told = Trouble(refusal.message, refusal.remedy) if is_down else trouble(refusal)
        banner = Banner(told)
        # The dialog itself is the place for the other acts.
        if told.cure is not None and isinstance(told.cure.command, CopyText):
            copy = button(told.cure.text, partial(copy_text, told.cure.command.text))
            copy.setAutoDefault(False)
            banner = Banner(told, copy)
        self._layout.addWidget(banner)
        self.show()
        if (window := self.window()) is not None:
            fit(window, self)


def fit(window: QWidget, told: QWidget | None = None) -> None:
    """Make a window as high as its wrapped texts need, up to its screen, once its layouts know of new widgets.

    `told`: what the person must see, where the screen is too low for all.
    """

    def resize() -> None:
        # Their contents have changed, and the layout does not know yet.
        for area in window.findChildren(Scrolled):
            area.updateGeometry()
        # This alone stops at two thirds of the screen.
        window.adjustSize()
        if (layout := window.layout()) is not None and layout.hasHeightForWidth():
            height = layout.totalHeightForWidth(window.width())
            if (screen := window.screen()) is not None:
                title_bar = window.frameGeometry().height() - window.height()
                height = min(height, screen.availableGeometry().height() - title_bar)
            window.resize(window.width(), height)
        if told is not None:
            for area in window.findChildren(Scrolled):
                area.ensureWidgetVisible(told, 0, 0)

    # A child of the window: it does not outlive it.
    timer = QTimer(window)
    timer.setSingleShot(True)
    connect(timer.timeout, resize)
    connect(timer.timeout, timer.deleteLater)
    timer.start(0)


class CodeValidator(QRegularExpressionValidator):
    """Takes a pasted code without the white space around it, which Qt would refuse with the code."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(_CODE, parent)

    def validate(self, input: str | None, pos: int) -> tuple[QValidator.State, str, int]:
        found, text, at = super().validate(input, pos)
        bare = " ".join((input or "").split())
        if found is not QValidator.State.Invalid or bare == input:
            return found, text, at
        return super().validate(bare, len(bare))


class CodeForm(QWidget):
    """A field for a code, with a submit button. Calls `taken` once the controller has accepted the code.

    `first`: of a new authenticator, which a recovery code would leave unused.
    """

    def __init__(self, daemon: Daemon, taken: CodeTaken, organisation: str, *, first: bool = False) -> None:
        super().__init__()
        self._organisation = organisation
        self._daemon = daemon
        self._taken = taken
        self.field = QLineEdit()
        self.field.setValidator(CodeValidator(self.field))
        self.field.setPlaceholderText("123456")
        self.field.setAccessibleName(tr("Code"))
        set_role(self.field, "code")
        wanted = (
            tr("The &six digits that your authenticator shows now")
            if first
            else tr("&Six digits from your authenticator, or a recovery code")
        )
        label = QLabel(with_organisation(wanted, organisation.replace("&", "&&")))
        label.setWordWrap(True)
        label.setBuddy(self.field)
        self._problem = Problem()
        self._submit = button(tr("Submit"), self._ask, "primary")
        self._submit.setEnabled(False)
        self.setMinimumWidth(440)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.field, 1)
        row.addWidget(self._submit)
        layout.addWidget(label)
        layout.addLayout(row)
        layout.addWidget(self._problem)
        connect(self.field.textChanged, lambda: self._submit.setEnabled(self.field.hasAcceptableInput()))

    def set_default(self) -> None:
        self._submit.setDefault(True)
        self.field.setFocus()

    def _ask(self) -> None:
        self.setEnabled(False)
        typed = self.field.text().replace(" ", "")
        code = typed.replace("-", "") if typed[0].isdigit() and len(typed) < 10 else typed
        self._daemon.submit_code(code, self._organisation, self._on_answer)

    def _on_answer(self, answer: Answer | Refusal) -> None:
        self.setEnabled(True)
        if isinstance(answer, local_pb2.SubmitCodeResponse):
            self._taken(answer)
            return
        self._problem.tell(answer)
        self.field.clear()
        self.field.setFocus()


class CodeDialog(QDialog):
    def __init__(self, daemon: Daemon, taken: CodeTaken, organisation: str) -> None:
        super().__init__()
        self.setWindowTitle(with_organisation(tr("Enter a code"), organisation))
        self._taken = taken
        form = CodeForm(daemon, self._on_taken, organisation)
        layout = dialog_column(self)
        layout.addWidget(form)
        form.set_default()

    def _on_taken(self, answer: local_pb2.SubmitCodeResponse) -> None:
        self.accept()
        self._taken(answer)


class ClaimsDialog(QDialog):
    """Lists public networks that an organisation wants to carry. Neither Agree nor Decline is the default button.

    `answered`: the person's answer so far, which the other button changes.
    """

    def __init__(
        self, daemon: Daemon, prefixes: Sequence[str], organisation: str, *, answered: bool | None = None
    ) -> None:
        super().__init__()
        self._daemon, self._prefixes, self._organisation = daemon, tuple(prefixes), organisation
        self.setWindowTitle(with_organisation(tr("Public networks"), organisation))
        self.setMinimumWidth(480)
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
        until = QLabel(
            tr("You have agreed: Culvert carries traffic to them. If you decline now, their tunnels close.")
            if answered
            else tr("Until you agree, Culvert does not carry traffic to them.")
        )
        until.setWordWrap(True)
        self._problem = Problem()
        agree, decline = QPushButton(tr("&Agree")), QPushButton(tr("&Decline"))
        buttons = QHBoxLayout()
        buttons.addStretch()
        for each, answer in ((decline, False), (agree, True)):
            each.setAutoDefault(False)
            if answered is not answer:
                buttons.addWidget(each)
        connect(decline.clicked, lambda: self._answer(agreed=False))
        connect(agree.clicked, lambda: self._answer(agreed=True))
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        for widget in (asked, networks, until, self._problem):
            column.addWidget(widget)
        layout = dialog_column(self)
        layout.addWidget(Scrolled(content))
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


def dialog_column(dialog: QDialog) -> QVBoxLayout:
    layout = QVBoxLayout(dialog)
    layout.setContentsMargins(24, 20, 24, 20)
    layout.setSpacing(12)
    return layout


def close_button() -> QDialogButtonBox:
    """Without Qt's own icon, which is black and cannot be seen on a dark desktop, and with one text on all desktops."""
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    if (button := buttons.button(QDialogButtonBox.StandardButton.Close)) is not None:
        button.setIcon(QIcon())
        button.setText(tr("Close"))
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
        self._form.setHorizontalSpacing(24)
        self._form.setVerticalSpacing(8)
        layout = dialog_column(self)
        layout.addLayout(self._form)
        layout.addWidget(buttons)

    def show_rows(self, rows: tuple[tuple[str, str], ...]) -> None:
        for label, value in rows or ((tr("State"), tr("closed")),):
            if label not in self._values:
                field = self._values[label] = text_label("")
                self._form.addRow(text_label(label, "note", selectable=False), field)
            self._values[label].setText(value)
            self._values[label].setAccessibleName(f"{label}: {value}")
