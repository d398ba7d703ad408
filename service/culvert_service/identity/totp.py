"""TOTP codes (RFC 6238): a drifting clock is followed, each step works once, five wrong guesses lock. Pure."""

from __future__ import annotations

import base64
import datetime
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyotp.totp import TOTP

# RFC 6238 section 5.2 recommends both.
STEP_SECONDS = 30
DRIFT_STEPS = 1

# The most steps of drift that are followed (RFC 6238 section 6).
DRIFT_MAX = 4

GUESSES = 5
# Each lock after the first is twice as long.
LOCK = datetime.timedelta(seconds=60)
LOCK_MAX = datetime.timedelta(hours=1)
# The time for which a proven code opens tunnels.
WINDOW = datetime.timedelta(hours=8)

# RFC 4226 section 4 recommends 160 bits.
_SECRET_BYTES = 20


@dataclass(frozen=True, slots=True)
class GuessRecord:
    """A device's record of guesses. `drift`: the steps by which its clock was ahead at the last code."""

    last_used_step: int = 0
    failures: int = 0
    locked_until: datetime.datetime | None = None
    drift: int = 0

    def find_lock(self, now: datetime.datetime) -> Locked | None:
        if self.locked_until is None or now >= self.locked_until:
            return None
        return Locked(max(1, round((self.locked_until - now).total_seconds())))

    def with_failure(self, now: datetime.datetime) -> GuessRecord:
        failures = self.failures + 1
        if failures % GUESSES:
            return replace(self, failures=failures, locked_until=None)
        lock = min(LOCK * 2 ** min(failures // GUESSES - 1, 10), LOCK_MAX)
        return replace(self, failures=failures, locked_until=now + lock)

    def with_success(self) -> GuessRecord:
        return replace(self, failures=0, locked_until=None)


@dataclass(frozen=True, slots=True)
class Proven:
    record: GuessRecord


@dataclass(frozen=True, slots=True)
class Wrong:
    record: GuessRecord


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


def judge(record: GuessRecord, secret: bytes, code: str, now: datetime.datetime) -> Verdict:
    """The verdict on this guess, and the new record."""
    if locked := record.find_lock(now):
        return locked
    current = int(now.timestamp()) // STEP_SECONDS
    step = _matching_step(secret, code.replace(" ", ""), (current, current + record.drift))
    if step is None:
        return Wrong(record.with_failure(now))
    if step <= record.last_used_step:
        return Used()
    drift = max(-DRIFT_MAX, min(step - current, DRIFT_MAX))
    return Proven(replace(record.with_success(), last_used_step=step, drift=drift))


def _matching_step(secret: bytes, code: str, expected: Sequence[int]) -> int | None:
    totp = _totp(secret)
    found = None
    near = {step + off for step in expected for off in range(-DRIFT_STEPS, DRIFT_STEPS + 1)}
    for step in sorted(near):
        # Compare with every step, in constant time.
        if hmac.compare_digest(totp.generate_otp(step).encode(), code.encode()):
            found = step
    return found


def _totp(secret: bytes) -> TOTP:
    return TOTP(base64.b32encode(secret).decode())
