"""An ACME server (RFC 8555), by the library of the project certbot: each call in a thread, its answer bounded.

directory ─► account ─► order ─► TLS-ALPN-01 (RFC 8737) ─► finalized ─► chain ─► when to renew (RFC 9773)
"""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import hashlib
import ssl
import time
from collections.abc import Callable
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

import requests
from acme import challenges, errors, messages
from acme.client import ClientNetwork, ClientV2
from certifi import where as certifi_file
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from josepy.jwa import ES256
from josepy.jwk import JWK, JWKEC
from requests.utils import get_environ_proxies

from culvert_service.acme.faults import (
    AccountClosedError,
    AcmeFaultError,
    printable,
    problem,
    strange,
    unreachable,
)

_P = ParamSpec("_P")
_Result = TypeVar("_Result")

# id-pe-acmeIdentifier (RFC 8737, section 3), and the head of an OCTET STRING of 32 bytes.
_ACME_IDENTIFIER, _OCTETS_32 = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31"), b"\x04\x20"
_ANSWER_MAX = 1 << 18
_CONNECT_SECONDS, _SILENT_SECONDS, _ANSWER_SECONDS = 5.0, 10.0, 20.0
# A nonce may be refused again and again: Pebble does it by chance.
_NONCE_TRIES = 10
# The library sleeps a second in a thread before it looks at an order.
_LOOK = datetime.timedelta(seconds=1.5)
# Seconds between two looks at an authorization or order, unless the server wishes for others.
_POLL_SECONDS, _POLL_MOST = 2.0, 60.0
_DAY = datetime.timedelta(days=1)
_LATER = datetime.timedelta(hours=6)


@challenges.ChallengeResponse.register
class _TlsAlpn01Response(challenges.KeyAuthorizationChallengeResponse):
    typ = "tls-alpn-01"


@challenges.Challenge.register
class _TlsAlpn01(challenges.KeyAuthorizationChallenge):
    typ = "tls-alpn-01"
    response_cls = _TlsAlpn01Response

    def validation(self, account_key: JWK, **_: Any) -> bytes:
        """The digest for the challenge's certificate."""
        return hashlib.sha256(self.key_authorization(account_key).encode()).digest()


