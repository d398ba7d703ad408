"""Sign-in at the provider: for an administrator's session or account, or for a person's invitation."""

from __future__ import annotations

import datetime
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from culvert_db import ActorKind, Admin, AdminIdentity, Database
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError

from culvert_service.admins import repository
from culvert_service.admins.notices import tell_owners
from culvert_service.admins.service import SignedIn, check_name, open_session
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.transaction import begin
from culvert_service.config import ConfigurationError, Settings
from culvert_service.identity import repository as identity
from culvert_service.identity.invitations import Invitations
from culvert_service.identity.schemas import InvitationOut, canonical_email
from culvert_service.oidc import flow as flows
from culvert_service.oidc.flow import SignInFlow
from culvert_service.oidc.schemas import OidcIn
from culvert_service.pki.master_key import MasterKey

if TYPE_CHECKING:
    from culvert_service.oidc.provider import Provider, Subject

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class Oidc:
    """`provider` None: no provider is configured."""

    def __init__(
        self,
        database: Database,
        refusals: Refusals,
        provider: Provider | None,
        master_key: MasterKey,
        invitations: Invitations,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._refusals = refusals
        self._configured = provider
        self._master_key = master_key
        self._invitations = invitations
        self._now = now
        # The provider's last logged fault, for each half of a sign-in, until that half succeeds.
        self._faults: dict[str, CulvertError] = {}

    @property
    def issuer(self) -> str | None:
        """The provider's issuer, if a provider is configured."""
        return self._configured.issuer if self._configured else None

    @property
    def fault(self) -> CulvertError | None:
        """The error of the last failed sign-in at the provider, until one succeeds."""
        return next(iter(self._faults.values()), None)

    async def begin(self, asked: OidcIn) -> tuple[str, str]:
        """Return the address for the browser, and its cookie. Raises CulvertError NOT_FOUND or ProviderError."""
        token = asked.token.get_secret_value() if asked.token else ""
        flow = flows.begin(asked.purpose, token, asked.name or "", self._now())
        asking = self._provider().authorization_url(flow.state, flow.nonce, flow.verifier)
        url = await self._log_fault("begin", asking)
        return url, flows.seal(flow, self._master_key)

    async def finish(
        self,
        by: Actor,
        cookie: str | None,
        state: str,
        code: str | None,
        error: tuple[str | None, str | None],
        user_agent: str | None,
    ) -> SignedIn | InvitationOut:
        """`code`, or `error` with its description (RFC 6749 section 4.1.2.1), are the provider's. Raises ProviderError, or
        CulvertError OIDC_STALE, OIDC_UNKNOWN, OIDC_EMAIL_…, INVITATION_INVALID or ALREADY_EXISTS.
        """
        provider = self._provider()
        flow = flows.resume(cookie, state, self._master_key, self._now())
        try:
            if code is None:
                raise _broken_off_error(provider, *error)
            with_email = flow.purpose == "enrol"
            asking = provider.subject(code, flow.nonce, flow.verifier, self._now(), with_email=with_email)
            subject = await self._log_fault("finish", asking)
            match flow.purpose:
                case "sign-in":
                    return await self._sign_in(by, subject, user_agent)
                case "setup":
                    return await self._set_up(by, flow, subject, user_agent)
                case "enrol":
                    return await self._enrol(by, subject)
        except CulvertError as refusal:
            action = {"sign-in": "admin.sign-in", "setup": "admin.create", "enrol": "user.invite"}
            line = Line(action[flow.purpose], "oidc/unknown", {"issuer": provider.issuer})
            await self._refusals.of_stranger(by, line, refusal)
            raise

    async def _log_fault(self, half: str, asking: Awaitable[_Result]) -> _Result:
        """Log the fault that prevents sign-ins, once until it changes."""
        try:
            result = await asking
        except CulvertError as error:
            known = self._faults.get(half)
            self._faults[half] = error
            if known is None or _cause(known) != _cause(error):
                _log.warning("%s %s", error.message, error.remedy, extra={"detail": _cause(error)[1]})
            raise
        if self._faults.pop(half, None):
            _log.info("the provider %s does again what a sign-in asks", self.issuer)
        return result

    async def _sign_in(self, by: Actor, subject: Subject, user_agent: str | None) -> SignedIn:
        now = self._now()
        async with begin(self._database, by) as transaction:
            admin = await repository.by_identity(transaction.session, subject.issuer, subject.name)
            if admin is None:
                raise CulvertError(Reason.OIDC_UNKNOWN, issuer=subject.issuer)
            await repository.forget_expired(transaction.session, now)
            line = _line("admin.sign-in", admin.name, subject)
            return await open_session(transaction, admin, now, line, user_agent)

    async def _set_up(
        self, by: Actor, flow: SignInFlow, subject: Subject, user_agent: str | None
    ) -> SignedIn:
        now = self._now()
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                token_hash = hashlib.sha256(flow.token.encode()).digest()
                invited = await repository.take_invitation(session, token_hash, now)
                if invited is None:
                    raise CulvertError(Reason.INVITATION_INVALID)
                await session.delete(invited)
                check_name(flow.name)
                await repository.forget_overdue(session, now)
                role = invited.role
                admin = Admin(name=flow.name, role=role, version=1, last_used_step=0, confirmed_at=now)
                session.add(admin)
                await session.flush()
                session.add(AdminIdentity(issuer=subject.issuer, subject=subject.name, admin_id=admin.id))
                await session.flush()
                await tell_owners(transaction, _line("admin.create", flow.name, subject))
                line = _line("admin.sign-in", flow.name, subject)
                return await open_session(transaction, admin, now, line, user_agent)
        except IntegrityError:
            what = Phrase("The administrator {name}, or an account of yours,", name=flow.name)
            raise CulvertError(Reason.ALREADY_EXISTS, what=what) from None

    async def _enrol(self, by: Actor, subject: Subject) -> InvitationOut:
        if subject.email is None:
            raise CulvertError(Reason.OIDC_EMAIL_UNVERIFIED, issuer=subject.issuer)
        email = canonical_email(subject.email)
        async with self._database() as session:
            names = await identity.names_with_email(session, email, most=2)
        if not names:
            raise CulvertError(Reason.OIDC_UNKNOWN, issuer=subject.issuer)
        if len(names) > 1:
            raise CulvertError(Reason.OIDC_EMAIL_SHARED, email=email)
        return await self._invitations.invite(by.with_name(ActorKind.INVITATION, names[0]), names[0])

    def _provider(self) -> Provider:
        if self._configured is None:
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("A provider of OpenID Connect"))
        return self._configured


