"""The watch over all tests' logs finds a secret there."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from culvert_service.gateways.key_wrap import new_kek
from culvert_service.identity import totp
from pydantic import SecretStr

from .log_watch import LogWatch, met

_log = logging.getLogger("culvert_service.test")


def as_text(secret: bytes) -> None:
    _log.info("made %s", base64.b32encode(secret).decode())


def as_field(secret: bytes) -> None:
    _log.debug("made", extra={"secret": secret.hex()})


def as_argument(secret: bytes) -> None:
    _log.info("made %r", {"secret": [secret]})


def in_a_traceback(secret: bytes) -> None:
    try:
        raise ValueError(base64.b64encode(secret))
    except ValueError:
        _log.exception("failed")


@pytest.mark.parametrize("tell", [as_text, as_field, as_argument, in_a_traceback])
@pytest.mark.parametrize("make", [totp.new_secret, new_kek])
def test_a_leaked_secret_is_seen(
    no_secret_is_logged: LogWatch, make: Callable[[], bytes], tell: Callable[[bytes], None]
) -> None:
    _log.info("nothing of it")
    secret = make()
    assert no_secret_is_logged.leaks() == []
    tell(secret)
    assert len(no_secret_is_logged.leaks()) == 1
    no_secret_is_logged.lines.clear()


def test_leaks_of_given_secrets_and_by_other_processes_are_seen(
    no_secret_is_logged: LogWatch, tmp_path: Path
) -> None:
    for given in ("correct horse battery", "postgresql://culvert:staple-of-the-battery@db/culvert"):
        assert SecretStr(given).get_secret_value() == given
    met("handed-to-the-test")
    for told in (
        "correct horse battery",
        "the URL is ://culvert:staple-of-the-battery@",
        "handed-to-the-test",
    ):
        (tmp_path / "log").write_text(f"nothing of it\n{told}\n")
        no_secret_is_logged.read(tmp_path / "log")
        assert no_secret_is_logged.leaks() == [told]
        no_secret_is_logged.lines.clear()