class AcmeServer:
    """All methods raise AcmeFaultError."""

    def __init__(
        self,
        directory_url: str,
        ca_file: Path | None,
        account_key: ec.EllipticCurvePrivateKey | None = None,
        account_url: str | None = None,
    ) -> None:
        """The CAs of `ca_file` are trusted for the server's certificate; None: the system's."""
        self._url = directory_url
        self.host = urlsplit(directory_url).netloc
        key = None if account_key is None else JWKEC(key=account_key)
        self._key = key
        self._network = _Network(directory_url, key, self._trust(ca_file))
        if account_url is not None:
            self._network.account = _account(account_url)
        self._client: ClientV2 | None = None

    @property
    def wait_seconds(self) -> float:
        """The server's wish for the wait before the next call; 0: it has none."""
        return self._network.wait_seconds

    @property
    def poll_seconds(self) -> float:
        return min(max(self.wait_seconds or _POLL_SECONDS, 1.0), _POLL_MOST)

    async def connect(self) -> None:
        """Read the directory, before all other calls."""
        directory = await self._ask(ClientV2.get_directory, self._url, self._network)
        self._client = ClientV2(directory, self._network)
        if "newOrder" not in directory.to_partial_json():
            raise strange(self.host, "it is no directory of ACME")

    @property
    def terms(self) -> str:
        """The URL of the terms of service, or empty."""
        found = self._meta("terms_of_service")
        return printable(found) if isinstance(found, str) else ""

    @property
    def needs_binding(self) -> bool:
        """Whether an account must be bound to an account at the authority that exists already."""
        return self._meta("external_account_required") is True

    async def register(self, contact: str | None, agrees: bool, binding: tuple[str, str] | None) -> str:
        """The URL of the key's account, which is made if it is not there. `binding`: key id and key in base64url."""
        client, key = self._connected(), self._key
        assert key is not None
        fields: dict[str, Any] = {"contact": (contact,)} if contact else {}
        if agrees:
            fields["terms_of_service_agreed"] = True
        if binding is not None:
            fields["external_account_binding"] = messages.ExternalAccountBinding.from_data(
                key.public_key(), *binding, client.directory
            )
        self._network.account = None
        try:
            made = await self._ask(client.new_account, messages.NewRegistration(**fields))
            url = str(made.uri)
        except _AccountThereError as error:
            url = error.url
        self._network.account = _account(url)
        return url

    async def order(self, request_pem: bytes, profile: str) -> messages.OrderResource:
        """`request_pem`: the certificate request, whose names are ordered."""
        client = self._connected()
        try:
            return await self._ask(client.new_order, request_pem, profile or None)
        except AcmeFaultError:
            await self._check_account()
            raise

    async def _check_account(self) -> None:
        """Raises AccountClosedError if the account may do nothing any more."""
        account = self._network.account
        assert account is not None
        try:
            found = await self._ask(self._connected().query_registration, account)
        except AcmeFaultError as error:
            if not error.is_refusal:
                return
            raise AccountClosedError(
                error.why, "none is needed: a new account is made", is_refusal=True
            ) from None
        if found.body.status not in {None, "valid"}:
            raise AccountClosedError(
                f"{self.host} has closed this controller's account: {found.body.status}",
                "none is needed: a new account is made",
                is_refusal=True,
            )

    def unproved(self, order: messages.OrderResource) -> list[messages.AuthorizationResource]:
        """The authorizations whose names are still to be validated."""
        found = cast("tuple[messages.AuthorizationResource, ...]", order.authorizations)
        return [it for it in found if it.body.status != messages.STATUS_VALID]

    def challenge(self, authorization: messages.AuthorizationResource) -> bytes:
        """PEM of the certificate for the TLS-ALPN-01 validation (RFC 8737, section 3), and of its key."""
        assert self._key is not None
        found = self._offered(authorization)
        name = str(authorization.body.identifier.value)
        return challenge_pem(name, cast("_TlsAlpn01", found.chall).validation(self._key))

    async def validate(self, authorization: messages.AuthorizationResource, seconds: float) -> None:
        """Ask for the validation, and wait for its end. The port shows the challenge's certificate already."""
        client, found = self._connected(), self._offered(authorization)
        assert self._key is not None
        await self._ask(client.answer_challenge, found, found.chall.response(self._key))
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(self.poll_seconds)
            authorization, _ = await self._ask(client.poll, authorization)
            status = authorization.body.status
            if status == messages.STATUS_VALID:
                return
            if status not in {messages.STATUS_PENDING, messages.STATUS_PROCESSING}:
                raise self._judged(authorization)
        raise AcmeFaultError(
            f"{self.host} has not validated the name within {seconds:.0f} s",
            "look at the authority's status page; the controller tries again by itself",
            is_refusal=True,
        )

    async def finalize(self, order: messages.OrderResource) -> None:
        await self._ask(_finalize, self._connected(), order)

    async def collect(self, order: messages.OrderResource, seconds: float) -> bytes | None:
        """The chain of a finalized order, PEM; None if the server has not issued it in this time."""
        client, deadline = self._connected(), time.monotonic() + seconds
        while time.monotonic() < deadline:
            look = datetime.datetime.now() + _LOOK
            try:
                found = await self._ask(client.poll_finalization, order, look)
            except _NotYetError:
                await asyncio.sleep(self.poll_seconds)
            else:
                return str(found.fullchain_pem).encode()
        return None

    async def suggested_renewal(self, chain: bytes) -> tuple[datetime.datetime | None, datetime.timedelta]:
        """A moment within the server's window for the renewal (RFC 9773), and when to ask again. None: it has no wish."""
        client = self._connected()
        if "renewalInfo" not in client.directory.to_partial_json():
            return None, _DAY
        when, _ = await self._ask(client.renewal_time, chain)
        seconds = self.wait_seconds
        return when, datetime.timedelta(seconds=seconds) if seconds else _LATER

    def _connected(self) -> ClientV2:
        assert self._client is not None
        return self._client

    def _meta(self, name: str) -> object:
        meta = self._connected().directory.to_partial_json().get("meta")
        return getattr(meta, name, None)

    def _offered(self, authorization: messages.AuthorizationResource) -> messages.ChallengeBody:
        for found in _challenges(authorization):
            if found.chall.typ == _TlsAlpn01.typ:
                return found
        raise AcmeFaultError(
            f"{self.host} does not offer the validation TLS-ALPN-01",
            "take another authority, or get the certificate with a program of your own: public_certificate_file",
        )

    def _judged(self, authorization: messages.AuthorizationResource) -> AcmeFaultError:
        for found in _challenges(authorization):
            if found.error is not None:
                return problem(self.host, found.error, validates=True)
        return AcmeFaultError(
            f"{self.host} has ended the validation: {authorization.body.status}",
            "ask the authority; the controller tries again by itself",
            is_refusal=True,
        )

    def _trust(self, ca_file: Path | None) -> str:
        """A file or directory of CAs."""
        if ca_file is None:
            system = ssl.get_default_verify_paths()
            return system.cafile or system.capath or certifi_file()
        try:
            ssl.create_default_context(cafile=str(ca_file))
        except OSError as error:
            why = "it holds no PEM certificate" if isinstance(error, ssl.SSLError) else error.strerror
            raise AcmeFaultError(
                f"acme_ca_file: {ca_file}: {why}", "name a file of CAs (PEM) that the controller may read"
            ) from None
        return str(ca_file)

    async def _ask(self, call: Callable[_P, _Result], *arguments: _P.args, **named: _P.kwargs) -> _Result:
        try:
            return await asyncio.to_thread(call, *arguments, **named)
        except AcmeFaultError:
            raise
        except errors.TimeoutError:
            raise _NotYetError(f"{self.host} is not ready", "wait") from None
        except errors.ConflictError as error:
            raise _AccountThereError(str(error.location)) from None
        except errors.IssuanceError as error:
            raise problem(self.host, error.error, self.wait_seconds) from None
        except messages.Error as error:
            raise problem(self.host, error, self.wait_seconds) from None
        except requests.RequestException as error:
            raise unreachable(self.host, error) from None
        except Exception as error:
            # The library reads a server's text with whatever it raises; none of it may end the controller's own work.
            cause = error.__cause__ if isinstance(error, errors.ARIError) else error
            if isinstance(cause, requests.RequestException):
                raise unreachable(self.host, cause) from None
            answer = error.args[0] if error.args else None
            if isinstance(answer, requests.Response):
                status = answer.status_code
                raise strange(
                    self.host,
                    f"HTTP status {status}",
                    self.wait_seconds,
                    is_refusal=status < HTTPStatus.INTERNAL_SERVER_ERROR,
                ) from None
            raise strange(self.host, f"{type(error).__name__}: {error}") from None


