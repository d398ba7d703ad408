"""Writes audit lines about refused calls of devices."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from culvert_db import ActorKind, Database
from culvert_proto import CulvertError, Reason

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals, refusal_line
from culvert_service.audit.transaction import begin
from culvert_service.identity import repository

# Logged without a rate limit: each is a guess, and the device is locked after a few.
_ALWAYS_TOLD = (Reason.CODE_WRONG,)


@dataclass(frozen=True, slots=True)
class DeviceCaller:
    """The SHA-256 of the certificate's DER, and the call's source address (docs/decisions, 2)."""

    fingerprint: bytes
    address: str

    @property
    def actor(self) -> Actor:
        return Actor(ActorKind.DEVICE, f"sha256:{self.fingerprint.hex()}", self.address)


class DenialCounter(Protocol):
    def count_denial(self, action: str, reason: Reason) -> None:
        """Count a denial, whether the log is told or not."""
        ...


class Denials:
    """`by`: the device as named in its certificate. Left-out refusals are counted in the next line."""

    def __init__(self, database: Database, refusals: Refusals, counter: DenialCounter) -> None:
        self._database = database
        self._refusals = refusals
        self._counter = counter

    @asynccontextmanager
    async def log_refusals(
        self,
        by: Actor,
        fingerprint: bytes,
        action: str,
        about: str | None = None,
        details: Mapping[str, Detail] | None = None,
    ) -> AsyncGenerator[None]:
        """A context that logs a refusal in its block. `about`: the line's object, by default the device. Empty details are
        left out.
        """
        try:
            yield
        except CulvertError as error:
            # The state of the database is not a decision, and a log of its outage could not be written.
            if error.reason not in (Reason.DATABASE_DOWN, Reason.DATABASE_BUSY):
                await self.tell(by, fingerprint, action, error, about, details)
            raise

    async def tell(
        self,
        by: Actor,
        fingerprint: bytes,
        action: str,
        why: CulvertError,
        about: str | None = None,
        details: Mapping[str, Detail] | None = None,
    ) -> None:
        told = {name: it for name, it in (details or {}).items() if it}
        line = self.line(fingerprint, Line(action, about or _certificate(fingerprint), told), why)
        if line is None:
            return
        async with begin(self._database, by) as transaction:
            # A caller with an unknown certificate is identified by that certificate alone.
            device = await repository.device_by_fingerprint(transaction.session, fingerprint)
            if device is not None:
                line = replace(
                    line,
                    object=about or f"device/{device.id}",
                    details={"user": device.user.name} | line.details,
                    actor=by.with_name(ActorKind.DEVICE, device.id),
                )
            transaction.audit(line)

    def line(self, fingerprint: bytes, line: Line, why: CulvertError) -> Line | None:
        """The line about the refusal; None if it is left out."""
        self._counter.count_denial(line.action, why.reason)
        if why.reason in _ALWAYS_TOLD:
            return refusal_line(line, why)
        return self._refusals.line(_certificate(fingerprint), line, why)


def _certificate(fingerprint: bytes) -> str:
    return f"certificate/sha256:{fingerprint.hex()}"
