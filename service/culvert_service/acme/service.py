"""The certificate of the public name by ACME. The controllers of a database share it, and one talks to the authority.

every 2 s: read the row ─► show its certificate and challenge
           is an attempt due, and no other controller at it? ─► hold the row ─► order
                ├─► the challenge's certificate is in the row, and shown by every controller ─► validation ─► certificate
                └─► a fault: its text is in the row; the last good certificate stays; a wait
           is it time to ask when to renew? ─► hold the row ─► ask
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import random
import re
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path

from acme import messages
from asyncpg import InterfaceError, PostgresError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import AcmeCertificate, Database, clock
from sqlalchemy.exc import SQLAlchemyError

from culvert_service.acme import repository, schedule
from culvert_service.acme.faults import AccountClosedError, AcmeFaultError
from culvert_service.acme.server import AcmeServer, finalized, key_pem
from culvert_service.config import Settings, system_words
from culvert_service.controllers.calls import Calls, NoAnswerError, Serve
from culvert_service.controllers.identity import ControllerId
from culvert_service.pki.master_key import MasterKey, MasterKeyError
from culvert_service.pki.public_certificate import CertificateFaultError, PublicCertificate, check
from culvert_service.tasks import Periodic

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_VALIDATION_SECONDS, _ISSUANCE_SECONDS = 120.0, 300.0
_LOOK_METHOD = "acme.look"
# After a stop in the middle of an attempt.
_STOPPED = datetime.timedelta(minutes=1)
_KEY_MAX = 1 << 12
_DATABASE_FAULTS = (SQLAlchemyError, PostgresError, InterfaceError, OSError)


class AcmeCertificates:
    """Implements `PublicCertificates`."""

    def __init__(
        self,
        settings: Settings,
        directory: str,
        database: Database,
        me: ControllerId,
        master_key: MasterKey,
        calls: Calls,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._settings = settings
        self._database = database
        self._row = directory, settings.public_name
        self._me = me
        self._master_key = master_key
        self._calls = calls
        self._now = now
        self._told: list[Callable[[], None]] = []
        self._looks = Periodic("public certificate", self._round, _LOOK_SECONDS)
        self._attempt: asyncio.Task[None] | None = None
        self._seen: tuple[object, ...] = ()
        # Why the row's certificate is not shown.
        self._unusable = ""
        self.current: PublicCertificate | None = None
        self.challenge: bytes | None = None
        self.fault = ""

    def tell(self, hear: Callable[[], None]) -> None:
        self._told.append(hear)

    def serving(self) -> Mapping[str, Serve]:
        """Implements `CallServer`."""
        return {_LOOK_METHOD: self._asked_to_look}

    async def start(self) -> None:
        """Raises database errors."""
        async with self._database.begin() as session:
            await repository.make(session, *self._row)
        await self._look()
        self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.gather(self._attempt, return_exceptions=True)

    async def _asked_to_look(self, _body: bytes) -> bytes:
        await self._look()
        return b""

    async def _look(self) -> AcmeCertificate | None:
        """Show what the row has."""
        async with self._database() as session:
            row = await repository.read(session, *self._row)
        if row is None:
            return None
        seen = row.chain, row.key, row.challenge
        if seen != self._seen:
            self._take(row)
            self._seen = seen
            for hear in self._told:
                hear()
        self.fault = row.fault or self._unusable
        return row

    def _take(self, row: AcmeCertificate) -> None:
        """A certificate that is no good leaves the last one, or that of Culvert's CA, and the challenge is shown."""
        self._unusable = ""
        try:
            self.challenge = None if row.challenge is None else self._open(row.challenge, "challenge")
            if row.chain is not None and row.key is not None:
                key = self._open(row.key, "key")
                self.current = check(row.chain, key, self._settings.public_name, self._now())
        except (CertificateFaultError, MasterKeyError) as error:
            self._unusable = str(error)
            _log.error("the public certificate is not used: %s", error)

    async def _round(self) -> None:
        row = await self._look()
        if row is None:
            return
        if self._attempt is not None and not self._attempt.done():
            async with self._database.begin() as session:
                if not await repository.keep(session, *self._row, self._me.holder):
                    self._attempt.cancel()
            return
        await self._begin()

    async def _begin(self) -> None:
        """Begin what is due, unless another controller is at it."""
        async with self._database.begin() as session:
            row = await repository.lock(session, *self._row)
            now = await clock(session)
            if row is None or (row.held_until is not None and row.held_until > now):
                return
            due = row.chain is None or row.renew_at is None or row.renew_at <= now
            orders = due and (row.attempt_at is None or row.attempt_at <= now)
            asks = not due and row.ask_at is not None and row.ask_at <= now
            if not orders and not asks:
                return
            failures = row.failures + 1
            await repository.hold(session, *self._row, self._me.holder)
            if orders:
                # Written first: a process that dies in the middle must not begin again and again.
                wait = schedule.wait(failures, is_refusal=True, wish_seconds=0, draw=random.random())  # noqa: S311
                values = {"failures": failures, "attempt_at": now + wait}
                await repository.write(session, *self._row, self._me.holder, **values)
        work = self._obtain(row, failures) if orders else self._ask_renewal(row)
        self._attempt = asyncio.create_task(self._guard(work), name="ACME")

    async def _guard(self, work: Coroutine[object, object, None]) -> None:
        """Errors of the database end the attempt, and no round."""
        try:
            await work
        except _DATABASE_FAULTS as error:
            _log.warning("an ACME attempt ended", extra={"why": type(error).__name__})
        except Exception:
            _log.exception("an ACME attempt failed")
        finally:
            with contextlib.suppress(*_DATABASE_FAULTS):
                await self._write(holder=None, held_until=None)

    async def _write(self, **values: object) -> None:
        async with self._database.begin() as session:
            await repository.write(session, *self._row, self._me.holder, **values)

    async def _obtain(self, row: AcmeCertificate, failures: int) -> None:
        try:
            await self._order(row)
        except asyncio.CancelledError:
            await self._write(challenge=None, attempt_at=self._now() + _STOPPED)
            raise
        except (AcmeFaultError, MasterKeyError) as caught:
            error = (
                caught
                if isinstance(caught, AcmeFaultError)
                else AcmeFaultError(str(caught), "put the state directory back that belongs to this database")
            )
            wait = schedule.wait(
                failures,
                is_refusal=error.is_refusal,
                wish_seconds=error.wait_seconds,
                draw=random.random(),  # noqa: S311
            )
            again = self._now() + wait
            fault = f"{error}. It is tried again at {again:%Y-%m-%d %H:%M} UTC"
            _log.error("no public certificate: %s", fault)
            closed = (
                {"account_url": None, "account_key": None} if isinstance(error, AccountClosedError) else {}
            )
            await self._write(challenge=None, fault=fault, attempt_at=again, **closed)
            await self._look()

    async def _order(self, row: AcmeCertificate) -> None:
        """Raises AcmeFaultError."""
        name = self._settings.public_name
        server = await self._server(row)
        if row.order_url is not None and row.order_key is not None:
            order, key = finalized(row.order_url), self._open(row.order_key, "order")
        else:
            made = ec.generate_private_key(ec.SECP256R1())
            key = key_pem(made)
            order = await server.order(_request(made, name), self._settings.acme_profile)
            for authorization in server.unproved(order):
                await self._write(challenge=self._seal(server.challenge(authorization), "challenge"))
                await self._show_everywhere()
                await server.validate(authorization, _VALIDATION_SECONDS)
            await server.finalize(order)
            await self._write(challenge=None, order_url=order.uri, order_key=self._seal(key, "order"))
        chain = await self._collect(server, order)
        await self._write(order_url=None, order_key=None)
        try:
            found = check(chain, key, name, self._now())
        except CertificateFaultError as error:
            why, _, remedy = str(error).partition(". Remedy: ")
            raise AcmeFaultError(f"what {server.host} has issued: {why}", remedy, is_refusal=True) from None
        issued_at = self._now()
        await self._write(
            chain=chain,
            key=self._seal(key, "key"),
            issued_at=issued_at,
            renew_at=schedule.renewal(found.begins_at, found.expires_at, random.random()),  # noqa: S311
            ask_at=issued_at,
            failures=0,
            attempt_at=None,
            fault="",
        )
        _log.info("public certificate issued", extra={"until": found.expires_at.isoformat()})
        await self._show_everywhere()

    async def _server(self, row: AcmeCertificate) -> AcmeServer:
        """Connected, with an account."""
        settings = self._settings
        if row.account_key is not None:
            key = serialization.load_pem_private_key(self._open(row.account_key, "account"), password=None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
        else:
            key = ec.generate_private_key(ec.SECP256R1())
        server = AcmeServer(self._row[0], settings.acme_ca_file, key, row.account_url)
        await server.connect()
        if row.account_url is not None:
            return server
        if server.terms and not settings.acme_terms_agreed:
            raise AcmeFaultError(
                f"{server.host} wants its terms of service agreed to: {server.terms}",
                "read them, and set acme_terms_agreed = true",
            )
        binding = _binding(settings.acme_eab_key_id, settings.acme_eab_key_file)
        # Before the account is made, so that it is not lost.
        await self._write(account_key=self._seal(key_pem(key), "account"))
        url = await server.register(settings.acme_contact, settings.acme_terms_agreed, binding)
        await self._write(account_url=url)
        return server

    async def _collect(self, server: AcmeServer, order: messages.OrderResource) -> bytes:
        try:
            chain = await server.collect(order, _ISSUANCE_SECONDS)
        except AcmeFaultError as error:
            if error.is_refusal:
                await self._write(order_url=None, order_key=None)
            raise
        if chain is None:
            raise AcmeFaultError(
                f"{server.host} still processes the order",
                "none is needed, unless somebody at the authority has to approve it: it is looked at again by itself",
                wait_seconds=server.wait_seconds,
            )
        return chain

    async def _ask_renewal(self, row: AcmeCertificate) -> None:
        assert row.chain is not None
        assert row.issued_at is not None
        leaf = x509.load_pem_x509_certificate(row.chain)
        begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
        lifetime, values = ends - begins, dict[str, object]()
        try:
            server = AcmeServer(self._row[0], self._settings.acme_ca_file)
            await server.connect()
            suggested, wish = await server.suggested_renewal(row.chain)
        except AcmeFaultError as error:
            _log.info("no suggestion for the renewal", extra={"why": error.why})
            wish = lifetime / 10
        else:
            if suggested is not None:
                values["renew_at"] = schedule.suggested_renewal(suggested, begins, ends, row.issued_at)
        await self._write(ask_at=self._now() + schedule.next_question(wish), **values)

    async def _show_everywhere(self) -> None:
        """Each controller behind the name shows what the row has, before this returns."""
        await self._look()
        async with self._database() as session:
            others = await repository.others(session, self._me.holder)
        answers = await asyncio.gather(
            *(self._calls.ask(holder, _LOOK_METHOD, b"") for holder in others), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, NoAnswerError):
                _log.warning("a controller may not show the challenge", extra={"why": str(answer)})

    def _seal(self, secret: bytes, what: str) -> bytes:
        return self._master_key.seal(secret, self._context(what))

    def _open(self, sealed: bytes, what: str) -> bytes:
        """Raises MasterKeyError."""
        return self._master_key.open(sealed, self._context(what))

    def _context(self, what: str) -> str:
        return f"acme {what} {' '.join(self._row)}"


def _request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """PEM of a certificate request. The subject is empty: authorities take the name from the extension."""
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def _binding(key_id: str | None, key_file: Path | None) -> tuple[str, str] | None:
    """Raises AcmeFaultError."""
    if key_id is None or key_file is None:
        return None
    try:
        with key_file.open("rb") as opened:
            key = opened.read(_KEY_MAX).strip().rstrip(b"=")
    except OSError as error:
        raise AcmeFaultError(
            f"acme_eab_key_file: {system_words(error)}", "name a file that the controller may read"
        ) from None
    if not re.fullmatch(rb"[A-Za-z0-9_-]{8,}", key) or len(key) % 4 == 1:
        raise AcmeFaultError(
            f"acme_eab_key_file: {key_file} holds no key in base64url",
            "write the authority's HMAC key there, and nothing else",
        )
    return key_id, key.decode()
