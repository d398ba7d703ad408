"""A tunnel's traffic selector (RFC 4301 section 4.4.1.1)."""

from __future__ import annotations

from dataclasses import dataclass

ALL_PORTS = (0, 65535)


@dataclass(frozen=True, slots=True)
class Selector:
    """The remote side: `protocol` is IANA's number, None for all; `ports` are the first and last port of TCP or UDP."""

    prefix: str
    protocol: int | None = None
    ports: tuple[int, int] = ALL_PORTS
