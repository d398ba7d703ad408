"""The front of the REST API. It hands over parsed requests, each on a separate socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from culvert_agent_server import _native
from culvert_agent_server.server import log_condition


@dataclass(frozen=True, slots=True)
class Problems:
    """The bodies (application/problem+json) of the refusals that the front sends without asking Python."""

    malformed: bytes
    too_large: bytes
    too_often: bytes
    fault: bytes


Serve = Callable[[socket.socket, str], None]
"""Gets a socket on which one request arrives, and the request's source address."""


class RestServer:
    """Listens as soon as it is made, and hands requests over between `start` and `stop`. `port` is the actual port.

    Raises OSError, and ValueError for certificates, prefixes or rates that cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        chain: bytes,
        key: bytes,
        *,
        problems: Problems,
        files: int,
        handshake_seconds: float,
        request_seconds: float,
        strangers_calls_per_second: float,
        trusted_proxies: Sequence[str] = (),
        balancers: Sequence[str] = (),
    ) -> None:
        self._native = _native.RestServer(
            host,
            port,
            handshake_seconds,
            request_seconds,
            files,
            strangers_calls_per_second,
            list(trusted_proxies),
            list(balancers),
            (problems.malformed, problems.too_large, problems.too_often, problems.fault),
            chain,
            key,
        )
        self.port = self._native.port
        self._serve: Serve | None = None
        self._ended = asyncio.Event()

    def show(
        self,
        chain: bytes,
        key: bytes,
        public: tuple[bytes, bytes] | None = None,
        challenge: tuple[bytes, bytes] | None = None,
    ) -> None:
        """Shows these certificates to clients that connect from now on. Raises ValueError, and keeps the previous ones.

        `chain`, `key`: for Culvert's programs, and for browsers without `public`. `challenge`: for RFC 8737.
        """
        self._native.show(chain, key, public, challenge)

    def start(self, serve: Serve) -> None:
        self._serve = serve
        asyncio.get_running_loop().add_reader(self._native.fileno(), self._look)

    def end(self) -> None:
        """Accepts no new connection; each connection closes after its request."""
        self._native.end()

    async def stop(self, grace_seconds: float) -> None:
        """Ends, and gives the requests under way `grace_seconds` to finish."""
        self._native.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._ended.wait()
        asyncio.get_running_loop().remove_reader(self._native.fileno())
        self._native.close()

    def _look(self) -> None:
        for news in self._native.take():
            if news is None:
                self._ended.set()
            elif isinstance(news, _native.Condition):
                log_condition("rest", news)
            else:
                file, source = news
                one = socket.socket(fileno=file)
                if self._serve is None:
                    one.close()
                else:
                    self._serve(one, source)
