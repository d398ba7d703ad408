"""Programs that hold keys: a crash leaves no core file, and no page with a key can be written to swap space."""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from gateway_authority import Authority
from gateway_target import CLIENT_NAME, infrastructure
from gateway_wires import PREFIX, connect, namespaces

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / ".venv/bin"
NAMESPACE = f"{PREFIX}-keys"
_READINGS = 5


@dataclass
class Program:
    """A program that was started and is ready."""

    process: subprocess.Popen[bytes]
    folder: Path
    """The program's working directory."""
    key_file: Path | None
    """The file of a key that the program holds."""


@dataclass(frozen=True)
class Start:
    command: list[str]
    key_file: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)


def sluice(folder: Path, stack: ExitStack) -> Start:
    authority: Authority = infrastructure(folder / "pki")
    kek, pki = folder / "kek.bin", authority.folder
    kek.write_bytes(secrets.token_bytes(32))
    kek.chmod(0o600)
    stack.enter_context(namespaces(NAMESPACE))
    connect((NAMESPACE, "wan"), (NAMESPACE, "peer"))
    command = [
        *("ip", "netns", "exec", NAMESPACE, str(ROOT / "target/release/sluice"), "run"),
        *("--device-id", "1", "--port", "1=wan", "--grpc", "127.0.0.1:9559"),
        *("--cert", str(pki / "gateway.pem"), "--key", str(pki / "gateway.key")),
        *("--client-ca", str(authority.certificate), "--client-name", CLIENT_NAME, "--kek", str(kek)),
    ]
    return Start(command, kek)


def controller(folder: Path, _: ExitStack) -> Start:
    settings = {
        "CULVERT_STATE_DIR": str(folder / "state"),
        "CULVERT_REST_LISTEN": f"127.0.0.1:{free_port()}",
        "CULVERT_AGENT_LISTEN": f"127.0.0.1:{free_port()}",
    }
    return Start([str(PROGRAMS / "culvert-controller"), "serve"], folder / "state/master.key", settings)


def dns_updater(folder: Path, _: ExitStack) -> Start:
    settings = {
        "CULVERT_DNS_DATABASE_URL": f"postgresql://culvert@/culvert?host={folder}",
        "CULVERT_DNS_KEY_DIR": str(folder),
    }
    return Start([str(PROGRAMS / "culvert-dns-updater"), "run"], environment=settings)


def daemon(folder: Path, stack: ExitStack) -> Start:
    stack.enter_context(namespaces(NAMESPACE))
    command = [
        *("ip", "netns", "exec", NAMESPACE, str(PROGRAMS / "culvertd")),
        *("--state-dir", str(folder / "state"), "--socket", str(folder / "run/culvertd.sock")),
        *("--dns-mode", "watch"),
    ]
    return Start(command)


@contextmanager
def started(
    program: Callable[[Path, ExitStack], Start], folder: Path, *, core_files: bool = False
) -> Generator[Program]:
    with ExitStack() as stack:
        start = program(folder, stack)
        work, log = folder / "work", folder / "log"
        work.mkdir()
        # Not by `preexec_fn`: it forks, and gRPC's threads of this process then abort the child (grpc 43055).
        limited = ["prlimit", "--core=unlimited"] if core_files else []

        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*limited, *start.command],
                cwd=work,
                env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **start.environment},
                stderr=stream,
            )
        stack.callback(process.wait, 60)
        stack.callback(process.terminate)
        deadline = time.monotonic() + 150
        while "ready" not in log.read_text() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "ready" in log.read_text(), log.read_text()
        yield Program(process, work, start.key_file)


@dataclass(frozen=True)
class Mapping:
    """The mappings of a process's memory (proc_pid_smaps(5))."""

    begin: int
    end: int
    name: str
    anonymous_kib: int
    flags: frozenset[str]


def mappings(pid: int) -> list[Mapping]:
    found: list[Mapping] = []
    begin, end, name, anonymous = 0, 0, "", 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if first == "Anonymous:":
            anonymous = int(rest[0])
        elif first == "VmFlags:":
            found.append(Mapping(begin, end, name, anonymous, frozenset(rest)))
        elif not first.endswith(":"):
            begin, end = (int(it, 16) for it in first.split("-"))
            name = " ".join(rest[4:])
    return found


def places(pid: int, key: bytes) -> list[Mapping]:
    """The mappings that hold the key. If one is unmapped between the listing and the reading, all are read again."""
    for _ in range(_READINGS - 1):
        with suppress(OSError):
            return _read_places(pid, key)
    return _read_places(pid, key)


def _read_places(pid: int, key: bytes) -> list[Mapping]:
    """Raises OSError when a mapping has gone since it was listed."""
    found: list[Mapping] = []
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        for mapping in mappings(pid):
            # [vvar] and its like are the kernel's, and cannot be read.
            if "rd" in mapping.flags and not mapping.name.startswith("[v"):
                memory.seek(mapping.begin)
                if key in memory.read(mapping.end - mapping.begin):
                    found.append(mapping)
    return found


every_program = pytest.mark.parametrize("program", [sluice, controller, dns_updater, daemon])


@pytest.mark.skipif(
    Path("/proc/sys/kernel/core_pattern").read_text()[:1] in "|/", reason="core files go elsewhere"
)
@every_program
def test_a_crash_leaves_no_core_file(program: Callable[[Path, ExitStack], Start], tmp_path: Path) -> None:
    with started(program, tmp_path, core_files=True) as running:
        running.process.send_signal(signal.SIGABRT)
        assert running.process.wait(20) == -signal.SIGABRT
        assert list(running.folder.iterdir()) == []


@every_program
def test_no_page_that_may_hold_a_key_can_be_swapped_out(
    program: Callable[[Path, ExitStack], Start], tmp_path: Path
) -> None:
    with started(program, tmp_path) as running:
        pid = running.process.pid
        assert [it for it in mappings(pid) if it.anonymous_kib and "lo" not in it.flags] == []
        if running.key_file:
            holding = places(pid, running.key_file.read_bytes())
            assert holding
            assert all("lo" in it.flags for it in holding)
