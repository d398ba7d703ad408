"""Neighbours of a gateway: their MAC addresses are fixed by an administrator, or found and followed by the gateway itself.

             API                          columns of the gateway                           entries
  fixed   next_hop_mac, address: mac     wan, lan                                       ─► that MAC address
  found   next_hop, address: null        wan, lan, and resolves; gateway_neighbours     ─► the newest found one, or none

The columns `wan` and `lan` have a MAC address for each neighbour, so that controllers of the release before can read them
(docs/upgrades.md). Of a neighbour that the gateway finds, it is the one that was known at the change.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from culvert_db import Gateway, GatewayNeighbour

from culvert_service.gateways.record import site_of
from culvert_service.gateways.schemas import LanPort, WanPort
from culvert_service.gateways.site import UNKNOWN_MAC, Site

# A neighbour: "wan" or "lan", and its address.
Neighbour = tuple[str, str]


def to_columns(wan: WanPort, lan: LanPort, known: Mapping[Neighbour, str]) -> dict[str, Any]:
    """The columns `wan`, `lan` and `resolves`. `known`: MAC addresses of neighbours that the gateway finds."""

    def mac_of(side: str, address: str) -> str:
        return known.get((side, address), UNKNOWN_MAC)

    stored_wan, stored_lan = wan.model_dump(exclude={"next_hop"}), lan.model_dump()
    resolves: dict[str, list[str]] = {}
    if wan.next_hop is not None:
        hops = wan.hops
        found = [mac_of("wan", it) for it in hops]
        stored_wan["next_hop_mac"] = found if isinstance(wan.next_hop, list) else found[0]
        resolves["wan"] = hops
    if addresses := sorted(at for at, mac in lan.neighbours.items() if mac is None):
        stored_lan["neighbours"] |= {at: mac_of("lan", at) for at in addresses}
        resolves["lan"] = addresses
    return {"wan": stored_wan, "lan": stored_lan, "resolves": resolves}


def wan_of(gateway: Gateway) -> WanPort:
    """As an administrator describes it."""
    hops = gateway.resolves.get("wan")
    if not hops:
        return WanPort.model_validate(gateway.wan)
    several = isinstance(gateway.wan["next_hop_mac"], list)
    described = {"next_hop": hops if several else hops[0], "next_hop_mac": None}
    return WanPort.model_validate({**gateway.wan, **described})


def lan_of(gateway: Gateway) -> LanPort:
    """As an administrator describes it."""
    found = dict.fromkeys(gateway.resolves.get("lan", ()))
    return LanPort.model_validate({**gateway.lan, "neighbours": {**gateway.lan["neighbours"], **found}})


def stored_macs(gateway: Gateway) -> dict[Neighbour, str]:
    """The MAC addresses in the columns, of neighbours that the gateway finds."""
    macs = gateway.wan["next_hop_mac"]
    hops = zip(gateway.resolves.get("wan", ()), [macs] if isinstance(macs, str) else macs, strict=False)
    found = {("wan", address): mac for address, mac in hops}
    return found | {("lan", at): gateway.lan["neighbours"][at] for at in gateway.resolves.get("lan", ())}


def with_found(site: Site, resolves: Mapping[str, Sequence[str]], found: Iterable[GatewayNeighbour]) -> Site:
    """The site with the MAC addresses that the gateway has found; UNKNOWN_MAC for those that it never found."""
    if not resolves:
        return site
    macs = {(it.side, it.address): it.mac or UNKNOWN_MAC for it in found}
    hops = [macs.get(("wan", at), UNKNOWN_MAC) for at in resolves.get("wan", ())] or site.wan.next_hops
    behind = {at: macs.get(("lan", at), UNKNOWN_MAC) for at in resolves.get("lan", ())}
    return replace(
        site,
        wan=replace(site.wan, next_hops=hops),
        lan=replace(site.lan, neighbours={**site.lan.neighbours, **behind}),
    )


def resolved(gateway: Gateway) -> set[Neighbour]:
    return {(side, address) for side, addresses in gateway.resolves.items() for address in addresses}


def servers_to_find(gateway: Gateway, prefixes: Iterable[str]) -> list[str]:
    """The servers of a resource on the LAN that the gateway does not know yet, and can find.

    Only a gateway that finds other neighbours finds them, and of a prefix with several hosts the server is not known.
    """
    if not gateway.resolves:
        return []
    site = site_of(gateway)
    own = {site.lan.address, site.lan.address6}
    missing = (ipaddress.ip_network(it) for it in prefixes if site.surrounds(it) and not site.serves(it))
    return [
        str(it[0])
        for it in missing
        if it.num_addresses == 1 and str(it[0]) not in own and (it.version == 4 or site.pool6 is not None)
    ]


def take_report(
    rows: Iterable[GatewayNeighbour], report: Mapping[Neighbour, str | None], now: datetime.datetime
) -> tuple[bool, list[tuple[str, str, str]]]:
    """Take what the gateway has found of its neighbours; None: no answer. Neighbours that it is not to find are ignored.

    Returns whether a row changed, and the MAC addresses that others replaced: address, before, after.
    """
    moved: list[tuple[str, str, str]] = []
    changed = False
    for row in rows:
        if (key := (row.side, row.address)) not in report:
            continue
        mac = report[key]
        if mac is not None and mac != row.mac:
            if row.mac is not None:
                moved.append((row.address, row.mac, mac))
            row.mac, changed = mac, True
        silent_since = None if mac is not None else row.silent_since or now
        if silent_since != row.silent_since:
            row.silent_since, changed = silent_since, True
    return changed, moved
