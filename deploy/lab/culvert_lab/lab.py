"""The lab as one object: up, programs in it, down. Used by the demo, by tests/e2e and by tests/perf.

    async with Lab(Path("build/lab")) as lab:
        bind = await lab.start("bind9", Site.DNS, ["named", "-g", ...])
        await bind.ready("running")
        found = await lab.run(Site.LAPTOP, ["curl", "http://wiki.corp.example/"])

There is one lab on a machine at a time. What marks a lab as up is an abstract Unix socket, so a lab that was killed
leaves no lock; what belongs to it is every process inside its namespaces, so nothing needs to be written down for
the clean-up after a crash.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from culvert_lab import links, process, targets
from culvert_lab.errors import LabBusyError, LabDownError, NotRootError
from culvert_lab.netns import Inside
from culvert_lab.process import Finished, Running
from culvert_lab.topology import Site

LOCK = "\0culvert-lab"


class Lab:
    """The demo network on this machine. `work` is its directory, made anew at each start and deleted at each end."""

    def __init__(self, work: Path) -> None:
        self.work = work.absolute()
        self._mark: Mark | None = None
        self._programs: list[Running] = []
        self._inside: dict[Site, Inside] = {}

    async def __aenter__(self) -> Lab:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()

    @property
    def is_up(self) -> bool:
        return self._mark is not None

    async def up(self, *, network: bool = True) -> None:
        """Take the lock, clean up after a crash, build the network if asked. Raises NotRootError, LabBusyError."""
        if os.geteuid() != 0:
            raise NotRootError
        self._mark = await Mark.take()
        await self._clear()
        if not network:
            return
        (self.work / "logs").mkdir(parents=True)
        self.work.chmod(0o700)
        for site in Site:
            _make_files(self.work, site)
        links.apply(offloads=targets.takes_super_frames())

    async def down(self) -> None:
        """Stop the programs, newest first, then remove the network and the directory. Idempotent."""
        if self._mark is None:
            return
        for program in reversed(self._programs):
            await program.stop()
        self._programs.clear()
        for inside in self._inside.values():
            inside.close()
        self._inside.clear()
        await self._clear()
        self._mark.remove()
        self._mark = None

    async def start(
        self, name: str, site: Site, argv: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> Running:
        """Start a program that runs until the lab goes down; its output is in logs/NAME.log."""
        command = launch_argv(self.work, site, argv, parent=os.getpid())
        log = self.work / "logs" / f"{name}.log"
        program = await process.start(name, command, environment(site) | dict(env or {}), log)
        self._programs.append(program)
        return program

    async def run(
        self,
        site: Site,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        seconds: float = 60.0,
    ) -> Finished:
        """Run a program to its end. Raises TimeoutError."""
        command = launch_argv(self.work, site, argv, parent=os.getpid())
        merged = environment(site) | dict(env or {})
        return await process.run(command, merged, stdin=stdin, seconds=seconds)

    def run_directory(self, site: Site) -> Path:
        """The path, for this process, of a folder that the site's programs call /run."""
        return _run_directory(self.work, site)

    def inside(self, site: Site) -> Inside:
        """A thread of this process in the site's namespace, for sockets of our own."""
        if site not in self._inside:
            self._inside[site] = Inside(site.value)
        return self._inside[site]

    async def _clear(self) -> None:
        await process.sweep(links.exists())
        links.remove()
        shutil.rmtree(self.work, ignore_errors=True)


def launch_argv(work: Path, site: Site, argv: Sequence[str], *, parent: int) -> list[str]:
    """The command line that runs `argv` in `site` of the lab in `work`, with the site's own files around it."""
    return process.launch_argv(site, argv, _binds(work, site), parent=parent)


def environment(site: Site) -> dict[str, str]:
    """The environment of a program in the lab. Nothing of the person's own: a proxy of theirs is not in this network."""
    kept = {
        name: value for name, value in os.environ.items() if name in ("PATH", "TERM", "LANG", "COLORTERM")
    }
    return kept | {
        "HOME": "/run/home",
        "TMPDIR": "/run/tmp",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LAB_SITE": site.short,
    }


def lab_connection() -> socket.socket:
    """A connection that ends when the lab does. Raises LabDownError."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.connect(LOCK)
    except ConnectionRefusedError:
        probe.close()
        raise LabDownError from None
    return probe


def find_running() -> int:
    """Process id of the lab that is up. Raises LabDownError."""
    with lab_connection() as probe:
        peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", peer)[0]
    return pid


class Mark:
    """The socket that marks a lab as up. It accepts connections and keeps them to the lab's end."""

    def __init__(self) -> None:
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @staticmethod
    async def take() -> Mark:
        """Raises LabBusyError."""
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock.bind(LOCK)
        except OSError:
            lock.close()
            raise LabBusyError(find_running()) from None
        mark = Mark()
        mark._server = await asyncio.start_unix_server(mark._keep, sock=lock)
        return mark

    def remove(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.close()

    async def _keep(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            # A connection that nobody accepts, or closes, fills the socket's queue: the next one would wait for ever.
            while await reader.read(1024):
                pass
        except OSError:
            pass
        finally:
            self._connections.discard(writer)
            writer.close()


# Each site is another computer. Its own /run keeps this machine's resolver, whose sockets are there, out of the lab,
# and gives every socket of the lab a short path, however deep the checkout lies.
RESOLVERS = {Site.LAPTOP: "nameserver 127.0.0.1\noptions timeout:3 attempts:1\n"}
NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"


def _run_directory(work: Path, site: Site) -> Path:
    return work / site.short / "run"


def _make_files(work: Path, site: Site) -> None:
    run, etc = _run_directory(work, site), work / site.short / "etc"
    for directory in (etc, run / "home", run / "tmp", run / "culvert"):
        directory.mkdir(parents=True)
    (etc / "nsswitch.conf").write_text(NSSWITCH)
    resolver = RESOLVERS.get(site, "# There is no resolver here.\n")
    (etc / "resolv.conf").write_text(resolver)
    if link := _resolver_in_run():
        (run / link).parent.mkdir(parents=True, exist_ok=True)
        (run / link).write_text(resolver)


def _binds(work: Path, site: Site) -> dict[str, Path]:
    etc = work / site.short / "etc"
    binds = {"/etc/nsswitch.conf": etc / "nsswitch.conf"}
    if not _resolver_in_run():
        binds[str(Path("/etc/resolv.conf").resolve())] = etc / "resolv.conf"
    return binds | {"/run": _run_directory(work, site)}


def _resolver_in_run() -> Path | None:
    """The target under /run of this machine's /etc/resolv.conf, if it is a link there."""
    target = Path("/etc/resolv.conf").resolve()
    return target.relative_to("/run") if target.is_relative_to("/run") else None
