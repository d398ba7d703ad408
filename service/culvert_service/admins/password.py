"""Passwords: argon2id with the parameters of RFC 9106 section 4, second choice (64 MiB, 3 passes, 4 lanes)."""

from __future__ import annotations

import asyncio
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from argon2.profiles import RFC_9106_LOW_MEMORY

# The most concurrent hashes: each takes 64 MiB and a core, so a flood of sign-ins must queue.
_AT_ONCE = 2

_HASHER = PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)


class Passwords:
    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._nobodys = _nobodys()

    async def hash(self, password: str) -> str:
        async with self._turn:
            return await asyncio.to_thread(_HASHER.hash, password)

    async def match(self, stored: str | None, password: str) -> bool:
        """Takes the same time without an account."""
        async with self._turn:
            return (
                await asyncio.to_thread(self._match, stored or self._nobodys, password) and stored is not None
            )

    def _match(self, stored: str, password: str) -> bool:
        try:
            return _HASHER.verify(stored, password)
        except VerifyMismatchError:
            return False


@cache
def _nobodys() -> str:
    """A hash to compare with an unknown account's password: made once, because each hash takes a tenth of a second."""
    return _HASHER.hash("")
