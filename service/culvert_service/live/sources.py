"""What the live views show: each row by its key, and a version that costs little to read.

Postgres keeps with each row the transaction that wrote it (xmin): that it is another tells that the row was changed, by
whichever process.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict

from culvert_db import Base, DnsRecord, Sessions, Tunnel
from pydantic import BaseModel
from sqlalchemy import ColumnElement, Text, literal_column, select, tuple_

from culvert_service.dns.schemas import DnsRecordOut
from culvert_service.dns.service import Dns
from culvert_service.gateways.service import Gateways
from culvert_service.live.timeline import Row
from culvert_service.live.view import View
from culvert_service.sessions import listing
from culvert_service.sessions.schemas import TunnelOut
from culvert_service.sessions.throughput import Throughput
from culvert_service.sessions.traffic import Rate

_ZONE, _RECORD = "zone/", "record/"


def tunnels(sessions: Sessions) -> View:
    """By id."""

    async def versions() -> Mapping[str, str]:
        async with sessions() as session:
            stays = Tunnel.stays()
            found = await session.execute(select(Tunnel.id, _xmin(Tunnel)).where(stays))
        return {str(key): version for key, version in found}

    async def rows(keys: Collection[str]) -> Mapping[str, Row]:
        async with sessions() as session:
            found = await listing.listed_by_id(session, [uuid.UUID(key) for key in keys])
        return {str(one.tunnel.id): _row(TunnelOut.of(one)) for one in found}

    return View(versions, rows)


def traffic(of: Throughput) -> View:
    """By tunnel's id, those that carry something now."""
    seen: dict[str, Rate] = {}

    async def versions() -> Mapping[str, str]:
        nonlocal seen
        seen = {str(tunnel): rate for tunnel, rate in (await of.now()).items()}
        return {key: str(rate) for key, rate in seen.items()}

    async def rows(keys: Collection[str]) -> Mapping[str, Row]:
        return {key: asdict(seen[key]) for key in keys if key in seen}

    return View(versions, rows)


def gateways(service: Gateways) -> View:
    """By name. Whether one answers is no row's: they are few, and compared whole."""

    async def versions() -> Mapping[str, str]:
        return {one.name: one.model_dump_json() for one in await service.everything()}

    async def rows(keys: Collection[str]) -> Mapping[str, Row]:
        return {one.name: _row(one) for one in await service.everything() if one.name in keys}

    return View(versions, rows)


def dns(sessions: Sessions, service: Dns) -> View:
    """By `zone/NAME` and `record/ZONE/TYPE/NAME`."""

    async def versions() -> Mapping[str, str]:
        # A zone that lags lags more each time.
        found = {
            f"{_ZONE}{one.name}": one.model_dump_json(exclude={"lag_seconds"})
            for one in await service.all_zones()
        }
        async with sessions() as session:
            query = select(DnsRecord.zone, DnsRecord.type, DnsRecord.name, _xmin(DnsRecord))
            for *place, version in await session.execute(query):
                found[_RECORD + "/".join(place)] = version
        return found

    async def rows(keys: Collection[str]) -> Mapping[str, Row]:
        found = {key: _row(one) for one in await service.all_zones() if (key := f"{_ZONE}{one.name}") in keys}
        places = [tuple(key.split("/", 3)[1:]) for key in keys if key.startswith(_RECORD)]
        place = tuple_(DnsRecord.zone, DnsRecord.type, DnsRecord.name)
        async with sessions() as session:
            for record in await session.scalars(select(DnsRecord).where(place.in_(places))):
                key = f"{_RECORD}{record.zone}/{record.type}/{record.name}"
                found[key] = _row(DnsRecordOut.model_validate(record))
        return found

    return View(versions, rows)


def _xmin(table: type[Base]) -> ColumnElement[str]:
    return literal_column(f"{table.__tablename__}.xmin::text", Text())


def _row(shown: BaseModel) -> Row:
    return json.loads(shown.model_dump_json())
