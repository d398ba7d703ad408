"""Starts the daemon's source of names, the stub or the sniffer, and points the system's name service at the stub.

A failure of either is a warning, and is retried: if the daemon ended instead, the person would not learn the cause.
The settings are changed only after the stub answers.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_client.config import Config, DnsMode, Endpoint
from culvert_client.platform.interfaces import Ports, QuerySource, SystemDns
from culvert_client.state_file import why

log = logging.getLogger("culvertd")

# Our tunable, in seconds.
TRY_AGAIN = 5.0


class NameService:
    """`changed` is called when `warnings` may have changed."""

    def __init__(
        self,
        settings: Config,
        source: QuerySource,
        system_dns: SystemDns | None,
        ports: Ports,
        zones: Callable[[], tuple[str, ...]],
        use: Callable[[tuple[Endpoint, ...]], None],
        changed: Callable[[], None],
    ) -> None:
        self._settings, self._source, self._system_dns = settings, source, system_dns
        self._ports = ports
        self._zones, self._use, self._changed = zones, use, changed
        self._fault: CulvertError | None = None
        self._listens = False
        self._trying: asyncio.Task[None] | None = None
        self.is_restored = True
        """False if `close` could not undo the changes of the system's settings."""

    @property
    def warnings(self) -> Sequence[CulvertError]:
        if self._fault is not None:
            return (self._fault,)
        return self._system_dns.warnings if self._system_dns is not None else ()

    async def listen(self) -> None:
        """Try once; `start` repeats it."""
        try:
            await self._listen()
        except CulvertError as error:
            self._report(error)

    async def start(self) -> None:
        if not await self._try():
            self._trying = asyncio.create_task(self._try_again())

    async def close(self) -> None:
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait([self._trying])
        if self._system_dns is not None:
            try:
                await self._system_dns.stop()
            except OSError as error:
                log.error("the system's DNS could not be put back: %s", error)
                self.is_restored = False
        await self._source.close()

    async def _try_again(self) -> None:
        while True:
            await asyncio.sleep(TRY_AGAIN)
            if await self._try():
                log.info("names come to culvertd now")
                return

    async def _try(self) -> bool:
        try:
            await self._listen()
            if self._system_dns is not None:
                await self._system_dns.start(self._zones, self._use, self._changed)
        except CulvertError as error:
            self._report(error)
            return False
        except OSError as error:
            self._report(CulvertError(Reason.DNS_SETTINGS_FAILED, why=why(error)))
            return False
        if self._fault is not None:
            self._fault = None
            self._changed()
        return True

    async def _listen(self) -> None:
        """Raises CulvertError."""
        if self._listens:
            return
        endpoint = self._settings.dns_listen
        try:
            await self._source.open(endpoint)
            self._listens = True
        except OSError as error:
            await self._source.close()
            if self._settings.dns_mode is DnsMode.WATCH:
                raise CulvertError(
                    Reason.DNS_WATCH_FAILED, why=Phrase(error.strerror or str(error))
                ) from error
            cause = Phrase(error.strerror or str(error))
            if error.errno == errno.EADDRINUSE:
                holder = await asyncio.to_thread(self._ports.holder_of, endpoint.port) or Phrase(
                    "another program"
                )
                cause = Phrase("{what} has it", what=holder)
            raise CulvertError(
                Reason.DNS_PORT_UNUSABLE, port=endpoint.port, host=endpoint.host, why=cause
            ) from error

    def _report(self, error: CulvertError) -> None:
        # Log a repeated error only once.
        if str(self._fault) != str(error):
            log.error("%s", error)
        self._fault = error
        self._changed()
