"""People: add, change, and delete with their devices, policies and tunnels."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from culvert_db import Database, User
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.naming import last_denials_of_people
from culvert_service.audit.schemas import DeniedOut
from culvert_service.audit.transaction import begin
from culvert_service.decision.assertions import assertions, broken_since, kept
from culvert_service.identity import repository
from culvert_service.identity.schemas import PersonUseOut, RevokedOut, UserChange, UserIn, UserOut
from culvert_service.identity.tunnels import DeviceTunnels
from culvert_service.rest.field import FieldError
from culvert_service.rest.page import Page, Sort
from culvert_service.rest.version import MayMatch
from culvert_service.watch.hub import End, Hub
from culvert_service.watch.pushes import Pushes


class People:
    def __init__(
        self,
        database: Database,
        hub: Hub,
        pushes: Pushes,
        tunnels: DeviceTunnels,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._now = now
        self._hub = hub
        self._pushes = pushes
        self._tunnels = tunnels

    async def create(self, by: Actor, asked: UserIn) -> tuple[UserOut, int]:
        """Returns the person and the version. Raises CulvertError ALREADY_EXISTS."""
        try:
            async with begin(self._database, by) as transaction:
                user = User(name=asked.name, display_name=asked.display_name, email=asked.email)
                transaction.session.add(user)
                await transaction.session.flush()
                transaction.audit(Line("user.create", f"user/{asked.name}", _described(user)))
        except IntegrityError:
            raise FieldError(
                "/name", Reason.ALREADY_EXISTS, what=Phrase("The user {name}", name=asked.name)
            ) from None
        return await self.get(asked.name)

    async def list(self, page: Page, q: str | None, sort: str) -> list[UserOut]:
        order = Sort(page, repository.PERSON_ORDERS, sort, repository.BY_NAME)
        async with self._database() as session:
            found = await repository.people(session, order, q)
            denied = await last_denials_of_people(session, [user.name for user, _, _ in found])
        return [_out(*row, denied.get(row[0].name)) for row in found]

    async def get(self, name: str) -> tuple[UserOut, int]:
        """The person and the version. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            found = await repository.person(session, name)
        if found is None:
            raise _unknown(name)
        return _out(*found), found[0].version

    async def change(self, by: Actor, name: str, asked: UserChange, seen: MayMatch) -> tuple[UserOut, int]:
        """Returns the person and the version. Raises CulvertError NOT_FOUND, VERSION_NEEDED or VERSION_STALE."""
        async with begin(self._database, by) as transaction:
            user = await self._lock(transaction.session, name, seen)
            before = {f"{field}_before": value for field, value in _described(user).items()}
            user.email, user.display_name = asked.email, asked.display_name
            transaction.audit(Line("user.change", f"user/{name}", before | _described(user)))
        return await self.get(name)

    async def use(self, name: str) -> PersonUseOut:
        """The effect of the person's deletion. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            user = await repository.user_by_name(session, name)
            if user is None:
                raise _unknown(name)
            found = await repository.use_of_person(session, user.id, self._now())
            asserted = await assertions(session)
            await session.delete(user)
            breaks = await broken_since(session, asserted)
            await session.rollback()
        return PersonUseOut(
            tunnels=found.tunnels,
            devices=found.devices,
            invitations=found.invitations,
            groups=found.groups,
            policies_deleted=found.policies,
            breaks=breaks,
        )

    async def delete(self, by: Actor, name: str, seen: MayMatch) -> RevokedOut:
        """Delete a person with devices, policies and tunnels. Raises CulvertError NOT_FOUND, VERSION_STALE or
        ASSERTION_BROKEN.
        """
        async with begin(self._database, by) as transaction:
            session = transaction.session
            user = await self._lock(session, name, seen)
            devices = await repository.lock_devices(session, user.id)
            closed = await self._tunnels.close_of_devices(transaction, devices.keys())
            async with kept(session):
                await session.delete(user)
            told: dict[str, Detail] = {"devices": " ".join(str(device) for device in devices)}
            transaction.audit(Line("user.delete", f"user/{name}", told))
            ends = [(it, End(CulvertError(Reason.DEVICE_REVOKED, device=devices[it]))) for it in devices]
            await self._pushes.send(session, ends)
        for device_id, end in ends:
            self._hub.send(device_id, end)
        return RevokedOut(tunnels_closed=await closed.finish())

    async def _lock(self, session: AsyncSession, name: str, seen: MayMatch) -> User:
        user = await repository.lock_user(session, name)
        if user is None:
            raise _unknown(name)
        seen.check(Phrase("The user {name}", name=name), user.version)
        return user


def _described(user: User) -> dict[str, Detail]:
    told: dict[str, Detail] = {"email": user.email}
    return told if user.display_name is None else told | {"display_name": user.display_name}


def _unknown(name: str) -> CulvertError:
    return CulvertError(Reason.NOT_FOUND, what=Phrase("The user {name}", name=name))


def _out(
    user: User, devices: int, last_seen_at: datetime.datetime | None, denied: DeniedOut | None = None
) -> UserOut:
    return UserOut(
        name=user.name,
        display_name=user.display_name,
        email=user.email,
        devices=devices,
        last_seen_at=last_seen_at,
        last_denied=denied,
        created_at=user.created_at,
    )
