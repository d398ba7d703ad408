"""Runs `culvert doctor` and `culvert report` as this person, for the same checks and texts as on the command line."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from culvert_proto.language import choose
from culvert_proto.shown_text import make_plain
from PyQt6.QtCore import QObject, QProcess, QProcessEnvironment

from culvert_tray.commands import AnswerClaims, Enrol, EnterCode, Page, Resume, SelectGateway, ShowWindow
from culvert_tray.menu import Action, copy_for_administrator
from culvert_tray.signals import connect
from culvert_tray.translation import tr


@dataclass(frozen=True, slots=True)
class Verdict:
    """`hop`: as `culvert doctor --json` names it, in English. `shell`: the remedy's command, in words for a terminal."""

    title: str
    good: bool
    what: str
    remedy: str
    hop: str = ""
    organisation: str = ""
    shell: str = ""

    @property
    def cure(self) -> Action | None:
        """The tray's own act against a fault, in place of a command."""
        if self.good:
            return None
        match self.hop:
            case "code" | "certificate" if self.shell:
                return Action(tr("Enter a code"), EnterCode(self.organisation))
            case "enrolment":
                return Action(tr("Enrol this computer…"), Enrol())
            case "pause":
                return Action(tr("Resume now"), Resume())
            case "public networks":
                return Action(tr("Decide…"), AnswerClaims(self.organisation))
            case "gateway" if self.shell:
                return Action(tr("Let Culvert choose"), SelectGateway("", self.organisation))
            case "packets" if self.shell:
                return Action(tr("All tunnels…"), ShowWindow(Page.TUNNELS))
            case _ if self.shell:
                return copy_for_administrator(f"{self.title}: {self.what}", self.remedy, self.shell)
            case _:
                return None


class Doctor(QObject):
    def __init__(self, socket: str) -> None:
        super().__init__()
        self._socket = socket

    def examine(self, then: Callable[[tuple[Verdict, ...] | str], None]) -> None:
        """Pass a verdict for each hop to `then`, or the text of a failure."""
        self._run(
            ["doctor", "--json"],
            lambda out, err: then(verdicts_in(out) or refusal_in(out) or err or _not_found()),
        )

    def save_report(self, path: str, then: Callable[[str, bool], None]) -> None:
        """Pass the text to show to `then`, and whether the report was written."""

        def ended(out: str, err: str) -> None:
            refusal = refusal_in(out)
            written = tr("{path} is written. Look into it before you send it.", path=path)
            then(refusal or (written if out else err or _not_found()), bool(out) and not refusal)

        self._run(["report", "--json", path], ended)

    def _run(self, arguments: list[str], then: Callable[[str, str], None]) -> None:
        process = QProcess(self)

        def ended() -> None:
            out, err = (
                bytes(it.data()).decode(errors="replace").strip()
                for it in (process.readAllStandardOutput(), process.readAllStandardError())
            )
            process.deleteLater()
            then(out, err)

        def failed(error: QProcess.ProcessError) -> None:
            if error is QProcess.ProcessError.FailedToStart:
                ended()

        connect(process.finished, ended)
        connect(process.errorOccurred, failed)
        environment = QProcessEnvironment.systemEnvironment()
        for name in ("LC_ALL", "LANGUAGE"):
            environment.insert(name, f"{choose()}.UTF-8")
        process.setProcessEnvironment(environment)
        process.start(_program(), ["--socket", self._socket, *arguments])  # pyright: ignore[reportUnknownMemberType]


def _not_found() -> str:
    return tr("The program culvert is not installed.")


def verdicts_in(text: str) -> tuple[Verdict, ...]:
    """The verdicts in the output of `culvert doctor --json`; empty for other texts."""
    try:
        found: list[dict[str, Any]] = json.loads(text)
        return tuple(
            Verdict(
                make_plain(str(it["title"])),
                it["good"] is True,
                make_plain(str(it["what"])),
                make_plain(str(it["remedy"])),
                str(it.get("hop", "")),
                str(it.get("organisation", "")),
                make_plain(str(it.get("shell", ""))),
            )
            for it in found
        )
    except (ValueError, KeyError, TypeError):
        return ()


def refusal_in(text: str) -> str:
    """The words of the error in the output of `culvert --json`, without its command; empty for other texts."""
    try:
        error: dict[str, Any] = json.loads(text)["error"]
        return make_plain(f"{error['message']} {error['remedy']}")
    except (ValueError, KeyError, TypeError):
        return ""


def _program() -> str:
    beside = Path(sys.executable).with_name("culvert")
    return str(beside) if beside.exists() else shutil.which("culvert") or "culvert"
