"""culvert-tray: connects the daemon's views with the tray icon, the window and the dialogs. It decides nothing.

Daemon ──viewed──► Tray ──► icon_kind, menu, notices, details (pure) ──► QSystemTrayIcon, TrayMenu, StatusWindow
   ▲                 │
   └──── command ◄───┘
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import NoReturn

from culvert_proto import CulvertError, local_pb2
from culvert_proto.invitation_link import LONGEST
from culvert_proto.output import check_output
from culvert_proto.owner import mail_to
from PyQt6.QtCore import (
    QMessageLogContext,
    QObject,
    QProcess,
    Qt,
    QTimer,
    QtMsgType,
    QUrl,
    qInstallMessageHandler,  # pyright: ignore[reportUnknownVariableType]
)
from PyQt6.QtGui import QDesktopServices, QIcon
from PyQt6.QtWidgets import QApplication, QDialog, QFileDialog, QSystemTrayIcon, QWidget

from culvert_tray import commands, notices
from culvert_tray import menu as menus
from culvert_tray.autostart import autostart_entries, is_autostarted, set_autostart
from culvert_tray.daemon import Answer, Daemon, Refusal
from culvert_tray.details import details
from culvert_tray.dialogs import ClaimsDialog, CodeDialog, DetailsDialog
from culvert_tray.doctor import Doctor
from culvert_tray.documentation import DocumentationDialog
from culvert_tray.enrolment import EnrolDialog
from culvert_tray.late_host import LateHost
from culvert_tray.notices import Memory, Notice
from culvert_tray.notifications import Notifications
from culvert_tray.parts import copy_text
from culvert_tray.preferences import NoticeKind, Preferences, with_favourite, with_notices, with_recent
from culvert_tray.preferences_file import preferences_path, read_preferences, write_preferences
from culvert_tray.signals import connect
from culvert_tray.single import NAME, SHOW, First
from culvert_tray.style import install_style, make_application, without_markup
from culvert_tray.translation import install, tr
from culvert_tray.tray_menu import TrayMenu
from culvert_tray.view import Down, View, list_public, starting, status_of
from culvert_tray.window import StatusWindow

DEFAULT_SOCKET = "/run/culvert/culvertd.sock"

# The number of entries that the daemon stores.
_ACTIVITIES = 500

# Milliseconds. Texts such as "valid for 12 min" must be redrawn.
_REDRAW = 15_000
# A panel shows our icon with a delay; a notice before that would be lost.
_SETTLE = 1_000
# The wait for a panel that starts after the tray, before the window opens instead.
_TRAY_GRACE = 3_000
# The interpreter handles signals only while it runs: Qt's loop calls it this often.
_SIGNALS = 250


class Tray(QObject):
    def __init__(self, app: QApplication, daemon: Daemon, doctor: Doctor) -> None:
        super().__init__()
        self._app = app
        self._daemon = daemon
        self._doctor = doctor
        self._preferences_path = preferences_path()
        stored = read_preferences(self._preferences_path)
        self._preferences = replace(stored, autostart=is_autostarted(autostart_entries()))
        self._activities: deque[local_pb2.Activity] = deque(maxlen=_ACTIVITIES)
        self._view: View = starting()
        self._memory = Memory(announced=frozenset(self._preferences.announced))
        self._dialogs: dict[str, QDialog] = {}
        self._drawn: menus.Heading | None = None
        self._balloon: Notice | None = None
        self._early: list[Notice] | None = []
        # Requests for a code while a dialog has the field for it.
        self._covered: list[Notice] = []
        self._ends = False
        self._opened = False
        self._closed_early = False
        self._menu = TrayMenu(self._do)
        self._window = StatusWindow(self._do, self._window_closed)
        self._icon = self._new_icon()
        self._host = LateHost()
        connect(self._host.came, self._host_came)
        self._notifications = Notifications()
        connect(self._notifications.asked, self._notifications_asked)
        connect(self._notifications.clicked, self._notice_clicked)
        connect(self._notifications.replied, self._code_typed)
        connect(daemon.viewed, self._on_view)
        connect(daemon.happened, self._on_activity)
        self._redraw = QTimer(self)
        connect(self._redraw.timeout, self._draw)
        self._redraw.start(_REDRAW)
        self._draw()
        self._icon.show()
        self._later(_SETTLE, self._on_settled)
        self._later(_TRAY_GRACE, self._open_without_tray)

    def _new_icon(self) -> QSystemTrayIcon:
        icon = QSystemTrayIcon()
        icon.setContextMenu(self._menu)
        connect(icon.activated, self._on_activated)
        connect(icon.messageClicked, self._balloon_clicked)
        return icon

    def _host_came(self) -> None:
        # A host does not show icons that were created before it started.
        self._icon.hide()
        self._icon = self._new_icon()
        self._drawn = None
        self._draw()
        self._icon.show()

    def _on_view(self, view: View) -> None:
        self._view = view
        self._prefer(with_recent(self._preferences, view))
        self._draw()

    def _on_activity(self, activity: local_pb2.Activity | None) -> None:
        if activity is None:
            self._activities.clear()
        else:
            self._activities.append(activity)
        if self._window.isVisible():
            self._draw_window()

    def _prefer(self, preferences: Preferences) -> None:
        if preferences != self._preferences:
            self._preferences = preferences
            write_preferences(self._preferences_path, preferences)

    def _draw(self) -> None:
        now = time.time()
        menu = menus.menu(self._view, now, self._preferences)
        heading = next(e for e in menu if isinstance(e, menus.Heading))
        # A host draws the icon anew at each setting.
        if heading != self._drawn:
            self._drawn = heading
            icon = QIcon(str(heading.icon.path))
            self._icon.setIcon(icon)
            self._window.setWindowIcon(icon)
            self._icon.setToolTip(without_markup(f"Culvert: {heading.text}"))
        self._menu.render_menu(menu)
        self._draw_window()
        for key, dialog in self._dialogs.items():
            if isinstance(dialog, DetailsDialog) and not isinstance(self._view, Down):
                organisation, _, tunnel_id = key.partition(" ")
                dialog.show_rows(details(self._view, tunnel_id, now, organisation))
            elif isinstance(dialog, EnrolDialog):
                dialog.show_view(status_of(self._view))
        if not isinstance(self._view, Down):
            self._notifications.close_ended(lambda cause: notices.holds(cause, self._view, now))
            self._early = (
                [it for it in self._early if self._holds(it, now)] if self._early is not None else None
            )
            if self._balloon is not None and not self._holds(self._balloon, now):
                self._balloon = None
                # An empty message removes Qt's balloon.
                self._icon.showMessage("", "")
        self._memory, news = notices.observe(self._memory, self._view, now)
        for notice in news:
            if notice.kind not in self._preferences.muted:
                self._tell(notice)

    def _draw_window(self) -> None:
        self._window.show_view(self._view, self._activities, self._preferences, time.time())

    def _later(self, milliseconds: int, then: Callable[[], None]) -> None:
        timer = QTimer(self)
        timer.setSingleShot(True)
        connect(timer.timeout, then)
        timer.start(milliseconds)

    def _on_settled(self) -> None:
        early, self._early = self._early or [], None
        for notice in early:
            self._tell(notice)

    def _tell(self, notice: Notice) -> None:
        if self._early is not None:
            self._early.append(notice)
            return
        if notice.kind in (NoticeKind.CODE, NoticeKind.CODE_ENDS) and self._asks_for_code(notice.command):
            self._covered.append(notice)
            return
        if self._notifications.available:
            self._notifications.show(notice)
        else:
            kinds = QSystemTrayIcon.MessageIcon
            self._balloon = notice
            kind = kinds.Warning if notice.warning else kinds.Information
            self._icon.showMessage(notice.title, notice.text, kind)
        self._window.show_notice(notice)

    def _asks_for_code(self, command: commands.Command | None) -> bool:
        """Whether an open dialog has the field for the code that the command asks for."""
        return isinstance(command, commands.EnterCode) and not self._dialogs.keys().isdisjoint(
            ("enrol", f"code {command.organisation}")
        )

    def _dialog_closed(self, key: str) -> None:
        self._dialogs.pop(key, None)
        covered, self._covered = self._covered, []
        for notice in covered:
            if self._holds(notice, time.time()):
                self._tell(notice)

    def _holds(self, notice: Notice, now: float) -> bool:
        return notice.cause is None or notices.holds(notice.cause, self._view, now)

    def _balloon_clicked(self) -> None:
        self._notice_clicked(self._balloon.command if self._balloon is not None else None)

    def _notice_clicked(self, command: commands.Command | None) -> None:
        self._do(command or commands.ShowWindow())

    def _code_typed(self, text: str, organisation: str) -> None:
        self._daemon.submit_code(text, organisation, lambda it: self._code_answered(it, organisation))

    def _code_answered(self, answer: Answer | Refusal, organisation: str) -> None:
        if isinstance(answer, CulvertError):
            self._tell(notices.wrong_code(answer, self._view, organisation, time.time()))
        elif isinstance(answer, local_pb2.SubmitCodeResponse):
            self._tell_recovery_codes(answer)
        else:
            self._on_answer(answer)

    def _tell_recovery_codes(self, answer: local_pb2.SubmitCodeResponse) -> None:
        if answer.HasField("recovery_codes_left"):
            self._tell(notices.recovery_codes(answer.recovery_codes_left))

    def _on_activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason is QSystemTrayIcon.ActivationReason.Trigger:
            self._do(commands.ShowWindow())

    def _open_without_tray(self) -> None:
        # A window that the person has closed meanwhile stays closed.
        if not self._opened and not QSystemTrayIcon.isSystemTrayAvailable():
            self._show_window()

    def take_word(self, word: str) -> None:
        """The purpose of a second start."""
        if word == SHOW:
            self._do(commands.ShowWindow())
        else:
            self._do(commands.Enrol())
            dialog = self._dialogs["enrol"]
            assert isinstance(dialog, EnrolDialog)
            dialog.offer(word)

    def end(self) -> None:
        """End the program."""
        self._ends = True
        self._app.quit()

    def _window_closed(self) -> None:
        # Qt closes the windows also when the program ends.
        if self._ends or QSystemTrayIcon.isSystemTrayAvailable():
            return
        if self._notifications.available is None:
            self._closed_early = True
        elif not self._notifications.available:
            # Nothing would be left to see of the program.
            self.end()
        elif not self._preferences.closing_told:
            self._prefer(replace(self._preferences, closing_told=True))
            self._notifications.show(notices.window_closed())

    def _notifications_asked(self) -> None:
        if self._closed_early:
            self._closed_early = False
            if not self._window.isVisible():
                self._window_closed()

    def _do(self, command: commands.Command) -> None:
        # The window may be opened to read the last answer, so it does not end that answer.
        if not isinstance(command, commands.ShowWindow):
            self._window.clear_answer()
        match command:
            case commands.OpenPage(fqdn):
                self._daemon.open_tunnel(fqdn, self._on_opened)
            case commands.ShowReason(page):
                QDesktopServices.openUrl(QUrl(page))
            case commands.WriteMail(address, subject):
                QDesktopServices.openUrl(QUrl(mail_to(address, subject)))
            case commands.CopyText(text):
                copy_text(text)
            case commands.ShowDetails(tunnel_id, organisation):
                self._show(f"{organisation} {tunnel_id}", lambda: DetailsDialog(tr("Tunnel")))
                self._draw()
            case commands.CloseTunnel(name):
                self._daemon.close_tunnel(name, self._on_answer)
            case commands.TimeHops(fqdn):
                self._daemon.time_hops(fqdn, self._on_timed)
            case commands.SelectGateway(gateway, organisation):
                self._daemon.select_gateway(gateway, organisation, self._on_answer)
            case commands.EnterCode(organisation):
                self._show(
                    f"code {organisation}",
                    lambda: CodeDialog(self._daemon, self._tell_recovery_codes, organisation),
                )
            case commands.AnswerClaims(organisation, answered):
                shown = list_public(self._view, organisation, answered)
                if shown:
                    self._show(
                        f"claims {answered} {organisation}",
                        lambda: ClaimsDialog(self._daemon, shown, organisation, answered=answered),
                    )
            case commands.Enrol():
                self._show("enrol", lambda: EnrolDialog(self._daemon, self._tell_recovery_codes, self._do))
            case commands.StartDaemon():
                self._start_daemon()
            case commands.Pause(length):
                self._daemon.pause(length.end(datetime.now().astimezone()), self._on_answer)
            case commands.Resume():
                self._daemon.resume(self._on_answer)
            case commands.ShowWindow(page):
                if page is not None:
                    self._window.show_page(page)
                self._show_window()
            case commands.SetFavourite(fqdn, wanted):
                self._prefer(with_favourite(self._preferences, fqdn, wanted))
                self._draw()
            case commands.SetNotices(kind, wanted):
                self._prefer(with_notices(self._preferences, kind, wanted))
                self._draw()
            case commands.SetAutostart(wanted):
                self._set_autostart(wanted=wanted)
            case commands.SetLanguage(language):
                self._prefer(replace(self._preferences, language=language))
                install(self._app, language)
                self._replace_window()
            case commands.RunDiagnostics():
                self._window.show_page(commands.Page.DIAGNOSTICS)
                self._show_window()
                self._window.diagnostics.show_running()
                self._doctor.examine(lambda it: self._window.diagnostics.show_verdicts(it))
            case commands.SaveReport():
                self._save_report()
            case commands.ShowDocumentation():
                self._show("documentation", DocumentationDialog)
            case commands.Quit():
                self.end()

    def _show_window(self) -> None:
        self._opened = True
        self._draw_window()
        _bring_to_front(self._window)

    def _set_autostart(self, *, wanted: bool) -> None:
        try:
            set_autostart(autostart_entries(), wanted=wanted)
        except OSError as error:
            why = tr("{path} cannot be written: {why}", path=error.filename, why=error.strerror)
            self._tell(Notice(tr("The setting was not saved"), why, warning=True))
        self._prefer(replace(self._preferences, autostart=is_autostarted(autostart_entries())))
        self._draw()

    def _replace_window(self) -> None:
        """Show the window in the language that was set."""
        before, self._window = self._window, StatusWindow(self._do, self._window_closed)
        self._window.restoreGeometry(before.saveGeometry())
        self._window.show_page(before.page)
        self._drawn = None
        self._draw()
        self._window.setVisible(before.isVisible())
        before.hide()
        before.deleteLater()
        for dialog in list(self._dialogs.values()):
            if isinstance(dialog, DetailsDialog):
                dialog.close()

    def _start_daemon(self) -> None:
        process = QProcess(self)

        def ended() -> None:
            said = bytes(process.readAllStandardError().data()).decode(errors="replace").strip()
            code = process.exitCode()
            process.deleteLater()
            if code != 0:
                self._tell(notices.not_started(said))

        def failed(error: QProcess.ProcessError) -> None:
            if error is QProcess.ProcessError.FailedToStart:
                process.deleteLater()
                self._tell(notices.not_started(process.errorString()))

        connect(process.finished, ended)
        connect(process.errorOccurred, failed)
        # systemd asks polkit, and polkit the desktop's own dialog.
        process.start("systemctl", ["start", "culvertd.service"])  # pyright: ignore[reportUnknownMemberType]

    def _save_report(self) -> None:
        name = f"culvert-report-{datetime.now().astimezone():%Y%m%d-%H%M}.zip"
        path, _ = QFileDialog.getSaveFileName(
            self._window, tr("Save a report"), str(Path.home() / name), "*.zip"
        )
        if path:
            self._doctor.save_report(
                path, lambda said, good: self._tell(Notice(tr("Report"), said, warning=not good))
            )

    def _show(self, key: str, make: Callable[[], QDialog]) -> None:
        """Show a dialog. Each kind exists at most once: a second click brings it to the front."""
        dialog = self._dialogs.get(key)
        if dialog is None:
            dialog = self._dialogs[key] = make()
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.setWindowIcon(self._window.windowIcon())
            connect(dialog.finished, lambda: self._dialog_closed(key))
        _bring_to_front(dialog)

    def _on_opened(self, answer: Answer | Refusal) -> None:
        if isinstance(answer, local_pb2.OpenTunnelResponse):
            if answer.tunnel.page:
                QDesktopServices.openUrl(QUrl(answer.tunnel.page))
            else:
                self._tell(notices.without_page(answer.tunnel))
        self._on_answer(answer)

    def _on_timed(self, answer: Answer | Refusal) -> None:
        self._window.show_timed()
        self._on_answer(answer)

    def _on_answer(self, answer: Answer | Refusal) -> None:
        if isinstance(answer, CulvertError):
            self._memory = notices.note_refusal(self._memory, answer, time.time())
            self._tell(notices.answer(answer, self._view))
        elif isinstance(answer, Down):
            self._tell(notices.down(answer))


def _bring_to_front(window: QWidget) -> None:
    """Show the window, also if the person has minimised it."""
    window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
    window.show()
    window.raise_()
    window.activateWindow()


class _QtMessages:
    """Prints Qt's messages. Ends the process, with exit code 1 and one line, where no display answers, or the display goes.

    Qt would abort it, or call exit(), in which destructors of libraries wait for threads, some for ever.
    """

    def __init__(self) -> None:
        # Until the application is made.
        self._early: list[str] | None = []

    def take(self, kind: QtMsgType, _context: QMessageLogContext, text: str | None) -> None:
        said = text or ""
        if kind is QtMsgType.QtFatalMsg:
            self._end(f"there is no desktop here: {self._early[0]}" if self._early else said)
        elif " connection broke" in said:
            self._end(said)
        elif self._early is not None:
            self._early.append(said)
        else:
            _print_line(said)

    def end_start(self) -> None:
        early, self._early = self._early or [], None
        for text in early:
            _print_line(text)

    def _end(self, text: str) -> NoReturn:
        _print_line(text)
        os._exit(1)


def _print_line(text: str) -> None:
    print(f"culvert-tray: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="culvert-tray", description="Culvert's tray icon.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('culvert-tray')}")
    parser.add_argument(
        "--socket",
        default=os.environ.get("CULVERT_SOCKET", DEFAULT_SOCKET),
        help="the daemon's Unix socket (default: $CULVERT_SOCKET, else %(default)s)",
    )
    parser.add_argument(
        "--window", action="store_true", help="show the window at once, also where there is a tray"
    )
    parser.add_argument(
        "link",
        nargs="?",
        default=SHOW,
        metavar="LINK",
        help="an invitation link to enrol with; desktops hand it over by D-Bus instead",
    )
    signalled = False

    def note_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal signalled
        signalled = True

    # Before the slow start. The handler only notes: Qt's loop, which has to end, does not run yet.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note_signal)
    with check_output("culvert-tray"):
        options = parser.parse_args(arguments)
    if not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))):
        # Without a display Qt would abort the process with a core file.
        parser.exit(1, "culvert-tray: there is no desktop here. On the command line: culvert status\n")
    # Longer links are refused, so the rest need not be sent.
    word = options.link[: LONGEST + 1]
    messages = _QtMessages()
    qInstallMessageHandler(messages.take)
    app = make_application(["culvert-tray"])
    messages.end_start()
    # Also the title of the icon in a host's list, and the program's name in a screen reader.
    app.setApplicationName("Culvert")
    app.setApplicationDisplayName("Culvert")
    app.setDesktopFileName(NAME)
    app.setQuitOnLastWindowClosed(False)
    install(app, read_preferences(preferences_path()).language)
    install_style(app)
    first = First()
    if not first.begin():
        first.tell(word)
        return 0
    daemon = Daemon(options.socket)
    tray = Tray(app, daemon, Doctor(options.socket))
    connect(first.told, tray.take_word)

    def end_if_signalled() -> None:
        if signalled:
            tray.end()

    awake = QTimer(tray)
    connect(awake.timeout, end_if_signalled)
    awake.start(_SIGNALS)
    daemon.start()
    if word != SHOW or options.window:
        tray.take_word(word)
    try:
        return app.exec()
    finally:
        daemon.stop()
        qInstallMessageHandler(None)


if __name__ == "__main__":
    sys.exit(main())
