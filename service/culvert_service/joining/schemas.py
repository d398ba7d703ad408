"""REST schemas of gateways' enrolments, and of the computers that join."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, ClassVar, Literal, Self

from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from culvert_service.apt.service import Install
from culvert_service.gateways.schemas import (
    Address,
    Ipv4,
    Ipv6,
    LanPort,
    Mac,
    Name,
    Prefix,
    Prefix6,
    PublicIpv4,
    WanPort,
)
from culvert_service.rest.stored_text import StoredText

_KEY_LEN = 32


def _agreement_key(value: str) -> str:
    try:
        key = base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != _KEY_LEN:
        raise ValueError(f"must be base64 of {_KEY_LEN} bytes")
    return value


JoinToken = Annotated[SecretStr, Field(min_length=1, max_length=64)]


class GatewayEnrolmentIn(BaseModel):
    """`pool` and `pool6`: of a new gateway. A gateway that exists keeps its own, and takes neither."""

    model_config = ConfigDict(extra="forbid")

    gateway: Name
    pool: Prefix | None = None
    pool6: Prefix6 | None = None
    suite: Suite | None = None


class GatewayEnrolmentOut(BaseModel):
    """`waiting`: its link is good. `joined`: a gateway has used it; `GET /gateways/{name}` says whether it is online."""

    observed: ClassVar = frozenset(("state",))

    id: int
    gateway: str
    pool: str | None
    pool6: str | None
    suite: Suite | None
    state: Literal["waiting", "joined", "expired"]
    made_by: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None


class GatewayLinkOut(GatewayEnrolmentOut):
    """The link lets one computer join as the gateway, once. It is shown here and kept nowhere. `install`: how the computer
    gets the package culvert-gateway; null when this controller serves none.
    """

    link: str
    install: Install | None


class FreePoolsOut(BaseModel):
    """Address pools that overlap no network which the controller knows; null when there is none left."""

    pool: str | None
    pool6: str | None


class JoinFacts(BaseModel):
    """The ports that the computer has found, their addresses, and the neighbours behind them."""

    model_config = ConfigDict(extra="forbid")

    # The gateway's own outer addresses: the destination in the packets that reach it.
    address: Ipv4
    address6: Ipv6 | None = None
    # The addresses that devices send to, behind which a NAT leads to the gateway's own; null: its own, or for a gateway
    # that exists, those that it has.
    public_address: PublicIpv4 | None = None
    public_address6: Ipv6 | None = None
    # HOST:PORT of its P4Runtime server; null: the gateway connects to the controllers.
    p4runtime: Annotated[str, Field(pattern=r"^\S+:\d{1,5}$")] | None = None
    # With all MAC addresses, as found now.
    wan: WanPort
    lan: LanPort
    # The address of the next hop; then the computer goes on finding its MAC address, and those of the neighbours. Null: all
    # MAC addresses are fixed.
    next_hop: Address | None = None

    @model_validator(mode="after")
    def _all_found(self) -> Self:
        several = not isinstance(self.wan.next_hop_mac, str) and self.next_hop is not None
        if self.wan.next_hop_mac is None or several or None in self.lan.neighbours.values():
            raise ValueError(Phrase("a computer joins with the MAC addresses that it has found"))
        return self

    @property
    def found(self) -> dict[tuple[str, str], str]:
        """The MAC addresses of the neighbours that the computer goes on finding, by port and address."""
        if self.next_hop is None or not isinstance(self.wan.next_hop_mac, str):
            return {}
        behind = {("lan", at): mac for at, mac in self.lan.neighbours.items() if mac is not None}
        return behind | {("wan", self.next_hop): self.wan.next_hop_mac}


class JoinCheckIn(BaseModel):
    """`facts` absent: only the link is checked."""

    model_config = ConfigDict(extra="forbid")

    token: JoinToken
    facts: JoinFacts | None = None


class JoinCheckOut(BaseModel):
    gateway: str
    pool: str
    pool6: str | None
    # Whether the gateway exists, and gets new keys and settings.
    exists: bool
    expires_at: datetime
    # The controller's clock.
    now: datetime


class JoinIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: JoinToken
    facts: JoinFacts
    # A certificate signing request (RFC 2986) of a P-256 key, PEM.
    csr_pem: Annotated[str, Field(max_length=8192)]
    # The gateway's X25519 public key, base64.
    agreement_key: Annotated[str, AfterValidator(_agreement_key)]


class GatewayCertificateOut(BaseModel):
    # The certificate, and the CA that its P4Runtime clients' certificates are issued by.
    certificate_pem: str
    ca_pem: str
    expires_at: datetime


class JoinOut(GatewayCertificateOut):
    """The controller's half of the agreement on the key-encryption key (docs/decisions, 63)."""

    gateway: str
    # The controller's X25519 public key, base64.
    agreement_key: str
    # HMAC-SHA-256 under the key-encryption key, hexadecimal: the gateway compares it with its own.
    kek_fingerprint: str
    device_id: int
    # HOST:PORT of the agent port.
    agent_address: str
    # The dNSName that a P4Runtime client's certificate must have.
    client_name: str
    # The legacy suites that the switch must allow.
    legacy_suites: list[Suite]


