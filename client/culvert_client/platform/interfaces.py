"""Interfaces to an operating system, one for each concern (docs/platforms.md).

A module with these functions conforms as an object with these methods does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

# The command line loads this module, and should not wait for what only the daemon needs.
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
    from pathlib import Path

    from culvert_proto import CulvertError
    from culvert_proto.phrases import Phrase

    from culvert_client.config import Config, DefaultPaths, Endpoint, SocketAddress
    from culvert_client.core.claims import LocalNetwork
    from culvert_client.core.client_events import Desired, Event, Measured, PacketTrapped, SoftLimitReached
    from culvert_client.core.grant import Address, Network, TunnelId

# ── the datapath ────────────────────────────────────────────────────────────────────────────────────────────────────────


class AnyDatapath(Protocol):
    """The methods that a datapath has while it is open, and also across its losses (reopening.py)."""

    @property
    def name(self) -> str:
        """Empty while no datapath is open."""
        ...

    def on_soft_limit(self, notify: Callable[[SoftLimitReached], None]) -> None:
        """Call `notify` on the loop, once for each SA that reaches a soft limit."""
        ...

    def on_trapped(self, notify: Callable[[PacketTrapped], None]) -> None:
        """Call `notify` on the loop for packets that no tunnel carries, but not for each of many to one address."""
        ...

    async def apply(self, desired: Desired) -> None:
        """Bring the datapath to this state; idempotent. `blocked` is blocked even if this raises CulvertError."""
        ...

    async def repair(self) -> None:
        """Restore parts of the state that other programs have removed."""
        ...

    async def measure(self) -> Measured:
        """The packets and drops of each tunnel."""
        ...

    async def probe(self, targets: Mapping[TunnelId, Address]) -> None:
        """Send a probe to the given target through each tunnel."""
        ...

    async def on_roam(self) -> None:
        """Send packets to the gateways, so that they learn this computer's new address."""
        ...


class OpenDatapath(AnyDatapath, Protocol):
    """A datapath from its opening to its loss."""

    def on_gone(self, notify: Callable[[], Coroutine[object, object, None]]) -> None:
        """Call `notify` on the loop when another program has removed the device. Other settings are restored at once."""
        ...

    async def close(self, *, unblock: bool = True) -> None:
        """Remove the device and the keys, and with `unblock` also the blocking of protected prefixes."""
        ...


class Datapaths(Protocol):
    """Packets in tunnels, and prefixes without a tunnel blocked."""

    async def open_datapath(self, settings: Config, tell: Callable[[str], None]) -> OpenDatapath:
        """`tell` is called with the reason if the preferred datapath is not used. Raises CulvertError with the obstacle."""
        ...

    async def block(self, settings: Config, prefixes: Iterable[Network]) -> None:
        """Drop packets to exactly these prefixes, also after the end of the process. Raises CulvertError."""
        ...

    async def clean_up(self) -> None:
        """Remove an ended daemon's settings, also the blocked prefixes. Raises CulvertError."""
        ...


# ── the computer's networks ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Uplinks:
    """`routes`: IP version, index of the device, gateway. `addresses`: index of the device, one of its addresses."""

    routes: frozenset[tuple[int, int | None, IPv4Address | IPv6Address | None]] = frozenset()
    addresses: frozenset[tuple[int, IPv4Interface | IPv6Interface]] = frozenset()


class NetworkChanges(Protocol):
    """Changes of this computer's devices, addresses, routes and rules."""

    @property
    def is_set(self) -> bool:
        """Whether there was a change since the last `take`."""
        ...

    async def wait(self) -> None: ...

    def take(self) -> None:
        """Forget the changes until now, and listen for the next ones."""
        ...


class Networks(Protocol):
    def uplinks(self) -> Uplinks:
        """The default routes and their devices. Blocks. Empty without a network, and if the system does not tell."""
        ...

    def local_networks(self, ours: Collection[str]) -> frozenset[LocalNetwork]:
        """Blocks. `ours`: Culvert's devices, which are left out. Empty if the system does not tell."""
        ...

    def changes(self) -> AbstractContextManager[NetworkChanges]:
        """Listen on the running loop. Raises OSError."""
        ...


class PingSockets(Protocol):
    def ping_socket(self, version: int) -> socket.socket:
        """A raw, non-blocking ICMP socket of an IP version. Its packets are never fragmented, and ICMP messages about their
        length have no effect. Raises OSError."""
        ...


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


class SystemDns(Protocol):
    """The system's name service, which leads to the stub from `start` to `stop`."""

    warnings: tuple[CulvertError, ...]
    """The obstacles that keep names from coming to the stub, as long as they last."""

    async def start(
        self,
        zones: Callable[[], tuple[str, ...]],
        found: Callable[[tuple[Endpoint, ...]], None],
        changed: Callable[[], None] = ...,
    ) -> None:
        """`zones` returns the managed zones; `found` is called with the name servers to forward to, now and after each
        change; `changed` is called when `warnings` have changed.

        Raises OSError and CulvertError, and then has changed nothing.
        """
        ...

    async def stop(self) -> None:
        """Raises OSError; NameServices.clean_up can then try again."""
        ...


