"""SQL about administrators, their sessions and API tokens."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable, Sequence

from culvert_db import (
    Admin,
    AdminChallenge,
    AdminIdentity,
    AdminInvitation,
    AdminNotice,
    AdminPasskey,
    AdminRecoveryCode,
    AdminSession,
    ApiToken,
    Role,
    SignInGuesses,
    WrongCodes,
)
from culvert_db.text import by_code_point
from sqlalchemy import Text, cast, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import contains_eager

from culvert_service.admins.guesses import FORGET
from culvert_service.rest.page import NEVER, Cut, Order, Sort, contains_text

# Prefixes whose wrong codes are counted separately, for each administrator.
SOURCES_MAX = 20
ELSEWHERE = "elsewhere"
_NOTICES_KEPT = datetime.timedelta(days=90)


BY_NAME = Order(Admin.name, str)
ORDERS = {
    "name": BY_NAME,
    "role": Order(cast(Admin.role, Text), str),
    "confirmed": Order(func.coalesce(Admin.confirmed_at, NEVER), datetime.datetime),
}
BY_TOKEN_NAME = Order(ApiToken.name, str)
TOKEN_ORDERS = {
    "name": BY_TOKEN_NAME,
    "created_by": Order(ApiToken.created_by, str),
    "expires": Order(ApiToken.expires_at, datetime.datetime),
}


async def admins(session: AsyncSession, sort: Sort, q: str | None) -> list[Admin]:
    query = select(Admin) if q is None else select(Admin).where(contains_text(q, Admin.name))
    return await sort.entities(session, query)


async def by_name(session: AsyncSession, name: str) -> Admin | None:
    return await session.scalar(select(Admin).where(Admin.name == name))


async def lock_admin(session: AsyncSession, name: str) -> Admin | None:
    return await session.scalar(select(Admin).where(Admin.name == name).with_for_update())


async def password_hash(session: AsyncSession, name: str) -> str | None:
    return await session.scalar(select(Admin.password_hash).where(Admin.name == name))


async def has_owner(session: AsyncSession) -> bool:
    """An owner exists who has signed in."""
    owner = exists().where(Admin.role == Role.OWNER, Admin.confirmed_at.is_not(None))
    return bool(await session.scalar(select(owner)))


async def lock_owners(session: AsyncSession) -> Sequence[Admin]:
    """Lock the owners who have signed in; none of them goes away before this transaction ends."""
    owners = select(Admin).where(Admin.role == Role.OWNER, Admin.confirmed_at.is_not(None))
    return (await session.scalars(owners.order_by(Admin.id).with_for_update())).all()


async def confirmed_owners(session: AsyncSession) -> Sequence[Admin]:
    owners = select(Admin).where(Admin.role == Role.OWNER, Admin.confirmed_at.is_not(None))
    return (await session.scalars(owners)).all()


async def forget_overdue(session: AsyncSession, now: datetime.datetime) -> None:
    """Delete the accounts whose invitation expired before anybody signed in."""
    overdue = (Admin.confirmed_at.is_(None), Admin.setup_until <= now)
    await session.execute(delete(Admin).where(*overdue))


async def forget_unconfirmed_owners(session: AsyncSession) -> None:
    await session.execute(delete(Admin).where(Admin.role == Role.OWNER, Admin.confirmed_at.is_(None)))


async def invited_role(session: AsyncSession, token_hash: bytes, now: datetime.datetime) -> Role | None:
    """The role that a valid invitation gives."""
    which = (AdminInvitation.token_hash == token_hash, AdminInvitation.expires_at > now)
    return await session.scalar(select(AdminInvitation.role).where(*which))


async def take_invitation(
    session: AsyncSession, token_hash: bytes, now: datetime.datetime
) -> AdminInvitation | None:
    """Lock the invitation, and delete its account if nobody has signed in to it."""
    which = (AdminInvitation.token_hash == token_hash, AdminInvitation.expires_at > now)
    account = select(AdminInvitation.admin_id).where(*which).scalar_subquery()
    unfinished = delete(Admin).where(Admin.confirmed_at.is_(None), Admin.id == account)
    # First, because a sign-in too locks the account before the invitation.
    await session.execute(unfinished)
    invited = await session.scalar(select(AdminInvitation).where(*which).with_for_update())
    # Another call may have made an account before it gave the lock back.
    await session.execute(unfinished)
    return invited


async def forget_invitation_of(session: AsyncSession, admin: Admin) -> None:
    await session.execute(delete(AdminInvitation).where(AdminInvitation.admin_id == admin.id))


async def forget_owner_invitations(session: AsyncSession) -> None:
    await session.execute(delete(AdminInvitation).where(AdminInvitation.role == Role.OWNER))


async def session_of(session: AsyncSession, token_hash: bytes, now: datetime.datetime) -> AdminSession | None:
    """With its admin."""
    return await session.scalar(
        select(AdminSession)
        .join(AdminSession.admin)
        .options(contains_eager(AdminSession.admin))
        .where(AdminSession.token_hash == token_hash, AdminSession.expires_at > now)
    )


async def lock_session(
    session: AsyncSession, admin_id: int, token_hash: bytes, now: datetime.datetime
) -> AdminSession | None:
    which = (AdminSession.token_hash == token_hash, AdminSession.admin_id == admin_id)
    query = select(AdminSession).where(*which, AdminSession.expires_at > now)
    return await session.scalar(query.with_for_update())


async def note_use(session: AsyncSession, token_hash: bytes, now: datetime.datetime) -> None:
    used = update(AdminSession).where(AdminSession.token_hash == token_hash)
    await session.execute(used.values(last_used_at=now))


async def sessions_of(session: AsyncSession, name: str, now: datetime.datetime) -> Sequence[AdminSession]:
    """Newest first."""
    query = (
        select(AdminSession).join(AdminSession.admin).where(Admin.name == name, AdminSession.expires_at > now)
    )
    return (await session.scalars(query.order_by(AdminSession.created_at.desc()))).all()


async def end_session(session: AsyncSession, token_hash: bytes) -> None:
    await session.execute(delete(AdminSession).where(AdminSession.token_hash == token_hash))


async def end_other_sessions(session: AsyncSession, admin_id: int, but: bytes) -> int:
    """Returns the number of sessions that ended."""
    others = (AdminSession.admin_id == admin_id, AdminSession.token_hash != but)
    return len(
        (await session.scalars(delete(AdminSession).where(*others).returning(AdminSession.created_at))).all()
    )


async def passkeys(session: AsyncSession, admin_id: int) -> Sequence[AdminPasskey]:
    query = select(AdminPasskey).where(AdminPasskey.admin_id == admin_id).order_by(AdminPasskey.created_at)
    return (await session.scalars(query)).all()


async def invitations(session: AsyncSession, now: datetime.datetime) -> Sequence[AdminInvitation]:
    """The invitations that can still be used, newest first."""
    query = select(AdminInvitation).where(AdminInvitation.expires_at > now)
    return (await session.scalars(query.order_by(AdminInvitation.expires_at.desc()))).all()


async def invitation_page(
    session: AsyncSession, now: datetime.datetime, cut: Cut
) -> Sequence[AdminInvitation]:
    """As `invitations`, ordered by the end and `credentials.public_id`."""
    query = select(AdminInvitation).where(AdminInvitation.expires_at > now)
    shown = func.encode(func.sha256(AdminInvitation.token_hash), "hex")
    return (await session.scalars(cut.of(query, AdminInvitation.expires_at, shown, falling=True))).all()


async def forget_invitations_by(session: AsyncSession, name: str) -> int:
    """Returns the number of deleted invitations."""
    gone = delete(AdminInvitation).where(AdminInvitation.created_by == name)
    return len((await session.scalars(gone.returning(AdminInvitation.role))).all())


async def forget_tokens_by(session: AsyncSession, name: str) -> Sequence[str]:
    """Returns the names of the deleted tokens."""
    gone = delete(ApiToken).where(ApiToken.created_by == name)
    return (await session.scalars(gone.returning(ApiToken.name))).all()


def add_recovery_codes(session: AsyncSession, admin_id: int, hashes: Iterable[bytes]) -> None:
    session.add_all(AdminRecoveryCode(admin_id=admin_id, hash=hashed) for hashed in hashes)


async def use_recovery_code(session: AsyncSession, admin_id: int, code_hash: bytes) -> bool:
    """Delete the code. A single one of concurrent calls gets True."""
    which = (AdminRecoveryCode.admin_id == admin_id, AdminRecoveryCode.hash == code_hash)
    used = await session.scalar(delete(AdminRecoveryCode).where(*which).returning(AdminRecoveryCode.hash))
    return used is not None


async def forget_recovery_codes(session: AsyncSession, admin_id: int) -> int:
    """Returns the number of deleted codes."""
    gone = delete(AdminRecoveryCode).where(AdminRecoveryCode.admin_id == admin_id)
    return len((await session.scalars(gone.returning(AdminRecoveryCode.hash))).all())


async def forget_expired(session: AsyncSession, now: datetime.datetime) -> None:
    await session.execute(delete(AdminSession).where(AdminSession.expires_at <= now))
    await session.execute(delete(SignInGuesses).where(SignInGuesses.last_at <= now - FORGET))
    await session.execute(delete(AdminNotice).where(AdminNotice.at <= now - _NOTICES_KEPT))


async def lock_guesses(
    session: AsyncSession, name: str, source: str, now: datetime.datetime
) -> SignInGuesses:
    """Lock the row until this transaction ends."""
    fresh = insert(SignInGuesses).values(name=name, source=source, failures=0, last_at=now)
    await session.execute(fresh.on_conflict_do_nothing())
    query = select(SignInGuesses).where(SignInGuesses.name == name, SignInGuesses.source == source)
    return (await session.scalars(query.with_for_update())).one()


async def forget_guesses(session: AsyncSession, name: str, sources: Sequence[str]) -> None:
    which = (SignInGuesses.name == name, SignInGuesses.source.in_(sources))
    await session.execute(delete(SignInGuesses).where(*which))


async def note_wrong_code(session: AsyncSession, admin_id: int, source: str, now: datetime.datetime) -> None:
    """The caller has locked the administrator's row. Sources beyond SOURCES_MAX are counted together."""
    known = await session.scalars(select(WrongCodes.source).where(WrongCodes.admin_id == admin_id))
    sources = set(known)
    if source not in sources and len(sources) >= SOURCES_MAX:
        source = ELSEWHERE
    fresh = insert(WrongCodes).values(admin_id=admin_id, source=source, failures=1, last_at=now)
    again = {"failures": WrongCodes.failures + 1, "last_at": now}
    await session.execute(fresh.on_conflict_do_update(index_elements=["admin_id", "source"], set_=again))


