"""Events of the client as a whole, and the commands that it gives in return. `client.py` says which leads to which."""

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
    """A query for A, AAAA or HTTPS of a managed name. It is being forwarded; its answer waits."""

    query: tunnel.QueryId
    fqdn: str


@dataclass(frozen=True, slots=True)
class UpstreamAnswered:
    """`addresses` None: the name server was silent, or what it said is malformed. `aliases`: the names that the asked one
    stands for, in order (RFC 1035 section 3.6.2)."""

    query: tunnel.QueryId
    addresses: frozenset[Address] | None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TxtAnswered:
    """`marked`: the name with the mark, `fqdn` or one that it stands for; empty when there is none."""

    fqdn: str
    marked: str


@dataclass(frozen=True, slots=True)
class NameSeen:
    """A program has asked another name server for A, AAAA or HTTPS of this name."""

    fqdn: str


@dataclass(frozen=True, slots=True)
class AnswerSeen:
    """Another name server's answer to a program. `aliases` as of UpstreamAnswered."""

    fqdn: str
    addresses: frozenset[Address]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PacketTrapped:
    """A packet to this address found no tunnel, and was dropped."""

    address: Address


@dataclass(frozen=True, slots=True)
class OpenRequested:
    """A person asks for a resource or a name; Settle with the same number answers."""

    request: tunnel.RequestId
    name: str


@dataclass(frozen=True, slots=True)
class GatewaySelected:
    """Empty: the controller chooses."""

    gateway: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The answer to a Call. A stale one is dropped."""

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
    """The person has answered about the last profile's public prefixes; `profile` is the result."""

    profile: Profile


@dataclass(frozen=True, slots=True)
class ControllerLost:
    error: CulvertError


@dataclass(frozen=True, slots=True)
class SoftLimitReached:
    """This side's datapath tells that an SA comes near a limit of packets or bytes."""

    tunnel_id: TunnelId
    spi: int


@dataclass(frozen=True, slots=True)
class CodeProven:
    """Unix seconds."""

    valid_until: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The datapath's counts; drops by cause. `all_drops` has those that belong to no tunnel, too."""

    usage: Mapping[TunnelId, Usage]
    drops: Mapping[TunnelId, Mapping[str, int]]
    all_drops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GatewaysAsked:
    """The gateways that have answered, and those that have not. `pinged`: those of the silent ones that answer outside of
    their tunnels, where an answer through a tunnel was to be had."""

    answered: frozenset[str]
    silent: frozenset[str]
    pinged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PathsMeasured:
    """Bytes of the longest IP packet to send to each gateway's outer address; where even that is too long (path_mtu.py)."""

    mtus: Mapping[Address, int]
    narrow: frozenset[Address]


@dataclass(frozen=True, slots=True)
class Moved:
    """This computer is somewhere else."""


@dataclass(frozen=True, slots=True)
class Woke:
    """This computer has slept for that long, in seconds. The clock of `now` stood still meanwhile."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Enrolled:
    """This computer has another identity now: nothing of the one before is valid."""


@dataclass(frozen=True, slots=True)
class Left:
    """This computer has no such identity any more: nothing of it is needed, or protected."""


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """Until when, in Unix seconds."""

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
    # Events of tunnels, as their machines take them.
    | tunnel.ClosedByController | tunnel.GatewayMoved | tunnel.SoftLimit | tunnel.CloseRequested | tunnel.Tick
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Desired:
    """The datapath as it shall be. Traffic to `blocked` that no tunnel carries goes nowhere.

    `closed` are tunnels that may be opened again: their inner addresses stay this computer's own, for the sockets that
    programs keep. `sources` are the same for tunnels that were not open yet; a closed tunnel counts before them.
    `on_link` are networks of this computer's own inside `blocked`, reachable in clear.
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
    """Release the answer, without the addresses in `without`; `error` says why they are left out."""

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
    """Ask the controller. `gateway` is the one that the person pinned. `asked`: the name that a program asked for, where it
    is another one that stands for `fqdn`."""

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
    """The answer to OpenRequested: the name whose tunnel is up, or why there is none."""

    request: tunnel.RequestId
    fqdn: str
    error: CulvertError | None = None


@dataclass(frozen=True, slots=True)
class KeepTunnels:
    """Remember which tunnels the controller holds for this device, so that a crash leaves none behind."""

    tunnels: Mapping[str, TunnelId]


@dataclass(frozen=True, slots=True)
class KeepGateway:
    gateway: str


@dataclass(frozen=True, slots=True)
class KeepPause:
    """Remember until when, in Unix seconds, and send PauseEnded then. 0: there is no pause."""

    until: int


Command = AskTxt | Reply | Fail | Call | Apply | Settle | KeepTunnels | KeepGateway | KeepPause
