"""Administrators: invitation, set-up, sign-in, removal; and their API tokens."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from culvert_db import ActorKind, Admin, AdminInvitation, AdminSession, ApiToken, Database, Role
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.admins import repository
from culvert_service.admins.admin_token import NAME as ROOT_NAME
from culvert_service.admins.credentials import invitation_out, public_id
from culvert_service.admins.notices import tell_of_wrong_codes, tell_owners
from culvert_service.admins.password import Passwords
from culvert_service.admins.permission import PROOF_LIFETIME, ByScopes, BySession
from culvert_service.admins.proof import Proof, new_recovery_codes, recovery_hash, totp_context
from culvert_service.admins.schemas import (
    AdminInvitationOut,
    AdminOut,
    ApiTokenIn,
    ApiTokenOut,
    NewApiTokenOut,
    OpenAdminInvitationOut,
    SetupIn,
    SetupOut,
    SetupShowOut,
    SignedInOut,
    SignInIn,
)
from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.transaction import Transaction, begin
from culvert_service.identity import totp
from culvert_service.pki.master_key import MasterKey, MasterKeyError
from culvert_service.rest.field import FieldError
from culvert_service.rest.page import Page, Sort
from culvert_service.rest.version import MayMatch

INVITATION_LIFETIME = datetime.timedelta(days=1)
SESSION_LIFETIME = datetime.timedelta(hours=8)
_TOKEN_BYTES = 32
# Uses within this time of the last recorded one are not recorded.
_USE_NOTED = datetime.timedelta(minutes=1)
_USER_AGENT_MAX = 256
_KNOWN_BYTES = 16

Now = Callable[[], datetime.datetime]


@dataclass(frozen=True, slots=True)
class SignedIn:
    """`token` is the cookie's value."""

    token: str
    answer: SignedInOut


