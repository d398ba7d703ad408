"""The rows of the live views by key, each with a version that is cheap to read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict

from culvert_db import Database
from pydantic import BaseModel

from culvert_service.dns.schemas import DnsRecordOut, ZoneOut
from culvert_service.dns.service import Dns
from culvert_service.gateways.service import Gateways
from culvert_service.live import repository
from culvert_service.live.timeline import Row
from culvert_service.live.view import View
from culvert_service.tunnels import repository as tunnel_rows
from culvert_service.tunnels.schemas import TunnelOut
from culvert_service.tunnels.traffic import Rate, Throughput

_ZONE, _RECORD = "zone/", "record/"


def tunnels(database: Database) -> View:
    """Tunnels by id."""

    async def versions() -> Mapping[str, str]:
        async with database() as session:
            found = await repository.tunnel_versions(session)
        return {str(key): version for key, version in found.items()}

    async def rows(keys: Collection[str]) -> Mapping[str, Row]:
        async with database() as session:
            found = await tunnel_rows.list_by_id(session, [uuid.UUID(key) for key in keys])
        return {str(one.tunnel.id): _row(TunnelOut.of(one)) for one in found}

    return View(versions, rows)


def traffic(of: Throughput) -> View:
    """Rates by tunnel id, for tunnels with traffic."""
    seen: dict[str, Rate] = {}

    async def versions() -> Mapping[str, str]:
        nonlocal seen
        seen = {str(tunnel): rate for tunnel, rate in (await of.collect()).items()}
        return {key: str(rate) for key, rate in seen.items()}

    async def rows(keys: Collection[str]) -> Mapping[str, Row]:
        return {key: asdict(seen[key]) for key in keys if key in seen}

    return View(versions, rows)


def gateways(service: Gateways) -> View:
    """Gateways by name. Their health is not in their rows, so they are compared as a whole; there are few."""
    # Return the compared rows. A second reading could differ and then change back, which no version would show.
    seen: dict[str, str] = {}

    async def versions() -> Mapping[str, str]:
        nonlocal seen
        seen = {one.name: one.model_dump_json() for one in await service.everything()}
        return seen

    async def rows(keys: Collection[str]) -> Mapping[str, Row]:
        return {key: json.loads(seen[key]) for key in keys}

    return View(versions, rows)


def dns(database: Database, service: Dns) -> View:
    """Zones and records by `zone/NAME` and `record/ZONE/TYPE/NAME`."""
    # Zones are compared as gateways are. A record's xmin never repeats, so records may be read again.
    zones: dict[str, ZoneOut] = {}

    async def versions() -> Mapping[str, str]:
        nonlocal zones
        zones = {f"{_ZONE}{one.name}": one for one in await service.all_zones()}
        # The lag grows with each reading, so it is no change.
        found = {key: one.model_dump_json(exclude={"lag_seconds"}) for key, one in zones.items()}
        async with database() as session:
            versions = await repository.record_versions(session)
        return found | {_RECORD + "/".join(place): version for place, version in versions.items()}

    async def rows(keys: Collection[str]) -> Mapping[str, Row]:
        found = {key: _row(zones[key]) for key in keys if key in zones}
        places = [tuple(key.split("/", 3)[1:]) for key in keys if key.startswith(_RECORD)]
        async with database() as session:
            for record in await repository.records(session, places):
                key = f"{_RECORD}{record.zone}/{record.type}/{record.name}"
                found[key] = _row(DnsRecordOut.model_validate(record))
        return found

    return View(versions, rows)


def _row(shown: BaseModel) -> Row:
    return json.loads(shown.model_dump_json())
