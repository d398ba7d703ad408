"""The kernel backend: Linux's own ESP (XFRM), configured over netlink.

```
 program ─► route: device culvert0 ─► policy: out ─► SA ─► ESP in UDP ─► the way to the gateway
                    │                   └ blocked: dropped, whatever the route
                    └ without a policy: dropped, nobody reads the device
 program ◄─ policy: in ◄─ SA ◄─ socket on UDP 4500 (UDP_ENCAP) ◄─ ESP in UDP
```
The device only holds the inner addresses, routes and MTU, as in the userspace backend; it carries no packet.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import socket
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from ipaddress import IPv4Address, ip_address
from typing import Self

from culvert_proto.contract import MIN_REPLAY_WINDOW, NAT_T_PORT, Suite
from culvert_proto.sa import Limits

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
from culvert_ipsec.mtu_discovery import INTERFACE, MTU_DISCOVER
from culvert_ipsec.outer_routes import OuterRoutes
from culvert_ipsec.removals import RemovalWatch
from culvert_ipsec.xfrm_acquires import Acquires
from culvert_ipsec.xfrm_notices import Notices, soft_limit
from culvert_ipsec.xfrm_plan import (
    INDICES,
    REQIDS,
    AddSa,
    Owner,
    PutPolicy,
    RemovePolicy,
    RemoveSa,
    Step,
    Wanted,
    algorithms,
    allow_suites,
    block,
    plan_xfrm,
    steps_after_routing,
    steps_before_routing,
)
from culvert_ipsec.xfrm_sad import Sad, Tally
from culvert_ipsec.xfrm_socket import XfrmSocket
from culvert_ipsec.xfrm_statistics import Drops
from culvert_ipsec.xfrm_values import Address, Direction, Policy, Replay, Sa, SaName, Traffic

# linux/if_tun.h, linux/udp.h
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 1, 0x1000
_UDP_ENCAP, _UDP_ENCAP_ESPINUDP = 100, 2
_KEEPALIVE = b"\xff"  # RFC 3948 section 2.3
_PROBE_SPI = 0x100
_LOOPBACK = IPv4Address("127.0.0.1")
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class Kernel:
    """A `Datapath`. Its methods may be called from any thread, `take_soft_limits` also while another one runs.

    The device and the UDP socket end with the process. After a crash the blocked prefixes stay blocked, by policies and
    by routes, until the next `apply` or `close`; SAs stay unused, and `create` removes them.
    """

    def __init__(self, stack: ExitStack, tun_name: str, udp_port: int, suites: Collection[str]) -> None:
        """Open the sockets onto the stack. Raises OSError and DatapathError."""
        self._stack = stack
        self._tun_name, self._udp_port, self._suites = tun_name, udp_port, suites
        self._xfrm = stack.enter_context(_xfrm_socket())
        self._udp = stack.enter_context(_udp_socket(4, udp_port))
        self._udp6 = _udp6_socket(stack, udp_port)
        stack.callback(os.close, _device(tun_name))
        self._notices = stack.enter_context(Notices())
        self.trap = stack.enter_context(Acquires())
        self._link = KeptLink(tun_name)
        self.removals = RemovalWatch(tun_name, self._link.port)
        stack.callback(self.removals.close)
        self._outer_routes = OuterRoutes()
        self._sad = Sad(self._xfrm)
        self._drops = Drops()
        self._keepalives = 0
        self._indices: Iterator[int] = iter(INDICES)
        self._reqids: dict[str, int] = {}
        self._sources: dict[str, Address] = {}
        self._desired: DatapathState | None = None
        self._known = Wanted()
        self._flows: dict[Owner, FlowCounters] = {}
        self._closed = False
        self._take_over()
        self._probe()

    @classmethod
    def create(
        cls,
        tun_name: str = "culvert0",
        udp_port: int = NAT_T_PORT,
        allowed_suites: Sequence[str] = (),
    ) -> Self:
        """Raises DatapathError, also when this kernel lacks a feature that SAs need. Needs CAP_NET_ADMIN."""
        suites = allow_suites(allowed_suites)
        with ExitStack() as stack:
            try:
                made = cls(stack, tun_name, udp_port, suites)
            except OSError as error:
                raise not_opened(error, tun_name, udp_port) from error
            made._stack = stack.pop_all()
            return made

    def apply(self, desired: DatapathState) -> None:
        self._check_open()
        if (desired.tun_name, desired.udp_port) != (self._tun_name, self._udp_port):
            raise DatapathError("The device name and the UDP port are fixed when the datapath is created.")
        link = plan_link(desired)
        sources = {it.outer_address: self._source(it.outer_address) for it in desired.tunnels}
        reqids = {it.tunnel_id: self._reqid(it.tunnel_id) for it in desired.tunnels}
        new = plan_xfrm(desired, sources, reqids, self._suites)
        try:
            self._outer_routes.lead_to(sources)
            self._sweep()
            self._take(list(steps_before_routing(self._known, new)), new.owners)
            self._link.bring_to(link)
            self._take(list(steps_after_routing(self._known, new)), new.owners)
        except OSError as error:
            raise DatapathError(
                f"The system refused the tunnels' keys, policies or routes: {error}."
            ) from error
        self._sources, self._reqids, self._desired = sources, reqids, desired
        self._sad.keep_counts(reqids.keys())
        self._flows = {owner: flow for owner, flow in self._flows.items() if owner.tunnel_id in reqids}

    def repair(self) -> bool:
        """Restore the settings of the device, routes and policies that other programs have changed.

        Returns whether a setting of the device, a rule or a blocking route was missing. Raises DatapathError.
        """
        if self._desired is None:
            return False
        try:
            changed = self._link.repair()
            present = {(way, traffic) for _, way, traffic, _ in self._xfrm.policies(INDICES)}
            for policy in list(self._known.policies.values()):
                if policy.name not in present:
                    self._put(policy)
            return changed
        except OSError as error:
            raise DatapathError(f"The system refused the tunnel's device or policies: {error}.") from error

    def follow(self) -> None:
        """Move the tunnels to this computer's present source address towards their gateways. Raises DatapathError."""
        state = self._desired
        try:
            self._outer_routes.lead_to(self._sources, anew=True)
        except OSError as error:
            raise DatapathError(f"The system refused the way to the gateways: {error}.") from error
        if state is not None and any(self._source(outer) != own for outer, own in self._sources.items()):
            self.apply(state)

    def keep_alive(self) -> None:
        """Keep the mapping in a NAT alive (RFC 3948 section 4, which recommends 20 seconds)."""
        for tunnel in self._desired.tunnels if self._desired is not None else ():
            try:
                udp = self._udp if ip_address(tunnel.outer_address).version == 4 else self._udp6
                if udp is not None:
                    udp.sendto(_KEEPALIVE, (tunnel.outer_address, tunnel.outer_port))
            except OSError:
                continue  # There is no network now.
            self._keepalives += 1

    def counters(self) -> Counters:
        self._check_open()
        vanished: list[SaName] = []
        try:
            self._sweep()
            self._notices.tell_ended(self._sad)
            tallies = self._sad.measure(vanished)
        except OSError as error:
            raise DatapathError(f"The kernel's counters cannot be read: {error}.") from error
        # The sequence numbers already used with their keys are unknown, so new keys are needed.
        owners = self._known.owners
        self._notices.add([soft_limit(name, owners[name]) for name in vanished if name in owners])
        tunnels = self._desired.tunnels if self._desired is not None else ()
        flows = {it.tunnel_id: self._tunnel_counters(it.tunnel_id, tallies) for it in tunnels}
        return Counters(flows, self._drops.by_cause(), 0, self._keepalives, 0)

    def fileno(self) -> int:
        self._check_open()
        return self._notices.fileno()

    def take_soft_limits(self) -> list[SoftLimit]:
        self._check_open()
        return self._notices.take(self._known.owners)

    def close(self, *, unblock: bool = True) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            # The blocking routes are still in place.
            remove_leftovers()
            self._link.close(unblock=unblock)
        except OSError as error:
            raise DatapathError(f"The system kept the tunnels' policies or routes: {error}.") from error
        finally:
            self._stack.close()

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, steps: Iterable[Step], owners: Mapping[SaName, Owner]) -> None:
        """Carry out the steps. Completed steps are recorded, also when a later one fails."""
        known = self._known
        for step in steps:
            match step:
                case AddSa(sa):
                    owner = owners[sa.name]
                    if not self._sad.add(sa, owner):
                        self._notices.add([soft_limit(sa.name, owner)])
                    known.sas[sa.name], known.owners[sa.name] = sa, owner
                case RemoveSa(name):
                    self._sad.remove(name)
                    known.sas.pop(name, None)
                    known.owners.pop(name, None)
                case PutPolicy(policy):
                    self._put(policy)
                case RemovePolicy(direction, traffic):
                    with suppress(FileNotFoundError):
                        self._xfrm.remove_policy(direction, traffic)
                    known.policies.pop((direction, traffic), None)

    def _put(self, policy: Policy) -> None:
        self._xfrm.put_policy(policy, next(self._indices) + policy.direction)
        self._known.policies[policy.name] = policy

    def _sweep(self) -> None:
        """Remove the outbound SAs that no policy uses any more."""
        templates = [policy.template for policy in self._known.policies.values()]
        used = {(template.dst, template.spi) for template in templates if template is not None}
        outbound = [name for name, owner in self._known.owners.items() if not owner.inbound]
        self._take([RemoveSa(name) for name in outbound if name not in used], {})

    # ── what is there ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _probe(self) -> None:
        """Request each suite that may be needed, with the same message as later."""
        for name in sorted(self._suites):
            key = os.urandom(Suite(name).key_material)
            its = algorithms(name, key, self._suites)
            sa = Sa(
                _LOOPBACK, _LOOPBACK, _PROBE_SPI, REQIDS.start, its, (NAT_T_PORT, NAT_T_PORT), Limits(), Limits(),
                MIN_REPLAY_WINDOW,
            )  # fmt: skip
            try:
                self._xfrm.add_sa(sa, Replay())
                self._xfrm.remove_sa(sa.name)
            except OSError as error:
                raise DatapathError(f"This kernel's IPsec cannot do {name}: {error.strerror}.") from error

    def _take_over(self) -> None:
        """Remove what a crash has left; blocking policies stay until the first `apply`."""
        left = _remove_tunnels(self._xfrm)
        for traffic in left.values():
            policy = block(traffic.dst)
            self._known.policies[policy.name] = policy
        # If an index is in use, the kernel chooses another one itself.
        self._indices = (
            index for index in itertools.chain.from_iterable(itertools.repeat(INDICES)) if index not in left
        )

    def _source(self, outer: str) -> Address:
        """Our source address towards this one; the last known while there is no route."""
        with socket.socket(_FAMILIES[ip_address(outer).version], socket.SOCK_DGRAM) as asking:
            try:
                asking.connect((outer, NAT_T_PORT))
                return ip_address(asking.getsockname()[0])
            except OSError as error:
                if outer in self._sources:
                    return self._sources[outer]
                raise DatapathError(f"There is no way to the gateway {outer}: {error.strerror}.") from error

    def _reqid(self, tunnel_id: str) -> int:
        if tunnel_id not in self._reqids:
            taken = set(self._reqids.values())
            self._reqids[tunnel_id] = next(it for it in REQIDS[1:-1] if it not in taken)
        return self._reqids[tunnel_id]

    def _tunnel_counters(self, tunnel_id: str, tallies: Mapping[Owner, Tally]) -> TunnelCounters:
        drops = {"replay": 0, "icv": 0}
        for way in (True, False):
            owner = Owner(tunnel_id, way)
            tally = tallies.get(owner, Tally())
            before = self._flows.get(owner, FlowCounters(0, 0, None))
            last = time.monotonic() if tally.packets > before.packets else before.last
            self._flows[owner] = FlowCounters(tally.packets, tally.bytes, last)
            drops["replay"] += tally.replays
            drops["icv"] += tally.forged
        inbound, outbound = (self._flows[Owner(tunnel_id, way)] for way in (True, False))
        return TunnelCounters(inbound, outbound, drops)

    def _check_open(self) -> None:
        if self._closed:
            raise DatapathError("The datapath is closed.")


