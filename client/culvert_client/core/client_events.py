"""The events of the client as a whole, and its commands. `client.py` maps events to commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from culvert_proto import CulvertError

from culvert_client.core.claims import LocalNetwork
from culvert_client.core.grant import Address, Network, Sas, Source, Tunnel, TunnelId, Usage
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel import events as tunnel


@dataclass(frozen=True, slots=True)
class QueryHeld:
    """A query for A, AAAA or HTTPS of a managed name. It is forwarded, and its answer is held."""

    query: tunnel.QueryId
    fqdn: str


@dataclass(frozen=True, slots=True)
class UpstreamAnswered:
    """`addresses` None: no answer, or a malformed one. `aliases`: the targets of the asked name's CNAME and DNAME records,
    in order (RFC 1035 section 3.6.2)."""

    query: tunnel.QueryId
    addresses: frozenset[Address] | None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TxtAnswered:
    """`marked`: the name with the mark, `fqdn` or one of its aliases' targets; empty without a mark."""

    fqdn: str
    marked: str


@dataclass(frozen=True, slots=True)
class NameSeen:
    """A program has queried another name server for A, AAAA or HTTPS of this name."""

    fqdn: str


@dataclass(frozen=True, slots=True)
class AnswerSeen:
    """Another name server's answer to a program. `aliases`: as of UpstreamAnswered."""

    fqdn: str
    addresses: frozenset[Address]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PacketTrapped:
    """A packet to this address found no tunnel, and was dropped."""

    address: Address


@dataclass(frozen=True, slots=True)
class OpenRequested:
    """A person requests a resource or a name. The answer is a Settle with the same number."""

    request: tunnel.RequestId
    name: str


@dataclass(frozen=True, slots=True)
class GatewaySelected:
    """The person pinned a gateway; empty: the controller chooses."""

    gateway: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The answer to a Call. Stale answers are dropped."""

    fqdn: str
    event: tunnel.TunnelOpened | tunnel.Renewed | tunnel.Activated | tunnel.CloseDone | tunnel.Failed


@dataclass(frozen=True, slots=True)
class Applied:
    number: int
    error: CulvertError | None = None


@dataclass(frozen=True, slots=True)
class ProfileReceived:
    profile: Profile


@dataclass(frozen=True, slots=True)
class ClaimsAnswered:
    """The person has agreed to or declined public prefixes of the last profile; `profile`: the result."""

    profile: Profile


@dataclass(frozen=True, slots=True)
class ControllerLost:
    error: CulvertError


@dataclass(frozen=True, slots=True)
class SoftLimitReached:
    """This computer's datapath reports that an SA has reached a soft limit of packets or bytes."""

    tunnel_id: TunnelId
    spi: int


@dataclass(frozen=True, slots=True)
class CodeProven:
    """`valid_until`: Unix seconds."""

    valid_until: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The datapath's counters; drops by cause. `all_drops` includes drops without a tunnel."""

    usage: Mapping[TunnelId, Usage]
    drops: Mapping[TunnelId, Mapping[str, int]]
    all_drops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GatewaysAsked:
    """The gateways that have answered a probe, and those that have not. `pinged`: silent gateways that answer pings outside
    of their tunnels, although they should answer through a tunnel."""

    answered: frozenset[str]
    silent: frozenset[str]
    pinged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PathsMeasured:
    """The path MTU in bytes to each gateway's outer address, and the addresses with a narrow path (path_mtu.py)."""

    mtus: Mapping[Address, int]
    narrow: frozenset[Address]


@dataclass(frozen=True, slots=True)
class Moved:
    """This computer has moved to another network."""


@dataclass(frozen=True, slots=True)
class Woke:
    """This computer has slept for `seconds`, in which the clock of `now` stood still."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Enrolled:
    """This computer has a new identity, so all state of the former one is invalid."""


@dataclass(frozen=True, slots=True)
class Left:
    """This computer has left the organisation: nothing of it is protected any more."""


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """`until`: Unix seconds."""

    until: int


@dataclass(frozen=True, slots=True)
class PauseEnded:
    pass


@dataclass(frozen=True, slots=True)
class Stopping:
    pass


Event = (
    QueryHeld | UpstreamAnswered | TxtAnswered | NameSeen | AnswerSeen | PacketTrapped | OpenRequested | GatewaySelected
    | CallEnded | Applied | ProfileReceived | ClaimsAnswered | ControllerLost | SoftLimitReached | CodeProven | Measured
    | GatewaysAsked | PathsMeasured | Moved | Woke | Enrolled | Left | PauseRequested | PauseEnded | Stopping
    # Events that are passed on to the tunnels' machines.
    | tunnel.ClosedByController | tunnel.GatewayMoved | tunnel.SoftLimit | tunnel.CloseRequested | tunnel.Tick
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired state of the datapath. Packets to `blocked` that no tunnel carries are dropped.

    `closed`: closed tunnels, whose inner addresses stay local for the sockets that programs keep open. `sources`: the
    inner addresses of tunnels that were never open; `closed` takes precedence. `on_link`: this computer's own networks
    inside `blocked`, which stay reachable in clear.
    """

    blocked: frozenset[Network] = frozenset()
    tunnels: tuple[Sas, ...] = ()
    closed: tuple[Tunnel, ...] = ()
    on_link: tuple[LocalNetwork, ...] = ()
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class AskTxt:
    fqdn: str


@dataclass(frozen=True, slots=True)
class Reply:
    """Release the answer without the addresses in `without`; `error`: the reason for the omission."""

    query: tunnel.QueryId
    without: frozenset[Address] = frozenset()
    error: CulvertError | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    query: tunnel.QueryId
    fqdn: str
    error: CulvertError


@dataclass(frozen=True, slots=True)
class Call:
    """Call the controller. `gateway`: pinned by the person, or empty. `asked`: the alias of `fqdn` that a program asked
    for."""

    fqdn: str
    gateway: str
    command: tunnel.OpenTunnel | tunnel.RenewSa | tunnel.ActivateSa | tunnel.CloseTunnel
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Apply:
    number: int
    desired: Desired


@dataclass(frozen=True, slots=True)
class Settle:
    """The answer to OpenRequested: the name whose tunnel is up, or an error."""

    request: tunnel.RequestId
    fqdn: str
    error: CulvertError | None = None


@dataclass(frozen=True, slots=True)
class KeepTunnels:
    """Store the tunnels that the controller has for this device, so that they can be closed after a crash."""

    tunnels: Mapping[str, TunnelId]


@dataclass(frozen=True, slots=True)
class KeepGateway:
    gateway: str


@dataclass(frozen=True, slots=True)
class KeepPause:
    """Store the end of the pause in Unix seconds, and send PauseEnded then. 0: no pause."""

    until: int


Command = AskTxt | Reply | Fail | Call | Apply | Settle | KeepTunnels | KeepGateway | KeepPause
