"""Any file of the state directory, damaged in any way: what is protected stays blocked, and a sentence names the file."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path

import grpc.aio
import pytest
from culvert_client.closed import read_blocked
from culvert_client.config import Endpoint
from culvert_client.core.claims import holds
from culvert_client.core.consent import Consent
from culvert_client.core.grant import Network
from culvert_client.platform.linux.system_dns.choice import SettingsOwner
from culvert_client.platform.linux.system_dns.resolv_conf import Before, Record, Records
from culvert_client.state_dir import Identity, StateDir
from culvert_client.state_file import copy_of
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2
from culvert_proto.grpc_errors import from_rpc_error

from .controller import CODE
from .granted import WIKI
from .pki import Authority
from .running import FIRST, PLATFORM, Running, running
from .test_daemon import Lab

PROTECTED = ip_network("10.20.0.0/16")
NOBODY = Endpoint("127.0.0.1", 9)

Damage = Callable[[Path], object]


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(to: str) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        path.symlink_to(path.name if to == "itself" else to)

    return damage


DAMAGES: dict[str, Damage] = {
    "empty": lambda it: it.write_bytes(b""),
    "cut": lambda it: it.write_bytes(it.read_bytes()[: it.stat().st_size // 2]),
    "zeroed": lambda it: it.write_bytes(bytes(it.stat().st_size)),
    "garbled": lambda it: it.write_bytes(bytes(byte ^ 0x5A for byte in it.read_bytes())),
    "one bit": lambda it: it.write_bytes(it.read_bytes()[:-9] + b"\x00" + it.read_bytes()[-8:]),
    "newer": lambda it: it.write_bytes(b"culvert-state 2 something\nelse"),
    "directory": _directory,
    "dangling link": _link("nowhere"),
    "looping link": _link("itself"),
}
MISSING: dict[str, Damage] = {"missing": lambda it: it.unlink()}
FILES = (
    *(f"identity/{name}" for name in ("device.key", "device.pem", "ca.pem", "enrolment.json")),
    *("profile.json", "consent.json", "tunnels.json", "gateway", "paused"),
)
CLOSING = ("profile.json", "consent.json")
FORGOTTEN = ("tunnels.json", "gateway", "paused")


def enrolled(directory: Path) -> Path:
    """The state of an organisation with everything in it."""
    ca = Authority("Test CA")
    certificate, key = ca.issue("d1")
    kept = directory / "state" / FIRST
    state = StateDir(kept)
    state.keep_identity(
        Identity("https://127.0.0.1:9", "127.0.0.1:9", "d1", "alice", 0, certificate, ca.pem, key)
    )
    state.keep_profile(agent_pb2.Profile(user="alice", protected_prefixes=[str(PROTECTED)]))
    state.keep_consent(Consent())
    state.keep_tunnels({})
    state.keep_gateway("gw")
    state.keep_pause(4_000_000_000)
    return kept


def covered(daemon: Running) -> bool:
    return bool(daemon.datapath.applied) and covers(daemon.datapath.applied[0].blocked)


def covers(blocked: frozenset[Network]) -> bool:
    return any(holds(it, PROTECTED) for it in blocked)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [*DAMAGES, *MISSING])
async def test_a_damaged_file_opens_nothing_and_is_named(tmp_path: Path, name: str, damage: str) -> None:
    kept = enrolled(tmp_path)
    (DAMAGES | MISSING)[damage](kept / name)
    blocked = read_blocked(tmp_path / "state", PLATFORM.name_services)
    assert covers(blocked)
    async with running(tmp_path, NOBODY) as daemon:
        assert covered(daemon)
        status = await daemon.status()
    if name.startswith("identity/"):
        shown = status.last_error.message
        assert f"{kept / name} cannot be read" in shown
        assert status.last_error.remedy


@contextmanager
def _broken(path: Path) -> Generator[None]:
    """Reading it is an I/O error (EIO), as the first byte of a process's memory is."""
    subprocess.run(["mount", "--bind", f"/proc/{os.getpid()}/mem", path], check=True)
    try:
        with pytest.raises(OSError, match="Input/output error"):
            path.read_bytes()
        yield
    finally:
        subprocess.run(["umount", path], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file")
@pytest.mark.parametrize("name", FILES)
async def test_a_file_that_the_disk_does_not_give_opens_nothing_and_is_named(
    tmp_path: Path, name: str
) -> None:
    kept = enrolled(tmp_path)
    with _broken(kept / name):
        assert covers(read_blocked(tmp_path / "state", PLATFORM.name_services))
        async with running(tmp_path, NOBODY) as daemon:
            assert covered(daemon)
            status = await daemon.status()
    if name.startswith("identity/"):
        assert f"{kept / name} cannot be read" in status.last_error.message
        assert status.last_error.remedy


def test_an_enrolled_computer_without_any_profile_is_closed(tmp_path: Path) -> None:
    kept = enrolled(tmp_path)
    for name in ("profile.json", "profile.json.copy"):
        (kept / name).unlink()
    assert covers(read_blocked(tmp_path / "state", PLATFORM.name_services))


def test_the_name_servers_before_a_crash_are_spared(tmp_path: Path) -> None:
    kept = enrolled(tmp_path)
    for name in ("profile.json", "profile.json.copy"):
        (kept / name).write_bytes(b"")
    Records(tmp_path / "state").keep(Record(SettingsOwner.FILE, Before(text="nameserver 10.77.0.1\n")))
    blocked = read_blocked(tmp_path / "state", PLATFORM.name_services)
    assert covers(blocked)
    assert not any(holds(it, ip_network("10.77.0.1/32")) for it in blocked)


@pytest.mark.parametrize("name", CLOSING)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_file_whose_copy_is_damaged_too_is_closed_and_named(
    tmp_path: Path, name: str, damage: str
) -> None:
    kept = enrolled(tmp_path)
    for file in (name, f"{name}.copy"):
        DAMAGES[damage](kept / file)
    async with running(tmp_path, NOBODY) as daemon:
        assert covered(daemon)
        status = await daemon.status()
    assert f"{kept / name} cannot be read" in status.last_error.message
    assert status.state == local_pb2.STATE_BLOCKED


@pytest.mark.parametrize("name", FORGOTTEN)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_forgotten_choice_is_reported_until_it_is_made_again(
    tmp_path: Path, name: str, damage: str
) -> None:
    kept = enrolled(tmp_path)
    for file in (name, f"{name}.copy"):
        DAMAGES[damage](kept / file)
    async with running(tmp_path, NOBODY) as daemon:
        assert covered(daemon)
        [warning] = (await daemon.status()).warnings
        assert warning.reason == Reason.STATE_FORGOTTEN
        assert f"{kept / name} cannot be read" in warning.message
        assert warning.remedy
        if name == "gateway" and damage not in ("newer", "directory"):
            await daemon.local.SelectGateway(local_pb2.SelectGatewayRequest(gateway=""))
            assert not (await daemon.status()).warnings
            assert StateDir(kept).gateway() == ""


@pytest.mark.parametrize(("damage", "is_written_anew"), [("cut", True), ("newer", False)])
async def test_an_unreadable_profile_is_named_until_it_is_rewritten(
    tmp_path: Path, damage: str, is_written_anew: bool
) -> None:
    lab = Lab(tmp_path)
    async with lab.serving() as controller:
        async with lab.daemon() as daemon:
            await lab.enroll(daemon)
        profile = daemon.settings.state_dir / FIRST / "profile.json"
        for file in (profile, copy_of(profile)):
            DAMAGES[damage](file)
        async with lab.daemon() as daemon:
            await daemon.until(
                lambda status: status.state in (local_pb2.STATE_READY, local_pb2.STATE_NEEDS_CODE)
            )
            status = await daemon.status()
        assert controller.open == {}
    assert (f"{profile} cannot be read" not in status.last_error.message) == is_written_anew
    assert (StateDir(profile.parent).profile() is not None) if is_written_anew else True


def test_the_file_of_a_newer_version_is_kept(tmp_path: Path) -> None:
    state = StateDir(enrolled(tmp_path))
    newer = b"culvert-state 2 something\nelse"
    state.profile_path.write_bytes(newer)
    with pytest.raises(CulvertError) as refused:
        state.keep_profile(agent_pb2.Profile())
    assert refused.value.reason is Reason.STATE_UNREADABLE
    assert state.profile_path.read_bytes() == newer


def test_a_computer_that_never_enrolled_blocks_nothing(tmp_path: Path) -> None:
    assert read_blocked(tmp_path / "state", PLATFORM.name_services) == frozenset()
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    StateDir(tmp_path / "state")
    assert read_blocked(tmp_path / "state", PLATFORM.name_services) == frozenset()


# ── at any moment of life ───────────────────────────────────────────────────────────────────────────────────────────────

ACTS: dict[str, Callable[[Running], Awaitable[object]]] = {
    "code": lambda it: it.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE)),
    "open": lambda it: it.local.OpenTunnel(local_pb2.OpenTunnelRequest(name=WIKI)),
    "ask": lambda it: it.ask(WIKI),
    "close": lambda it: it.local.CloseTunnel(local_pb2.CloseTunnelRequest(all=True)),
    "pause": lambda it: it.local.Pause(local_pb2.PauseRequest(until=round(time.time()) + 900)),
    "resume": lambda it: it.local.Resume(local_pb2.ResumeRequest()),
    "gateway": lambda it: it.local.SelectGateway(local_pb2.SelectGatewayRequest(gateway="")),
    "look": lambda it: it.status(),
}


