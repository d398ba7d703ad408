"""Selectors of a tunnel and their matches in SPD entries (RFC 4301 section 4.4.1.1). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from culvert_service.gateways import mapped
from culvert_service.gateways.entry import MatchValue

ALL_PORTS = (0, 65535)
_PROTOCOL_MASK = 0xFF


@dataclass(frozen=True, slots=True)
class Selector:
    """The far side of a tunnel's packets. `protocol`: IANA's number, None for all; `ports`: first and last far port."""

    prefix: str
    protocol: int | None = None
    ports: tuple[int, int] = ALL_PORTS

    @property
    def family(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.prefix else 4

    def meets(self, other: Selector) -> bool:
        """Whether packets can go from one selector's hosts to the other's."""
        one_protocol = self.protocol is None or other.protocol in (None, self.protocol)
        return self.family == other.family and one_protocol

    def to(self, other: Selector) -> dict[str, MatchValue]:
        """The match for packets from this selector to `other`, if the two meet."""
        match: dict[str, MatchValue] = {"src": _mask(self.prefix), "dst": _mask(other.prefix)}
        return match | other._transport("dport") | self._transport("sport")

    def towards(self, near: str) -> dict[str, MatchValue]:
        """The match for packets from the address `near`."""
        return {"src": _host(near), "dst": _mask(self.prefix)} | self._transport("dport")

    def back_to(self, near: str) -> dict[str, MatchValue]:
        """The match for answers to the address `near`."""
        return {"src": _mask(self.prefix), "dst": _host(near)} | self._transport("sport")

    def _transport(self, port: str) -> dict[str, MatchValue]:
        # P4Runtime section 9.1.1: "don't care" fields are left out.
        match: dict[str, MatchValue] = {}
        if self.protocol is not None:
            match["protocol"] = (self.protocol, _PROTOCOL_MASK)
        if self.ports != ALL_PORTS:
            match[port] = self.ports
        return match


def _host(address: str) -> MatchValue:
    return mapped.number(address), mapped.HOST_MASK


def _mask(prefix: str) -> MatchValue:
    value, length = mapped.prefix(prefix)
    return value, mapped.HOST_MASK ^ (mapped.HOST_MASK >> length)
