"""Computes the SAs and policies that a state needs, and the order in which they are added and removed. Without I/O.

```
             out: own address ─► prefix   one SA, by its SPI   ┐ a tunnel's, before what blocks
             in:  prefix ─► own address   any SA of the tunnel ┘
             out: anywhere ─► blocked     an SA that never exists: nothing passes, and the kernel reports it (ACQUIRE)
             out: anywhere ─► on link     no SA: passes in clear; of this and what blocks the longest prefix counts
```
Replacing a policy changes the SA of every packet at once, also of open connections (RFC 9061 D.2):
inbound SAs in ─► outbound SA in ─► policies ─► … ─► policies out ─► SAs out. Only the outbound SA that a policy has just
left stays for a while (`replaced_outbound_sas`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address, ip_network

from culvert_proto.contract import MIN_REPLAY_WINDOW, Suite

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.desired import DatapathState, Selector, TunnelState
from culvert_ipsec.xfrm_values import (
    ANY_PORT,
    Address,
    Algorithms,
    Direction,
    Network,
    Policy,
    Ports,
    Sa,
    SaName,
    Template,
    Traffic,
)

REQIDS = range(0x43560000, 0x43570000)
"""Ours: above what the kernel and IKE daemons give out. One for each tunnel."""
INDICES = range(0x44000000, 0x45000000, 8)
"""Policies' numbers, to which the direction is added: the kernel counts its own up from 0."""
TRAP = Template(IPv4Address("127.0.0.1"), IPv4Address("127.0.0.1"), REQIDS[-1])
"""The SA that blocked packets would need."""
SEALED_MARK = 0x43560000
"""The mark of packets that leave sealed (outer_routes.py)."""
TUNNEL_PRIORITY, BLOCK_PRIORITY = 1000, 2000
"""Priorities of policies with the longest prefix. Other programs' policies for all addresses have larger values."""
_OUTBOUND_WINDOW = 32  # An outbound SA needs no replay window, but the kernel requires one with ESN.
_EVERYTHING = {4: ip_network("0.0.0.0/0"), 6: ip_network("::/0")}


@dataclass(frozen=True, slots=True)
class Owner:
    """The tunnel that an SA belongs to, and its direction."""

    tunnel_id: str
    inbound: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """`owners` has the same names as `sas`."""

    sas: dict[SaName, Sa] = field(default_factory=dict[SaName, Sa])
    owners: dict[SaName, Owner] = field(default_factory=dict[SaName, Owner])
    policies: dict[tuple[Direction, Traffic], Policy] = field(
        default_factory=dict[tuple[Direction, Traffic], Policy]
    )


@dataclass(frozen=True, slots=True)
class AddSa:
    sa: Sa


@dataclass(frozen=True, slots=True)
class RemoveSa:
    name: SaName


@dataclass(frozen=True, slots=True)
class PutPolicy:
    policy: Policy


@dataclass(frozen=True, slots=True)
class RemovePolicy:
    direction: Direction
    traffic: Traffic


Step = AddSa | RemoveSa | PutPolicy | RemovePolicy


def plan_xfrm(
    state: DatapathState,
    sources: Mapping[str, Address],
    reqids: Mapping[str, int],
    suites: Collection[str],
) -> Wanted:
    """`sources` are our addresses towards each outer address, `reqids` each tunnel's. Raises DatapathError."""
    sas: dict[SaName, Sa] = {}
    owners: dict[SaName, Owner] = {}
    policies: dict[tuple[Direction, Traffic], Policy] = {}
    for tunnel in state.tunnels:
        source = sources[tunnel.outer_address]
        for sa, owner in _sas(tunnel, source, reqids[tunnel.tunnel_id], state.udp_port, suites):
            if sa.name in sas:
                raise DatapathError(f"The tunnels cannot be installed: two SAs have the SPI {sa.spi:#x}.")
            sas[sa.name], owners[sa.name] = sa, owner
        for policy in _policies(tunnel, source, reqids[tunnel.tunnel_id]):
            # The first of two tunnels with a selector for the same packet carries it, as in the userspace datapath.
            policies.setdefault(policy.name, policy)
    for text in state.blocked:
        policy = block(ip_network(text))
        policies[policy.name] = policy
    for network in state.on_link:
        policy = _let_through(ip_network(network.prefix))
        # A blocked prefix stays blocked.
        policies.setdefault(policy.name, policy)
    return Wanted(sas, owners, policies)


def block(prefix: Network) -> Policy:
    """The policy that drops packets to this prefix, whatever their route, unless a tunnel carries them."""
    traffic = Traffic(_EVERYTHING[prefix.version], prefix)
    return Policy(Direction.OUT, traffic, _priority(BLOCK_PRIORITY, prefix), TRAP)


def _let_through(prefix: Network) -> Policy:
    """The policy for an on-link network: its packets pass in clear, over the device of its route."""
    traffic = Traffic(_EVERYTHING[prefix.version], prefix)
    return Policy(Direction.OUT, traffic, _priority(BLOCK_PRIORITY, prefix), None)


