"""REST schemas of gateways."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from culvert_proto.contract import MTU_MAX, MTU_MIN, NAME_PATTERN, PORT_MAX, Suite
from culvert_proto.phrases import Phrase
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from culvert_service.gateways.kind import GatewayKind
from culvert_service.rest.faults import PartError
from culvert_service.rest.stored_text import StoredText

# The gateway's tables hold IPv4 addresses in this prefix (RFC 4291 section 2.5.5.2).
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
# As Linux, Windows and Cisco write it, and without separators.
_MAC = re.compile(r"([0-9a-f]{2}[:-]){5}[0-9a-f]{2}|([0-9a-f]{4}[.]){2}[0-9a-f]{4}|[0-9a-f]{12}")


def _mac(value: str) -> str:
    written = value.strip().lower()
    if not _MAC.fullmatch(written):
        raise ValueError(Phrase("must be a MAC address such as 02:00:00:00:01:01"))
    return bytes.fromhex(re.sub(r"[:.-]", "", written)).hex(":")


def _ipv4(value: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise ValueError(Phrase("must be an IPv4 address such as 192.0.2.7")) from None


def _public_ipv4(value: str) -> str:
    address = ipaddress.IPv4Address(_ipv4(value))
    if address.is_unspecified or address.is_loopback or address.is_multicast or address == _BROADCAST:
        raise ValueError(Phrase("must be the IPv4 address of one host that devices can reach"))
    return str(address)


def _ipv6(value: str) -> str:
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        raise ValueError(Phrase("must be an IPv6 address such as 2001:db8::7")) from None
    if address.ipv4_mapped or address.is_unspecified or address.is_multicast or address.scope_id:
        raise ValueError(Phrase("must be an IPv6 address of one interface, without a scope"))
    return str(address)


def _address(value: str) -> str:
    return _ipv6(value) if ":" in value else _ipv4(value)


def _prefix(value: str) -> str:
    try:
        return str(ipaddress.IPv4Network(value))
    except ValueError as error:
        raise _prefix_error(error, "192.0.2.7", "192.0.2.0/24") from None


def _prefix_error(error: ValueError, address: str, prefix: str) -> ValueError:
    """The error of `ipaddress` in words for a person."""
    if "host bits" in str(error):
        return ValueError(Phrase("must begin with the network's first address, as 192.0.2.0/24 does"))
    return ValueError(
        Phrase("must be an address or a prefix such as {address} or {prefix}", address=address, prefix=prefix)
    )


def _prefix6(value: str) -> str:
    try:
        network = ipaddress.IPv6Network(value)
    except ValueError as error:
        raise _prefix_error(error, "2001:db8::7", "2001:db8::/64") from None
    if network.network_address.scope_id or network.overlaps(_MAPPED):
        raise ValueError(Phrase("must be an IPv6 prefix without a scope; IPv4 is written as IPv4"))
    return str(network)


def _either_prefix(value: str) -> str:
    return _prefix6(value) if ":" in value else _prefix(value)


Mac = Annotated[str, AfterValidator(_mac)]
Ipv4 = Annotated[str, AfterValidator(_ipv4)]
PublicIpv4 = Annotated[str, AfterValidator(_public_ipv4)]
Ipv6 = Annotated[str, AfterValidator(_ipv6)]
Address = Annotated[str, AfterValidator(_address)]
Prefix = Annotated[str, AfterValidator(_prefix)]
Prefix6 = Annotated[str, AfterValidator(_prefix6)]
AnyPrefix = Annotated[str, AfterValidator(_either_prefix)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
NEIGHBOURS_MAX = 1024
Port = Annotated[int, Field(ge=1, le=PORT_MAX)]
# IEEE 802.1Q; 0 is for untagged frames.
Vlan = Annotated[int, Field(ge=0, le=4094)]
# Two hosts and, in IPv4, the network and broadcast addresses.
_POOL_MIN = 4
# Bytes of an IP packet: at least IPv6's minimum MTU (RFC 8200 section 5). Below 1364, the inner MTU is below that minimum
# (docs/decisions, 34).
WanMtu = Annotated[int, Field(ge=MTU_MIN, le=MTU_MAX)]
LanMtu = Annotated[int, Field(ge=MTU_MIN, le=MTU_MAX)]


class WanPort(BaseModel):
    model_config = ConfigDict(extra="forbid")

    port: Port
    mac: Mac
    # The routers towards the Internet, whose MAC addresses the gateway finds and follows. Several share the flows (ECMP).
    next_hop: Address | Annotated[list[Address], Field(min_length=1, max_length=16)] | None = None
    # Instead of that: MAC addresses that are fixed.
    next_hop_mac: Mac | Annotated[list[Mac], Field(min_length=1, max_length=16)] | None = None
    vlan: Vlan = 0
    mtu: WanMtu = 1500

    @model_validator(mode="after")
    def _one_kind_of_next_hop(self) -> Self:
        if (self.next_hop is None) == (self.next_hop_mac is None):
            raise PartError(
                "next_hop for a router that the gateway finds, or next_hop_mac to fix it: one of them",
                "next_hop",
            )
        if len(set(self.hops)) < len(self.hops):
            raise PartError(Phrase("has an address twice"), "next_hop" if self.next_hop else "next_hop_mac")
        return self

    @property
    def hops(self) -> list[str]:
        """The next hops' addresses, or without these their MAC addresses."""
        hops = self.next_hop if self.next_hop is not None else self.next_hop_mac
        return [hops] if isinstance(hops, str) else list(hops or ())


