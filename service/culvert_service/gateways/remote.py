"""Deletes entries at another controller's gateway by a call to that controller."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import zlib
from collections.abc import Sequence

from culvert_proto import CulvertError
from culvert_proto.backoff import Backoff
from sqlalchemy.exc import SQLAlchemyError

from culvert_service.controllers.calls import Calls, NoAnswerError, Serve
from culvert_service.gateways.entry import Entry, Match, Update, deletes
from culvert_service.gateways.fleet import Fleet
from culvert_service.tasks import Background

_log = logging.getLogger(__name__)

_REMOVE, _RECONCILE = "gateway.remove", "gateway.reconcile"
_LEFT = b"left to the reconciler"
# A call holds entries of about ten tunnels. For more than _CALLS calls, a full reconciliation is cheaper.
_ENTRIES = 40
_CALLS = 10
# After about half a minute the owner has reconciled by itself.
_ASK_AGAIN, _ASKED = Backoff(1.0, 10.0), 6
_FAULTS = (NoAnswerError, CulvertError, SQLAlchemyError, OSError)


class Remote:
    def __init__(self, calls: Calls, fleet: Fleet) -> None:
        self._calls = calls
        self._fleet = fleet
        self._background = Background()
        # The gateways whose owners have not answered yet.
        self._unheard: set[str] = set()

    async def start(self) -> None:
        """Nothing to do: the listener delivers calls."""

    async def stop(self) -> None:
        await self._background.stop()

    def serving(self) -> dict[str, Serve]:
        return {_REMOVE: self._remove, _RECONCILE: self._reconcile}

    async def remove(self, gateway: str, batches: Sequence[Sequence[Update]]) -> bool:
        """False when the owner's reconciler deletes them later."""
        standing = self._fleet.find_standing(gateway)
        if standing is None or not standing.holder:
            return False
        entries = [update.entry for batch in batches for update in batch]
        parts = [entries[first : first + _ENTRIES] for first in range(0, len(entries), _ENTRIES)]
        try:
            if len(parts) > _CALLS:
                await self._calls.ask(standing.holder, _RECONCILE, gateway.encode())
                return False
            answers = [await self._calls.ask(standing.holder, _REMOVE, _encode(gateway, it)) for it in parts]
        except _FAULTS as error:
            _log.warning("deletion is left to the owner", extra={"gateway": gateway, "why": str(error)})
            self._ask_again(gateway)
            return False
        return _LEFT not in answers

    async def reconcile(self, gateway: str) -> None:
        """Ask the owner to reconcile. Raises nothing: the owner is asked again, and reconciles every 30 s anyway."""
        if not await self._is_heard(gateway):
            self._ask_again(gateway)

    async def _is_heard(self, gateway: str) -> bool:
        """Ask the owner to reconcile; False if it does not answer."""
        standing = self._fleet.find_standing(gateway)
        if standing is None or not standing.holder:
            return False
        try:
            await self._calls.ask(standing.holder, _RECONCILE, gateway.encode())
        except _FAULTS as error:
            _log.warning("the owner reconciles later", extra={"gateway": gateway, "why": str(error)})
            return False
        return True

    def _ask_again(self, gateway: str) -> None:
        if gateway not in self._unheard:
            self._unheard.add(gateway)
            self._background.start_wait(self._ask_until_heard(gateway), f"reconcile {gateway}")

    async def _ask_until_heard(self, gateway: str) -> None:
        """A policy that stays may send a new tunnel's packets into the closed one."""
        try:
            for failures in range(1, _ASKED + 1):
                await asyncio.sleep(_ASK_AGAIN.spread(failures, random.random()))  # noqa: S311 (spreads load)
                if link := self._fleet.get(gateway):
                    link.reconcile_soon()
                    return
                if await self._is_heard(gateway):
                    return
        finally:
            self._unheard.discard(gateway)

    async def _remove(self, body: bytes) -> bytes:
        gateway, entries = _decode(body)
        if link := self._fleet.get(gateway):
            # First the entries that send traffic into a tunnel.
            policies = [entry for entry in entries if entry.table == "spd_out"]
            rest = [entry for entry in entries if entry.table != "spd_out"]
            if await link.remove([deletes(*policies), deletes(*rest)]):
                return b""
        return _LEFT

    async def _reconcile(self, body: bytes) -> bytes:
        if link := self._fleet.get(body.decode()):
            link.reconcile_soon()
        return b""


def _encode(gateway: str, entries: Sequence[Entry]) -> bytes:
    keys = [[entry.table, entry.match, entry.priority] for entry in entries]
    return zlib.compress(json.dumps([gateway, keys]).encode())


def _decode(body: bytes) -> tuple[str, list[Entry]]:
    gateway, keys = json.loads(zlib.decompress(body))
    return gateway, [Entry(table, _match(match), "", priority=priority) for table, match, priority in keys]


def _match(fields: list[tuple[str, int | list[int]]]) -> Match:
    return tuple((name, value if isinstance(value, int) else (value[0], value[1])) for name, value in fields)
