"""SQL about people, devices, invitations and codes."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from culvert_db import (
    REVOCATIONS_CHANNEL,
    ActorKind,
    Admin,
    AuditLine,
    Device,
    DeviceState,
    Group,
    GroupMember,
    Invitation,
    Outcome,
    Policy,
    RecoveryCode,
    RenewalChallenge,
    Statement,
    Statements,
    Totp,
    Tunnel,
    User,
    as_json,
    doubted,
    from_json,
    notify,
)
from culvert_db.text import by_code_point, folded
from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    String,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    func,
    or_,
    select,
    text,
    true,
    union,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import contains_eager

from culvert_service.rest.page import NEVER, Order, Sort, contains_text

_OF_PERSON = (Device.user_id == User.id, Device.state != DeviceState.REVOKED)
_DEVICES = select(func.count(Device.id)).where(*_OF_PERSON).correlate(User).scalar_subquery()
_SEEN = select(func.max(Device.last_seen_at)).where(*_OF_PERSON).correlate(User).scalar_subquery()
_DENIED_LINES = (AuditLine.outcome == Outcome.DENIED, AuditLine.actor_kind == ActorKind.DEVICE)
_LAST_DENIED = (
    select(func.max(AuditLine.at))
    .where(*_DENIED_LINES, AuditLine.actor == Device.id.cast(String))
    .correlate(Device)
    .scalar_subquery()
)
_LAST_DENIED_OF_PERSON = (
    select(func.max(AuditLine.at))
    .where(*_DENIED_LINES, AuditLine.actor == Device.id.cast(String), Device.user_id == User.id)
    .correlate(User)
    .scalar_subquery()
)
# People, each with the number of devices and the last time at which one of them was seen.
_PEOPLE = select(User, _DEVICES, _SEEN)
Person = tuple[User, int, datetime.datetime | None]


@dataclass(frozen=True, slots=True)
class PersonUse:
    """`policies`: those for the person alone."""

    tunnels: int
    devices: list[str]
    invitations: int
    groups: list[str]
    policies: list[str]


@dataclass(frozen=True, slots=True)
class Sought:
    """A filter of devices: `q` in a name, the person's login name, the state, whether it waits for approval. None: any."""

    q: str | None = None
    user: str | None = None
    state: DeviceState | None = None
    approval_needed: bool | None = None


# A person's name as screens show it.
SHOWN_NAME = folded(func.coalesce(User.display_name, User.name))
BY_NAME = Order(User.name, str)
PERSON_ORDERS = {
    "name": BY_NAME,
    "display_name": Order(SHOWN_NAME, str),
    "devices": Order(_DEVICES, int),
    "last_seen": Order(func.coalesce(_SEEN, NEVER), datetime.datetime),
    "last_denied": Order(func.coalesce(_LAST_DENIED_OF_PERSON, NEVER), datetime.datetime),
}


async def people(session: AsyncSession, sort: Sort, q: str | None) -> list[Person]:
    query = (
        _PEOPLE if q is None else _PEOPLE.where(contains_text(q, User.name, User.display_name, User.email))
    )
    return [
        (user, devices, last_seen_at) for user, devices, last_seen_at, *_ in await sort.read(session, query)
    ]


async def person(session: AsyncSession, name: str) -> Person | None:
    for user, devices, last_seen_at in await session.execute(_PEOPLE.where(User.name == name)):
        return user, devices, last_seen_at
    return None


async def use_of_person(session: AsyncSession, user_id: int, now: datetime.datetime) -> PersonUse:
    of_person = Device.user_id == user_id
    devices = select(Device.name).where(of_person, Device.state != DeviceState.REVOKED)
    groups = select(Group.name).join(GroupMember).where(GroupMember.user_id == user_id)
    policies = select(Policy.name).where(Policy.user_id == user_id)
    tunnels = select(func.count()).select_from(Tunnel).join(Device).where(of_person, Tunnel.stays())
    invitations = (
        select(func.count())
        .select_from(Invitation)
        .where(Invitation.user_id == user_id, Invitation.used_at.is_(None), Invitation.expires_at > now)
    )
    return PersonUse(
        tunnels=await session.scalar(tunnels) or 0,
        devices=list((await session.scalars(devices.order_by(Device.created_at))).all()),
        invitations=await session.scalar(invitations) or 0,
        groups=list((await session.scalars(groups.order_by(by_code_point(Group.name)))).all()),
        policies=list((await session.scalars(policies.order_by(by_code_point(Policy.name)))).all()),
    )


async def lock_user(session: AsyncSession, name: str) -> User | None:
    return await session.scalar(select(User).where(User.name == name).with_for_update())


