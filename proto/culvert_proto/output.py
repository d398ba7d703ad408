"""A program's standard streams: no character makes output fail, and a failed write has its own exit code.

    with check_output("culvert"):
        run_the_command()

A character that the terminal's encoding lacks is spelt in ASCII. A failed write to standard output raises OutputError where
the text was printed, so that the program can still say what is lost. Uncaught, it ends the program with EXIT_OUTPUT.
A failed write to standard error is ignored.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from culvert_proto.language import words as _

EXIT_OUTPUT = 74
"""EX_IOERR of sysexits.h."""

_TRAILING_BLANKS = re.compile(r"[ \t]+(?=\n)")

_SPELLINGS = {
    "✓": "ok", "✗": "x", "●": "*", "→": "->", "═": "=", "─": "-", "…": "...", "—": "-", "–": "-", "·": "-", "█": "#",
    "„": '"', "“": '"', "”": '"', "‚": "'", "‘": "'", "’": "'",
    "ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss",
}  # fmt: skip


class OutputError(Exception):
    """Standard output cannot be written; later output is dropped.

    Not an OSError, because programs handle those as faults of files and sockets.
    """

    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.reader_has_gone = number == errno.EPIPE


@contextmanager
def check_output(program: str) -> Generator[None]:
    """Replaces the standard streams for the block. Raises SystemExit with EXIT_OUTPUT when output is lost."""
    if sys.stdout is not sys.__stdout__:  # a test captures the output
        yield
        return
    before = sys.stdin, sys.stdout, sys.stderr
    _read_any_bytes()
    sys.stdout, sys.stderr = _check(before[1], 1, raises=True), _check(before[2], 2, raises=False)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputError as error:
        # A reader such as `head` stops when it has seen enough: that is no fault.
        if not error.reader_has_gone:
            print(
                f"{program}: {_('The output cannot be written: {why}.').format(why=error)}", file=sys.stderr
            )
        raise SystemExit(EXIT_OUTPUT) from None
    finally:
        sys.stderr.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def require_output() -> None:
    """Raises OutputError when standard output is closed, its reader has gone, or its device is full."""
    sys.stdout.flush()
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        if isinstance(getattr(sys.stdout, "buffer", None), io.BufferedWriter):
            raise OutputError(errno.EBADF) from None
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if any(event & (select.POLLERR | select.POLLNVAL) for _fd, event in poll.poll(0)):
        raise OutputError(errno.EPIPE)
    try:
        # An empty write asks the device's driver, and writes nothing.
        os.write(descriptor, b"")
    except OSError as error:
        raise OutputError(error.errno or errno.EIO) from None


class _Lines(io.TextIOWrapper):
    """Writes no blanks at the ends of lines, with which tables fill their last column."""

    def write(self, text: str, /) -> int:
        super().write(_TRAILING_BLANKS.sub("", text))
        return len(text)


class _Raw(io.RawIOBase):
    """Writes to a descriptor; None stands for one that was closed before the program began."""

    def __init__(self, descriptor: int | None, *, raises: bool) -> None:
        self._descriptor, self._raises, self._lost = descriptor, raises, False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._descriptor

    def isatty(self) -> bool:
        return self._descriptor is not None and os.isatty(self._descriptor)

    def write(self, data: object) -> int:
        view = memoryview(data)  # pyright: ignore[reportArgumentType] - a buffer, which Python 3.11 has no type for
        while not self._lost:
            try:
                return os.write(self.fileno(), view)
            except BlockingIOError:
                # Another program has made the terminal non-blocking.
                select.select([], [self.fileno()], [])
            except OSError as error:
                self._lost = True
                if self._raises:
                    raise OutputError(error.errno or errno.EIO) from None
        return len(view)


def _check(stream: TextIO | None, descriptor: int, *, raises: bool) -> TextIO:
    raw = _Raw(None if stream is None else descriptor, raises=raises)
    encoding = "utf-8" if stream is None else stream.encoding
    is_terminal = raw.isatty()
    made = io.TextIOWrapper if is_terminal else _Lines
    return made(io.BufferedWriter(raw), encoding, "culvert_spelt", line_buffering=is_terminal or not raises)


def _read_any_bytes() -> None:
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - it is standard input from now on
    else:
        reconfigure = getattr(sys.stdin, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _spelt(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(
        _SPELLINGS.get(it) or it.encode("ascii", "backslashreplace").decode() for it in lacking
    ), error.end


codecs.register_error("culvert_spelt", _spelt)
