"""One-time codes (RFC 6238): one step of drift either way, each step once, and a lock after five wrong guesses. Pure."""

from __future__ import annotations

import base64
import datetime
import hmac
import secrets
from dataclasses import dataclass, replace

from pyotp.totp import TOTP

# RFC 6238 section 5.2 recommends both.
STEP_SECONDS = 30
DRIFT_STEPS = 1

GUESSES = 5
LOCK = datetime.timedelta(seconds=60)
# How long a proven code opens tunnels.
WINDOW = datetime.timedelta(hours=8)

# RFC 4226 section 4 recommends 160 bits.
_SECRET_BYTES = 20


@dataclass(frozen=True, slots=True)
class Guard:
    """What is remembered of a device's guesses."""

    last_used_step: int = 0
    failures: int = 0
    locked_until: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class Proven:
    guard: Guard


@dataclass(frozen=True, slots=True)
class Wrong:
    guard: Guard


@dataclass(frozen=True, slots=True)
class Used:
    pass


@dataclass(frozen=True, slots=True)
class Locked:
    seconds: int


Verdict = Proven | Wrong | Used | Locked


def new_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def uri(secret: bytes, user: str, device: str) -> str:
    """For the QR code, as authenticator apps read it."""
    return _totp(secret).provisioning_uri(name=f"{user} ({device})", issuer_name="Culvert")


def judge(guard: Guard, secret: bytes, code: str, now: datetime.datetime) -> Verdict:
    """What this guess is, and what to remember of it."""
    if guard.locked_until is not None and now < guard.locked_until:
        return Locked(max(1, round((guard.locked_until - now).total_seconds())))
    step = _matching_step(secret, code.replace(" ", ""), int(now.timestamp()) // STEP_SECONDS)
    if step is None:
        failures = guard.failures + 1
        if failures < GUESSES:
            return Wrong(replace(guard, failures=failures, locked_until=None))
        return Wrong(replace(guard, failures=0, locked_until=now + LOCK))
    if step <= guard.last_used_step:
        return Used()
    return Proven(Guard(last_used_step=step))


def _matching_step(secret: bytes, code: str, current: int) -> int | None:
    totp = _totp(secret)
    found = None
    for step in range(current - DRIFT_STEPS, current + DRIFT_STEPS + 1):
        # Every step is compared, in constant time each.
        if hmac.compare_digest(totp.generate_otp(step).encode(), code.encode()):
            found = step
    return found


def _totp(secret: bytes) -> TOTP:
    return TOTP(base64.b32encode(secret).decode())