async def lock_devices(session: AsyncSession, user_id: int) -> dict[uuid.UUID, str]:
    """Lock a person's devices: none opens a tunnel until this transaction ends. Returns their names by id."""
    query = select(Device.id, Device.name).where(Device.user_id == user_id).with_for_update()
    return {row.id: row.name for row in await session.execute(query)}


async def user_by_name(session: AsyncSession, name: str) -> User | None:
    return await session.scalar(select(User).where(User.name == name))


BY_NUMBER = Order(Invitation.id, int)
INVITATION_ORDERS = {
    "created": BY_NUMBER,
    "user": Order(SHOWN_NAME, str),
    "invited_by": Order(func.coalesce(Invitation.invited_by, ""), str),
    "expires": Order(Invitation.expires_at, datetime.datetime),
}


async def open_invitations(
    session: AsyncSession, sort: Sort, q: str | None, now: datetime.datetime
) -> list[Invitation]:
    """Open invitations, each with its user loaded."""
    query = select(Invitation).join(Invitation.user).options(contains_eager(Invitation.user))
    query = query.where(Invitation.used_at.is_(None), Invitation.expires_at > now)
    if q is not None:
        query = query.where(contains_text(q, User.name, User.display_name, Invitation.invited_by))
    return await sort.entities(session, query)


async def withdraw_invitation(session: AsyncSession, number: int, now: datetime.datetime) -> str | None:
    """Delete an open invitation and return its person; None if it is not open, or an enrolment was faster."""
    which = (Invitation.id == number, Invitation.used_at.is_(None), Invitation.expires_at > now)
    user_id = await session.scalar(delete(Invitation).where(*which).returning(Invitation.user_id))
    return await session.scalar(select(User.name).where(User.id == user_id)) if user_id is not None else None


async def find_invitation(
    session: AsyncSession, token_hash: bytes
) -> tuple[Invitation, tuple[str, str | None], str | None, str | None] | None:
    """The invitation, its person's login name and display name, the name of the device that it has enrolled, and the
    administrator who made it.
    """
    # The identity provider's own invitations are made by the person's name, which an administrator may have too.
    by_administrator = (Admin.name == Invitation.invited_by, Admin.name != User.name)
    query = (
        select(Invitation, User.name, User.display_name, Device.name, Admin.name)
        .join(User, Invitation.user_id == User.id)
        .outerjoin(Device, Invitation.device_id == Device.id)
        .outerjoin(Admin, and_(*by_administrator))
        .where(Invitation.token_hash == token_hash)
    )
    row = (await session.execute(query)).one_or_none()
    return None if row is None else (row[0], (row[1], row[2]), row[3], row[4])


async def use_invitation(session: AsyncSession, token_hash: bytes, now: datetime.datetime) -> User | None:
    """Mark the invitation as used. Returns its person; None if it is unknown, used, withdrawn or expired. Only one of two
    concurrent calls gets it.
    """
    user_id = await session.scalar(
        update(Invitation)
        .where(Invitation.token_hash == token_hash, Invitation.used_at.is_(None), Invitation.expires_at > now)
        .values(used_at=now)
        .returning(Invitation.user_id)
    )
    return await session.get(User, user_id) if user_id is not None else None


async def note_enrolled(
    session: AsyncSession, token_hash: bytes, device_id: uuid.UUID, key_hash: bytes
) -> None:
    which = Invitation.token_hash == token_hash
    await session.execute(update(Invitation).where(which).values(device_id=device_id, key_hash=key_hash))


async def find_enrolled_since(
    session: AsyncSession, token_hash: bytes, key_hash: bytes, since: datetime.datetime
) -> Device | None:
    """Lock the device that this invitation has enrolled for this key since then. None once the person has proven a code,
    because then the answer has arrived.
    """
    query = (
        select(Device)
        .join(Invitation, Invitation.device_id == Device.id)
        .join(Device.user)
        .options(contains_eager(Device.user))
        .where(
            Invitation.token_hash == token_hash,
            Invitation.key_hash == key_hash,
            Invitation.used_at > since,
            Device.state != DeviceState.REVOKED,
            Device.code_proven_at.is_(None),
        )
        .with_for_update(of=Device)
    )
    return await session.scalar(query)


BY_ID = Order(Device.id, uuid.UUID)
DEVICE_ORDERS = {
    "created": Order(Device.created_at, datetime.datetime),
    "name": Order(folded(Device.name), str),
    "user": Order(SHOWN_NAME, str),
    "state": Order(cast(Device.state, Text), str),
    "last_seen": Order(func.coalesce(Device.last_seen_at, NEVER), datetime.datetime),
    "last_denied": Order(func.coalesce(_LAST_DENIED, NEVER), datetime.datetime),
    "code": Order(func.coalesce(Device.code_valid_until, NEVER), datetime.datetime),
}


