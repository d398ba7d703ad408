"""culvertd changes a system's DNS settings, and undoes this after a stop and after a death at any step."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from culvert_client.config import Endpoint
from culvert_client.platform.linux.system_dns import SystemDns, clean_up
from culvert_client.platform.linux.system_dns.choice import MARK, NETWORK_MANAGER_NAME
from culvert_proto import CulvertError, Reason

from .private_bus import private_bus, remembering

STUB = Endpoint("127.0.0.1", 53)
HOME = Endpoint("192.0.2.1", 53)
WORK = Endpoint("198.51.100.1", 53)
PLAIN = "search lan\nnameserver 192.0.2.1\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/no-bus")
    monkeypatch.setattr("culvert_client.platform.linux.system_dns.setup.LOOK_EVERY", 0.01)
    (tmp_path / "etc").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


@pytest.fixture
def bus(root: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    with private_bus(root) as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        yield address


class Machine:
    def __init__(self, root: Path) -> None:
        self.file = root / "etc/resolv.conf"
        self.zones: tuple[str, ...] = ("corp.example",)
        self.found: list[tuple[Endpoint, ...]] = []
        self.told: list[tuple[CulvertError, ...]] = []
        self.dns = SystemDns(STUB, root / "state", root)

    async def start(self) -> None:
        await self.dns.start(
            lambda: self.zones, self.found.append, lambda: self.told.append(self.dns.warnings)
        )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (files have no events)
            await asyncio.sleep(0.01)


async def test_a_plain_file_is_replaced_and_put_back_as_it_was(root: Path) -> None:
    machine = Machine(root)
    machine.file.write_text(PLAIN)
    machine.file.chmod(0o640)
    await machine.start()
    assert machine.file.read_text() == f"{MARK}nameserver 127.0.0.1\nsearch lan\n"
    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o644
    assert machine.found == [(HOME,)]
    await machine.dns.stop()
    assert machine.file.read_text() == PLAIN
    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o640
    assert list((root / "state").iterdir()) == []
    await clean_up(root / "state", root)


async def test_a_link_comes_back_as_a_link_and_its_target_is_not_touched(root: Path) -> None:
    machine = Machine(root)
    target = root / "run/resolv.conf"
    target.write_text(PLAIN)
    machine.file.symlink_to("../run/resolv.conf")
    await machine.start()
    assert not machine.file.is_symlink()
    target.write_text("nameserver 198.51.100.1\n")
    await until(lambda: machine.found[-1] == (WORK,))
    await machine.dns.stop()
    assert machine.file.readlink() == Path("../run/resolv.conf")
    assert target.read_text() == "nameserver 198.51.100.1\n"


async def test_a_dhcp_clients_file_is_what_was_there_before_and_is_put_back(root: Path) -> None:
    machine = Machine(root)
    machine.file.write_text(PLAIN)
    await machine.start()
    machine.file.write_text("nameserver 198.51.100.1\n")
    await until(lambda: machine.found[-1] == (WORK,))
    assert machine.file.read_text().startswith(MARK)
    await machine.dns.stop()
    assert machine.file.read_text() == "nameserver 198.51.100.1\n"


@pytest.mark.slow
async def test_many_networks_in_a_lifetime_are_no_fight(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hotel's DHCP client writes a file of its own."""
    monkeypatch.setattr("culvert_client.platform.linux.system_dns.contest.REGAINED_EVERY", 0.02)
    machine = Machine(root)
    machine.file.write_text(PLAIN)
    await machine.start()
    hotels = [f"198.51.100.{number}" for number in range(40)]
    for number, hotel in enumerate(hotels, 1):
        machine.file.write_text(f"nameserver {hotel}\n")
        await until(lambda number=number: len(machine.found) == 1 + number)
        assert machine.file.read_text().startswith(MARK)
        # A hotel's stay gives back more than one time, so the daemon's life has no limit.
        await asyncio.sleep(0.06)
    assert machine.found[1:] == [(Endpoint(hotel, 53),) for hotel in hotels]
    assert machine.told == []
    await machine.dns.stop()
    assert machine.file.read_text() == f"nameserver {hotels[-1]}\n"


