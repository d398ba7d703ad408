"""A tunnel's packets as SPD entries say them: the far side of its selectors (RFC 4301 section 4.4.1.1). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from culvert_service.gateways import mapped
from culvert_service.gateways.entry import MatchValue

ALL_PORTS = (0, 65535)
_PROTOCOL_MASK = 0xFF


@dataclass(frozen=True, slots=True)
class Selector:
    """`protocol` is IANA's number, None for all; `ports` are the first and the last one of the far side."""

    prefix: str
    protocol: int | None = None
    ports: tuple[int, int] = ALL_PORTS

    @property
    def family(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.prefix else 4

    def meets(self, other: Selector) -> bool:
        """Whether there are packets from what the one says to what the other says."""
        one_protocol = self.protocol is None or other.protocol in (None, self.protocol)
        return self.family == other.family and one_protocol

    def to(self, other: Selector) -> dict[str, MatchValue]:
        """The match for packets from here to there, if the two meet."""
        match: dict[str, MatchValue] = {"src": _masked(self.prefix), "dst": _masked(other.prefix)}
        return match | other._transport("dport") | self._transport("sport")

    def towards(self, near: str) -> dict[str, MatchValue]:
        """The match for packets from the address `near`."""
        return {"src": _host(near), "dst": _masked(self.prefix)} | self._transport("dport")

    def back_to(self, near: str) -> dict[str, MatchValue]:
        """The match for the answers."""
        return {"src": _masked(self.prefix), "dst": _host(near)} | self._transport("sport")

    def _transport(self, port: str) -> dict[str, MatchValue]:
        # P4Runtime section 9.1.1: what does not matter is left out.
        match: dict[str, MatchValue] = {}
        if self.protocol is not None:
            match["protocol"] = (self.protocol, _PROTOCOL_MASK)
        if self.ports != ALL_PORTS:
            match[port] = self.ports
        return match


def _host(address: str) -> MatchValue:
    return mapped.number(address), mapped.HOST_MASK


def _masked(prefix: str) -> MatchValue:
    value, length = mapped.prefix(prefix)
    return value, mapped.HOST_MASK ^ (mapped.HOST_MASK >> length)
