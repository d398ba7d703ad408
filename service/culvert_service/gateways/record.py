"""A gateway parsed from its row."""

from __future__ import annotations

import functools
import json

from culvert_db import Gateway

from culvert_service.gateways.schemas import LanPort, WanPort
from culvert_service.gateways.site import Lan, Site, Wan


def site_of(gateway: Gateway) -> Site:
    ports = json.dumps([gateway.wan, gateway.lan])
    return _site(gateway.address, gateway.address6, gateway.pool, gateway.pool6, ports)


# Cached, because each tunnel needs its gateway's site.
@functools.lru_cache(maxsize=256)
def _site(address: str, address6: str | None, pool: str, pool6: str | None, ports: str) -> Site:
    shown_wan, shown_lan = json.loads(ports)
    wan, lan = WanPort.model_validate(shown_wan), LanPort.model_validate(shown_lan)
    return Site(
        address,
        pool,
        Wan(wan.port, wan.mac, wan.next_hops, wan.vlan, wan.mtu),
        Lan(
            lan.port,
            lan.mac,
            lan.address,
            lan.prefix,
            lan.neighbours,
            lan.address6,
            lan.prefix6,
            lan.vlan,
            lan.mtu,
            lan.routes,
        ),
        address6,
        pool6,
    )