# People for whom an enabled policy asks for an approved device.
_ASKING = (Policy.enabled, Policy.conditions["device_approved"].as_boolean())
_ASKED = union(
    select(GroupMember.user_id).join(Policy, Policy.group_id == GroupMember.group_id).where(*_ASKING),
    select(Policy.user_id).where(Policy.user_id.is_not(None), *_ASKING),
)


def _approval_needed(*, always: bool) -> ColumnElement[bool]:
    """Whether a device waits for its approval. `always`: all policies ask for it."""
    asked = true() if always else Device.user_id.in_(_ASKED)
    return and_(Device.state == DeviceState.PENDING, asked)


async def find_approval_needed(
    session: AsyncSession, devices: Collection[uuid.UUID], *, always: bool
) -> Set[uuid.UUID]:
    """Those of the devices that wait for their approval. `always` as in `devices`."""
    query = select(Device.id).where(Device.id.in_(devices), _approval_needed(always=always))
    return set(await session.scalars(query))


async def devices(session: AsyncSession, sort: Sort, sought: Sought, *, always: bool) -> list[Device]:
    """`always`: the controller asks for an approval, whatever the policies ask for."""
    query = select(Device).join(Device.user).options(contains_eager(Device.user))
    if sought.user is not None:
        query = query.where(User.name == sought.user)
    if sought.state is not None:
        query = query.where(Device.state == sought.state)
    if sought.approval_needed is not None:
        query = query.where(_approval_needed(always=always) == sought.approval_needed)
    if sought.q is not None:
        query = query.where(contains_text(sought.q, Device.name, User.name, User.display_name))
    return await sort.entities(session, query)


async def device(session: AsyncSession, device_id: uuid.UUID) -> Device | None:
    query = (
        select(Device).join(Device.user).options(contains_eager(Device.user)).where(Device.id == device_id)
    )
    return await session.scalar(query)


# A device may report any names; a policy can ask for those of this pattern.
_FACTS = text("""
SELECT fact, total, value, devices FROM (
    SELECT fact, value, count(*) AS devices, sum(count(*)) OVER by_fact AS total,
        row_number() OVER (by_fact ORDER BY count(*) DESC, value COLLATE "C") AS nth
    FROM devices, jsonb_each_text(posture || jsonb_build_object('client_version', client_version)) AS told (fact, value)
    WHERE state <> 'revoked' AND fact ~ :pattern AND value <> ''
    GROUP BY fact, value WINDOW by_fact AS (PARTITION BY fact)
) AS counted WHERE nth <= :most ORDER BY total DESC, fact COLLATE "C", nth
""")


@dataclass(frozen=True, slots=True)
class ReportedFact:
    """`values`: the most frequent ones, each with its number of devices."""

    devices: int
    values: dict[str, int]


async def list_facts(session: AsyncSession, pattern: str, most: int) -> dict[str, ReportedFact]:
    """The facts that devices report which are not revoked, by name, the most frequent first.

    `most`: facts, and values of each.
    """
    asked = {"pattern": pattern, "most": most}
    found: dict[str, ReportedFact] = {}
    for fact, devices, value, number in await session.execute(_FACTS, asked):
        if fact in found or len(found) < most:
            found.setdefault(fact, ReportedFact(int(devices), {})).values[value] = number
    return found


async def lock_version(session: AsyncSession, device_id: uuid.UUID) -> int | None:
    return await session.scalar(select(Device.version).where(Device.id == device_id).with_for_update())


async def judge(session: AsyncSession, device_id: uuid.UUID, state: DeviceState) -> bool:
    """Set the state to approved or pending; False if the device is revoked or unknown."""
    which = (Device.id == device_id, Device.state != DeviceState.REVOKED)
    found = await session.scalar(update(Device).where(*which).values(state=state).returning(Device.id))
    return found is not None


async def device_by_fingerprint(session: AsyncSession, fingerprint: bytes) -> Device | None:
    """With its user."""
    return await session.scalar(
        select(Device).join(Device.user).options(contains_eager(Device.user)).where(Device.shows(fingerprint))
    )


_HELD = Statement(
    select(as_json(Device), User.name)
    .join(User, User.id == Device.user_id)
    .where(Device.shows(bindparam("fingerprint", type_=LargeBinary)))
    .with_for_update(read=True, of=Device)
)