async def test_a_program_that_fights_is_told_of_by_name_until_it_ends(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("culvert_client.platform.linux.system_dns.contest.REGAINED_EVERY", 0.2)
    monkeypatch.setattr("culvert_client.platform.linux.system_dns.contest.CALM", 0.5)
    machine = Machine(root)
    machine.file.write_text(PLAIN)
    await machine.start()
    while not machine.told:
        machine.file.write_text("# Generated by dhcpcd from eth0\nnameserver 198.51.100.1\n")
        await asyncio.sleep(0.005)
    [[warning]] = machine.told
    assert warning.reason is Reason.DNS_SETTINGS_CONTESTED
    assert "/etc/resolv.conf (dhcpcd)" in warning.message
    # The daemon does not give the file up.
    await until(lambda: machine.file.read_text().startswith(MARK))
    await until(lambda: machine.told[1:] == [()])
    await machine.dns.stop()
    assert machine.file.read_text() == "# Generated by dhcpcd from eth0\nnameserver 198.51.100.1\n"


@pytest.mark.parametrize(
    "text",
    [None, "", "search lan\n", f"{MARK}nameserver 192.0.2.9\n", f"{MARK}nameserver 127.0.0.1\nnameserver 192.0.2.9\n"],
    ids=["gone", "empty", "without servers", "other server", "one server more"],
)  # fmt: skip
async def test_a_file_that_does_not_lead_to_the_stub_alone_is_put_back(root: Path, text: str | None) -> None:
    machine = Machine(root)
    machine.file.write_text(PLAIN)
    await machine.start()
    ours = machine.file.read_text()
    if text is None:
        machine.file.unlink()
    else:
        machine.file.write_text(text)
    await until(lambda: machine.file.exists() and machine.file.read_text() == ours)
    await machine.dns.stop()
    assert machine.file.read_text() == PLAIN


@pytest.mark.slow
async def test_a_failed_restore_of_resolv_conf_is_reported_until_it_works(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("culvert_client.platform.linux.system_dns.setup.STARTING", 0.5)
    monkeypatch.setattr("culvert_client.platform.linux.system_dns.contest.REGAINED_EVERY", 1.0)
    machine = Machine(root)
    machine.file.write_text(PLAIN)
    await machine.start()
    machine.file.unlink()
    # No file can take a directory's place, as it cannot an immutable file's.
    machine.file.mkdir()
    await until(lambda: bool(machine.told))
    [[warning]] = machine.told
    assert warning.reason is Reason.DNS_SETTINGS_FAILED
    assert str(machine.file) in warning.message
    # Many vain tries later it is no fight.
    await asyncio.sleep(0.3)
    assert len(machine.told) == 1
    machine.file.rmdir()
    await until(lambda: machine.told[1:] == [()])
    await until(lambda: machine.file.is_file() and machine.file.read_text().startswith(MARK))
    await machine.dns.stop()


async def test_a_port_other_than_53_is_refused_for_resolv_conf_unchanged(root: Path) -> None:
    (root / "etc/resolv.conf").write_text(PLAIN)
    with pytest.raises(OSError, match="port 53"):
        await SystemDns(Endpoint("127.0.0.1", 5353), root / "state", root).start(tuple, lambda _: None)
    assert (root / "etc/resolv.conf").read_text() == PLAIN


# ── death ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "link", "absent"])
def test_after_a_death_in_front_of_any_change_the_file_is_as_it_was(root: Path, kind: str) -> None:
    program = Path(__file__).with_name("dying_system_dns.py")
    ended = subprocess.run([sys.executable, program, root, kind], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 10


# ── services ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_network_manager_leaves_the_file_alone_and_takes_it_back(root: Path, bus: str) -> None:
    machine = Machine(root)
    machine.file.write_text("# Generated by NetworkManager\nnameserver 192.0.2.1\n")
    configured = root / "run/NetworkManager/conf.d/culvert.conf"
    async with remembering(bus, NETWORK_MANAGER_NAME) as told:
        await machine.start()
        assert machine.file.read_text().startswith(MARK)
        assert "[main]\nrc-manager=unmanaged\n" in configured.read_text()
        assert told == [("Reload", "u", [1]), ("Reload", "u", [2])]
        # NetworkManager's file in another network.
        (root / "run/NetworkManager/resolv.conf").write_text("nameserver 198.51.100.1\n")
        await until(lambda: machine.found[-1] == (WORK,))
        told.clear()
        await machine.dns.stop()
        assert told == [("Reload", "u", [1]), ("Reload", "u", [2])]
    assert not configured.exists()
    assert machine.file.read_text() == "# Generated by NetworkManager\nnameserver 192.0.2.1\n"


async def test_network_manager_is_told_again_when_its_file_is_gone_or_it_writes(root: Path, bus: str) -> None:
    machine = Machine(root)
    machine.file.write_text("# Generated by NetworkManager\nnameserver 192.0.2.1\n")
    configured = root / "run/NetworkManager/conf.d/culvert.conf"
    async with remembering(bus, NETWORK_MANAGER_NAME) as told:
        await machine.start()
        told.clear()
        before = machine.file.stat().st_ino
        configured.unlink()
        await until(lambda: told == [("Reload", "u", [1]), ("Reload", "u", [2])])
        # resolv.conf is written last.
        await until(lambda: machine.file.stat().st_ino != before)
        assert configured.exists()
        told.clear()
        machine.file.write_text("# Generated by NetworkManager\nnameserver 198.51.100.1\n")
        await until(lambda: machine.file.read_text().startswith(MARK))
        assert ("Reload", "u", [2]) in told
        await machine.dns.stop()
    assert machine.file.read_text() == "# Generated by NetworkManager\nnameserver 198.51.100.1\n"


async def test_a_later_started_network_manager_is_configured(root: Path, bus: str) -> None:
    machine = Machine(root)
    machine.file.write_text("")
    await machine.start()
    async with remembering(bus, NETWORK_MANAGER_NAME) as told:
        machine.file.write_text("# Generated by NetworkManager\nnameserver 192.0.2.1\n")
        await until(lambda: machine.file.read_text().startswith(MARK))
        await until(lambda: machine.found[-1] == (HOME,))
        assert (root / "run/NetworkManager/conf.d/culvert.conf").exists()
        assert ("Reload", "u", [2]) in told
        await machine.dns.stop()
    assert not (root / "run/NetworkManager/conf.d/culvert.conf").exists()


async def test_a_refusal_by_network_manager_is_undone(root: Path, bus: str) -> None:
    machine = Machine(root)
    machine.file.write_text("# Generated by NetworkManager\nnameserver 192.0.2.1\n")
    async with remembering(bus, NETWORK_MANAGER_NAME, refused="Reload"):
        with pytest.raises(OSError, match=r"refused Reload: .*AccessDenied: not you"):
            await machine.start()
    assert not (root / "run/NetworkManager/conf.d/culvert.conf").exists()
    assert machine.file.read_text() == "# Generated by NetworkManager\nnameserver 192.0.2.1\n"


# A stand-in for both programs: a source is a file, and the last one added is the one that counts.
RESOLVCONF = """#!/bin/sh
[ "$1" = --version ] && {{ {version}; exit $?; }}
echo "$@" >> {log}
while [ "$1" != -a ] && [ "$1" != -d ]; do shift; done
[ "$1" = -a ] && cat > {sources}/$2 || rm -f {sources}/$2
{{ echo "{header}"; ls -t {sources}/* | xargs cat; }} > {file}
"""


@pytest.mark.parametrize(
    ("version", "name", "directory", "header", "told"),
    [
        ("echo openresolv 3.12.0", "culvert", "interfaces", "# Generated by resolvconf",
         ["-x -m 0 -a culvert", "-f -d culvert"]),
        ("exit 99", "lo.culvert", "interface", "# Dynamic resolv.conf(5) file generated by resolvconf(8)",
         ["-a lo.culvert", "-d lo.culvert"]),
    ],
)  # fmt: skip
async def test_resolvconf_is_given_one_more_source_and_given_it_again(
    root: Path, version: str, name: str, directory: str, header: str, told: list[str]
) -> None:
    sources, log = root / "run/resolvconf" / directory, root / "log"
    sources.mkdir(parents=True)
    (sources / "eth0").write_text("nameserver 192.0.2.1\n")
    program = root / "bin/resolvconf"
    machine = Machine(root)
    program.write_text(
        RESOLVCONF.format(version=version, log=log, sources=sources, header=header, file=machine.file)
    )
    program.chmod(0o755)
    before = f"{header}\nnameserver 192.0.2.1\n"
    machine.file.write_text(before)
    await machine.start()
    assert (sources / name).read_text() == "nameserver 127.0.0.1\n"
    assert machine.found == [(HOME,)]
    assert machine.file.read_text().startswith(f"{header}\nnameserver 127.0.0.1\n")
    # Another program removes the source again.
    await (await asyncio.create_subprocess_exec(program, "-d", name)).wait()
    await until(lambda: f"{header}\nnameserver 127.0.0.1\n" in machine.file.read_text())
    await machine.dns.stop()
    await clean_up(root / "state", root)
    assert not (sources / name).exists()
    added, removed = told
    first, other, *again, last = log.read_text().splitlines()
    assert (first, other, set(again), last) == (added, f"-d {name}", {added}, removed)
    assert machine.file.read_text() == before
