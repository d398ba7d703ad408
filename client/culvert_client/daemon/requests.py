"""Passes a person's requests about tunnels, gateways and pauses to the core, and waits for their results."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_client.core.client import Client
from culvert_client.core.client_events import (
    Event,
    GatewaySelected,
    OpenRequested,
    PauseEnded,
    PauseRequested,
    Settle,
)
from culvert_client.core.tunnel import events as tunnel
from culvert_client.core.tunnel.events import RequestId
from culvert_client.tasks import Changes

# Our tunables, in seconds.
OPEN_PATIENCE = 15.0
LONGEST_PAUSE = 7 * 24 * 3600
STOP_PATIENCE = 3.0


class Requests:
    """Each method raises CulvertError. `post` passes an event to the core; `check_enrolled` raises CulvertError if this
    computer is not enrolled."""

    def __init__(
        self,
        client: Client,
        post: Callable[[Event], None],
        changes: Changes,
        check_enrolled: Callable[[], object],
    ) -> None:
        self._client, self._post, self._changes = client, post, changes
        self._check_enrolled = check_enrolled
        self._open: dict[RequestId, asyncio.Future[str]] = {}
        self._numbers = itertools.count(1)

    async def open_tunnel(self, name: str) -> str:
        """Open a tunnel. Returns its name once it is up."""
        self._check_enrolled()
        request = RequestId(next(self._numbers))
        answer = self._open[request] = asyncio.get_running_loop().create_future()
        try:
            self._post(OpenRequested(request, name))
            async with asyncio.timeout(OPEN_PATIENCE):
                return await answer
        except TimeoutError:
            raise CulvertError(Reason.TIMEOUT, what=Phrase("The tunnel for {name}", name=name)) from None
        finally:
            del self._open[request]

    def settle(self, settled: Settle) -> None:
        answer = self._open.get(settled.request)
        if answer is None or answer.done():
            return
        if settled.error is None:
            answer.set_result(settled.fqdn)
        else:
            answer.set_exception(settled.error)

    async def close_tunnel(self, name: str | None) -> int:
        """The number of closed tunnels; None closes all."""
        self._check_enrolled()
        fqdn = None if name is None else self._client.profile.fqdn_of(name)
        if name is not None and fqdn is None:
            raise CulvertError(Reason.NAME_NOT_OFFERED, name=name)
        machines = self._client.machines
        closed = [it for it, machine in machines.items() if machine.is_up and fqdn in (None, it)]
        self._post(tunnel.CloseRequested(Reason.CLOSED_BY_USER, fqdn))
        await self._changes.until(lambda: not any(it in machines for it in closed), STOP_PATIENCE)
        return len(closed)

    def select_gateway(self, gateway: str) -> None:
        self._check_enrolled()
        if gateway and all(gateway != known.name for known in self._client.profile.gateways):
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("The gateway {gateway}", gateway=gateway))
        self._post(GatewaySelected(gateway))

    async def pause(self, until: int) -> None:
        """Unix seconds. Returns once the tunnels are closed."""
        self._check_enrolled()
        if not 0 < until - time.time() <= LONGEST_PAUSE:
            why = Phrase("a pause ends in the future, and within seven days")
            raise CulvertError(Reason.REQUEST_INVALID, why=why)
        self._post(PauseRequested(until))
        await self._changes.until(lambda: not self._client.machines, STOP_PATIENCE)

    def resume(self) -> None:
        self._check_enrolled()
        self._post(PauseEnded())