async def lock_device(transaction: Statements, fingerprint: bytes) -> Device | None:
    """Read and lock the device, with its user's name: a revocation waits until this transaction ends."""
    row = await transaction.row(_HELD, fingerprint=fingerprint)
    if row is None:
        return None
    device = from_json(Device, row[0])
    device.user = User(name=row[1])
    return device


async def device_to_renew(session: AsyncSession, fingerprint: bytes) -> Device | None:
    """Lock the device until this transaction ends; its user is loaded."""
    query = select(Device).join(Device.user).options(contains_eager(Device.user))
    return await session.scalar(query.where(Device.shows(fingerprint)).with_for_update(of=Device))


async def use_challenge(
    session: AsyncSession, digest: bytes, expires_at: datetime.datetime, now: datetime.datetime
) -> bool:
    """Use the challenge up. False if it was used before; only one of two concurrent calls succeeds."""
    await session.execute(delete(RenewalChallenge).where(RenewalChallenge.expires_at <= now))
    made = insert(RenewalChallenge).values(digest=digest, expires_at=expires_at).on_conflict_do_nothing()
    return await session.scalar(made.returning(RenewalChallenge.digest)) is not None


async def revoke(session: AsyncSession, device_id: uuid.UUID, now: datetime.datetime) -> Device | None:
    return await session.scalar(
        update(Device)
        .where(Device.id == device_id)
        .values(state=DeviceState.REVOKED, revoked_at=now, code_proven_at=None, code_valid_until=None)
        .returning(Device)
    )


async def tell_revocations(session: AsyncSession) -> None:
    """Notify each controller of revoked devices, once this transaction commits."""
    await notify(session, REVOCATIONS_CHANNEL)


async def list_revoked(
    session: AsyncSession, since: datetime.datetime | None, now: datetime.datetime
) -> list[bytes]:
    """The fingerprints of unexpired certificates of revoked devices: of all, or of devices revoked `since` then."""
    query = select(Device.fingerprint, Device.next_fingerprint).where(
        Device.state == DeviceState.REVOKED,
        or_(Device.certificate_expires_at > now, Device.next_expires_at > now),
    )
    if since is not None:
        query = query.where(Device.revoked_at >= since)
    return [one for row in await session.execute(query) for one in row if one is not None]


async def totp_for_update(session: AsyncSession, device_id: uuid.UUID) -> Totp | None:
    return await session.scalar(select(Totp).where(Totp.device_id == device_id).with_for_update())


async def doubt_tunnels(session: AsyncSession, device_id: uuid.UUID) -> None:
    """Have the permissions of the device's tunnels decided anew at once (tunnels/enforcement.py)."""
    await session.execute(
        update(Tunnel).where(Tunnel.device_id == device_id).values(policy_version=doubted())
    )


async def take_next_certificate(session: AsyncSession, fingerprint: bytes) -> None:
    """Make the next certificate the only one, after the device has shown it."""
    await session.execute(
        update(Device)
        .where(Device.next_fingerprint == fingerprint)
        .values(
            fingerprint=Device.next_fingerprint,
            certificate_serial=Device.next_serial,
            certificate_expires_at=Device.next_expires_at,
            next_fingerprint=None,
            next_serial=None,
            next_expires_at=None,
        )
        .execution_options(synchronize_session=False)
    )


async def spend_recovery_code(session: AsyncSession, device_id: uuid.UUID, code_hash: bytes) -> bool:
    which = (RecoveryCode.device_id == device_id, RecoveryCode.code_hash == code_hash)
    spent = await session.scalar(delete(RecoveryCode).where(*which).returning(RecoveryCode.device_id))
    return spent is not None


async def recovery_codes_left(session: AsyncSession, device_id: uuid.UUID) -> int:
    query = select(func.count()).select_from(RecoveryCode).where(RecoveryCode.device_id == device_id)
    return await session.scalar(query) or 0


async def forget_authenticator(session: AsyncSession, device_id: uuid.UUID) -> None:
    """Delete the authenticator and the device's proof by it: its tunnels are decided anew."""
    await session.execute(delete(Totp).where(Totp.device_id == device_id))
    await session.execute(delete(RecoveryCode).where(RecoveryCode.device_id == device_id))
    await session.execute(
        update(Device).where(Device.id == device_id).values(code_proven_at=None, code_valid_until=None)
    )
    await doubt_tunnels(session, device_id)


async def names_with_email(session: AsyncSession, email: str, *, most: int) -> Sequence[str]:
    """The names of people with this address."""
    return (await session.scalars(select(User.name).where(User.email == email).limit(most))).all()
