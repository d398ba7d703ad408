"""`sluice reload`: a running switch goes on in a new process.

server ── lan ── sluice ── wan ── peer      both directions of a tunnel all the time, each packet numbered
                 │  ▲
          reload ▼  │ a fault: the old one goes on
                 sluice'
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numbered_flow
import pytest
import sluice_entries as entries
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from exchange_entries import config as exchange
from finsy.proto import p4r
from gateway_authority import Authority
from gateway_entries import Site, Tunnel
from gateway_rig import Gateway, new_tunnel
from gateway_target import ROOT
from gateway_wires import Relay, Wire
from numbered_flow import NumberedFlow
from raw_client import Code, RawClient
from sluice_rig import SWITCH, Controller, Sluice, flat
from test_metrics import PORT, scrape
from test_update_under_traffic import answers, gateway, larger, marked, sealed

pytestmark = pytest.mark.slow

PACKETS = 50_000  # in each direction
RELOADS = 6
SETTLED = 0.3  # seconds between two reloads
LATE = "it has not answered in time"


class Reloadable(Sluice):
    """A switch whose program can be replaced on the disk. `process` is the first one, `pid` the one that runs."""

    def __init__(self, installed: Path, program: Path, arguments: dict[str, str], folder: Path) -> None:
        self.installed, self.program = installed, program
        self.control = folder / "control"
        self.install(installed)
        super().__init__(program, flat({**arguments, "--control": str(self.control)}), folder / "sluice.log")
        self.pid = self.process.pid

    def install(self, program: Path | str) -> None:
        """Replaces the program as dpkg does: the running one keeps its file."""
        new = self.program.with_suffix(".new")
        if isinstance(program, Path):
            shutil.copy(program, new)
        else:
            new.write_text(program)
        new.chmod(0o755)
        new.rename(self.program)

    def reload(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.installed), "reload", "--control", str(self.control), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        if done.returncode == 0:
            old, self.pid = self.pid, int(done.stdout.split()[1])
            if old == self.process.pid:
                assert self.process.wait(5) == 0
            assert gone(old)
        else:
            assert not gone(self.pid, 0)
        return done

    def stop(self) -> int:
        if self.pid == self.process.pid:
            return super().stop()
        os.kill(self.pid, signal.SIGTERM)
        return 0 if gone(self.pid) else 1


def gone(pid: int, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while (stat := Path(f"/proc/{pid}/stat")).exists() and stat.read_text().rsplit(")", 1)[1].split()[
        0
    ] != "Z":
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture
def options() -> dict[str, str]:
    return {}


@pytest.fixture
def sluice(
    rig: None, program: Path, arguments: dict[str, str], options: dict[str, str], tmp_path: Path
) -> Iterator[Reloadable]:
    metrics = {"--metrics": f"127.0.0.1:{PORT}"}
    switch = Reloadable(program, tmp_path / "sluice", {**arguments, **metrics, **options}, tmp_path)
    yield switch
    print(switch.log.read_text())
    assert switch.stop() == 0
    assert not switch.control.exists()


class Traffic:
    """A tunnel, and both its directions."""

    def __init__(self, site: Gateway, tunnel: Tunnel) -> None:
        self.sequences: list[int] = []
        self._cipher, self._salt = AESGCM(tunnel.key_out[:32]), tunnel.key_out[32:]
        self._spi = tunnel.spi_out.to_bytes(4)
        self.peer = sealed(site, tunnel)
        self.outbound = NumberedFlow("lan", "wan", answers(site), self._opened)
        self.inbound = NumberedFlow("wan", "lan", self.peer, marked)

    def _opened(self, frame: bytes) -> int | None:
        esp = frame[14 + 20 + 8 :]
        if esp[:4] != self._spi:
            return None
        number = esp[4:8]
        self.sequences.append(int.from_bytes(number))
        plain = self._cipher.decrypt(self._salt + esp[8:16], esp[16:], esp[:4] + bytes(4) + number)
        return marked(plain)

    @property
    def sent(self) -> int:
        return min(self.outbound.sent, self.inbound.sent)

    def check(self) -> None:
        """No packet lost, doubled or overtaken, and no sequence number, which is the nonce, used twice."""
        assert self.outbound.is_whole, self.outbound.fault()
        assert self.inbound.is_whole, self.inbound.fault()
        assert self.sequences == sorted(set(self.sequences))


@pytest.fixture
async def site(controller: Controller, wan: Wire, lan: Wire) -> Any:
    async with controller() as switch:
        await switch.insert(entries.site())
        yield Gateway(switch, Site(), wan, lan, lan)


@pytest.fixture
async def traffic(controller: Controller, wan: Wire, lan: Wire) -> Traffic:
    """The controller leaves: hand-overs end its stream."""
    async with controller() as switch:
        await switch.insert(entries.site())
        tunnel, site = new_tunnel(), Gateway(switch, Site(), wan, lan, lan)
        await site.insert(tunnel.entries())
    return Traffic(site, tunnel)


@pytest.mark.parametrize("options", [{}, {"--threads": "2"}], ids=["one thread", "two threads"])
async def test_no_packet_is_lost_and_no_sa(
    sluice: Reloadable, traffic: Traffic, wan: Wire, lan: Wire, options: dict[str, str]
) -> None:
    page = Relay(PORT, SWITCH)
    counted: dict[str, float] = {}
    with traffic.outbound, traffic.inbound:
        reloads = 0
        while reloads < RELOADS or traffic.sent < PACKETS:
            done = sluice.reload()
            assert done.returncode == 0, done.stderr
            reloads += 1
            samples = scrape(page.address)
            for name, value in counted.items():
                assert samples[name] >= value, name
            counted = {name: value for name, value in samples.items() if "_total" in name}
            await asyncio.sleep(SETTLED)
    page.close()
    lost = sum(it.sent - len(set(it.numbers)) for it in (traffic.outbound, traffic.inbound))
    report(lost, traffic.outbound.sent + traffic.inbound.sent, reloads)
    traffic.check()
    lan.drain()
    # The window has come along: nothing that was seen before is seen again.
    newest = traffic.inbound.sent
    for number in (newest, newest - 1, newest - 500, 1):
        wan.send(traffic.peer(number))
    wan.send(traffic.peer(newest + 1))
    assert [marked(bytes(it)) for it in lan.drain()] == [newest + 1]


def report(lost: int, packets: int, reloads: int) -> None:
    """`gateway_upgrade_lost` in build/fleet.json."""
    path = ROOT / "build/fleet.json"
    path.parent.mkdir(exist_ok=True)
    figures: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
    figures |= {
        "gateway_upgrade_lost": lost,
        "gateway_upgrade_packets": packets,
        "gateway_upgrade_reloads": reloads,
    }
    path.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")


class Broken:
    """A new process that fails at some point: it speaks the hand-over as far as that, then runs `end`."""

    HELLO, PREPARED, TAKEN = 1, 3, 5

    def __init__(self, *script: str) -> None:
        self.text = "\n".join([f"#!{sys.executable}", *self._PREAMBLE, *script])

    _PREAMBLE = (
        "import array, fcntl, hashlib, os, socket, struct, time",
        "own = socket.socket(fileno=0)",
        "def send(kind, content=b'', version=1):",
        "    fd = os.memfd_create('x', os.MFD_ALLOW_SEALING)",
        "    os.write(fd, content)",
        "    fcntl.fcntl(fd, 1033, 15)",
        "    head = b'sluiceHO' + struct.pack('<HHQ', version, kind, len(content))",
        "    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))]",
        "    own.sendmsg([head + hashlib.sha256(content).digest()], rights)",
        "def receive(): return own.recvmsg(100, 4096)",
    )


HELLO, PREPARED = "send(1)", "receive(); send(3)"
# The text of the refusal, and the new program.
FAULTS: dict[str, tuple[str, str | None]] = {
    "no program": ("cannot start", None),
    "no executable": ("cannot start", "not a program"),
    "another program": ("it has ended", "#!/bin/sh\nexit 0"),
    "a program that hangs": (LATE, "#!/bin/sh\nexec sleep 60"),
    "another version": ("version 2", Broken("send(1, version=2)", "time.sleep(9)").text),
    "damaged": ("it sent", Broken("own.send(b'sluiceHO' + bytes([1, *bytes(43)]))", "time.sleep(9)").text),
    "ends after the offer": ("it has ended", Broken(HELLO, "receive()").text),
    "refuses": ("it refuses: no room", Broken(HELLO, "receive(); send(6, b'no room')").text),
    "ends without the ports": ("it has ended", Broken(HELLO, PREPARED).text),
    "ends with the ports": ("it has ended", Broken(HELLO, PREPARED, "receive()").text),
    "stops with the ports": (LATE, Broken(HELLO, PREPARED, "receive(); os.kill(os.getpid(), 19)").text),
    "takes too late": (LATE, Broken(HELLO, PREPARED, "receive(); time.sleep(1.5); send(5)").text),
}


LIMITS = {"too few descriptors": "ulimit -n 10", "too little memory": "ulimit -v 30000"}


async def test_the_old_process_goes_on_after_each_fault(
    sluice: Reloadable, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Frames of a second have room in the sockets.
    monkeypatch.setattr(numbered_flow, "BURST", 1)
    limits = {
        name: ("the running process goes on", f'#!/bin/sh\n{limit}\nexec {sluice.installed} "$@"')
        for name, limit in LIMITS.items()
    }
    with traffic.outbound, traffic.inbound:
        for name, (reason, program) in (FAULTS | limits).items():
            if program is None:
                sluice.program.unlink()
            else:
                sluice.install(program)
            before = sluice.pid
            done = sluice.reload()
            assert (done.returncode, sluice.pid) == (1, before), name
            assert "the running process goes on" in done.stderr, name
            assert reason in done.stderr, (name, done.stderr)
            await asyncio.sleep(0.05)
        sluice.install(sluice.installed)
        done = sluice.reload()
        assert done.returncode == 0, done.stderr
    traffic.check()


@pytest.fixture
def busy_core() -> Iterator[None]:
    """Core 0 never rests: a process of the lowest priority gets a sixtieth of it."""
    with subprocess.Popen(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]) as loop:
        yield
        loop.kill()


def links(process: Path) -> set[str]:
    found: set[str] = set()
    for fd in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(fd.readlink()))
    return found


def is_started(old: Path, new: Path, program: Path) -> bool:
    return True


def runs(old: Path, new: Path, program: Path) -> bool:
    return (new / "exe").readlink() == program


def is_offered_the_switch(old: Path, new: Path, program: Path) -> bool:
    """The listeners are in the offer."""
    return runs(old, new, program) and any(it.startswith("socket:") for it in links(old) & links(new))


Point = Callable[[Path, Path, Path], bool]
POINTS: tuple[Point, ...] = (is_started, runs, is_offered_the_switch)


def children_of(process: Path) -> list[str]:
    found: list[str] = []
    for task in (process / "task").iterdir():
        # A thread may end between the listing and the reading.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += (task / "children").read_text().split()
    return found


def kill_successor(old: Path, program: Path, point: Point) -> None:
    while not (children := children_of(old)):
        time.sleep(0.001)
    while not point(old, Path("/proc", children[0]), program):
        time.sleep(0.001)
    os.kill(int(children[0]), signal.SIGKILL)


@pytest.mark.usefixtures("busy_core")
async def test_the_new_process_is_killed(sluice: Reloadable, traffic: Traffic) -> None:
    with traffic.outbound, traffic.inbound:
        # It cannot take over before it is killed.
        sluice.install(f'#!/bin/sh\nexec nice -n 19 taskset -c 0 {sluice.installed} "$@"')
        for point in POINTS:
            before = sluice.pid
            arguments = (Path(f"/proc/{before}"), sluice.installed, point)
            killer = threading.Thread(target=kill_successor, args=arguments)
            killer.start()
            done = sluice.reload()
            killer.join()
            assert (done.returncode, sluice.pid) == (1, before), (point, done.stdout)
            assert "it has ended" in done.stderr, point
        sluice.install(sluice.installed)
        assert sluice.reload().returncode == 0
    traffic.check()


async def test_another_program_that_fits_and_one_that_does_not(
    sluice: Reloadable, traffic: Traffic, address: str, infrastructure: Authority, tmp_path: Path
) -> None:
    def files(name: str, config: p4r.ForwardingPipelineConfig) -> tuple[str, ...]:
        program, info = tmp_path / f"{name}.json", tmp_path / f"{name}.p4info.txtpb"
        program.write_bytes(config.p4_device_config)
        info.write_text(str(config.p4info))
        return ("--json", str(program), "--p4info", str(info), "--cookie", "77")

    with traffic.outbound, traffic.inbound:
        refused = sluice.reload(*files("other", exchange()))
        assert refused.returncode == 1
        assert "entries do not fit" in refused.stderr
        done = sluice.reload(*files("larger", gateway(larger)))
        assert done.returncode == 0, done.stderr
    traffic.check()
    async with RawClient(address, infrastructure) as client:
        await client.bid(1)
        request = p4r.GetForwardingPipelineConfigRequest(device_id=1)
        config = (await client.stub.GetForwardingPipelineConfig(request)).config
        assert config.cookie.cookie == 77
        assert config.p4info == gateway(larger).p4info


async def test_a_controller_finds_what_it_left(
    sluice: Reloadable, traffic: Traffic, address: str, infrastructure: Authority
) -> None:
    read = p4r.ReadRequest(device_id=1)
    table = read.entities.add().table_entry
    table.counter_data.SetInParent()
    table.meter_config.SetInParent()
    for kind in ("counter_entry", "digest_entry", "extern_entry"):
        getattr(read.entities.add(), kind).SetInParent()
    with traffic.outbound, traffic.inbound:
        await asyncio.sleep(SETTLED)
    pipeline = p4r.GetForwardingPipelineConfigRequest(device_id=1)

    async def seen(client: RawClient) -> tuple[Any, Any]:
        config = (await client.stub.GetForwardingPipelineConfig(pipeline)).config
        found = [entity async for answer in client.stub.Read(read) for entity in answer.entities]
        return config, sorted(str(it) for it in found)

    async with RawClient(address, infrastructure) as client:
        await client.bid(50)
        before = await seen(client)
        assert sluice.reload().returncode == 0
    async with RawClient(address, infrastructure) as client:
        assert (await client.bid(49)).status.code == Code.NOT_FOUND.value[0]
        assert (await client.bid(50)).status.code == 0
        assert await seen(client) == before


def test_a_full_disk_is_no_hindrance(
    rig: None, program: Path, arguments: dict[str, str], tmp_path: Path
) -> None:
    """Not even for the log."""
    control = tmp_path / "control"
    command = ["ip", "netns", "exec", SWITCH, str(program), *flat({**arguments, "--control": str(control)})]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(command, stderr=full)
    try:
        deadline = time.monotonic() + 10
        while not is_listening(control):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        reload = [str(program), "reload", "--control", str(control)]
        done = subprocess.run(reload, capture_output=True, text=True, check=True, timeout=20)
        new = int(done.stdout.split()[1])
        assert process.wait(5) == 0
        os.kill(new, signal.SIGTERM)
        assert gone(new)
    finally:
        process.kill()
        process.wait()


def is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
        client.connect(str(path))
        return True
    return False
