from __future__ import annotations

import asyncio
import time

import pytest
from culvert_service.gateways.running_time import running_time


async def test_running_time_raises_after_its_limit() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with running_time(0.2):
            await asyncio.Event().wait()
    assert time.monotonic() - began >= 0.2


async def test_a_pause_of_this_process_does_not_count_as_silence() -> None:
    answered, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.call_soon(time.sleep, 0.5)
    # As an answer does that lay there during the pause, and takes some turns of the loop to arrive.
    loop.call_later(0.01, loop.call_later, 0.05, answered.set)
    async with running_time(0.2):
        await answered.wait()


async def test_running_time_ends_after_a_pause_of_the_process() -> None:
    loop = asyncio.get_running_loop()
    loop.call_soon(time.sleep, 0.3)
    with pytest.raises(TimeoutError):
        async with running_time(0.2):
            await asyncio.Event().wait()


async def test_running_time_leaves_no_timer_behind() -> None:
    async with running_time(0.05):
        pass
    await asyncio.sleep(0.2)
