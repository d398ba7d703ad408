"""Programs of the lab: started inside a namespace, waited for, stopped, and never outliving the lab."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from culvert_lab.errors import ProgramError
from culvert_lab.netns import NETNS_DIR, processes_in
from culvert_lab.topology import Site

LAUNCH = Path(__file__).with_name("launch.py")
POLL_SECONDS = 0.02
GRACE_SECONDS = 5.0


def launch_argv(site: Site, argv: Sequence[str], binds: Mapping[str, Path], *, parent: int) -> list[str]:
    """The command line that runs `argv` inside `site`; it dies with process `parent`, which must start it."""
    command = [sys.executable, "-I", "-S", str(LAUNCH), "--netns", str(NETNS_DIR / site.value)]
    command += ["--parent", str(parent)]
    for target, source in binds.items():
        command += ["--bind", str(source), target]
    return [*command, "--", *argv]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a short-lived program."""

    code: int
    stdout: str
    stderr: str


class Running:
    """A long-lived program of the lab."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit status, or None while it runs."""
        return self._process.returncode

    async def ready(self, pattern: str, seconds: float = 40.0) -> re.Match[str]:
        """Wait until its log matches the pattern. Raises ProgramError when it ends first or takes too long."""
        deadline = time.monotonic() + seconds
        wanted = re.compile(pattern, re.MULTILINE)
        while True:
            ended = self.code is not None
            if found := wanted.search(self.text()):
                return found
            if ended:
                raise self._to_error(f"ended with status {self.code}")
            if time.monotonic() > deadline:
                raise self._to_error(f"was not ready within {seconds:g} s")
            await asyncio.sleep(POLL_SECONDS)

    def text(self) -> str:
        """The process's whole log so far."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL to it alone, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self, grace: float = GRACE_SECONDS) -> int:
        """SIGTERM, then SIGKILL after `grace` seconds; the exit status. Stopping it twice is no error."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), grace)
            except TimeoutError:
                self.kill()
        return await self._process.wait()

    def _to_error(self, what: str) -> ProgramError:
        return ProgramError(self.name, what, str(self.log), self.text())


async def start(name: str, command: Sequence[str], env: Mapping[str, str], log: Path) -> Running:
    """Start a program. Call from the thread that lives as long as the lab: its death is the program's."""
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            start_new_session=True,  # Ctrl-C is for the lab, which then stops its programs in order
        )
    return Running(name, process, log)


async def run(command: Sequence[str], env: Mapping[str, str], *, stdin: str, seconds: float) -> Finished:
    """Run a program to its end. Raises TimeoutError after `seconds`, with the program killed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), seconds)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


async def sweep(sites: Sequence[Site], grace: float = GRACE_SECONDS) -> int:
    """End every process inside these namespaces, whoever started it; how many there were."""
    met: set[int] = set()
    deadline = time.monotonic() + grace
    while left := {pid for site in sites for pid in processes_in(site.value)}:
        late = time.monotonic() > deadline
        for pid in left if late else left - met:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        met |= left
        await asyncio.sleep(POLL_SECONDS)
    return len(met)
