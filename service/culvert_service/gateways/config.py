"""A link's settings, and a gateway's KEK, from the gateway's row."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from culvert_db import CryptoHost as CryptoHostRow
from culvert_db import Gateway, GatewayNeighbour

from culvert_service.gateways.crypto_hosts import CryptoHost
from culvert_service.gateways.key_wrap import KeyWrap
from culvert_service.gateways.kind import GatewayKind
from culvert_service.gateways.neighbours import with_found
from culvert_service.gateways.record import site_of
from culvert_service.gateways.site import Site
from culvert_service.pki.master_key import MasterKey


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The settings of a gateway's link."""

    id: int
    name: str
    kind: GatewayKind
    # None: the gateway connects to the controllers.
    p4runtime: str | None
    device_id: int
    site: Site
    # A change of the next fields alone keeps the present link (Fleet.own). `present`: the site with the MAC addresses that
    # the gateway has found.
    present: Site = field(compare=False)
    key_wrap: KeyWrap = field(compare=False)
    # The KEK of a new bundle that the gateway does not use yet.
    next_key_wrap: KeyWrap | None = field(default=None, compare=False)
    # While set, some SAs may still be wrapped under the previous KEK.
    rekeying_since: datetime.datetime | None = field(default=None, compare=False)
    hosts: Sequence[CryptoHost] = field(default=(), compare=False)

    def wrap_at(self, crypto_port: int | None) -> KeyWrap:
        """Wraps the keys of an SA that the host at this port serves, or the gateway's own engine."""
        return next((it.key_wrap for it in self.hosts if it.port == crypto_port), self.key_wrap)


def kek_context(name: str) -> str:
    return f"gateway {name}"


def host_kek_context(name: str) -> str:
    return f"crypto host {name}"


def kek_of(gateway: Gateway, master_key: MasterKey) -> bytes:
    return master_key.open(gateway.kek_ciphertext, kek_context(gateway.name))


def config_of(
    gateway: Gateway,
    master_key: MasterKey,
    neighbours: Sequence[GatewayNeighbour] = (),
    hosts: Sequence[CryptoHostRow] = (),
) -> GatewayConfig:
    """`neighbours`: as found. A caller that needs the gateway's own keys alone leaves them and the hosts out."""
    next_kek, site = gateway.next_kek_ciphertext, site_of(gateway)
    return GatewayConfig(
        gateway.id,
        gateway.name,
        GatewayKind(gateway.kind),
        gateway.p4runtime_address,
        gateway.p4runtime_device_id,
        site,
        with_found(site, gateway.resolves, neighbours),
        KeyWrap(kek_of(gateway, master_key)),
        None if next_kek is None else KeyWrap(master_key.open(next_kek, kek_context(gateway.name))),
        gateway.rekeying_since,
        [_host(host, master_key) for host in hosts],
    )


def _host(host: CryptoHostRow, master_key: MasterKey) -> CryptoHost:
    return CryptoHost(
        host.name,
        host.p4runtime_address,
        host.p4runtime_device_id,
        host.port,
        host.mac,
        host.host_port,
        host.host_mac,
        host.draining_since is not None,
        KeyWrap(master_key.open(host.kek_ciphertext, host_kek_context(host.name))),
    )
