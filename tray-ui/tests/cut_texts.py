"""Prints what is cut, and what is scrolled without need, in each dialog and in the window in each state, without a desktop.

cd tray-ui; LC_ALL=de_DE.UTF-8 QT_QPA_PLATFORM=offscreen:configfile=SCREEN.json python -m tests.cut_texts
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_tray.commands import Page
from culvert_tray.daemon import Daemon, Refusal
from culvert_tray.details import details
from culvert_tray.dialogs import ClaimsDialog, CodeDialog, CodeForm, DetailsDialog
from culvert_tray.enrolment import EnrolDialog
from culvert_tray.parts import Scrolled
from culvert_tray.preferences import Preferences
from culvert_tray.style import install_style, make_application
from culvert_tray.translation import install
from culvert_tray.view import View, not_running
from culvert_tray.window import StatusWindow
from PyQt6.QtCore import QSize
from PyQt6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QPushButton, QWidget

from . import statuses
from .canned_daemon import RECOVERY_CODES

# In pixels; what a window manager adds.
_TITLE_BAR = 40
# The rounds of events in which a window comes to rest.
_ROUNDS = 4

Kind = TypeVar("Kind", bound=QWidget)

LINK = f"culvert://enroll?controller=https://vpn.corp.example:8443&token=fresh&ca=sha256:{'5e' * 32}"


class Answering:
    """In the daemon's place: gives each call its next answer at once."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    def __getattr__(self, _call: str) -> Any:
        def call(*arguments: Any, **_named: Any) -> None:
            arguments[-1](self._answers.pop(0))

        return call


def windows() -> Iterator[tuple[str, QWidget]]:
    """Each with a name; shown, and with all texts that it can have."""
    views: dict[str, View] = {
        name: getattr(statuses, name)()
        for name in (
            "connected", "silent", "narrow", "blocked", "unheard", "denied", "expired", "wrong_clock", "paused", "asking",
            "many_gateways", "opened",
        )
    }  # fmt: skip
    views |= {"organisations": statuses.two_organisations(), "off": not_running()}
    views |= {"long names": statuses.long_names()}
    views |= {"not enrolled": local_pb2.Status(state=local_pb2.STATE_NOT_ENROLLED)}
    for name, view in views.items():
        for page in Page:
            window = StatusWindow(lambda _: None, lambda: None)
            window.show_view(view, statuses.activities(), Preferences(autostart=True), statuses.NOW)
            window.show_page(page)
            yield f"{name}, {page.value}", window
    low = StatusWindow(lambda _: None, lambda: None)
    low.show_view(statuses.opened(), (), Preferences(), statuses.NOW)
    low.show_page(Page.TUNNELS)
    if (screen := low.screen()) is not None:
        low.resize(QSize(620, 500).boundedTo(screen.availableSize()))
    yield "opened, low window", low
    yield from dialogs()


def dialogs() -> Iterator[tuple[str, QWidget]]:
    """Each with a name; shown."""
    wrong = _refusal(CulvertError(Reason.CODE_WRONG))
    code = CodeDialog(_daemon(wrong), lambda _: None, "")
    code.show()
    _submit(code)
    yield "wrong code", code
    collision = CulvertError(Reason.ADDRESS_COLLISION, prefix="17.0.0.0/8", what="17.1.0.0/16")
    claims = ClaimsDialog(_daemon(_refusal(collision)), ["17.0.0.0/8"], "vpn.corp.example")
    claims.show()
    _press(claims)
    yield "claims", claims
    enrolled = local_pb2.EnrollResponse(
        user="alice",
        totp_uri="otpauth://totp/Culvert:alice?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Culvert",
        recovery_codes=RECOVERY_CODES,
        zones=["corp.example", "lab.corp.example"],
        prefixes=["10.20.0.0/16", "fd00:20::/32"],
    )
    taken = local_pb2.SubmitCodeResponse()
    whose = local_pb2.ShowInvitationResponse(user="alice", user_display_name="Alice Liddell", replaces="bea")
    refused = EnrolDialog(_daemon(_refusal(CulvertError(Reason.INVITATION_INVALID))), _nothing, _nothing)
    for name, dialog in (
        ("refused invitation", refused),
        ("invitation", EnrolDialog(_daemon(whose, enrolled, wrong, taken), _nothing, _nothing)),
    ):
        dialog.show()
        yield f"{name}, without a link", dialog
        dialog.offer(LINK)
        yield f"{name}, before it is looked up", dialog
        _press(dialog)
        yield name, dialog
        if name == "invitation":
            _press(dialog)
            yield "authenticator", dialog
            _submit(dialog)
            yield "authenticator, wrong code", dialog
            dialog.show_view(statuses.connected())
            _submit(dialog)
            yield "enrolled", dialog
    tunnel = DetailsDialog("wiki")
    tunnel.show_rows(details(statuses.connected(), "t-wiki", statuses.NOW))
    yield "details", tunnel


def cut(window: QWidget) -> Iterator[str]:
    for label in _shown(window, QLabel):
        needed = label.heightForWidth(label.width()) if label.wordWrap() else label.sizeHint().height()
        too_narrow = not label.wordWrap() and label.width() < label.sizeHint().width()
        if label.text() and (label.height() < needed or too_narrow):
            yield label.text()
    for button in _shown(window, QAbstractButton):
        if button.text() and button.width() < button.minimumSizeHint().width():
            yield button.text()


def _shown(window: QWidget, kind: type[Kind]) -> list[Kind]:
    return [it for it in window.findChildren(kind) if it.isVisible()]


def _nothing(_said: object) -> None:
    pass


def _daemon(*answers: object) -> Daemon:
    return cast("Daemon", Answering(*answers))


def _refusal(error: CulvertError) -> Refusal:
    return error


def _press(window: QWidget) -> None:
    _shown(window, QPushButton)[-1].click()


def _submit(window: QWidget) -> None:
    form = window.findChild(CodeForm)
    assert form is not None
    _shown(form, QLineEdit)[0].setText("111111")
    next(it for it in _shown(form, QPushButton)).click()


if __name__ == "__main__":
    app = make_application([])
    install(app)
    install_style(app)
    # All are kept: a visible window that is collected while it paints itself ends the program.
    kept: list[QWidget] = []
    for name, window in windows():
        kept.append(window)
        window.show()
        for _ in range(_ROUNDS):
            app.processEvents()
        for text in cut(window):
            print(f"{name}: {text!r}")
        screen = window.screen()
        assert screen is not None
        if window.height() > screen.availableSize().height():
            print(f"{name}: higher than the screen: {window.height()}")
        if window.height() + _TITLE_BAR < screen.availableSize().height() and name != "opened, low window":
            for area in _shown(window, Scrolled):
                if (bar := area.verticalScrollBar()) is not None and bar.maximum():
                    print(f"{name}: scrolled, though the screen has room")
        if window.minimumSizeHint().width() > screen.availableSize().width():
            print(f"{name}: wider than the screen: {window.minimumSizeHint().width()}")
        if isinstance(window, StatusWindow):
            window.hide()
    # Leave without the destructors: some dialogs still wait.
    os._exit(0)