def remove_leftovers() -> None:
    """Remove the SAs and policies that a crash has left, blocking ones included. Raises OSError."""
    try:
        opened = XfrmSocket()
    except OSError as error:
        if error.errno == errno.EPROTONOSUPPORT:
            return  # A kernel without IPsec has no SAs or policies.
        raise
    with opened as xfrm:
        for traffic in _remove_tunnels(xfrm).values():
            xfrm.remove_policy(Direction.OUT, traffic)


def _remove_tunnels(xfrm: XfrmSocket) -> dict[int, Traffic]:
    """Remove our tunnels' policies, then our SAs; return the blocking policies by index."""
    blocking: dict[int, Traffic] = {}
    for index, direction, traffic, needs_sa in xfrm.policies(INDICES):
        if needs_sa and direction is Direction.OUT and traffic == block(traffic.dst).traffic:
            blocking[index] = traffic
        else:
            xfrm.remove_policy(direction, traffic)
    for seen in xfrm.sas():
        # A state without an SPI is the kernel's record that it has requested an SA; it expires by itself.
        if seen.reqid in REQIDS and seen.name[1]:
            with suppress(ProcessLookupError):
                xfrm.remove_sa(seen.name)
    return blocking


def _xfrm_socket() -> XfrmSocket:
    try:
        return XfrmSocket()
    except OSError as error:
        raise DatapathError(f"This kernel has no IPsec (XFRM): {error.strerror}.") from error


def _udp6_socket(stack: ExitStack, port: int) -> socket.socket | None:
    """None where this kernel has no IPv6. Raises OSError."""
    try:
        return stack.enter_context(_udp_socket(6, port))
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            return None
        raise


def _udp_socket(version: int, port: int) -> socket.socket:
    opened = socket.socket(_FAMILIES[version], socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        if version == 6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # An ICMP message "packet too big" may be forged. This option makes the kernel ignore those that quote a packet of
        # this socket's port (outer_routes.py is for the others).
        opened.setsockopt(*MTU_DISCOVER[version], INTERFACE)
        # Datagrams that are not ESP stay unread in the buffer: keep it small.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        opened.bind(("", port))  # the address changes with the network
        opened.setsockopt(socket.IPPROTO_UDP, _UDP_ENCAP, _UDP_ENCAP_ESPINUDP)
    except OSError:
        opened.close()
        raise
    return opened


def _device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError:
        os.close(device)
        raise
    return device