class Admins:
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        rest_url: str,
        now: Now,
        passwords: Passwords | None = None,
        proof: Proof | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self._database = database
        self._refusals = refusals or Refusals(database)
        self._master_key = master_key
        self._rest_url = rest_url
        self._now = now
        self._passwords = passwords or Passwords()
        self._proof = proof or Proof(database, master_key, self._passwords, now)

    def now(self) -> datetime.datetime:
        return self._now()

    async def first_owner(self, by: Actor) -> AdminInvitationOut | None:
        """An owner's invitation, in place of any earlier one; None once an owner has signed in."""
        async with begin(self._database, by) as transaction:
            if await repository.has_owner(transaction.session):
                return None
            await repository.forget_owner_invitations(transaction.session)
            await repository.forget_unconfirmed_owners(transaction.session)
            return await self._invite(transaction, Role.OWNER)

    async def invite(self, by: Actor, role: Role) -> AdminInvitationOut:
        async with begin(self._database, by) as transaction:
            return await self._invite(transaction, role)

    async def invitations(self, page: Page) -> list[OpenAdminInvitationOut]:
        """The open invitations, newest first."""
        async with self._database() as session:
            cut = page.by(datetime.datetime, str)
            found = await repository.invitation_page(session, self._now(), cut)
        return [invitation_out(row) for row in page.cut(found, lambda row: (row.expires_at, public_id(row)))]

    async def withdraw(self, by: Actor, invitation_id: str) -> None:
        """Also deletes the invitation's account if nobody has signed in to it. Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            for row in await repository.invitations(transaction.session, self._now()):
                if public_id(row) == invitation_id:
                    await repository.take_invitation(transaction.session, row.token_hash, self._now())
                    await transaction.session.delete(row)
                    transaction.audit(Line("admin.invitation.withdraw", f"role/{row.role.value}"))
                    return
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The invitation"))

    async def show_invitation(self, token: str) -> SetupShowOut:
        """Raises CulvertError INVITATION_INVALID."""
        async with self._database() as session:
            role = await repository.invited_role(session, _hash(token), self._now())
        if role is None:
            raise CulvertError(Reason.INVITATION_INVALID)
        return SetupShowOut(role=role.value)

    async def set_up(self, by: Actor, asked: SetupIn) -> SetupOut:
        """The invitation stays valid until the account's first sign-in; each call replaces the account.

        An account without a sign-in keeps its name until its own invitation would have expired.

        Raises CulvertError INVITATION_INVALID or ALREADY_EXISTS.
        """
        try:
            return await self._set_up(by, asked)
        except CulvertError as error:
            await self._refusals.of_stranger(by, Line("admin.create", f"admin/{asked.name}"), error)
            raise

    async def sign_in(
        self, by: Actor, asked: SignInIn, user_agent: str | None, known: str | None = None
    ) -> SignedIn:
        """`known` is a result of `find_browser`.

        Raises CulvertError SIGN_IN_WRONG, which does not say what was wrong, SIGN_IN_LOCKED or SIGN_IN_SLOWED.
        """
        line = Line("admin.sign-in", f"admin/{asked.name}")
        try:
            signed_in = await self._sign_in(by, asked, line, user_agent, known)
        except CulvertError as error:
            await self._refusals.of_stranger(by, line, error)
            raise
        return signed_in

    def find_browser(self, name: str, cookie: str | None) -> str | None:
        """The browser's id in a cookie of `remember_browser`; None for no cookie and for another administrator's."""
        try:
            return self._master_key.open(bytes.fromhex(cookie or ""), _known_context(name)).hex()
        except (ValueError, MasterKeyError):
            return None

    def remember_browser(self, name: str) -> str:
        """A cookie for the browser in which the administrator has just signed in. The cookie is no credential."""
        return self._master_key.seal(secrets.token_bytes(_KNOWN_BYTES), _known_context(name)).hex()

    async def session(self, token: str) -> SignedInOut | None:
        now = self._now()
        async with self._database() as session:
            found = await repository.session_of(session, _hash(token), now)
        if found and found.last_used_at <= now - _USE_NOTED:
            async with self._database.begin() as session:
                await repository.note_use(session, found.token_hash, now)
        return _to_signed_in(token, found.admin, found) if found else None

    async def sign_out(self, by: Actor, token: str) -> None:
        async with begin(self._database, by) as transaction:
            await repository.end_session(transaction.session, _hash(token))
            transaction.audit(Line("admin.sign-out", f"admin/{by.name}"))

    async def list(self, page: Page, q: str | None, sort: str) -> list[AdminOut]:
        order = Sort(page, repository.ORDERS, sort, repository.BY_NAME)
        async with self._database() as session:
            return [_admin_out(one) for one in await repository.admins(session, order, q)]

    async def get(self, name: str) -> tuple[AdminOut, int]:
        """With its version."""
        async with self._database() as session:
            admin = await repository.by_name(session, name)
        if admin is None:
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("The administrator {name}", name=name))
        return _admin_out(admin), admin.version

    async def change_role(
        self, by: Actor, name: str, role: Role, seen: MayMatch, *, keep_tokens: bool
    ) -> tuple[AdminOut, int]:
        """Returns the administrator and its version. An owner's tokens and invitations end with a lesser role.

        Raises CulvertError NOT_FOUND, VERSION_STALE or LAST_OWNER.
        """
        async with begin(self._database, by) as transaction:
            admin = await self._lock(transaction.session, name, keeps_owner=role is Role.OWNER)
            seen.check(Phrase("The administrator {name}", name=name), admin.version)
            told: dict[str, Detail] = {"from": admin.role.value, "to": role.value}
            if admin.role is Role.OWNER and role is not Role.OWNER:
                told |= await _end_made_by(transaction.session, name, keep_tokens=keep_tokens)
            # The invitation would make the account anew in the old role.
            await repository.forget_invitation_of(transaction.session, admin)
            admin.role, admin.version = role, admin.version + 1
            await tell_owners(transaction, Line("admin.role", f"admin/{name}", told))
        return _admin_out(admin), admin.version

    async def delete(self, by: Actor, name: str, seen: MayMatch, *, keep_tokens: bool) -> None:
        """Also ends the administrator's sessions, invitations and (unless `keep_tokens`) API tokens.

        Raises CulvertError NOT_FOUND, VERSION_STALE or LAST_OWNER.
        """
        async with begin(self._database, by) as transaction:
            admin = await self._lock(transaction.session, name, keeps_owner=False)
            seen.check(Phrase("The administrator {name}", name=name), admin.version)
            await repository.forget_invitation_of(transaction.session, admin)
            await transaction.session.delete(admin)
            told: dict[str, Detail] = {"role": admin.role.value}
            told |= await _end_made_by(transaction.session, name, keep_tokens=keep_tokens)
            await tell_owners(transaction, Line("admin.delete", f"admin/{name}", told))

    async def create_token(self, by: Actor, asked: ApiTokenIn) -> NewApiTokenOut:
        if asked.name == ROOT_NAME:
            raise FieldError(
                "/name", Reason.ALREADY_EXISTS, what=Phrase("The API token {name}", name=asked.name)
            )
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        scopes = sorted(set(asked.scopes))
        row = ApiToken(
            id=uuid.uuid4(),
            name=asked.name,
            token_hash=_hash(token),
            scopes=scopes,
            expires_at=self._now() + datetime.timedelta(days=asked.days),
            created_by=by.name,
        )
        try:
            async with begin(self._database, by) as transaction:
                transaction.session.add(row)
                await transaction.session.flush()
                await transaction.session.refresh(row)
                line = Line("token.create", f"token/{row.name}", {"scopes": " ".join(scopes)})
                await tell_owners(transaction, line)
        except IntegrityError:
            raise FieldError(
                "/name", Reason.ALREADY_EXISTS, what=Phrase("The API token {name}", name=asked.name)
            ) from None
        return NewApiTokenOut(**_token_out(row).model_dump(), token=token)

    async def tokens(self, page: Page, q: str | None, sort: str) -> list[ApiTokenOut]:
        """The tokens with `q` in their names, scopes or makers."""
        order = Sort(page, repository.TOKEN_ORDERS, sort, repository.BY_TOKEN_NAME)
        async with self._database() as session:
            return [_token_out(row) for row in await repository.tokens(session, order, q)]

    async def delete_token(self, by: Actor, token_id: uuid.UUID) -> None:
        async with begin(self._database, by) as transaction:
            name = await repository.delete_token(transaction.session, token_id)
            if name is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The API token {name}", name=token_id))
            transaction.audit(Line("token.delete", f"token/{name}"))

    async def by_token(self, token: str) -> ByScopes | None:
        async with self._database() as session:
            row = await repository.token_of(session, _hash(token), self._now())
        return ByScopes(row.name, row.scopes) if row else None

    async def _lock(self, session: AsyncSession, name: str, *, keeps_owner: bool) -> Admin:
        """Lock the administrator for a change. Raises LAST_OWNER if no owner who has signed in would be left."""
        owners = await repository.lock_owners(session)
        if not keeps_owner and [owner.name for owner in owners] == [name]:
            raise CulvertError(Reason.LAST_OWNER, name=name)
        admin = await repository.lock_admin(session, name)
        if admin is None:
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("The administrator {name}", name=name))
        return admin

    async def _invite(self, transaction: Transaction, role: Role) -> AdminInvitationOut:
        token, expires_at = secrets.token_urlsafe(_TOKEN_BYTES), self._now() + INVITATION_LIFETIME
        actor = transaction.actor
        by = None if actor.kind is ActorKind.SYSTEM else actor.name
        invitation = AdminInvitation(token_hash=_hash(token), role=role, expires_at=expires_at, created_by=by)
        transaction.session.add(invitation)
        await tell_owners(transaction, Line("admin.invite", f"role/{role.value}"))
        # Browsers do not send the part after the #.
        link = f"{self._rest_url}/console/setup#token={token}"
        return AdminInvitationOut(token=token, link=link, expires_at=expires_at)

    async def _set_up(self, by: Actor, asked: SetupIn) -> SetupOut:
        # Checked before the password is hashed, because hashing is expensive.
        await self.show_invitation(asked.token.get_secret_value())
        token_hash, now = _hash(asked.token.get_secret_value()), self._now()
        check_name(asked.name)
        secret, codes = totp.new_secret(), new_recovery_codes()
        hashed = await self._passwords.hash(asked.password.get_secret_value())
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                invited = await repository.take_invitation(session, token_hash, now)
                if invited is None:
                    raise CulvertError(Reason.INVITATION_INVALID)
                await repository.forget_overdue(session, now)
                admin = Admin(
                    name=asked.name,
                    role=invited.role,
                    password_hash=hashed,
                    secret_ciphertext=self._master_key.seal(secret, totp_context(asked.name)),
                    setup_until=invited.expires_at,
                )
                session.add(admin)
                await session.flush()
                invited.admin_id = admin.id
                repository.add_recovery_codes(session, admin.id, map(recovery_hash, codes))
                details: dict[str, Detail] = {
                    "role": invited.role.value,
                    "invited_by": invited.created_by or ROOT_NAME,
                    "recovery_codes": len(codes),
                }
                await tell_owners(transaction, Line("admin.create", f"admin/{asked.name}", details))
        except IntegrityError:
            raise FieldError(
                "/name", Reason.ALREADY_EXISTS, what=Phrase("The administrator {name}", name=asked.name)
            ) from None
        return SetupOut(totp_uri=totp.uri(secret, asked.name, "administration"), recovery_codes=codes)

    async def _sign_in(
        self, by: Actor, asked: SignInIn, line: Line, user_agent: str | None, known: str | None
    ) -> SignedIn:
        async def opened(transaction: Transaction, admin: Admin) -> SignedIn:
            now = self._now()
            if admin.confirmed_at is None:
                admin.confirmed_at = now
                await repository.forget_invitation_of(transaction.session, admin)
            await repository.forget_expired(transaction.session, now)
            return await open_session(transaction, admin, now, line, user_agent)

        return await self._proof.run_with_proof(by, asked.name, asked.password, asked.code, opened, known)


async def open_session(
    transaction: Transaction, admin: Admin, now: datetime.datetime, line: Line, user_agent: str | None
) -> SignedIn:
    """Open a session after a successful proof, in the transaction of the proof."""
    token, actor = secrets.token_urlsafe(_TOKEN_BYTES), transaction.actor
    row = AdminSession(
        token_hash=_hash(token),
        admin_id=admin.id,
        expires_at=now + SESSION_LIFETIME,
        proven_at=now,
        last_used_at=now,
        source=actor.source,
        # Postgres refuses NUL in a text.
        user_agent=user_agent and user_agent[:_USER_AGENT_MAX].replace("\0", ""),
    )
    transaction.session.add(row)
    await tell_of_wrong_codes(transaction, admin)
    transaction.audit(replace(line, actor=actor.with_name(ActorKind.ADMIN, admin.name)))
    return SignedIn(token, _to_signed_in(token, admin, row))


async def renew_session(
    session: AsyncSession, admin: Admin, token_hash: bytes, now: datetime.datetime
) -> SignedIn:
    """Give the session a new cookie after a successful proof. A stolen copy of the old cookie is no longer valid.

    Raises CulvertError SESSION_INVALID.
    """
    row = await repository.lock_session(session, admin.id, token_hash, now)
    if row is None:
        raise CulvertError(Reason.SESSION_INVALID)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    row.token_hash, row.proven_at = _hash(token), now
    return SignedIn(token, _to_signed_in(token, admin, row))


async def _end_made_by(session: AsyncSession, name: str, *, keep_tokens: bool) -> dict[str, Detail]:
    """End the administrator's API tokens and invitations: the person may have kept their secrets. Returns the details."""
    tokens: Sequence[str] = () if keep_tokens else await repository.forget_tokens_by(session, name)
    return {
        "invitations": await repository.forget_invitations_by(session, name),
        "tokens": " ".join(sorted(tokens)),
    }


