"""A gateway parsed from its row, and whether its settings allow tunnels to a resource."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

from culvert_db import Gateway
from culvert_proto import Reason
from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from culvert_proto.sa import check_allowed

from culvert_service.gateways.schemas import LanPort, WanPort
from culvert_service.gateways.site import Lan, Site, Wan
from culvert_service.rest.field import FieldError


def site_of(gateway: Gateway) -> Site:
    ports = json.dumps([gateway.wan, gateway.lan])
    return _site(
        (gateway.address, gateway.address6),
        (gateway.public_address, gateway.public_address6),
        (gateway.pool, gateway.pool6),
        ports,
    )


def check_serves(
    gateway: Gateway, resource: str, prefixes: Sequence[str], suite: Suite | None, pointer: str = ""
) -> None:
    """`suite`: the resource's suite. `pointer`: the request's field with the targets of the prefixes, if any.

    Raises CulvertError SUITE_LEGACY or FieldError REQUEST_INVALID.
    """
    if suite is not None:
        check_allowed(
            suite,
            [Suite(name) for name in gateway.legacy_suites],
            Phrase("the gateway {gateway}", gateway=gateway.name),
        )
    site = site_of(gateway)
    for at, prefix in enumerate(prefixes):
        if not site.serves(prefix):
            raise FieldError(
                pointer and f"{pointer}/{at}/prefix",
                Reason.REQUEST_INVALID,
                why=_why_not(site, gateway.name, resource, prefix),
            )


def _why_not(site: Site, gateway: str, resource: str, prefix: str) -> Phrase:
    where = {
        "gateway": gateway,
        "resource": resource,
        "prefix": prefix.removesuffix("/32").removesuffix("/128"),
    }
    if ":" in prefix and site.pool6 is None:
        return Phrase("{gateway} gives devices no IPv6 addresses, and {resource} has {prefix}", **where)
    if not site.surrounds(prefix):
        return Phrase(
            "{prefix} of {resource} is neither in the LAN of {gateway} ({lan}) nor behind one of its routes",
            lan=", ".join(filter(None, (site.lan.prefix, site.lan.prefix6))),
            **where,
        )
    return Phrase(
        "{gateway} knows no server at {prefix} of {resource}: add it to the neighbours of {gateway}", **where
    )


# Cached, because each tunnel needs its gateway's site.
@functools.lru_cache(maxsize=256)
def _site(
    own: tuple[str, str | None],
    public: tuple[str | None, str | None],
    pools: tuple[str, str | None],
    ports: str,
) -> Site:
    shown_wan, shown_lan = json.loads(ports)
    wan, lan = WanPort.model_validate(shown_wan), LanPort.model_validate(shown_lan)
    # The columns have a MAC address of each neighbour.
    macs = {at: mac for at, mac in lan.neighbours.items() if mac is not None}
    address, address6 = own
    pool, pool6 = pools
    return Site(
        address,
        pool,
        Wan(wan.port, wan.mac, wan.hops, wan.vlan, wan.mtu),
        Lan(
            lan.port,
            lan.mac,
            lan.address,
            lan.prefix,
            macs,
            lan.address6,
            lan.prefix6,
            lan.vlan,
            lan.mtu,
            lan.routes,
        ),
        public[0] or address,
        address6,
        pool6,
        public[1],
    )
