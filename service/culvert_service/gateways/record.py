"""A gateway as its row tells it, parsed once."""

from __future__ import annotations

from culvert_db import Gateway

from culvert_service.gateways.schemas import LanPort, WanPort
from culvert_service.gateways.site import Lan, Site, Wan


def site_of(gateway: Gateway) -> Site:
    wan, lan = WanPort.model_validate(gateway.wan), LanPort.model_validate(gateway.lan)
    return Site(
        gateway.address,
        gateway.pool,
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
        ),
        gateway.address6,
        gateway.pool6,
    )
