"""Joins calls that wait at the same moment, so that one read of the database serves them all.

call ─┐
call ─┼─► waiting ─► one read of at most `most` keys, one read at a time ─► its result to each of these calls
call ─┘
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Found = TypeVar("_Found")


class Batches(Generic[_Key, _Found]):
    def __init__(self, name: str, read: Callable[[Sequence[_Key]], Awaitable[_Found]], *, most: int) -> None:
        self._name = name
        self._read = read
        self._most = most
        self._waiting: deque[tuple[_Key, asyncio.Future[_Found]]] = deque()
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, key: _Key) -> _Found:
        """The result of a read with this key, which begins after this call. Raises what the read raises."""
        asked: asyncio.Future[_Found] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, asked))
        if self._reading is None or self._reading.done():
            # It begins in the loop's next turn: all calls of this turn are in its first read.
            self._reading = asyncio.create_task(self._read_waiting(), name=self._name)
        return await asked

    async def stop(self) -> None:
        """Returns when no read is under way. Must be called after the last call of `ask` has ended."""
        if self._reading is not None:
            await self._reading

    async def _read_waiting(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            # The others' calls were cancelled.
            asking = [(key, asked) for key, asked in taken if not asked.done()]
            if asking:
                await self._answer([key for key, _ in asking], [asked for _, asked in asking])

    async def _answer(self, keys: Sequence[_Key], asking: Sequence[asyncio.Future[_Found]]) -> None:
        try:
            found = await self._read(keys)
        except Exception as error:
            for asked in asking:
                if not asked.done():
                    asked.set_exception(error)
        except BaseException:
            for asked in asking:
                asked.cancel()
            raise
        else:
            for asked in asking:
                if not asked.done():
                    asked.set_result(found)
