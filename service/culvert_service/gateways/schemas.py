"""Gateways as REST says them."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

_MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")


def _mac(value: str) -> str:
    if not _MAC.match(value.lower()):
        raise ValueError("must be a MAC address such as 02:00:00:00:01:01")
    return value.lower()


def _ipv4(value: str) -> str:
    return str(ipaddress.IPv4Address(value))


def _prefix(value: str) -> str:
    return str(ipaddress.IPv4Network(value))


Mac = Annotated[str, AfterValidator(_mac)]
Ipv4 = Annotated[str, AfterValidator(_ipv4)]
Prefix = Annotated[str, AfterValidator(_prefix)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
Port = Annotated[int, Field(ge=1, le=511)]


class WanPort(BaseModel):
    model_config = ConfigDict(extra="forbid")

    port: Port
    mac: Mac
    next_hop_mac: Mac


class LanPort(BaseModel):
    """`prefix` is the LAN's: "10.20.0.0/16", or 16 for the one that `address` is in."""

    model_config = ConfigDict(extra="forbid")

    port: Port
    mac: Mac
    address: Ipv4
    prefix: Prefix
    neighbours: dict[Ipv4, Mac] = {}

    @model_validator(mode="before")
    @classmethod
    def _prefix_from_length(cls, value: object) -> object:
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if isinstance(length := fields.get("prefix"), int):
            network = ipaddress.IPv4Interface(f"{fields.get('address')}/{length}").network
            return {**fields, "prefix": str(network)}
        return cast("object", value)

    @model_validator(mode="after")
    def _neighbours_inside(self) -> Self:
        """What a tunnel may reach leaves by the LAN port alone."""
        network = ipaddress.ip_network(self.prefix, strict=False)
        if outside := [ip for ip in self.neighbours if ipaddress.ip_address(ip) not in network]:
            raise ValueError(f"the neighbours {', '.join(outside)} are not in the LAN's prefix {network}")
        return self


class GatewayIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Name
    # Outer address, to which devices send ESP.
    address: Ipv4
    # HOST:PORT of its P4Runtime server.
    p4runtime: Annotated[str, Field(pattern=r"^\S+:\d{1,5}$")]
    device_id: Annotated[int, Field(ge=1, le=2**63 - 1)] = 1
    # Inner addresses of devices; routed to this gateway by the intranet, no NAT.
    pool: Prefix
    wan: WanPort
    lan: LanPort

    @field_validator("pool")
    @classmethod
    def _not_empty(cls, value: str) -> str:
        if ipaddress.IPv4Network(value).prefixlen > 30:
            raise ValueError("must have room for at least two addresses")
        return value

    @model_validator(mode="after")
    def _two_ports(self) -> GatewayIn:
        if self.wan.port == self.lan.port:
            raise ValueError("wan and lan are two ports")
        return self


class GatewayOut(BaseModel):
    name: str
    address: str
    p4runtime: str
    device_id: int
    pool: str
    wan: WanPort
    lan: LanPort
    state: Literal["online", "offline"]
    # Why it is offline; empty when it is online.
    reason: str
    created_at: datetime


class BundleOut(BaseModel):
    """What the gateway needs to start. The key is made anew at each call and kept nowhere; the KEK stays the same."""

    ca_pem: str
    certificate_pem: str
    key_pem: str
    # Base64 of 32 bytes.
    kek: str
    # dNSName that a P4Runtime client must show.
    client_name: str


class EntryOut(BaseModel):
    table: str
    priority: int
    # Numbers; [value, mask] for ternary, [value, prefix length] for longest-prefix matches.
    match: dict[str, int | tuple[int, int]]
    action: str
    params: dict[str, int]


class EntriesOut(BaseModel):
    """Everything in the gateway's tables; wrapped keys are left out. `tunnel_entries` counts what tunnels put there."""

    count: int
    tunnel_entries: int
    entries: list[EntryOut]