def _damage_some(rng: random.Random, state: Path) -> list[tuple[Path, str]]:
    files = sorted(it for it in state.rglob("*") if it.is_file() and not it.is_symlink())
    done: list[tuple[Path, str]] = []
    for file in rng.sample(files, min(len(files), rng.choice((1, 2, 4, len(files))))):
        damage = rng.choice([*DAMAGES, *MISSING])
        (DAMAGES | MISSING)[damage](file)
        done.append((file, damage))
    return done


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
async def test_no_damage_at_any_moment_opens_anything(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed)  # noqa: S311 (a case that comes again)
    lab = Lab(tmp_path)
    state = tmp_path / "state"
    async with lab.serving():
        async with lab.daemon() as daemon:
            await lab.enroll(daemon)
        for _ in range(3):
            _damage_some(rng, state)
            assert covers(read_blocked(state, PLATFORM.name_services))
            caplog.clear()
            reasons: list[Reason] = []
            async with lab.daemon() as daemon:
                assert covered(daemon)
                status = await daemon.status()
                if status.state == local_pb2.STATE_NOT_ENROLLED or status.state == local_pb2.STATE_BLOCKED:
                    assert "cannot be read" in status.last_error.message
                    assert status.last_error.remedy
                for act in rng.sample(sorted(ACTS), 5):
                    try:
                        await ACTS[act](daemon)
                    except grpc.aio.AioRpcError as error:
                        reasons.append(from_rpc_error(error, peer="culvertd").reason)
                    assert covers(daemon.datapath.applied[-1].blocked), act
                    if rng.random() < 0.3:
                        _damage_some(rng, state)
            assert Reason.INTERNAL not in reasons
            assert "Traceback" not in caplog.text