async def tokens(session: AsyncSession, sort: Sort, q: str | None) -> list[ApiToken]:
    query = select(ApiToken)
    if q is not None:
        scopes = func.array_to_string(ApiToken.scopes, " ")
        query = query.where(contains_text(q, ApiToken.name, ApiToken.created_by, scopes))
    return await sort.entities(session, query)


async def token_of(session: AsyncSession, token_hash: bytes, now: datetime.datetime) -> ApiToken | None:
    return await session.scalar(
        select(ApiToken).where(ApiToken.token_hash == token_hash, ApiToken.expires_at > now)
    )


async def delete_token(session: AsyncSession, token_id: uuid.UUID) -> str | None:
    """Delete the token and return its name; None if there was none."""
    return await session.scalar(delete(ApiToken).where(ApiToken.id == token_id).returning(ApiToken.name))


async def take_wrong_codes(session: AsyncSession, admin_id: int) -> list[WrongCodes]:
    """Delete and return the counts of the administrator's wrong codes, by prefix."""
    rows = list(await session.scalars(select(WrongCodes).where(WrongCodes.admin_id == admin_id)))
    await session.execute(delete(WrongCodes).where(WrongCodes.admin_id == admin_id))
    return rows


async def notices(session: AsyncSession, name: str, most: int) -> Sequence[AdminNotice]:
    """The administrator's newest notices, newest first."""
    query = select(AdminNotice).join(Admin, Admin.id == AdminNotice.admin_id).where(Admin.name == name)
    return (await session.scalars(query.order_by(AdminNotice.id.desc()).limit(most))).all()


