"""The person's terminal and files: what is typed, and what is shown or kept once."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import segno
import typer
from culvert_proto import local_pb2
from culvert_proto.output import EXIT_OUTPUT, OutputError, require_output
from google.protobuf import json_format
from google.protobuf.message import Message

from culvert_client.cli import words
from culvert_client.cli.failure import EXIT_FAULT, FailureError
from culvert_client.cli.language import _


def require_output_for_secrets() -> None:
    """Raises FailureError if standard output is unusable: secrets are shown once. A pipe can still break later."""
    try:
        require_output()
    except OutputError as error:
        told = _("Nothing has changed, because the output cannot be written: {why}.")
        remedy = _("Run it in a terminal, or give --totp-uri-file.")
        raise FailureError("OUTPUT_LOST", told.format(why=error), remedy, EXIT_OUTPUT) from None


def say_enrolled(answer: local_pb2.EnrollResponse) -> None:
    words.out.print(_("Enrolled as {user}.").format(user=answer.user), markup=False)
    words.say_carried(answer)


def say_once(answer: local_pb2.EnrollResponse) -> None:
    """Raises OutputError unless all of it was written."""
    say_enrolled(answer)
    if sys.stdout.isatty():
        _say_qr(answer.totp_uri)
    words.out.print(_("Scan this with your authenticator; it is not shown again:"))
    words.out.print(answer.totp_uri, markup=False)
    if answer.recovery_codes:
        words.out.print(_("Keep these in case you lose your authenticator. Each works once, as a code:"))
        for one in answer.recovery_codes:
            words.out.print(f"  {one}", markup=False)
    sys.stdout.flush()


def _say_qr(uri: str) -> None:
    """Print a QR code, unless the terminal is too narrow."""
    drawn = segno.make(uri, error="m")
    width, columns = drawn.symbol_size()[0], shutil.get_terminal_size().columns
    try:
        "▀▄█".encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        # The encoding lacks block characters: draw each module as two coloured spaces.
        if 2 * width <= columns:
            drawn.terminal()
        return
    if width <= columns:
        drawn.terminal(compact=True)


def read_secret(what: str) -> str:
    """Read a secret from the terminal with a prompt, or from a line of standard input, so that it is not in argv."""
    if sys.stdin.isatty():
        return str(typer.prompt(what)).strip()
    line = sys.stdin.readline().strip()
    if not line:
        raise typer.BadParameter(_("{what}: nothing came in").format(what=what))
    return line


def confirm(question: str) -> bool:
    """Ask in the person's language, because Typer's own confirmation accepts only English letters."""
    said = str(typer.prompt(question, default=_("no"), show_default=False, err=True))
    return said.strip().lower() in ("y", "yes", _("y"), _("yes"))


def private_file(path: Path, *, room: int = 0) -> int:
    """Create a file, reserve `room` bytes on the disk, and return its descriptor. Raises FailureError without a file."""
    made = False
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        made = True
        if room:
            os.posix_fallocate(target, 0, room)
    except OSError as error:
        if made:
            path.unlink()
        told = _("{file} cannot be made: {why}.").format(file=path, why=error.strerror)
        remedy = _("Name a file that does not exist yet.")
        raise FailureError("FILE_UNUSABLE", told, remedy, EXIT_FAULT) from None
    return target


def fill(target: int, text: str) -> None:
    """Write the text and close the descriptor. Raises OSError unless the text is on the disk."""
    with os.fdopen(target, "w") as file:
        file.write(text)
        file.truncate()
        file.flush()
        os.fsync(target)


def say_json(message: Message) -> None:
    print(
        json_format.MessageToJson(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    )
