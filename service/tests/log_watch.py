"""Every secret that controllers make or are given during a test, and every line that is logged: they must not meet.

What a controller makes in a process of its own is known by what it hands out; its log is a file.
"""

from __future__ import annotations

import base64
import logging
import os
import secrets
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from culvert_db import parse_url
from culvert_service.pki import authority
from pydantic import SecretStr

_OURS = "culvert_service."
# Shorter randomness is no secret: a nonce, the name of a temporary file.
_SHORTEST = 16


class LogWatch(logging.Handler):
    """Keeps lines with every field, argument and traceback, whatever a formatter would make of them."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.secrets: set[str] = set()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        trace = traceback.format_exception(*record.exc_info) if record.exc_info else []
        self.lines.append("".join([record.getMessage(), repr(vars(record)), *trace]))

    def made(self, secret: bytes | str) -> None:
        if len(secret) >= _SHORTEST:
            self.secrets |= {secret} if isinstance(secret, str) else spellings(secret)

    def read(self, log: Path) -> None:
        self.lines += log.read_text(errors="replace").splitlines()

    def leaks(self) -> list[str]:
        """The lines that hold a secret."""
        logged = "\n".join(self.lines)
        if not any(secret in logged for secret in self.secrets):
            return []
        return [line for line in self.lines if any(secret in line for secret in self.secrets)]


def spellings(secret: bytes) -> set[str]:
    return {
        secret.hex(),
        base64.b64encode(secret).decode(),
        base64.urlsafe_b64encode(secret).decode().rstrip("="),
        base64.b32encode(secret).decode().rstrip("="),
        secret.decode("latin-1"),
        repr(secret)[2:-1],
    }


_WATCHES: list[LogWatch] = []


def met(secret: bytes | str) -> None:
    """A test was handed one."""
    for watch in _WATCHES:
        watch.made(secret)


@contextmanager
def watching(patch: pytest.MonkeyPatch) -> Generator[LogWatch]:
    watch = LogWatch()
    for owner, name in ((os, "urandom"), (secrets, "token_bytes"), (secrets, "token_urlsafe")):
        patch.setattr(owner, name, _told(getattr(owner, name), watch))
    make_pem: Callable[..., bytes] = authority._key_pem

    def key_pem(key: Any) -> bytes:
        pem = make_pem(key)
        for line in pem.decode().splitlines()[1:-1]:
            watch.made(line)
        return pem

    patch.setattr(authority, "_key_pem", key_pem)
    reveal = SecretStr.get_secret_value

    def revealed(self: SecretStr) -> str:
        secret = reveal(self)
        watch.made((parse_url(secret).password or "") if "://" in secret else secret)
        return secret

    patch.setattr(SecretStr, "get_secret_value", revealed)
    root, ours = logging.getLogger(), logging.getLogger("culvert_service")
    level = ours.level
    ours.setLevel(logging.DEBUG)
    root.addHandler(watch)
    _WATCHES.append(watch)
    try:
        yield watch
    finally:
        _WATCHES.remove(watch)
        root.removeHandler(watch)
        ours.setLevel(level)


def _told(make: Callable[..., Any], watch: LogWatch) -> Callable[..., Any]:
    def made(*arguments: Any) -> Any:
        secret = make(*arguments)
        # A value that another library draws, as for an id, is no secret of ours.
        if str(sys._getframe(1).f_globals.get("__name__")).startswith(_OURS):
            watch.made(secret)
        return secret

    return made
