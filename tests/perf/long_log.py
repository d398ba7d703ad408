"""Fills an audit log with any number of lines, within the database."""

from __future__ import annotations

import datetime

from culvert_db import Database
from culvert_service.audit.cut import CutKey
from culvert_service.config import Settings
from culvert_service.pki.master_key import MasterKey

# Does the work of the trigger, except for `at`. Single insertions with the trigger would take ten times as long.
_FILL = """
DO $$
DECLARE
    line audit_lines%%ROWTYPE;
    fresh audit_lines%%ROWTYPE;
BEGIN
    FOR place IN 0..15 LOOP
        SELECT * INTO line FROM audit_lines WHERE chain = place ORDER BY seq DESC LIMIT 1;
        fresh.hash := coalesce(line.hash, decode(repeat('00', 32), 'hex'));
        fresh.chain := place;
        fresh.actor_kind := 'device';
        fresh.actor := '2f1b9e0c-1d5e-4a43-9a39-6a2f8d6b7c11';
        fresh.source := '203.0.113.7';
        fresh.action := 'tunnel.open';
        fresh.object := 'tunnel/2f1b9e0c-1d5e-4a43-9a39-6a2f8d6b7c11';
        fresh.outcome := 'done';
        fresh.details := '{"gateway":"gw-berlin","name":"wiki.corp.example","user":"alice"}';
        FOR number IN 1..%(each)d LOOP
            fresh.seq := coalesce(line.seq, 0) + number;
            fresh.at := greatest(line.at, timestamptz '%(since)s' + number * interval '%(apart)s seconds');
            fresh.hash := sha256(fresh.hash
                || audit_field(fresh.chain::text) || audit_field(fresh.seq::text)
                || audit_field(to_char(fresh.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
                || audit_field(fresh.actor_kind) || audit_field(fresh.actor) || audit_field(fresh.source)
                || audit_field(fresh.action) || audit_field(fresh.object) || audit_field(fresh.outcome)
                || audit_field(fresh.reason) || audit_field(fresh.why) || audit_field(fresh.details));
            INSERT INTO audit_lines SELECT fresh.*;
        END LOOP;
    END LOOP;
END $$
"""
_TRIGGERS = "ALTER TABLE audit_lines %s TRIGGER USER"


async def fill(
    database: Database,
    each: int,
    *,
    since: datetime.datetime | None = None,
    apart: float = 0.001,
) -> None:
    """Adds `each` lines to each of the 16 chains, `apart` seconds apart, from `since` on (by default now)."""
    since = since or datetime.datetime.now(datetime.UTC)
    filling = _FILL % {"each": each, "since": since.isoformat(), "apart": apart}
    async with database.begin() as session:
        connection = await session.connection()
        for statement in (_TRIGGERS % "DISABLE", filling, _TRIGGERS % "ENABLE"):
            await connection.exec_driver_sql(statement)


async def clear(database: Database) -> None:
    """Removes all lines, so that `fill` can begin in the past."""
    async with database.begin() as session:
        connection = await session.connection()
        for statement in (_TRIGGERS % "DISABLE", "DELETE FROM audit_lines", _TRIGGERS % "ENABLE"):
            await connection.exec_driver_sql(statement)


def cut_key(settings: Settings) -> CutKey:
    return CutKey(MasterKey.load(settings.state_dir))