def provider_from_settings(settings: Settings) -> Provider | None:
    """The provider of the settings, if they name one. Raises ConfigurationError."""
    issuer, client, file = settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret_file
    if issuer is None or client is None or file is None:
        return None
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"oidc_client_secret_file: {file} cannot be read") from None
    # Imported here, because the modules are large and most controllers have no provider.
    from culvert_service.oidc.calls import ProviderCalls, trust
    from culvert_service.oidc.provider import Provider

    try:
        calls = ProviderCalls(issuer, trust(settings.oidc_ca_file))
    except OSError as error:
        raise ConfigurationError(
            f"oidc_ca_file: {settings.oidc_ca_file}: {error.strerror or error}"
        ) from None
    callback = f"{settings.rest_url}/api/v1/oidc/callback"
    return Provider(calls, client, secret, callback, settings.oidc_email_verified_by)


def _broken_off_error(provider: Provider, error: str | None, description: str | None) -> CulvertError:
    said = (error or "")[:60]
    why = Phrase("the sign-in was broken off, by the person or by the provider")
    if said not in ("", "access_denied"):
        why = Phrase("it answers {name}", name=said)
    refusal = provider.calls.refusal_error(why, f"{said}: {description}")
    # Not shown to the person: anybody can make a link with any description.
    _log.info("%s", refusal.message, extra={"detail": refusal.detail})
    return refusal


def _cause(error: CulvertError) -> tuple[Reason, str]:
    return error.reason, str(getattr(error, "detail", ""))


def _line(action: str, name: str, subject: Subject) -> Line:
    return Line(action, f"admin/{name}", {"issuer": subject.issuer, "subject": subject.name})
