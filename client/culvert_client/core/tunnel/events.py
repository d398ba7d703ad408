"""The events of a tunnel's machine, and its commands. `machine.py` has the table."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from culvert_proto import CulvertError, Reason

from culvert_client.core.grant import SaPair, Tunnel, TunnelId, Usage


@dataclass(frozen=True, slots=True, order=True)
class QueryId:
    """A held DNS query."""

    number: int


@dataclass(frozen=True, slots=True, order=True)
class RequestId:
    """A person's request for a tunnel."""

    number: int


class Trigger(enum.Enum):
    """The cause of a demand that neither a query nor a person waits for."""

    NAME_SEEN = enum.auto()
    PACKET_TRAPPED = enum.auto()
    TUNNEL_LOST = enum.auto()


Demander = QueryId | RequestId | Trigger
"""Release and Refuse name it."""


@dataclass(frozen=True, slots=True)
class Demand:
    demander: Demander


@dataclass(frozen=True, slots=True)
class TunnelOpened:
    """`decided`, `programmed`: the controller's times, in seconds after `asked_at`."""

    call: int
    tunnel: Tunnel
    pair: SaPair
    asked_at: float = 0.0
    decided: float = 0.0
    programmed: float = 0.0


@dataclass(frozen=True, slots=True)
class Installed:
    call: int


@dataclass(frozen=True, slots=True)
class Renewed:
    call: int
    pair: SaPair


@dataclass(frozen=True, slots=True)
class Activated:
    call: int


@dataclass(frozen=True, slots=True)
class CloseDone:
    call: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The call or installation with this number failed."""

    call: int
    error: CulvertError


@dataclass(frozen=True, slots=True)
class SoftLimit:
    """An SA of this generation has reached a soft limit, here or at the gateway."""

    tunnel_id: TunnelId
    generation: int


@dataclass(frozen=True, slots=True)
class Counted:
    usage: Usage


@dataclass(frozen=True, slots=True)
class ClosedByController:
    """`last_generation`: the last lost generation, if the tunnel stays with newer keys; 0: the tunnel is closed."""

    tunnel_id: TunnelId
    error: CulvertError
    last_generation: int = 0

    def ends(self, tunnel_id: TunnelId, generation: int) -> bool:
        """Whether the event ends this generation, which may be newer than the event."""
        return self.tunnel_id == tunnel_id and (
            not self.last_generation or generation <= self.last_generation
        )


@dataclass(frozen=True, slots=True)
class GatewayMoved:
    """The controller asks to open this tunnel's name again, through another gateway or the same."""

    tunnel_id: TunnelId


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """`fqdn`: the tunnel's name; None: all tunnels."""

    reason: Reason
    fqdn: str | None = None


@dataclass(frozen=True, slots=True)
class ControllerBack:
    pass


@dataclass(frozen=True, slots=True)
class Tick:
    pass


Event = (
    Demand | TunnelOpened | Installed | Renewed | Activated | CloseDone | Failed | SoftLimit | Counted
    | ClosedByController | GatewayMoved | CloseRequested | ControllerBack | Tick
)  # fmt: skip

# Commands.


@dataclass(frozen=True, slots=True)
class OpenTunnel:
    call: int


@dataclass(frozen=True, slots=True)
class Install:
    """Apply the machine's `desired` to the datapath, then answer Installed or Failed."""

    call: int


@dataclass(frozen=True, slots=True)
class RenewSa:
    call: int
    tunnel_id: TunnelId
    generation: int


@dataclass(frozen=True, slots=True)
class ActivateSa:
    call: int
    tunnel_id: TunnelId
    generation: int


@dataclass(frozen=True, slots=True)
class CloseTunnel:
    """`reason`: as Agent.close_tunnel."""

    call: int
    tunnel_id: TunnelId
    reason: Reason


@dataclass(frozen=True, slots=True)
class Release:
    demanders: frozenset[Demander]


@dataclass(frozen=True, slots=True)
class Refuse:
    demanders: frozenset[Demander]
    error: CulvertError


Command = OpenTunnel | Install | RenewSa | ActivateSa | CloseTunnel | Release | Refuse
