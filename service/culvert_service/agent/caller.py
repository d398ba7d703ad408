"""The caller: a connection's client certificate and source address."""

from __future__ import annotations

from dataclasses import dataclass

from culvert_agent_server import Context
from culvert_db import ActorKind

from culvert_service.audit.log import Actor, acting


@dataclass(frozen=True, slots=True)
class Who:
    """The SHA-256 of a certificate's DER, and the IP address that its call comes from (docs/decisions, 2)."""

    fingerprint: bytes
    address: str

    def actor(self) -> Actor:
        return Actor(ActorKind.DEVICE, f"sha256:{self.fingerprint.hex()}", self.address)


def who(context: Context) -> Who:
    """They are from now on the one that acts."""
    found = Who(context.fingerprint, context.address)
    acting.set(found.actor())
    return found
