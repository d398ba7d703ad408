"""HTTP calls to the provider: the JSON of its answers, or a typed error."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

_TIMEOUT_SECONDS = 10.0
_LARGEST = 1 << 20
# By the codes of openssl/x509_vfy.h.
_CERTIFICATE_FAULTS = dict.fromkeys(
    (2, 18, 19, 20, 21), Phrase("it is from an authority that the controller does not know")
) | {
    9: Phrase("it is not valid yet, or the controller's clock is wrong"),
    10: Phrase("it has expired, or the controller's clock is wrong"),
    62: Phrase("it is for another name"),
    64: Phrase("it is for another name"),
}


class ProviderError(CulvertError):
    """`detail`: an error's text or the provider's words, for the log only."""

    def __init__(self, reason: Reason, detail: str = "", **fields: object) -> None:
        super().__init__(reason, **fields)
        # Escaped, so that a provider's text cannot forge a line of the log.
        self.detail = ascii(detail)[1:-1][:300]


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """`content`: empty without a JSON object."""

    status: int
    content: dict[str, Any]

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """Trust the authorities in the file. Without a file, the system's (or those of SSL_CERT_FILE and SSL_CERT_DIR), or
    certifi's if the system has none. Raises OSError (ssl.SSLError if the file has no certificate).
    """
    if ca_file is not None:
        return ssl.create_default_context(cafile=str(ca_file))
    system = ssl.get_default_verify_paths()
    return ssl.create_default_context() if system.cafile or system.capath else httpx.create_ssl_context()


@dataclass(frozen=True, slots=True)
class ProviderCalls:
    issuer: str
    trust: ssl.SSLContext

    async def ask(self, method: str, url: str, **sent: Any) -> ProviderAnswer:
        """Raises ProviderError if nothing answers, or the answer's certificate is not trusted."""
        content = bytearray()
        try:
            async with (
                asyncio.timeout(_TIMEOUT_SECONDS),
                httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, verify=self.trust) as client,
                client.stream(method, url, **sent) as answer,
            ):
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > _LARGEST:
                        raise self.refusal_error(Phrase("its answer is too long"), url)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise self._unanswered_error(error, url) from None
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        return ProviderAnswer(
            answer.status_code, cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        )

    async def object(self, method: str, url: str, **sent: Any) -> dict[str, Any]:
        """The JSON object of a successful answer. Raises ProviderError."""
        answer = await self.ask(method, url, **sent)
        if not answer.is_success:
            raise self.refusal_error(
                Phrase("it answers with HTTP status {number}", number=answer.status), url
            )
        if not answer.content:
            raise self.refusal_error(Phrase("its answer is no JSON object"), url)
        return answer.content

    def refusal_error(self, why: Phrase, detail: str = "") -> ProviderError:
        return ProviderError(Reason.OIDC_REFUSED, detail, issuer=self.issuer, why=why)

    def _unanswered_error(self, error: Exception, url: str) -> ProviderError:
        causes, proxy = list(_causes(error)), _proxy(url)
        detail = f"{url}: {type(causes[-1]).__name__}: {causes[-1]}"
        named: dict[str, object] = {"issuer": self.issuer, "host": urlsplit(url).netloc.rpartition("@")[2]}
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                why = _CERTIFICATE_FAULTS.get(cause.verify_code, Phrase("it is not valid"))
                return ProviderError(Reason.OIDC_CERTIFICATE_UNTRUSTED, detail, why=why, **named)
        connecting = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError)
        if proxy and connecting:
            return ProviderError(Reason.OIDC_PROXY_FAILED, detail, proxy=proxy, **named)
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            return ProviderError(Reason.OIDC_TIMEOUT, detail, **named)
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            return ProviderError(Reason.OIDC_NAME_UNKNOWN, detail, **named)
        if any(isinstance(cause, ssl.SSLError) for cause in causes):
            return ProviderError(Reason.OIDC_TLS_FAILED, detail, **named)
        return ProviderError(Reason.OIDC_CONNECTION_FAILED, detail, **named)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its chain of causes. If several addresses failed, the first one's."""
    found: BaseException | None = error
    while found is not None:
        yield found
        several = cast("tuple[BaseException, ...]", getattr(found, "exceptions", ()))
        found = several[0] if several else found.__cause__ or found.__context__


def _proxy(url: str) -> str:
    """The proxy for this URL from the environment, without credentials; empty: none."""
    parts = urlsplit(url)
    known = getproxies()
    if proxy_bypass(parts.hostname or ""):
        return ""
    return urlsplit(known.get(parts.scheme) or known.get("all") or "").netloc.rpartition("@")[2]