def steps_before_routing(known: Wanted, desired: Wanted) -> Iterator[Step]:
    """The steps to take before the routes change: they add and replace."""
    for name, sa in sorted(desired.sas.items(), key=lambda it: not desired.owners[it[0]].inbound):
        if name in known.sas and known.sas[name] != sa:
            yield RemoveSa(name)
        if known.sas.get(name) != sa:
            yield AddSa(sa)
    for policy in sorted(desired.policies.values(), key=lambda it: it.direction):
        if known.policies.get(policy.name) != policy:
            yield PutPolicy(policy)


def steps_after_routing(known: Wanted, desired: Wanted) -> Iterator[Step]:
    """The steps to take after the routes have changed: they remove, except the SAs that `replaced_outbound_sas` returns."""
    for direction, traffic in known.policies.keys() - desired.policies.keys():
        yield RemovePolicy(direction, traffic)
    for name in known.sas.keys() - desired.sas.keys() - replaced_outbound_sas(known, desired).keys():
        yield RemoveSa(name)


def replaced_outbound_sas(known: Wanted, desired: Wanted) -> dict[SaName, Owner]:
    """The old outbound SAs of a rekey: a packet being sent may have looked one up before the policy changed."""
    sending = {owner.tunnel_id for owner in desired.owners.values() if not owner.inbound}
    return {
        name: owner
        for name, owner in known.owners.items()
        if name not in desired.sas and not owner.inbound and owner.tunnel_id in sending
    }


def _sas(
    tunnel: TunnelState, source: Address, reqid: int, port: int, suites: Collection[str]
) -> Iterator[tuple[Sa, Owner]]:
    gateway = ip_address(tunnel.outer_address)
    for given in tunnel.inbound:
        yield (
            Sa(
                gateway, source, given.spi, reqid, algorithms(given.suite, given.key, suites),
                (tunnel.outer_port, port), given.soft, given.hard, max(given.replay_window, MIN_REPLAY_WINDOW),
                given.esn,
            ),
            Owner(tunnel.tunnel_id, inbound=True),
        )  # fmt: skip
    if (given := tunnel.outbound) is not None:
        yield (
            Sa(
                source, gateway, given.spi, reqid, algorithms(given.suite, given.key, suites),
                (port, tunnel.outer_port), given.soft, given.hard, _OUTBOUND_WINDOW, given.esn, SEALED_MARK,
            ),
            Owner(tunnel.tunnel_id, inbound=False),
        )  # fmt: skip


def _policies(tunnel: TunnelState, source: Address, reqid: int) -> Iterator[Policy]:
    gateway = ip_address(tunnel.outer_address)
    own: dict[int, Address] = {
        address.version: address
        for address in map(ip_address, filter(None, (tunnel.inner_address, tunnel.inner_address6)))
    }
    # Without an outbound SA the SPI is one that no SA has, and the packets are dropped (RFC 4303 section 2.1).
    spi = tunnel.outbound.spi if tunnel.outbound is not None else 1
    for given in tunnel.selectors or tuple(map(Selector, tunnel.remote_prefixes)):
        far = ip_network(given.prefix)
        if far.version not in own:
            continue
        near: Network = ip_network(own[far.version])
        priority, protocol = _priority(TUNNEL_PRIORITY, far), given.protocol or 0
        for ports in masks(*given.ports):
            out = Traffic(near, far, protocol, ANY_PORT, ports)
            yield Policy(Direction.OUT, out, priority, Template(source, gateway, reqid, spi))
            back = Traffic(far, near, protocol, ports, ANY_PORT)
            yield Policy(Direction.IN, back, priority, Template(gateway, source, reqid))
    for given in tunnel.inbound_only:
        far = ip_network(given.prefix)
        if far.version in own:
            back = Traffic(far, ip_network(own[far.version]), given.protocol or 0)
            priority = _priority(TUNNEL_PRIORITY, far)
            yield Policy(Direction.IN, back, priority, Template(gateway, source, reqid))


def masks(first: int, last: int) -> Iterator[Ports]:
    """A range of ports in the kernel's form: at most 30 values with masks."""
    while first <= last:
        size = first & -first or 1 << 16
        while first + size - 1 > last:
            size >>= 1
        yield Ports(first, 0x10000 - size)
        first += size


def _priority(base: int, prefix: Network) -> int:
    return base + 128 - prefix.prefixlen


def allow_suites(names: Collection[str]) -> frozenset[str]:
    """The usable suites if these legacy ones are allowed. Raises DatapathError."""
    if unknown := set(names) - set(Suite):
        raise DatapathError(f"The allowed suites are not known: {', '.join(sorted(unknown))}.")
    return frozenset(suite.value for suite in Suite if not suite.legacy or suite in names)


def algorithms(name: str, key: bytes, usable: Collection[str]) -> Algorithms:
    """Raises DatapathError for a suite that is not usable, or a key of the wrong length."""
    if name not in usable:
        raise DatapathError(f"The tunnels cannot be installed: the suite {name!r} is not allowed here.")
    suite = Suite(name)
    if len(key) != suite.key_material:
        raise DatapathError(f"The tunnels cannot be installed: a key of {name} has another length.")
    cipher, integrity = key[: suite.cipher_key], key[suite.cipher_key :]
    return Algorithms(suite.linux, cipher, 8 * suite.icv, suite.linux_integrity, integrity)