class _NotYetError(AcmeFaultError):
    """An order that is still processed."""


class _AccountThereError(Exception):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


def _challenges(authorization: messages.AuthorizationResource) -> tuple[messages.ChallengeBody, ...]:
    # The library's decorator hides the field's type.
    return cast("tuple[messages.ChallengeBody, ...]", authorization.body.challenges)


def finalized(order_url: str) -> messages.OrderResource:
    """An order of an earlier process, for `collect`."""
    return messages.OrderResource(uri=order_url, body=messages.Order(), csr_pem=b"")


def _finalize(client: ClientV2, order: messages.OrderResource) -> None:
    try:
        client.begin_finalization(order)
    except messages.Error as error:
        # It finalizes while it polls.
        if error.code != "orderNotReady":
            raise


def challenge_pem(name: str, digest: bytes) -> bytes:
    """PEM of the certificate that proves the name, and of its key. `digest`: SHA-256 of the key authorization."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
        .add_extension(x509.UnrecognizedExtension(_ACME_IDENTIFIER, _OCTETS_32 + digest), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key_pem(key)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _account(url: str) -> messages.RegistrationResource:
    return messages.RegistrationResource(body=messages.Registration(), uri=url)


class _Network(ClientNetwork):
    """HTTPS to the server alone: the URLs in its answers lead to no other host, and are followed by no redirection."""

    def __init__(self, directory_url: str, key: JWK | None, trust: str) -> None:
        agent = f"culvert-controller/{version('culvert-service')}"
        super().__init__(key, alg=ES256, user_agent=agent)
        self._origin = urlsplit(directory_url)[:2]
        self._trusted = trust
        # No password of ~/.netrc, and no other CAs of the environment.
        self.session.trust_env = False
        self.wait_seconds = 0.0

    def post(self, *args: Any, **kwargs: Any) -> requests.Response:
        for _ in range(_NONCE_TRIES - 1):
            try:
                return self._post_once(*args, **kwargs)
            except messages.Error as error:
                if error.code != "badNonce":
                    raise
        return self._post_once(*args, **kwargs)

    def _send_request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:
        if urlsplit(url)[:2] != self._origin:
            raise errors.Error(f"it leads to another host, {urlsplit(url).netloc}")
        headers = {"User-Agent": self.user_agent, **kwargs.pop("headers", {})}
        answer = self.session.request(
            method,
            url,
            *args,
            headers=headers,
            verify=self._trusted,
            proxies=get_environ_proxies(url),
            timeout=(_CONNECT_SECONDS, _SILENT_SECONDS),
            allow_redirects=False,
            stream=True,
            **kwargs,
        )
        with answer:
            answer._content = _content(answer)  # pyright: ignore[reportAttributeAccessIssue]
        answer.encoding = "utf-8"
        self.wait_seconds = _retry_after(answer.headers.get("Retry-After"))
        if answer.is_redirect:
            raise errors.Error("it leads to another address")
        return answer


def _content(answer: requests.Response) -> bytes:
    content, deadline = bytearray(), time.monotonic() + _ANSWER_SECONDS
    for part in answer.iter_content(1 << 13):
        content += part
        if len(content) > _ANSWER_MAX:
            raise errors.Error("it is too long")
        if time.monotonic() > deadline:
            raise errors.Error("it does not end")
    return bytes(content)


def _retry_after(header: str | None) -> float:
    """Seconds (RFC 9110, section 10.2.3); 0 without a usable header."""
    if header is None:
        return 0.0
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        when = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    now = datetime.datetime.now(when.tzinfo)
    return max(0.0, (when - now).total_seconds())