class LanPort(BaseModel):
    """`prefix`: the LAN's prefix, or only its length: then `address` gives the rest. `prefix6`: the same for IPv6."""

    model_config = ConfigDict(extra="forbid")

    port: Port
    mac: Mac
    address: Ipv4
    prefix: Prefix
    # MAC addresses by address; null: the gateway finds and follows it.
    neighbours: Annotated[dict[Address, Mac | None], Field(max_length=NEIGHBOURS_MAX)] = {}
    # Prefixes behind a router on the LAN, and the neighbour's address: {"10.30.0.0/16": "10.20.0.254"}.
    routes: Annotated[dict[AnyPrefix, Address], Field(max_length=256)] = {}
    address6: Ipv6 | None = None
    prefix6: Prefix6 | None = None
    vlan: Vlan = 0
    mtu: LanMtu = 1500

    @model_validator(mode="before")
    @classmethod
    def _prefix_from_length(cls, value: object) -> object:
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        for prefix, address in (("prefix", "address"), ("prefix6", "address6")):
            if isinstance(length := fields.get(prefix), int):
                network = ipaddress.ip_interface(f"{fields.get(address)}/{length}").network
                fields = {**fields, prefix: str(network)}
        return fields or cast("object", value)

    @model_validator(mode="after")
    def _neighbours_inside(self) -> Self:
        """Check that neighbours and routers are on the LAN: packets to a tunnel's targets leave by the LAN port only."""
        if self.address6 is not None and self.prefix6 is None:
            raise PartError(Phrase("must be given, because the LAN has an IPv6 address"), "prefix6")
        if self.prefix6 is not None and self.address6 is None:
            raise PartError(Phrase("must be given, because the LAN has an IPv6 prefix"), "address6")
        prefixes = [ipaddress.ip_network(it) for it in (self.prefix, self.prefix6) if it is not None]
        for part, inside in (
            ("address", [self.address]),
            ("address6", [self.address6] if self.address6 is not None else []),
            ("neighbours", list(self.neighbours)),
        ):
            if outside := [ip for ip in inside if not any(ipaddress.ip_address(ip) in it for it in prefixes)]:
                why = Phrase(
                    "{addresses}: not in the LAN's prefix {prefixes}",
                    addresses=", ".join(outside),
                    prefixes=", ".join(map(str, prefixes)),
                )
                raise PartError(why, part)
        for behind, router in self.routes.items():
            network = ipaddress.ip_network(behind)
            if any(network.overlaps(it) for it in prefixes if it.version == network.version):
                why = Phrase("{prefix}: a route leads out of the LAN's own prefix", prefix=behind)
                raise PartError(why, "routes")
            if router not in self.neighbours or ipaddress.ip_address(router).version != network.version:
                why = Phrase("{router}: no neighbour of the family of {prefix}", router=router, prefix=behind)
                raise PartError(why, "routes")
        return self


class GatewayIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Name
    kind: GatewayKind = GatewayKind.SLUICE
    # The gateway's own outer addresses: the destination in the packets that reach it.
    address: Ipv4
    address6: Ipv6 | None = None
    # The addresses that devices and other gateways send to, where a NAT leads UDP 4500 from them to the gateway's own;
    # null: its own.
    public_address: PublicIpv4 | None = None
    public_address6: Ipv6 | None = None
    # HOST:PORT of its P4Runtime server; null: the gateway connects to the controllers.
    p4runtime: Annotated[str, Field(pattern=r"^\S+:\d{1,5}$")] | None
    device_id: Annotated[int, Field(ge=1, le=2**63 - 1)] = 1
    # Inner addresses of devices. The intranet routes them to this gateway; there is no NAT.
    pool: Prefix
    # Inner IPv6 addresses; without them tunnels carry IPv4 only.
    pool6: Prefix6 | None = None
    wan: WanPort
    lan: LanPort
    # The suite of its tunnels' SAs.
    suite: Suite = Suite.AES_GCM_256
    # Allowed legacy suites. The gateway must be started with the same permission.
    legacy_suites: list[Suite] = []

    @field_validator("legacy_suites")
    @classmethod
    def _legacy_only(cls, value: list[Suite]) -> list[Suite]:
        if others := [suite.value for suite in value if not suite.legacy]:
            raise ValueError(f"{', '.join(others)}: not legacy, needs no permission")
        return list(dict.fromkeys(value))

    @field_validator("pool", "pool6")
    @classmethod
    def _not_empty(cls, value: str | None) -> str | None:
        if value is not None and ipaddress.ip_network(value).num_addresses < _POOL_MIN:
            raise ValueError(Phrase("must have room for at least two addresses"))
        return value

    @model_validator(mode="after")
    def _two_ports(self) -> GatewayIn:
        if (self.wan.port, self.wan.vlan) == (self.lan.port, self.lan.vlan):
            raise PartError(
                Phrase("must be another port than the one to the internet, or another VLAN of it"),
                "lan",
                "port",
            )
        return self

    @model_validator(mode="after")
    def _public_leads_to_own(self) -> GatewayIn:
        if self.public_address6 is not None and self.address6 is None:
            raise PartError(
                Phrase("must be given: the gateway's own address behind its public IPv6 address"), "address6"
            )
        return self

    @model_validator(mode="after")
    def _routes_lead_elsewhere(self) -> GatewayIn:
        """Check that routes overlap no pool, and that none leads to an outer address alone. One to a network around that
        address is good: beside a kernel, the intranet's hosts may be the gateway's neighbours.
        """
        addresses = (self.address, self.address6, self.public_address, self.public_address6)
        pools = [ipaddress.ip_network(it) for it in (self.pool, self.pool6) if it is not None]
        outer = [ipaddress.ip_network(it) for it in addresses if it is not None]
        for behind in map(ipaddress.ip_network, self.lan.routes):
            overlapped = [it for it in pools if it.version == behind.version and it.overlaps(behind)]
            for network in (*overlapped, *(it for it in outer if it == behind)):
                why = Phrase(
                    "{prefix} overlaps {network}, which is not behind the LAN", prefix=behind, network=network
                )
                raise PartError(why, "lan", "routes")
        return self


class CryptoHostIn(BaseModel):
    """A computer behind the gateway's `port` that opens and seals ESP for it. Its own port towards it is `host_port`."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    # HOST:PORT of its P4Runtime server.
    p4runtime: Annotated[str, Field(pattern=r"^\S+:\d{1,5}$")]
    device_id: Annotated[int, Field(ge=1, le=2**63 - 1)] = 1
    port: Annotated[int, Field(ge=0, le=511)]
    # The gateway's MAC address at `port`, and the host's at `host_port`.
    mac: Mac
    host_port: Annotated[int, Field(ge=0, le=511)] = 1
    host_mac: Mac


class CryptoHostOut(BaseModel):
    name: str
    p4runtime: str
    device_id: int
    port: int
    mac: str
    host_port: int
    host_mac: str
    # Unknown: another controller owns the gateway.
    state: Literal["online", "offline", "unknown"]
    # Why it is offline; empty otherwise.
    reason: StoredText
    # The SAs that it serves: two of each tunnel, and four while a tunnel is renewed.
    sas: int
    # The start of the drain, during which it gets no SA and its tunnels are renewed at other hosts; null: no drain.
    draining_since: datetime | None
    created_at: datetime


class NeighbourOut(BaseModel):
    """A neighbour of the gateway's port `side`. `mac`: as found last; null: never yet, and packets to it are dropped.
    `silent_since`: it does not answer ARP or Neighbor Solicitation since then; null: it answers.
    """

    side: Literal["wan", "lan"]
    address: str
    mac: str | None
    silent_since: datetime | None


class DriftOut(BaseModel):
    """Drift that reconciliations repaired at the gateway while it was online: how often, and the last time's entries."""

    repaired: int = 0
    last_at: datetime | None = None
    missing: int = 0
    # Entries that belong to no desired tunnel.
    foreign: int = 0
    # Entries with another action or other parameters.
    changed: int = 0


