"""The userspace backend: ESP in our own thread, between a TUN device and a UDP socket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Self

from culvert_proto.contract import NAT_T_PORT

from culvert_ipsec import _native
from culvert_ipsec.datapath import (
    Counters,
    DatapathError,
    FlowCounters,
    SoftLimit,
    TunnelCounters,
    not_opened,
)
from culvert_ipsec.desired import DatapathState
from culvert_ipsec.link import KeptLink
from culvert_ipsec.link_plan import plan_link
from culvert_ipsec.packet_trap import Network, PacketTrap
from culvert_ipsec.removals import RemovalWatch

_CLOSED = "The datapath is closed."


@dataclass(frozen=True, slots=True)
class Offloads:
    """The offloads that the kernel supports when the datapath is created. Without one, each packet costs a system call.

    `tso`: TCP super-frames to and from the TUN device. `uso`: UDP super-frames from it (Linux 6.2). `udp_segment`: several
    ESP packets in one message to the network; it is disabled for good when a route refuses them, e.g. one through another
    IPsec tunnel or with an MTU smaller than the packets. `udp_gro`: several in one message from the network.
    """

    tso: bool
    uso: bool
    udp_segment: bool
    udp_gro: bool


class Userspace:
    """A `Datapath`. Its methods may be called from any thread, one at a time; none of them waits for packets.

    The device and its routes end with the process. After a crash the blocked prefixes stay blocked: blackhole routes and
    the rule that leads to them stay until the next `apply` or `close`.
    """

    def __init__(self, native: _native.Datapath, tun_name: str, udp_port: int) -> None:
        self._native = native
        self.trap = PacketTrap(tun_name)
        self._tun_name = tun_name
        self._udp_port = udp_port
        self._link = KeptLink(tun_name)
        self.removals = RemovalWatch(tun_name, self._link.port)
        self._carried: list[Network] = []

    @classmethod
    def create(
        cls,
        tun_name: str = "culvert0",
        udp_port: int = NAT_T_PORT,
        allowed_suites: Sequence[str] = (),
        *,
        offloads: bool = True,
    ) -> Self:
        """Open the TUN device and its sockets; needs CAP_NET_ADMIN and CAP_NET_RAW. Raises DatapathError.

        Legacy suites are refused by `apply` unless `allowed_suites` names them. Without `offloads` the kernel is not asked
        for any, e.g. because a driver's are broken.
        """
        try:
            native = _native.Datapath(tun_name, udp_port, list(allowed_suites), offloads=offloads)
            return cls(native, tun_name, udp_port)
        except ValueError as error:
            raise DatapathError(f"The allowed suites are not known: {error}.") from error
        except OSError as error:
            raise not_opened(error, tun_name, udp_port) from error

    def apply(self, desired: DatapathState) -> None:
        if (desired.tun_name, desired.udp_port) != (self._tun_name, self._udp_port):
            raise DatapathError("The device name and the UDP port are fixed when the datapath is created.")
        link = plan_link(desired)
        self._carried = [ip_network(it) for tunnel in desired.tunnels for it in tunnel.remote_prefixes]
        try:
            self.trap.hold(desired.tunnels)
            # Tunnels before routes: the first packet that is routed to the device finds its SA.
            self._native.apply(desired.tunnels)
            self._link.bring_to(link)
            self.trap.release()
        except ValueError as error:
            raise DatapathError(f"The tunnels cannot be installed: {error}.") from error
        except OSError as error:
            raise DatapathError(f"The system refused the tunnel's device or routes: {error}.") from error

    def repair(self) -> bool:
        """Restore the device and routes that other programs have changed, and tell the trap which prefixes tunnels carry.

        Returns whether a setting of the device, a rule or a blocking route was missing. Raises DatapathError.

        `apply` starts from the state that it set last time, because reading all settings back would delay the DNS answer
        that waits for it. Call this after `apply`, when no answer waits.
        """
        try:
            self.trap.leave_to_tunnels(self._carried)
            return self._link.repair()
        except OSError as error:
            raise DatapathError(f"The system refused the tunnel's device or routes: {error}.") from error

    def counters(self) -> Counters:
        try:
            drops, keepalives_in, keepalives_out, non_esp = self._native.totals()
            tunnels = {
                tunnel_id: TunnelCounters(FlowCounters(*inbound), FlowCounters(*outbound), tunnel_drops)
                for tunnel_id, inbound, outbound, tunnel_drops in self._native.traffic()
            }
        except OSError as error:
            raise DatapathError(_CLOSED) from error
        return Counters(tunnels, drops, keepalives_in, keepalives_out, non_esp)

    def offloads(self) -> Offloads:
        try:
            return Offloads(*self._native.offloads())
        except OSError as error:
            raise DatapathError(_CLOSED) from error

    def fileno(self) -> int:
        try:
            return self._native.notices_fd()
        except OSError as error:
            raise DatapathError(_CLOSED) from error

    def take_soft_limits(self) -> list[SoftLimit]:
        try:
            return [SoftLimit(*notice) for notice in self._native.take_notices()]
        except OSError as error:
            raise DatapathError(_CLOSED) from error

    def close(self, *, unblock: bool = True) -> None:
        self._native.close()
        self.trap.close()
        self.removals.close()
        try:
            self._link.close(unblock=unblock)
        except OSError as error:
            raise DatapathError(f"The system kept the tunnel's routing rule: {error}.") from error
