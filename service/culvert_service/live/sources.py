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
from culvert_service.tunnels import repository as tunnels
from culvert_service.tunnels.schemas import TunnelOut
from culvert_service.tunnels.traffic import Rate, Throughput

_ZONE, _RECORD = "zone/", "record/"


class TunnelSource:
    """Tunnels by id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def versions(self) -> Mapping[str, str]:
        async with self._database() as session:
            found = await repository.tunnel_versions(session)
        return {str(key): version for key, version in found.items()}

    async def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        async with self._database() as session:
            found = await tunnels.list_by_id(session, [uuid.UUID(key) for key in keys])
        return {str(one.tunnel.id): _row(TunnelOut.of(one)) for one in found}


class TrafficSource:
    """Rates by tunnel id, for tunnels with traffic."""

    def __init__(self, throughput: Throughput) -> None:
        self._throughput = throughput
        self._seen: dict[str, Rate] = {}

    async def versions(self) -> Mapping[str, str]:
        self._seen = {str(tunnel): rate for tunnel, rate in (await self._throughput.collect()).items()}
        return {key: str(rate) for key, rate in self._seen.items()}

    async def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        return {key: asdict(self._seen[key]) for key in keys if key in self._seen}


class GatewaySource:
    """Gateways by name. Their health is not in their rows, so they are compared as a whole; there are few."""

    def __init__(self, gateways: Gateways) -> None:
        self._gateways = gateways
        # Return the compared rows. A second reading could differ and then change back, which no version would show.
        self._seen: dict[str, str] = {}

    async def versions(self) -> Mapping[str, str]:
        self._seen = {one.name: one.model_dump_json() for one in await self._gateways.list_all()}
        return self._seen

    async def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        return {key: json.loads(self._seen[key]) for key in keys}


class DnsSource:
    """Zones and records by `zone/NAME` and `record/ZONE/TYPE/NAME`."""

    def __init__(self, database: Database, dns: Dns) -> None:
        self._database = database
        self._dns = dns
        # Zones are compared as gateways are. A record's xmin never repeats, so records may be read again.
        self._zones: dict[str, ZoneOut] = {}

    async def versions(self) -> Mapping[str, str]:
        self._zones = {f"{_ZONE}{one.name}": one for one in await self._dns.all_zones()}
        # The lag grows with each reading, so it is no change.
        found = {key: one.model_dump_json(exclude={"lag_seconds"}) for key, one in self._zones.items()}
        async with self._database() as session:
            records = await repository.record_versions(session)
        return found | {_RECORD + "/".join(place): version for place, version in records.items()}

    async def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        found = {key: _row(self._zones[key]) for key in keys if key in self._zones}
        places = [tuple(key.split("/", 3)[1:]) for key in keys if key.startswith(_RECORD)]
        async with self._database() as session:
            for record in await repository.records(session, places):
                key = f"{_RECORD}{record.zone}/{record.type}/{record.name}"
                found[key] = _row(DnsRecordOut.model_validate(record))
        return found


def _row(shown: BaseModel) -> Row:
    return json.loads(shown.model_dump_json())
