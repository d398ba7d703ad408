"""The front of the REST API: one clean request at a time, each on a socket of its own."""

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
    """Bodies, application/problem+json, of what the front answers by itself."""

    malformed: bytes
    too_large: bytes
    too_often: bytes
    fault: bytes


Serve = Callable[[socket.socket, str], None]
"""Gets a socket on which one request comes, and the address that the request is from."""


class RestServer:
    """Listens from its making on, hands requests over from `start` to `stop`; `port` is the one that it got.

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
    ) -> None:
        self._native = _native.RestServer(
            host,
            port,
            handshake_seconds,
            request_seconds,
            files,
            strangers_calls_per_second,
            list(trusted_proxies),
            (problems.malformed, problems.too_large, problems.too_often, problems.fault),
            chain,
            key,
        )
        self.port = self._native.port
        self._serve: Serve | None = None
        self._ended = asyncio.Event()

    def show(self, chain: bytes, key: bytes) -> None:
        """To who connects from now on. Raises ValueError: what was shown before stays."""
        self._native.show(chain, key)

    def start(self, serve: Serve) -> None:
        self._serve = serve
        asyncio.get_running_loop().add_reader(self._native.fileno(), self._look)

    def end(self) -> None:
        """Nobody new comes; connections end with their requests."""
        self._native.end()

    async def stop(self, grace_seconds: float) -> None:
        """Requests under way have so long to end."""
        self._native.end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), grace_seconds)
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