def _known_context(name: str) -> str:
    return f"known browser of {name}"


def check_name(name: str) -> None:
    """Raises CulvertError ALREADY_EXISTS for the name of root's token, and for a name that is a path of the API."""
    if name in (ROOT_NAME, "invitations"):
        raise FieldError("/name", Reason.ALREADY_EXISTS, what=Phrase("The administrator {name}", name=name))


def csrf_token(token: str) -> str:
    """A token that only a page of ours, which has read an answer, can send; the cookie alone does not reveal it."""
    return hmac.digest(token.encode(), b"csrf", "sha256").hex()


def by_session(signed_in: SignedInOut) -> BySession:
    return BySession(signed_in.name, Role(signed_in.role), signed_in.proven_until - PROOF_LIFETIME)


def _to_signed_in(token: str, admin: Admin, row: AdminSession) -> SignedInOut:
    return SignedInOut(
        name=admin.name,
        role=admin.role.value,
        csrf_token=csrf_token(token),
        expires_at=row.expires_at,
        proven_until=row.proven_at + PROOF_LIFETIME,
        has_password=admin.password_hash is not None,
    )


def _admin_out(admin: Admin) -> AdminOut:
    return AdminOut.model_validate(admin, from_attributes=True)


def _token_out(row: ApiToken) -> ApiTokenOut:
    return ApiTokenOut.model_validate(row, from_attributes=True)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
