"""A person at a terminal: types a command, reads its questions, types the answers."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Sequence

# Wide enough for each link in one line.
_ROWS, _COLUMNS = 60, 300
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CHUNK = 65536


class Terminal:
    """A command that runs in a terminal. Raises AssertionError, with all that was shown, for what does not come."""

    def __init__(self, command: Sequence[str]) -> None:
        self._own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, start_new_session=True
        )
        os.close(other)
        self._raw = b""
        self._read = 0

    @property
    def text(self) -> str:
        """All that was shown, without colours."""
        return _COLOURS.sub("", self._raw.decode(errors="replace")).replace("\r", "")

    def wait_for(self, words: str, seconds: float = 120.0) -> None:
        """Until they are shown after the last answer."""
        end = time.monotonic() + seconds
        while words not in self.text[self._read :]:
            assert time.monotonic() < end, f"“{words}” does not come:\n{self.text}"
            assert self._more(), f"“{words}” did not come:\n{self.text}"

    def answer(self, question: str, words: str) -> None:
        """Wait for the question, and type a line."""
        self.wait_for(question)
        self._read = len(self.text)
        os.write(self._own, f"{words}\n".encode())

    def end(self, code: int = 0, seconds: float = 300.0) -> str:
        """Wait for the command's end. What was shown."""
        end = time.monotonic() + seconds
        while self._more():
            assert time.monotonic() < end, f"it does not end:\n{self.text}"
        os.close(self._own)
        assert self._process.wait(10) == code, self.text
        return self.text

    def _more(self) -> bool:
        """Read what is shown within a moment. False: the command has ended."""
        if not select.select([self._own], [], [], 0.2)[0]:
            return True
        try:
            found = os.read(self._own, _CHUNK)
        except OSError:
            # The other end is closed.
            return False
        self._raw += found
        return bool(found)