async def dismiss(session: AsyncSession, name: str, until: int) -> bool:
    """Delete the administrator's notice `until` and all older ones. False when there is no such notice."""
    whose = select(Admin.id).where(Admin.name == name).scalar_subquery()
    which = (AdminNotice.admin_id == whose, AdminNotice.id <= until)
    gone = await session.scalars(delete(AdminNotice).where(*which).returning(AdminNotice.id))
    return until in gone.all()


async def passkey_for_update(
    session: AsyncSession, credential_id: bytes
) -> tuple[AdminPasskey, Admin] | None:
    query = select(AdminPasskey, Admin).join(Admin, Admin.id == AdminPasskey.admin_id)
    found = await session.execute(query.where(AdminPasskey.credential_id == credential_id).with_for_update())
    row = found.one_or_none()
    return None if row is None else (row[0], row[1])


async def use_challenges(
    session: AsyncSession, digest: bytes, now: datetime.datetime
) -> Sequence[tuple[bytes, int | None, datetime.datetime]]:
    """Delete the challenge with this hash and those that have expired. Returns hash, administrator's id and end of each."""
    waiting = AdminChallenge.hash == digest
    used = await session.execute(
        delete(AdminChallenge)
        .where(or_(waiting, AdminChallenge.expires_at <= now))
        .returning(AdminChallenge.hash, AdminChallenge.admin_id, AdminChallenge.expires_at)
    )
    return [(found, whose, expires_at) for found, whose, expires_at in used]


