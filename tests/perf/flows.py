"""A UDP flow between two namespaces, both ways, counted at both ends (flow.py)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import NamedTuple

_FLOW = Path(__file__).with_name("flow.py")


class End(NamedTuple):
    namespace: str
    own: str
    peer: str


class Counted(NamedTuple):
    """Packets, of both ends together."""

    sent: int
    received: int


@contextlib.asynccontextmanager
async def flowing(ends: Sequence[End], rate: float, seconds: float) -> AsyncGenerator[asyncio.Task[Counted]]:
    """Begun: each end sends `rate` packets a second. Raises RuntimeError when one cannot."""
    programs: list[asyncio.subprocess.Process] = []
    pipe = asyncio.subprocess.PIPE
    try:
        for namespace, own, peer in ends:
            command = ["ip", "netns", "exec", namespace]
            # A packet before the flow lets hosts learn their gateways' MAC addresses.
            ping = [*command, "ping", "-q", "-c", "1", "-I", own, peer]
            await (await asyncio.create_subprocess_exec(*ping, stdout=asyncio.subprocess.DEVNULL)).wait()
            command += [sys.executable, "-I", str(_FLOW), own, peer, str(rate), str(seconds)]
            programs.append(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
        for program in programs:
            if program.stdout is None or await program.stdout.readline() != b"ready\n":
                raise RuntimeError("a host could not open its flow")
        yield asyncio.create_task(_begin(programs))
    finally:
        for program in programs:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
            await program.wait()


async def _begin(programs: Sequence[asyncio.subprocess.Process]) -> Counted:
    answers = await asyncio.gather(*(program.communicate(b"go\n") for program in programs))
    counts = [json.loads(output) for output, _ in answers]
    return Counted(sum(it["sent"] for it in counts), sum(it["received"] for it in counts))