class KeysOut(BaseModel):
    """`new`: no bundle was given. `waiting`: a bundle was given that the gateway does not have yet. `rekeying`: its SAs get
    fresh keys under its new key-encryption key. `settled`: it has one key-encryption key, and every SA is wrapped under it.
    """

    state: Literal["new", "settled", "waiting", "rekeying"]
    # The time of the first bundle.
    bundled_at: datetime | None
    # The end of the certificate that the gateway was last seen to have: a newer one counts when it has the KEK that came
    # with it. Null: it was given none.
    certificate_expires_at: datetime | None
    rekeying_since: datetime | None
    # The number of SAs that still need fresh keys; null when this controller has not counted them.
    sas_left: int | None


class GatewayOut(BaseModel):
    observed: ClassVar = frozenset(
        [
            "state",
            "reason",
            "tunnels",
            "version",
            "software",
            "is_outdated",
            "alone_for",
            "end_of",
            "owner",
            "epoch",
            "reconciled_at",
            "drift",
            "keys",
            "neighbours",
        ]
    )

    name: str
    kind: GatewayKind
    address: str
    address6: str | None
    # Null: devices send to `address` and `address6`.
    public_address: str | None
    public_address6: str | None
    # Null: the gateway connects to the controllers.
    p4runtime: str | None
    device_id: int
    pool: str
    pool6: str | None
    wan: WanPort
    lan: LanPort
    suite: Suite
    # Whether `suite` is a legacy suite.
    legacy: bool
    legacy_suites: list[Suite]
    state: Literal["online", "offline"]
    # Why it is offline; empty when it is online.
    reason: StoredText
    # The start of the drain, during which no tunnel opens and open ones move to other gateways; null: no drain.
    draining_since: datetime | None
    # The number of tunnels, draining ones included.
    tunnels: int
    # The gateway's P4Runtime version; null if this controller is not connected to it.
    version: str | None
    # The version of its software when it was online last; null if it does not tell it, as a switch that is not sluice.
    software: str | None
    # Whether this version is older than that of the controller that answers.
    is_outdated: bool
    # The resources that no other gateway could serve.
    alone_for: list[str]
    # The gateway's site tunnels, which never move.
    end_of: list[str]
    # The name of the controller that owns it, or empty; and that controller's election id.
    owner: str
    epoch: int
    # When it last held its whole desired state.
    reconciled_at: datetime | None
    drift: DriftOut
    keys: KeysOut
    # The neighbours whose MAC addresses the gateway finds.
    neighbours: list[NeighbourOut]
    created_at: datetime


class BundleOut(BaseModel):
    """The secrets that a gateway needs to start. The controller does not keep the private key, and each bundle has a new
    certificate, key and, after the first one, KEK.
    """

    ca_pem: str
    certificate_pem: str
    key_pem: str
    # Base64 of 32 bytes.
    kek: str
    # The dNSName that a P4Runtime client's certificate must have.
    client_name: str
    # The legacy suites that its operator must allow.
    legacy_suites: list[Suite]


class ContentOut(BaseModel):
    action: str
    params: dict[str, int]


class EntryOut(ContentOut):
    table: str
    priority: int
    # Numbers; [value, mask] for ternary, [value, prefix length] for longest-prefix matches.
    match: dict[str, int | tuple[int, int]]
    # Held: as desired. Missing: desired, but not there. Foreign: not desired. Changed: should be as `desired`.
    standing: Literal["held", "missing", "foreign", "changed"]
    desired: ContentOut | None
    # The packets that have hit it; null if its table has no counter.
    packets: int | None
    bytes: int | None


class EntriesOut(BaseModel):
    """All observed and missing entries of the gateway's tables, without wrapped keys. `count`: the observed ones;
    `tunnel_entries`: those among them that belong to tunnels.
    """

    count: int
    tunnel_entries: int
    entries: list[EntryOut]


class SampleOut(BaseModel):
    """`drops`: packets dropped so far, by cause; a restarted gateway counts from 0. Samples are at least 10 s apart.

    `received`, `sent`: bytes of IP packets a second that tunnels carried from devices and other sites, and to them: the
    mean since the sample before. `tunnels`: open tunnels of devices. Each is null where it was not measured.
    """

    at: datetime
    drops: dict[str, int]
    round_trip_us: int | None
    received: float | None
    sent: float | None
    tunnels: int | None
