"""SQL about claims of Idempotency-Keys, and a write that shows whether the database takes writes."""

from __future__ import annotations

import datetime

from culvert_db import IdempotencyKey
from sqlalchemy import ColumnElement, and_, delete, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

# Only a write shows a standby or a full disk: both still answer reads. This write changes no value.
_WRITE = text("""
UPDATE controllers SET ends_at = ends_at WHERE holder = (SELECT min(holder) FROM controllers)
""")


async def write_nothing(session: AsyncSession) -> None:
    """Raises what the database does when it takes no write."""
    await session.execute(_WRITE)


async def claim(
    session: AsyncSession, caller: str, key: str, fingerprint: bytes, at: datetime.datetime
) -> bool:
    """Whether the key was free, and is the caller's now."""
    fresh = insert(IdempotencyKey).values(caller=caller, key=key, fingerprint=fingerprint, claimed_at=at)
    claimed = await session.scalar(fresh.on_conflict_do_nothing().returning(IdempotencyKey.key))
    return claimed is not None


async def find_claimed(session: AsyncSession, caller: str, key: str) -> IdempotencyKey | None:
    return await session.scalar(select(IdempotencyKey).where(*_is(caller, key)))


async def delete_ended(
    session: AsyncSession, kept_since: datetime.datetime, under_way_since: datetime.datetime
) -> None:
    """Delete claims from before `kept_since`, and those without answer and effect from before `under_way_since`."""
    unanswered = IdempotencyKey.status.is_(None)
    ended = or_(
        IdempotencyKey.claimed_at <= kept_since,
        and_(unanswered, ~IdempotencyKey.effect, IdempotencyKey.claimed_at <= under_way_since),
    )
    await session.execute(delete(IdempotencyKey).where(ended))


async def mark_effect(session: AsyncSession, caller: str, key: str, at: datetime.datetime) -> bool:
    """Mark that the claim of this time has changed something. False when there is no such claim any more."""
    claim = _is_claim(caller, key, at)
    marked = update(IdempotencyKey).where(*claim).values(effect=True).returning(IdempotencyKey.key)
    return await session.scalar(marked) is not None


async def keep_answer(
    session: AsyncSession,
    caller: str,
    key: str,
    at: datetime.datetime,
    *,
    status: int,
    media_type: str | None,
    ciphertext: bytes,
) -> None:
    """Keep the answer with the claim of this time, unless another request has taken the key over."""
    answer = {"status": status, "media_type": media_type, "body_ciphertext": ciphertext}
    await session.execute(update(IdempotencyKey).where(*_is_claim(caller, key, at)).values(answer))


async def release(session: AsyncSession, caller: str, key: str, at: datetime.datetime) -> None:
    """Delete the claim of this time, unless it has changed something."""
    claim = _is_claim(caller, key, at)
    await session.execute(delete(IdempotencyKey).where(*claim, ~IdempotencyKey.effect))


def _is_claim(caller: str, key: str, at: datetime.datetime) -> tuple[ColumnElement[bool], ...]:
    return *_is(caller, key), IdempotencyKey.claimed_at == at


def _is(caller: str, key: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return IdempotencyKey.caller == caller, IdempotencyKey.key == key