async def forget_challenges(session: AsyncSession, admin_id: int) -> None:
    await session.execute(delete(AdminChallenge).where(AdminChallenge.admin_id == admin_id))


async def recovery_codes_left(session: AsyncSession, admin_id: int) -> int:
    codes = select(func.count()).where(AdminRecoveryCode.admin_id == admin_id)
    return await session.scalar(codes) or 0


async def identities(session: AsyncSession, admin_id: int) -> Sequence[AdminIdentity]:
    """The administrator's accounts at providers."""
    return (await session.scalars(select(AdminIdentity).where(AdminIdentity.admin_id == admin_id))).all()


async def tokens_by(session: AsyncSession, name: str, now: datetime.datetime) -> Sequence[ApiToken]:
    """The valid API tokens that the administrator made."""
    tokens = select(ApiToken).where(ApiToken.created_by == name, ApiToken.expires_at > now)
    return (await session.scalars(tokens.order_by(by_code_point(ApiToken.name)))).all()


async def has_passkey_or_identity(session: AsyncSession, admin_id: int) -> bool:
    for table in (AdminPasskey, AdminIdentity):
        if await session.scalar(select(func.count()).where(table.admin_id == admin_id)):
            return True
    return False


async def by_identity(session: AsyncSession, issuer: str, subject: str) -> Admin | None:
    """The administrator with this account at a provider."""
    return await session.scalar(
        select(Admin)
        .join(AdminIdentity, AdminIdentity.admin_id == Admin.id)
        .where(AdminIdentity.issuer == issuer, AdminIdentity.subject == subject)
    )
