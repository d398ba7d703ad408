"""SQL of the commands: what a restore voids and counts, and what `doctor` looks at."""

from __future__ import annotations

import datetime

from culvert_db import (
    Admin,
    AdminChallenge,
    AdminInvitation,
    AdminPasskey,
    AdminRecoveryCode,
    AdminSession,
    ApiToken,
    Device,
    DeviceState,
    Gateway,
    IdempotencyKey,
    Invitation,
    RecoveryCode,
    SignInGuesses,
    Totp,
)
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

# Rows of these tables may have been used up or revoked after the backup. A restore deletes them all, so that none of them
# is valid again.
_VOID = {
    "sessions": AdminSession,
    "administrators' invitations": AdminInvitation,
    "administrators' recovery codes": AdminRecoveryCode,
    "challenges to passkeys": AdminChallenge,
    "counted guesses": SignInGuesses,
    "API tokens": ApiToken,
    "people's invitations": Invitation,
    "devices' recovery codes": RecoveryCode,
    "kept answers": IdempotencyKey,
}


async def delete_credentials(session: AsyncSession) -> dict[str, int]:
    """Delete each credential that may have been used up or revoked. Returns their number by kind."""
    counts: dict[str, int] = {}
    for what, table in _VOID.items():
        counts[what] = await session.scalar(select(func.count()).select_from(table)) or 0
        await session.execute(delete(table))
    return counts


async def use_up_codes(session: AsyncSession, step: int) -> None:
    """Use up all codes up to TOTP's `step`, also those of an authenticator whose clock is ahead."""
    ahead = step + func.greatest(Totp.drift_steps, 0)
    await session.execute(update(Totp).values(last_used_step=func.greatest(Totp.last_used_step, ahead)))
    await session.execute(update(Admin).values(last_used_step=func.greatest(Admin.last_used_step, step)))


async def forget_proofs(session: AsyncSession) -> None:
    """A device's proof before the backup must not open a tunnel."""
    await session.execute(update(Device).values(code_proven_at=None, code_valid_until=None))


async def count_restored(session: AsyncSession) -> dict[str, int]:
    """The numbers of rows that are as at the backup, by kind."""
    devices = select(func.count()).select_from(Device).where(Device.state != DeviceState.REVOKED)
    return {
        "administrators": await session.scalar(select(func.count()).select_from(Admin)) or 0,
        "passkeys": await session.scalar(select(func.count()).select_from(AdminPasskey)) or 0,
        "devices": await session.scalar(devices) or 0,
    }


async def revision(connection: AsyncConnection) -> str:
    """The migration that the database is at; empty when it has no tables of ours."""
    if await connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return ""
    return str(await connection.scalar(text("SELECT version_num FROM alembic_version")))


async def present(session: AsyncSession) -> datetime.datetime:
    """The database server's time at this moment, which is not the beginning of the transaction."""
    return (await session.execute(select(func.clock_timestamp()))).scalar_one()


async def any_gateway(session: AsyncSession) -> Gateway | None:
    return await session.scalar(select(Gateway).limit(1))