class GatewayRenewalIn(BaseModel):
    """A request that the key of the gateway's present certificate has signed: the certificate is for the same key."""

    model_config = ConfigDict(extra="forbid")

    csr_pem: Annotated[str, Field(max_length=8192)]


class GatewayStateOut(BaseModel):
    """`reason`: why it is offline. `since`: the start of this state; null: no controller has had it. `silent`: neighbours
    that it does not find, or that do not answer. `now`: our clock.
    """

    gateway: str
    state: Literal["online", "offline"]
    reason: StoredText
    since: datetime | None
    silent: list[str]
    now: datetime


class GatewayLeaveIn(GatewayRenewalIn):
    """`signature`: ECDSA with SHA-256 over "culvert gateway leaves 1", a zero byte and the gateway's name; DER, base64."""

    gateway: Name
    signature: Annotated[str, Field(max_length=256)]


class GatewayLeaveOut(BaseModel):
    """`kept`: why the controller keeps the gateway, which something still uses; empty: it is deleted."""

    kept: str


class GatewayReportIn(GatewayRenewalIn):
    """A report of what a gateway has found. `signature`: ECDSA with SHA-256 over the lines of `statement`; DER, base64."""

    gateway: Name
    # The gateway's clock, in seconds since 1970.
    at: int
    # The address of its own that packets to it have now; null: as it was.
    address: Ipv4 | None = None
    # The MAC addresses of neighbours that the controller has named; null: no answer.
    wan: Annotated[dict[Address, Mac | None], Field(max_length=16)] = {}
    lan: Annotated[dict[Address, Mac | None], Field(max_length=1024)] = {}
    signature: Annotated[str, Field(max_length=256)]

    def statement(self) -> bytes:
        """The signed bytes: "culvert gateway reports 1", a zero byte, and a line each for the gateway, the time, the
        address or "-", and each neighbour, sorted by its address' text: "wan" or "lan", address, and MAC address or "-".
        """
        lines = [self.gateway, str(self.at), self.address or "-"]
        for side, found in (("wan", self.wan), ("lan", self.lan)):
            lines += [f"{side} {at} {found[at] or '-'}" for at in sorted(found)]
        return b"culvert gateway reports 1\0" + "\n".join(lines).encode()


class GatewayReportOut(BaseModel):
    """The neighbours whose MAC addresses the gateway is to find, and its addresses there, from which it may ask."""

    wan: list[str]
    lan: list[str]
    address: str
    address6: str | None
    lan_address: str
    lan_address6: str | None
    # Why the reported address was not taken; empty: it was, or there was none.
    refused: str
    # The controller's clock.
    now: datetime
