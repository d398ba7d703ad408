"""Lets many set-ups run at once, or one reconciliation alone, so that no set-up changes the entries that it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


class Guard:
    """A shared and an exclusive lock. The exclusive lock has priority, so that a stream of set-ups cannot starve it."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._sharing = 0
        self._alone = False
        self._waiting = 0

    @property
    def free(self) -> bool:
        """Whether the shared lock can be taken without waiting."""
        return not self._alone and not self._waiting

    @asynccontextmanager
    async def share(self) -> AsyncGenerator[None]:
        await self._until(lambda: self.free)
        self._sharing += 1
        try:
            yield
        finally:
            self._sharing -= 1
            self._wake()

    @asynccontextmanager
    async def exclusive(self) -> AsyncGenerator[None]:
        self._waiting += 1
        try:
            await self._until(lambda: not self._alone and not self._sharing)
            self._alone = True
        finally:
            self._waiting -= 1
            self._wake()
        try:
            yield
        finally:
            self._alone = False
            self._wake()

    async def _until(self, free: Callable[[], bool]) -> None:
        while not free():
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
