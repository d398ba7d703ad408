"""Invitations: links with which people enrol their computers."""

from __future__ import annotations

import datetime
import hashlib
import secrets
from collections.abc import Callable

from culvert_db import Database, Device, Invitation, User
from culvert_proto import CulvertError, Reason
from culvert_proto.invitation_link import make_page_link
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.apt.service import ReleasePackages
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import begin
from culvert_service.identity import repository
from culvert_service.identity.schemas import InvitationOut, InvitationShowOut, OpenInvitationOut
from culvert_service.pki.authority import Authority
from culvert_service.rest.page import Page, Sort

_LIFETIME = datetime.timedelta(days=7)
_TOKEN_BYTES = 32
# For this long a used invitation answers again to the device that it enrolled, after a lost answer.
_REPEATS = datetime.timedelta(minutes=10)


class Invitations:
    def __init__(
        self,
        database: Database,
        infrastructure: Authority,
        rest_url: str,
        enrolment_url: str,
        packages: ReleasePackages,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._infrastructure = infrastructure
        self._rest_url = rest_url
        self._enrolment_url = enrolment_url
        self._packages = packages
        self._now = now

    async def invite(self, by: Actor, name: str) -> InvitationOut:
        """Raises CulvertError NOT_FOUND."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        expires_at = self._now() + _LIFETIME
        async with begin(self._database, by) as transaction:
            user = await repository.user_by_name(transaction.session, name)
            if user is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The user {name}", name=name))
            made = Invitation(
                user_id=user.id,
                token_hash=_hash(token),
                invited_by=by.name,
                expires_at=expires_at,
            )
            transaction.session.add(made)
            transaction.audit(Line("user.invite", f"user/{name}"))
        link = make_page_link(self._rest_url, self._enrolment_url, token, self._infrastructure.fingerprint)
        return InvitationOut(link=link, expires_at=expires_at)

    async def show(self, token: str) -> InvitationShowOut:
        """Raises CulvertError INVITATION_INVALID for an unknown or withdrawn one."""
        async with self._database() as session:
            found = await repository.find_invitation(session, _hash(token))
        if found is None:
            raise CulvertError(Reason.INVITATION_INVALID)
        invitation, (user, display_name), device, invited_by = found
        offer = await self._packages.offer()
        return InvitationShowOut(
            user=user,
            user_display_name=display_name,
            expires_at=invitation.expires_at,
            expired=invitation.used_at is None and invitation.expires_at <= self._now(),
            used_at=invitation.used_at,
            device=device,
            invited_by=invited_by,
            install=offer.install if offer is not None else None,
        )

    async def list(self, page: Page, q: str | None, sort: str) -> list[OpenInvitationOut]:
        order = Sort(page, repository.INVITATION_ORDERS, sort, repository.BY_NUMBER)
        async with self._database() as session:
            found = await repository.open_invitations(session, order, q, self._now())
        return [
            OpenInvitationOut(
                id=one.id,
                user=one.user.name,
                user_display_name=one.user.display_name,
                invited_by=one.invited_by,
                created_at=one.created_at,
                expires_at=one.expires_at,
            )
            for one in found
        ]

    async def withdraw(self, by: Actor, number: int) -> None:
        """Raises CulvertError NOT_FOUND for an unknown, used or expired invitation."""
        async with begin(self._database, by) as transaction:
            user = await repository.withdraw_invitation(transaction.session, number, self._now())
            if user is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The open invitation {name}", name=number))
            transaction.audit(Line("user.withdraw-invitation", f"user/{user}", {"invitation": number}))


async def use(session: AsyncSession, token: str, now: datetime.datetime) -> User | None:
    """Use the invitation up. Returns its person; None if it is unknown, used or expired."""
    return await repository.use_invitation(session, _hash(token), now)


async def note_enrolled(session: AsyncSession, token: str, device: Device, key_hash: bytes) -> None:
    """Record the enrolled device, for `find_recent_enrolment`."""
    await repository.note_enrolled(session, _hash(token), device.id, key_hash)


async def find_recent_enrolment(
    session: AsyncSession, token: str, key_hash: bytes, now: datetime.datetime
) -> Device | None:
    """Lock the device with this key that the invitation enrolled within _REPEATS; it may have lost the answer."""
    return await repository.find_enrolled_since(session, _hash(token), key_hash, now - _REPEATS)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
