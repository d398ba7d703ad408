"""A whole Linux kernel as one process (User Mode Linux), because this computer's own kernel may lack ESP.

 this machine                         the machine
┌──────────────────────────────┐     ┌──────────────────────────────────────┐
│ Machine ── starts ───────────┼────►│ Linux 6.1, one CPU, no network       │
│    │                         │     │   init: mounts, modules              │
│    │  folder: command  ──────┼────►│     └─ the command, as root          │
│    └◄─────── output, status ─┼─────┤                                      │
│  / (the file system) ◄───────┼────►│ /  the same files (hostfs)           │
└──────────────────────────────┘     └──────────────────────────────────────┘
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

# `run` starts this file as a program: then its folder is on the path, and its package is not.
sys.path.insert(0, str(Path(__file__).parents[1]))

from linux_esp import fxsave

INSIDE = "CULVERT_MACHINE"
"""The environment variable with the machine's folder, which only programs inside the machine have."""
KERNEL = "linux.uml"
MODULES = Path("/usr/lib/uml/modules")
INIT = Path(__file__).with_name("init")
MEMORY = "1G"
POLL_SECONDS = 0.05


class MachineError(Exception):
    """The machine could not run the command; the text says why, and what to do."""


class Machine:
    """A boot with one command, run in the folder `where`. Leaving the context ends the kernel in every case."""

    def __init__(
        self, command: Sequence[str], where: Path, environment: dict[str, str] | None = None
    ) -> None:
        _check_installed()
        self.folder = Path(tempfile.mkdtemp(prefix="culvert-machine-"))
        variables = [
            f"export {shlex.quote(f'{name}={value}')}" for name, value in (environment or {}).items()
        ]
        lines = [*variables, f"cd {shlex.quote(str(where))} || exit", f"exec {shlex.join(command)}"]
        (self.folder / "command").write_text("\n".join(lines) + "\n")
        self._console = self.folder / "console"
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(
                # The kernel's own processes must not outlive the one that started it, even when that is killed.
                ["setpriv", "--pdeathsig", "KILL", *_launcher(), KERNEL, *self._boot_arguments()],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"TMPDIR": _memory_folder()},
            )

    def _boot_arguments(self) -> list[str]:
        root = ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"]
        console = ["con=null", "con0=null,fd:1", "quiet"]
        return [*root, *console, f"mem={MEMORY}", f"init={INIT}", f"{INSIDE}={self.folder}", *_processor()]

    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self, seconds: float) -> int:
        """The command's exit status. Raises MachineError when there is none in time."""
        deadline = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > deadline:
                raise MachineError(
                    f"The kernel did not end within {seconds:g} s; it was killed. {self.said()}"
                )
            time.sleep(POLL_SECONDS)
        return self.status()

    def status(self) -> int:
        """The command's exit status, once the kernel has ended. Raises MachineError when it died before."""
        try:
            return int((self.folder / "status").read_text())
        except (FileNotFoundError, ValueError):
            raise MachineError(f"The kernel ended before the command did. {self.said()}") from None

    def output(self) -> str:
        """The command's output so far; complete once the kernel has ended."""
        path = self.folder / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    def said(self) -> str:
        """The end of what the command and the kernel wrote, for a message."""
        console = self._console.read_text(errors="replace")
        text = f"The command wrote:\n{_tail(self.output())}\nThe kernel wrote:\n{_tail(console)}"
        if "Permission denied" in console or "ptrace" in console:
            text += "\nRemedy: allow ptrace and executable shared memory here (a container needs SYS_PTRACE)."
        return text

    def kill(self) -> None:
        """End the kernel and everything in it; twice is no error."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _launcher() -> list[str]:
    return [sys.executable, fxsave.__file__] if fxsave.is_needed() else []


def _processor() -> list[str]:
    """Boot arguments that the kernel passes to process 1 as environment."""
    return [f"{name}={value}" for name, value in fxsave.ENVIRONMENT.items()] if fxsave.is_needed() else []


def _check_installed() -> None:
    packages = {KERNEL: "user-mode-linux", "modprobe": "kmod", "ip": "iproute2", "setpriv": "util-linux"}
    paths = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [package for program, package in packages.items() if not shutil.which(program, path=paths)]
    if not MODULES.is_dir() and "user-mode-linux" not in missing:
        missing.append("user-mode-linux")
    if missing:
        raise MachineError(
            f"Not installed: {', '.join(missing)}. "
            f"Remedy: make setup-test, or: apt-get install {' '.join(missing)}"
        )


def _memory_folder() -> str:
    """The folder of the kernel's memory file: shared memory, unless that is too small (containers give 64 MB)."""
    shared = Path("/dev/shm")
    if shared.is_dir() and shutil.disk_usage(shared).free > 1 << 30:
        return str(shared)
    return tempfile.gettempdir()


def _tail(text: str, lines: int = 25) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (nothing)"


def main(arguments: Sequence[str]) -> int:
    """`tests/kernel/run [--seconds N] COMMAND...`: its output, and its status as ours; 125 when it had none."""
    words = list(arguments)
    seconds = 120.0
    if words[:1] == ["--seconds"] and len(words) > 1:
        seconds, words = float(words[1]), words[2:]
    if not words or words[0].startswith("-"):
        print("usage: run [--seconds N] COMMAND [ARGUMENT...]", file=sys.stderr)
        return 2
    try:
        with Machine(words, Path.cwd()) as machine:
            status = machine.wait(seconds)
            sys.stdout.write(machine.output())
            return status
    except MachineError as error:
        print(error, file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
