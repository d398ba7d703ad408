"""TLS to Postgres: verified, unless the database URL says otherwise or the server is on this computer.

The URL's parameters are libpq's (PostgreSQL's manual, section 34.1.2): `sslmode`, `sslrootcert`, `sslcert` and `sslkey`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import URL

_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
# asyncpg falls back to a connection without TLS, as libpq does.
_ADVISORY = frozenset({"allow", "prefer"})
_PARAMETERS = ("sslmode", "ssl", "sslrootcert", "sslcert", "sslkey")
_SYSTEM = "system"
# RFC 8305, section 8.
_NEXT_SECONDS = 0.25


class UntrustedDatabaseError(OSError):
    """The server offers no TLS, or no certificate that is trusted. The text has the remedy."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS settings of a database URL."""

    mode: str
    # A file, or "system".
    authority: str
    certificate: str | None = None
    key: str | None = None

    @classmethod
    def of(cls, url: URL) -> Tls:
        """Raises ValueError."""
        given = {name: value for name in _PARAMETERS if isinstance(value := url.query.get(name), str)}
        mode = given.get("sslmode") or given.get("ssl") or ("prefer" if _is_local(url) else "verify-full")
        if mode not in _MODES:
            raise ValueError(f"sslmode must be one of {', '.join(_MODES)}")
        authority = given.get("sslrootcert", _SYSTEM)
        if mode == "require" and authority != _SYSTEM:
            # libpq does the same: a given authority turns `require` into `verify-ca`.
            mode = "verify-ca"
        tls = cls(mode, authority, given.get("sslcert"), given.get("sslkey"))
        tls.context()
        return tls

    def context(self) -> ssl.SSLContext | str | bool:
        """The value for asyncpg's parameter `ssl`. Raises ValueError for a file that cannot be used."""
        if self.mode == "disable":
            return False
        if self.mode in _ADVISORY:
            return self.mode
        context = ssl.create_default_context()
        try:
            if self.authority != _SYSTEM:
                # Trust only the given authority, not the system's.
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.load_verify_locations(cafile=self.authority)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            raise ValueError(f"sslrootcert, sslcert or sslkey cannot be used: {error.strerror}") from None
        context.check_hostname = self.mode == "verify-full"
        if self.mode == "require":
            context.verify_mode = ssl.CERT_NONE
        return context

    def environment(self) -> Mapping[str, str]:
        """The same settings as environment variables, for libpq's programs."""
        authority = self.authority
        if authority == _SYSTEM:
            # libpq before release 16 does not know "system".
            authority = ssl.get_default_verify_paths().cafile or _SYSTEM
        found = {"PGSSLMODE": self.mode, "PGSSLCERT": self.certificate, "PGSSLKEY": self.key}
        if self.mode.startswith("verify-"):
            found["PGSSLROOTCERT"] = authority
        return {name: value for name, value in found.items() if value is not None}

    @property
    def is_required(self) -> bool:
        return self.mode != "disable" and self.mode not in _ADVISORY

    async def connect(self, **options: Any) -> Any:
        """As asyncpg.connect, but also raises UntrustedDatabaseError."""
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]

        for name in _PARAMETERS:
            options.pop(name, None)
        connect = cast(Callable[..., Awaitable[Any]], asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]
        try:
            return await connect(ssl=self.context(), loop=_Loop(asyncio.get_running_loop()), **options)
        except ssl.SSLCertVerificationError as error:
            raise UntrustedDatabaseError(
                f"the database's TLS certificate is not trusted: {error.verify_message}. Remedy: write the host into the "
                "database URL as the certificate names it, and add sslrootcert=FILE with the authority that issued it"
            ) from error
        except ssl.SSLError as error:
            raise UntrustedDatabaseError(f"TLS to the database failed: {error.reason}") from error
        except ConnectionError as error:
            if "rejected SSL upgrade" not in str(error):
                raise
            raise UntrustedDatabaseError(
                "the database server offers no TLS. Remedy: switch TLS on there (ssl = on), or add sslmode=disable to the "
                "database URL if nobody else can reach the network in between"
            ) from error


class _Loop:
    """The running event loop, trying a host's next address when one is silent (RFC 8305), which asyncpg does not offer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        return await self._loop.create_connection(*arguments, happy_eyeballs_delay=_NEXT_SECONDS, **options)


def _is_local(url: URL) -> bool:
    """Whether all of its hosts are this computer."""
    hosts = [url.host, *_words(url.query.get("host"))]
    named = [host for host in hosts if host]
    return all(_stays_here(host) for host in named or _words(os.environ.get("PGHOST")))


def _words(value: str | Sequence[str] | None) -> list[str]:
    values = [value] if isinstance(value, str) else value or []
    return [word for it in values for word in it.split(",")]


def _stays_here(host: str) -> bool:
    if host.startswith("/") or host == "localhost":
        return True
    # In a list of several hosts, each host may be followed by its port.
    name = host.rpartition(":")[0] if host.count(":") == 1 else host
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"
