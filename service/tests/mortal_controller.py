"""A controller that dies by kill -9 in front of the step that it is told.

Run as a program: forks a controller for each line of standard input (its settings as JSON) and says how it ended, so that
what takes a second to import is imported once. A step is what leaves something behind: a write to a gateway, a commit, an
answer. What happens between two of them, a transaction's statements, goes with the process.

    fuse file: 8 bytes, how many steps the process has to live; 0: for ever
"""

from __future__ import annotations

import asyncio
import datetime
import json
import mmap
import os
import signal
import struct
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_FUSE = struct.Struct("=q")


class Fuse:
    """Shared by the processes that open it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_FUSE.size))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _FUSE.size)

    def light(self, steps: int) -> None:
        _FUSE.pack_into(self._shared, 0, steps)

    @property
    def left(self) -> int:
        return int(_FUSE.unpack_from(self._shared)[0])

    def burn(self) -> None:
        """In front of a step."""
        left = self.left
        if left == 1:
            self.light(0)
            os.kill(os.getpid(), signal.SIGKILL)
        if left:
            self.light(left - 1)


def _mined(fuse: Fuse, *, reconciling: bool) -> None:
    """Have the steps of these burn the fuse: calls of devices and administrators, closes, pushes that a device moves, keys
    between gateways, key-encryption keys, and reconciliations where they are wanted. The other work of a controller has no
    fixed number of steps.
    """
    from culvert_db import Direct
    from culvert_service.admins.access import Access
    from culvert_service.agent.servicer import AgentServicer
    from culvert_service.gateway_state import GatewayState
    from culvert_service.gateways.kek_rotation import KekRotation
    from culvert_service.gateways.p4runtime import Session
    from culvert_service.identity.denials import DeviceCaller
    from culvert_service.site_tunnels.keying import Keying
    from culvert_service.tunnels import failover
    from culvert_service.tunnels.closing import Closing
    from culvert_service.watch.hub import GatewayMoved
    from fastapi import Request
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    counted: ContextVar[bool] = ContextVar("counted", default=False)

    def step(*_: object) -> None:
        if counted.get():
            fuse.burn()

    def counting(call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def counts(*args: Any, **named: Any) -> object:
            token = counted.set(True)
            try:
                return await call(*args, **named)
            finally:
                counted.reset(token)

        return counts

    of_its_own: list[tuple[type, str]] = [
        (KekRotation, "check"),
        (KekRotation, "_go_on"),
        (Keying, "_go_on"),
        (Closing, "close"),
        (Closing, "close_denied"),
    ]
    for owner, name in of_its_own + [(GatewayState, "reconcile")] * reconciling:
        setattr(owner, name, counting(getattr(owner, name)))

    called = DeviceCaller.__init__

    def calls(self: DeviceCaller, *args: Any) -> None:
        called(self, *args)
        # The rest of the device's call is in this context.
        counted.set(True)

    type.__setattr__(DeviceCaller, "__init__", calls)

    class AskedToMove(GatewayMoved):
        def __init__(self, *args: Any) -> None:
            fuse.burn()
            super().__init__(*args)

    failover.__dict__["GatewayMoved"] = AskedToMove
    admit = Access.admit

    async def admits(self: Access, request: Request) -> None:
        await admit(self, request)
        # The rest of the call is in this context.
        counted.set(request.method != "GET")

    Access.admit = admits
    event.listen(Engine, "commit", step)
    commit = Direct.commit

    async def commits(self: Direct) -> None:
        step()
        await commit(self)

    Direct.commit = commits
    write = Session.write

    async def writes(self: Session, *args: Any, **named: Any) -> None:
        step()
        await write(self, *args, **named)

    Session.write = writes

    def answering(call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def answered(self: AgentServicer, request: object, context: object) -> object:
            answer = await call(self, request, context)
            step()
            return answer

        return answered

    for name in ("OpenTunnel", "RenewSa", "ActivateSa", "SetPathMtu", "CloseTunnel"):
        setattr(AgentServicer, name, answering(getattr(AgentServicer, name)))


def main() -> None:
    from culvert_db import log
    from culvert_service.config import Settings
    from culvert_service.gateways import kek_rotation
    from culvert_service.tunnels import failover, repository, silence

    # Short times, so that the test does not wait seconds at each step.
    repository.ABANDONED = datetime.timedelta()
    silence.IDLE_MARGIN = 0.0
    failover.GONE_SECONDS, failover.UNKNOWN_SECONDS = 0.5, 1.0
    kek_rotation.LOOK_SECONDS, kek_rotation.AGAIN_SECONDS, kek_rotation.SETTLE_SECONDS = 0.2, 0.5, 0.5
    from culvert_service.controller.lifecycle import serve

    _mined(Fuse(Path(sys.argv[1])), reconciling="reconciling" in sys.argv)
    log.configure(as_json=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(serve(Settings(**json.loads(line) | {"drain_seconds": 0.05})))
            os._exit(0)
        print(json.dumps({"pid": child}), flush=True)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
