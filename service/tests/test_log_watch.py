"""That the watch over the logs of all tests would see a secret there."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable

import pytest
from culvert_service.gateways.key_wrap import new_kek
from culvert_service.identity import totp

from .log_watch import LogWatch

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
def test_it_is_seen(
    no_secret_is_logged: LogWatch, make: Callable[[], bytes], tell: Callable[[bytes], None]
) -> None:
    _log.info("nothing of it")
    secret = make()
    assert no_secret_is_logged.leaks() == []
    tell(secret)
    assert len(no_secret_is_logged.leaks()) == 1
    no_secret_is_logged.lines.clear()
