"""REST: the state of published names."""

from __future__ import annotations

from datetime import datetime

from culvert_db import DnsRecord, Sessions
from fastapi import APIRouter
from pydantic import BaseModel

from culvert_service.dns import repository


class DnsRecordOut(BaseModel):
    """One name and type; `reason`, `message` and `remedy` say why it is refused."""

    name: str
    zone: str
    type: str
    state: str
    reason: str | None
    message: str | None
    remedy: str | None
    attempts: int
    updated_at: datetime

    @classmethod
    def of(cls, record: DnsRecord) -> DnsRecordOut:
        return cls.model_validate(record, from_attributes=True)


def router(sessions: Sessions) -> APIRouter:
    routes = APIRouter(prefix="/dns", tags=["dns"])

    @routes.get("", summary="List the published names and their state")
    async def list_all() -> list[DnsRecordOut]:
        async with sessions() as session:
            return [DnsRecordOut.of(record) for record in await repository.records(session)]

    _ = list_all
    return routes
