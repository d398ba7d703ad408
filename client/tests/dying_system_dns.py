"""A program that dies in front of its nth change of a file, for every n; then cleans up, and dies in that as well.

Arguments: the root of a file system, and the kind of its resolv.conf: file, link or absent. Prints the number of deaths.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from culvert_client.config import Endpoint
from culvert_client.platform.linux.system_dns import SystemDns, clean_up
from culvert_client.platform.linux.system_dns.choice import MARK

TEXT = "nameserver 192.0.2.1\n"
CHANGES = {"os.rename", "os.remove", "os.symlink", "os.mkdir", "os.chmod"}


class Machine:
    def __init__(self, root: Path, kind: str) -> None:
        self.root, self.kind = root, kind
        self.state, self.file, self.target = root / "state", root / "etc/resolv.conf", root / "run/there"

    def restart(self) -> None:
        self.file.unlink(missing_ok=True)
        self.target.write_text(TEXT)
        if self.kind == "file":
            self.file.write_text(TEXT)
        elif self.kind == "link":
            self.file.symlink_to("../run/there")

    def find_kind(self) -> str:
        if self.file.is_symlink():
            return "link"
        if not self.file.exists():
            return "absent"
        text = self.file.read_text()
        return "ours" if text.startswith(MARK) else "file" if text == TEXT else "broken"

    async def live(self) -> None:
        dns = SystemDns(Endpoint("127.0.0.1", 53), self.state, self.root)
        await dns.start(tuple, lambda _: None)
        await dns.stop()

    async def clean_up(self) -> None:
        await clean_up(self.state, self.root)

    def dies(self, work: Callable[[], Coroutine[Any, Any, None]], deadly: int) -> bool:
        """Whether the change with this number ends the work, in a child."""
        child = os.fork()
        if child:
            return os.WIFSIGNALED(os.waitpid(child, 0)[1])
        count = itertools.count()

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            writes = (
                event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            )
            changes = writes or event in CHANGES
            if changes and str(self.root) in str(arguments[0]) and next(count) == deadly:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        asyncio.run(work())
        os._exit(0)


def main() -> None:
    machine = Machine(Path(sys.argv[1]), sys.argv[2])
    intact = ("ours", machine.kind)
    for deadly in itertools.count():
        machine.restart()
        if not machine.dies(machine.live, deadly):
            print(deadly)
            return
        assert machine.find_kind() in intact, (deadly, machine.find_kind())
        again = 0
        while machine.dies(machine.clean_up, again):
            assert machine.find_kind() in intact, (deadly, again, machine.find_kind())
            again += 1
        assert machine.find_kind() == machine.kind, (deadly, machine.find_kind())
        assert machine.target.read_text() == TEXT
        assert not (machine.state / "dns-before.json").exists()
        assert not [it for it in machine.file.parent.iterdir() if it != machine.file], "something was left"


if __name__ == "__main__":
    main()
