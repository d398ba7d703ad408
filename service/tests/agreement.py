"""Check after a fault that the rows of tunnels and the gateways' tables hold the same numbers.

tunnels ─┬─ addresses ───────────────────────────────────────┐
         └─ SAs, to the gateway ─► sad_in  SPI, SA, slot, … ─┴─► spd_in  SA, inner address
                 to the device  ─► sad_out SA, SPI, slot, … ───► spd_out the SA that seals, inner address
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import httpx
from culvert_service.gateways import mapped
from sqlalchemy import RowMapping, text

from .conftest import World, until

_TUNNELS = text("""
SELECT gateways.name AS gateway, tunnels.id, tunnels.state, tunnels.generation, endpoint,
    host(address.address) AS inner, sa.generation AS of_sa, direction, spi, slot, sa_id, tag
FROM tunnels JOIN gateways ON gateways.id = tunnels.gateway_id
LEFT JOIN addresses AS address USING (gateway_id, device_id)
LEFT JOIN security_associations AS sa ON sa.tunnel_id = tunnels.id AND sa.gateway_id = tunnels.gateway_id
""")
# In a tunnel's place, or of one that is gone.
_STRAY = text("""
SELECT id FROM security_associations AS sa
WHERE site_tunnel_id IS NULL AND NOT EXISTS (
    SELECT FROM tunnels WHERE tunnels.id = sa.tunnel_id AND tunnels.gateway_id = sa.gateway_id)
""")
_Numbers = tuple[str, str, tuple[int, ...]]


def _wanted(row: RowMapping) -> Iterator[_Numbers]:
    inner = mapped.number(row["inner"])
    sa, shared = row["sa_id"], (row["slot"], row["endpoint"], row["tag"])
    if row["direction"] == "to_gateway":
        yield row["gateway"], "sad_in", (row["spi"], sa, *shared)
        yield row["gateway"], "spd_in", (sa, inner)
    else:
        yield row["gateway"], "sad_out", (row["spi"], sa, *shared)
        if row["of_sa"] == row["generation"]:
            yield row["gateway"], "spd_out", (sa, inner)


def _held(gateway: str, entry: Mapping[str, Any]) -> Iterator[_Numbers]:
    match, params = entry["match"], entry["params"]
    match entry["table"]:
        case "sad_in" | "sad_out" as table:
            numbers = (match | params)["spi"], (match | params)["sa_id"]
            yield gateway, table, (*numbers, params["slot"], params["endpoint"], params["tag"])
        case "spd_in":
            yield gateway, "spd_in", (match["sa_id"], match["src"][0])
        case "spd_out":
            # An entry without `sa_id` is for packets that no policy protects.
            yield gateway, "spd_out", (params.get("sa_id", 0), match["dst"][0])
        case _:
            pass


async def disagreement(world: World, tunnels: Collection[str] | None) -> list[object]:
    """List the differences from the state with exactly these tunnels open; None permits any tunnels."""
    async with world.database() as session:
        rows = (await session.execute(_TUNNELS)).mappings().all()
        wrong: list[object] = [f"the SA {row.id} is no tunnel's" for row in await session.execute(_STRAY)]
    held: list[_Numbers] = []
    try:
        for gateway in await world.rest("GET", "/gateways"):
            if gateway["state"] != "online":
                wrong.append(f"{gateway['name']} is offline: {gateway['reason']}")
                continue
            entries = (await world.rest("GET", f"/gateways/{gateway['name']}/entries"))["entries"]
            wrong += [it for it in entries if it["standing"] != "held"]
            held += [numbers for it in entries for numbers in _held(gateway["name"], it)]
    except (AssertionError, httpx.HTTPError) as error:
        return [*wrong, error]
    wrong += [f"the tunnel {row.id} has no SA" for row in rows if row.spi is None]
    wanted = [numbers for row in rows if row.spi is not None for numbers in _wanted(row)]
    # A resource of several targets has as many entries.
    wrong += sorted(set(wanted) ^ set(held))
    return [*wrong, *sorted({str(row.id) for row in rows} ^ set(tunnels))] if tunnels is not None else wrong


async def agreed(world: World, tunnels: Collection[str] | None = None, seconds: float = 45.0) -> None:
    """Waits until it is so."""
    await until(lambda: disagreement(world, tunnels), lambda wrong: not wrong, seconds)
