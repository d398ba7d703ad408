"""The targets of a resource's name: prefixes, and for each a protocol and ports. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from culvert_proto.contract import Protocol
from culvert_proto.phrases import Phrase
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from culvert_service.gateways.schemas import AnyPrefix
from culvert_service.gateways.selector import ALL_PORTS, Selector
from culvert_service.rest.faults import PartError

_PORTS = re.compile(r"^(\d{1,5})(?:-(\d{1,5}))?$", re.ASCII)
# As of a URL: an IPv6 address has more than one colon.
_WITH_PORT = re.compile(r"\w+://.*|[^\s:/]+:\d+(/.*)?", re.ASCII)
_NUMBERS = {"tcp": Protocol.TCP, "udp": Protocol.UDP, "icmp": Protocol.ICMP}
_WITH_PORTS = ("tcp", "udp")


def _ports(value: str) -> str:
    first, last = _range(value)
    return f"{first}-{last}" if first < last else str(first)


def _range(value: str) -> tuple[int, int]:
    found = _PORTS.match(value)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= ALL_PORTS[1]:
        raise ValueError(Phrase("must be a port such as 443, or a range such as 8000-8100"))
    return first, last


def _text(value: object) -> object:
    return str(value) if isinstance(value, int) else value


def _without_port(value: object) -> object:
    if isinstance(value, str) and _WITH_PORT.fullmatch(value):
        raise ValueError(
            Phrase(
                "must be only an address or a prefix, such as 192.0.2.7 or 192.0.2.0/24; "
                "protocol (TCP or UDP) and ports have their own fields"
            )
        )
    return value


Ports = Annotated[str, BeforeValidator(_text), AfterValidator(_ports)]


class Target(BaseModel):
    """A host or a prefix. Without `protocol`: all packets; without `ports`: all ports of the protocol."""

    model_config = ConfigDict(extra="forbid")

    prefix: Annotated[AnyPrefix, BeforeValidator(_without_port)]
    # With an IPv6 prefix, `icmp` means ICMPv6.
    protocol: Literal["any", "tcp", "udp", "icmp"] = "any"
    # Each a port, or a range such as "8000-8100".
    ports: Annotated[list[Ports], Field(max_length=16)] = []

    @model_validator(mode="after")
    def _ports_of_a_protocol(self) -> Self:
        if self.ports and self.protocol not in _WITH_PORTS:
            raise PartError(Phrase("only tcp and udp have ports"), "ports")
        return self

    def __str__(self) -> str:
        transport = (
            [] if self.protocol == "any" else ["/".join([self.protocol, ",".join(self.ports)]).rstrip("/")]
        )
        return ":".join([self.prefix, *transport])

    def row(self) -> dict[str, Any]:
        return self.model_dump(exclude_defaults=True)


def selectors(rows: Sequence[Mapping[str, Any]]) -> tuple[Selector, ...]:
    """The selectors of a tunnel to the resource, without duplicates."""
    found = (
        Selector(row["prefix"], _number(row), ports)
        for row in rows
        for ports in ([_range(ports) for ports in row.get("ports", ())] or [ALL_PORTS])
    )
    return tuple(dict.fromkeys(found))


def _number(row: Mapping[str, Any]) -> int | None:
    number = _NUMBERS.get(row.get("protocol", "any"))
    return Protocol.ICMPV6 if number == Protocol.ICMP and ":" in row["prefix"] else number