class NameServices(Protocol):
    def system_dns(self, stub: Endpoint, state_dir: Path) -> SystemDns: ...

    async def clean_up(self, state_dir: Path) -> None:
        """Undo an ended daemon's changes. A second call does nothing. Raises OSError."""
        ...

    def name_servers_on_disk(self, state_dir: Path) -> Iterable[Address]:
        """The network's name servers in files, including an ended daemon's note in `state_dir`."""
        ...

    def own_devices(self) -> Collection[str]:
        """Names of the devices that SystemDns creates."""
        ...


class QuerySource(Protocol):
    """The daemon's source of queried names: the stub, or the sniffer of DNS packets."""

    async def open(self, endpoint: Endpoint, /) -> None:
        """Raises OSError; may then be called again."""
        ...

    async def close(self) -> None: ...


class DnsSniffers(Protocol):
    def sniffer(
        self, post: Callable[[Event], None], use: Callable[[tuple[Endpoint, ...]], None] | None
    ) -> QuerySource:
        """Posts NameSeen and AnswerSeen. `use` is called with the system's name servers, for Culvert's own queries."""
        ...


# ── the programs of this computer ───────────────────────────────────────────────────────────────────────────────────────


class SocketOwner(Protocol):
    def uid_of(self, family: int, kind: int, asker: SocketAddress, own: SocketAddress) -> int | None:
        """The uid of the socket at `asker` that sends to `own`. None if there is no such socket on this computer.

        `kind` is SOCK_DGRAM or SOCK_STREAM.
        """
        ...

    def close(self) -> None: ...


class SenderFilter(Protocol):
    """Drops most datagrams of senders that are too fast, before this process reads them. Changes take effect with
    `apply`."""

    @property
    def is_used(self) -> bool: ...

    def too_fast(self, sender: SocketAddress) -> None:
        """Mark the sender; only the first call in a window counts."""
        ...

    def end_window(self) -> None: ...

    def apply(self) -> None: ...


class LocalSenders(Protocol):
    """The senders of queries to the stub."""

    def socket_owner(self) -> SocketOwner:
        """Raises OSError if the system does not tell the owners of sockets."""
        ...

    def sender_filter(self, datagrams: socket.socket) -> SenderFilter: ...

    def grow_receive_buffer(self, datagrams: socket.socket, size: int) -> None:
        """`size`: bytes; the system may give less."""
        ...


class LocalCallers(Protocol):
    """The callers of the local API."""

    def uid_of(self, connection: socket.socket) -> int:
        """The uid of the process that has connected, as the kernel says."""
        ...

    def lock(self, directory: Path) -> int | None:
        """A descriptor that holds the lock until it is closed; None if another process holds it. Raises OSError."""
        ...


class Ports(Protocol):
    def holder_of(self, port: int) -> Phrase | None:
        """The port's program as "dnsmasq (process 812)"; None if no visible program has it."""
        ...


# ── the computer and this process ───────────────────────────────────────────────────────────────────────────────────────


class Posture(Protocol):
    def posture(self) -> dict[str, str]:
        """This computer's facts, by the names in policies. Unknown ones may be empty or left out."""
        ...


class Process(Protocol):
    def keep_small(self) -> None:
        """Limit the growth of the process's memory."""
        ...

    def was_stopped(self) -> bool:
        """For `culvertd --cleanup`: whether the service manager says that the daemon was stopped and did not crash. Without
        a service manager, True."""
        ...

    def tell_ready(self) -> None:
        """Tell the service manager, if there is one, that the daemon answers. Raises OSError."""
        ...

    def is_restarted(self) -> bool:
        """While the daemon stops: whether the service manager is about to start it again, as at an upgrade."""
        ...

    def private_file(self, content: bytes) -> AbstractContextManager[str]:
        """The path of a file in memory that no other process can open. Raises OSError."""
        ...

    def slept(self) -> float:
        """Seconds that this computer has slept since it started."""
        ...


class SystemView(Protocol):
    """The view of the system that `culvert doctor` and `culvert report` have without the daemon."""

    def interfaces(self) -> Iterable[tuple[str, IPv4Interface | IPv6Interface]]:
        """Each device's name with an address of it. Raises OSError."""
        ...

    def report_files(self) -> Sequence[Path]:
        """Files without a secret that describe the system and its name service."""
        ...


@dataclass(frozen=True, slots=True)
class DaemonPlatform:
    """The system that the daemon runs on."""

    paths: DefaultPaths
    datapaths: Datapaths
    networks: Networks
    ping_sockets: PingSockets
    name_services: NameServices
    dns_sniffers: DnsSniffers
    senders: LocalSenders
    callers: LocalCallers
    ports: Ports
    posture: Posture
    process: Process


@dataclass(frozen=True, slots=True)
class CommandLinePlatform:
    """The system that the command line runs on."""

    paths: DefaultPaths
    view: SystemView
