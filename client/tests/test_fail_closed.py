"""No way to a datapath, or one that others take apart: nothing protected leaves in clear, and the person reads why."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from culvert_client.state_dir import StateDir
from culvert_proto import agent_pb2

from .computer import ADDRESSES, ELSEWHERE, PROTECTED, Computer, computer
from .running import FIRST
from .test_state_damage import DAMAGES, MISSING, enrolled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces: needs root"),
    pytest.mark.timeout(240),
]

DATAPATHS = ("userspace", "kernel")
# linux/if_tun.h
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


@pytest.fixture
def pc(tmp_path: Path) -> Generator[Computer]:
    profile = agent_pb2.Profile(user="alice", protected_prefixes=list(map(str, PROTECTED)))
    StateDir(enrolled(tmp_path)).keep_profile(profile)
    with computer(tmp_path) as made:
        yield made


@dataclass(frozen=True)
class Obstacle:
    """`hides` is a script that takes /dev/net/tun from the daemon; `begins` returns how to end what it does."""

    words: str
    begins: Callable[[Computer], Callable[[], object]] = lambda _: lambda: None
    hides: str = ""


def _port(pc: Computer) -> Callable[[], object]:
    def bound() -> socket.socket:
        taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        taken.bind(("", 4500))
        return taken

    return pc.call(bound).close


def _device(pc: Computer) -> Callable[[], object]:
    pc.run("ip", "link", "add", "culvert0", "type", "bridge")
    return lambda: pc.run("ip", "link", "del", "culvert0")


def _tunnel(pc: Computer) -> Callable[[], object]:
    def opened() -> int:
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"culvert0", IFF_TUN | IFF_NO_PI))
        return device

    device = pc.call(opened)
    return lambda: os.close(device)


OBSTACLES = {
    "port": Obstacle(f"(process {os.getpid()}) has UDP port 4500, which tunnels need.", _port),
    "device": Obstacle("A network device of another program is named culvert0", _device),
    "tunnel": Obstacle("A network device of another program is named culvert0", _tunnel),
    "no tun": Obstacle("This computer has no /dev/net/tun", hides="mount -t tmpfs none /dev/net"),
    "tun forbidden": Obstacle(
        "may not make the network device culvert0",
        hides="mount -t tmpfs -o nodev none /dev/net; mknod /dev/net/tun c 10 200",
    ),
}


@pytest.mark.parametrize("datapath", DATAPATHS)
@pytest.mark.parametrize("name", OBSTACLES)
def test_an_obstacle_to_the_start_is_named_and_no_packet_leaks(
    pc: Computer, name: str, datapath: str
) -> None:
    obstacle = OBSTACLES[name]
    ends = obstacle.begins(pc)
    # With a device directory of its own.
    alone = ["unshare", "--mount", "sh", "-euc", f'{obstacle.hides}\nexec "$@"', "sh"]
    with pc.daemon("--datapath", datapath, under=alone) as daemon:
        pc.until(lambda: obstacle.words in pc.said)
        pc.until(lambda: "Blocked: no tunnel can be opened" in pc.status())
        assert obstacle.words in pc.status()
        with pc.sending():
            pass
        assert not any(map(pc.reaches, ADDRESSES))
        assert pc.reaches(ELSEWHERE)
        ends()
        if obstacle.hides:
            subprocess.run(["nsenter", "-t", str(daemon.pid), "-m", "umount", "/dev/net"], check=True)
        pc.until(lambda: "Blocked" not in pc.status())
        assert obstacle.words not in pc.status()
        with pc.sending():
            pass
        assert pc.leaked() == []
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    assert "Traceback" not in pc.said
    # A stop that was asked for leaves nothing behind.
    assert all(map(pc.reaches, ADDRESSES))


def test_a_stop_while_something_is_in_the_way_leaves_nothing_behind(pc: Computer) -> None:
    ends = _port(pc)
    with pc.daemon() as daemon:
        pc.until(lambda: "UDP port 4500" in pc.status())
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    ends()
    assert all(map(pc.reaches, ADDRESSES))
    assert pc.run("ip", "route", "show", "table", "4500", check=False) == ""


REMOVALS = {
    "device": "ip link del culvert0",
    "device and its name": "until printf 'link del culvert0\\nlink add culvert0 type bridge\\n' | ip -batch -; do :; done; "
    "sleep 1; ip link del culvert0",
    "device down": "ip link set culvert0 down",
    "device renamed": "ip link set culvert0 down; ip link set culvert0 name other0",
    "routes": "ip route flush table 4500; ip -6 route flush table 4500",
    "rules": "ip rule del table 4500; ip -6 rule del table 4500",
    "rules and routes": "ip route flush table 4500; ip rule del table 4500; ip -6 route flush table 4500; "
    "ip -6 rule del table 4500",
}


@pytest.mark.parametrize("datapath", DATAPATHS)
@pytest.mark.parametrize("removal", REMOVALS)
def test_routes_removed_by_another_program_are_restored(pc: Computer, removal: str, datapath: str) -> None:
    def shape() -> str:
        routes = (pc.run("ip", it, "route", "show", "table", "4500", check=False) for it in ("-4", "-6"))
        rules = (pc.run("ip", it, "rule") for it in ("-4", "-6"))
        return "\n".join((*sorted("".join(routes).splitlines()), *rules))

    with pc.daemon("--datapath", datapath) as daemon:
        pc.until(lambda: "ready" in pc.said)
        pc.until(lambda: shape().count("dev culvert0") == len(PROTECTED))
        before = shape()
        with pc.sending():
            pc.run("sh", "-ec", REMOVALS[removal])
            pc.until(lambda: shape() == before)
        assert pc.leaked() == []
        assert not any(map(pc.reaches, ADDRESSES))
        assert pc.reaches(ELSEWHERE)
        pc.until(lambda: "Blocked" not in pc.status())
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    assert "another program" in pc.said.lower()
    assert "Traceback" not in pc.said
    assert all(map(pc.reaches, ADDRESSES))


# As systemd starts it: the mode of a file then holds for root, too.
AS_THE_UNIT = ["setpriv", "--bounding-set", "-all,+net_admin,+net_raw,+net_bind_service"]


def _forbid(path: Path) -> None:
    path.chmod(0)


def _replace(path: Path) -> Callable[[], object]:
    """By a file."""
    aside = path.rename(path.with_name("aside"))
    path.touch()
    return lambda: (path.unlink(), aside.rename(path))


def _give_away(path: Path) -> Callable[[], object]:
    """The files of a backup that was restored under another user."""
    os.chown(path, 1000, 1000)
    return lambda: os.chown(path, 0, 0)


def _lock(path: Path) -> Callable[[], object]:
    """With the files of an earlier version in it, which are to be moved."""
    for file in (path / FIRST).iterdir():
        file.rename(path / file.name)
    (path / FIRST).rmdir()
    subprocess.run(["mount", "--bind", path, path], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
    return lambda: subprocess.run(["umount", path], check=True)


STATES = {
    "a file": (_replace, "cannot be written: File exists"),
    "of another user": (_give_away, "cannot be written: Operation not permitted"),
    "read-only": (_lock, "cannot be written: Read-only file system"),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_directory_that_cannot_be_used_is_named_until_it_can(pc: Computer, name: str) -> None:
    damage, words = STATES[name]
    ends = damage(pc.state)
    with pc.daemon(under=AS_THE_UNIT) as daemon:
        pc.until(lambda: words in pc.status())
        assert str(pc.state) in pc.status()
        with pc.sending():
            pass
        assert not any(map(pc.reaches, ADDRESSES))
        assert pc.reaches(ELSEWHERE)
        with pc.sending():
            ends()
            pc.until(lambda: words not in pc.status())
            assert "cannot be read" not in pc.status()
            pc.until(lambda: "Signed in as alice" in pc.status() or "controller" in pc.status())
        assert not any(map(pc.reaches, ADDRESSES))
        assert pc.leaked() == []
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    assert "Traceback" not in pc.said
    assert pc.said.count(words) == 1


@pytest.mark.parametrize("damage", [*DAMAGES, *MISSING, "forbidden"])
def test_no_packet_leaks_after_all_state_files_were_damaged(pc: Computer, damage: str) -> None:
    damaged = {"forbidden": _forbid} | DAMAGES | MISSING
    with pc.daemon(under=AS_THE_UNIT):
        pc.until(lambda: "ready" in pc.said)
        with pc.sending():
            for file in [it for it in (pc.state / FIRST).rglob("*") if it.is_file()]:
                damaged[damage](file)
    # A killed daemon's blocked prefixes stay blocked.
    with pc.sending(), pc.daemon(under=AS_THE_UNIT) as daemon:
        pc.until(lambda: pc.said.count("ready") == 2)
        pc.until(lambda: "Blocked: no tunnel can be opened" in pc.status())
        assert "cannot be read" in pc.status()
        assert not any(map(pc.reaches, ADDRESSES))
        assert pc.reaches(ELSEWHERE)
        assert pc.leaked() == []
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    assert f"{pc.state / FIRST / 'profile.json'} cannot be read" in pc.said
    # The log names the identity's first file that cannot be used.
    assert f"{pc.state / FIRST}/identity/" in pc.said
    assert "Traceback" not in pc.said


def test_a_watch_that_is_not_permitted_is_told(pc: Computer) -> None:
    under = ["setpriv", "--bounding-set", "-all,+net_admin"]
    with pc.daemon("--dns-mode", "watch", under=under) as daemon:
        pc.until(lambda: "cannot watch the names that programs ask for: Operation not" in pc.status())
        assert "CAP_NET_RAW" in pc.status()
        assert not any(map(pc.reaches, ADDRESSES))
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    assert "Traceback" not in pc.said
