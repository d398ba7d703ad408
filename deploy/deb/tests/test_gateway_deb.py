"""The gateway's package on a clean release under its own systemd: the switch starts with a folder of keys, confined."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian import INSTALL, TESTED, Debian, find_difference, find_package, satisfy
from releases import Release

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MAX_EXPOSURE = 3.0
UNIT = "sluice@berlin"
SETTINGS = """
DEVICE_ID=1
PORTS=--port 1=wan --port 2=lan
P4RUNTIME=--grpc 127.0.0.1:9559
CLIENT_NAME=culvert-controller
OPTIONS=
"""
# Keys, settings and ports of a gateway.
SET_UP = """
mkdir -p /etc/culvert/sluice/berlin
cp /srv/berlin.env /etc/culvert/sluice/
for name in gateway.pem gateway.key controller-ca.pem kek.bin; do cp /srv/$name /etc/culvert/sluice/berlin/; done
chown -R sluice:sluice /etc/culvert/sluice/berlin
chmod 600 /etc/culvert/sluice/berlin/*
ip link add wan type veth peer name wan-peer
ip link add lan type veth peer name lan-peer
for name in wan lan wan-peer lan-peer; do ip link set $name up; done
"""

# The same, of a gateway that has joined beside the kernel.
JOINED_BESIDE = """
sed -i 's/^PORTS=.*/PORTS=--port 1=sluice-w0 --port 2=sluice-l0/' /etc/culvert/sluice/berlin.env
cat > /etc/culvert/sluice/berlin.json <<'END'
{"gateway": "berlin", "controller": "vpn.corp.example:8443", "wan": "sluice-w0", "lan": "sluice-l0", "taken": [],
 "next_hop": "10.20.0.1", "had_route": false,
 "beside": {"number": 0, "interface": "lan", "address": "10.20.0.5", "next_hop": "10.20.0.1", "mtu": 1500,
            "pool": "10.99.0.0/24", "intranet": ["10.20.0.0/24"], "inward": ["lan"], "masquerade": true}}
END
ip address add 10.20.0.5/24 dev lan
"""
FORWARDING = "/proc/sys/net/ipv4/conf/lan/forwarding"
TABLES = "table netdev culvert-0\ntable inet culvert-0"


@pytest.fixture(params=TESTED, ids=lambda it: it.tag, scope="module")
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture(scope="module")
def package(release: Release) -> Path:
    return find_package("culvert-gateway", release)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("keys")
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
    request += ["-subj", "/CN=berlin", "-addext", "subjectAltName=DNS:berlin", "-days", "2"]
    request += ["-keyout", str(folder / "gateway.key"), "-out", str(folder / "gateway.pem")]
    subprocess.run(request, check=True, capture_output=True)
    (folder / "controller-ca.pem").write_bytes((folder / "gateway.pem").read_bytes())
    (folder / "kek.bin").write_bytes(os.urandom(32))
    (folder / "berlin.env").write_text(SETTINGS)
    return list(folder.iterdir())


@pytest.fixture(scope="module")
def debian(release: Release, package: Path, files: list[Path]) -> Iterator[Debian]:
    with Debian(release) as debian:
        debian.prepare(satisfy([package]), package, *files)
        debian.boot()
        yield debian


def test_the_gateway_installs_runs_and_leaves_no_trace(debian: Debian, package: Path) -> None:
    before = debian.files()
    debian.run(*INSTALL, f"/srv/{package.name}")
    assert debian.run("pgrep", "sluice", check=False) == "", "it starts nothing by itself"
    debian.run("sh", "-ec", SET_UP)
    debian.run("systemctl", "enable", "--now", UNIT, "culvert-gateway-renew.timer")
    assert debian.run("culvert-gateway", "--version").startswith("culvert-gateway ")
    _serves(debian)
    assert debian.measure_exposure(f"{UNIT}.service") <= MAX_EXPOSURE

    old = _main_process(debian)
    debian.run("systemctl", "kill", "--signal=KILL", UNIT)
    debian.run("sleep", "4")
    _serves(debian)
    assert (killed := _main_process(debian)) != old
    debian.run("systemctl", "reload", UNIT)
    _serves(debian)
    assert (reloaded := _main_process(debian)) != killed
    debian.run(*INSTALL, "--reinstall", f"/srv/{package.name}")
    _serves(debian)
    assert _main_process(debian) != reloaded
    log = debian.run("journalctl", "--no-pager", "--output=cat", "-u", UNIT)
    assert log.count('"takes over"') == 2, log
    assert debian.run("systemctl", "show", "--property=NRestarts", UNIT) == "NRestarts=1"
    # A process that takes over is watched as the first one was.
    debian.run("sleep", "20")
    _serves(debian)
    assert debian.run("systemctl", "show", "--property=NRestarts", UNIT) == "NRestarts=1"

    debian.run("apt-get", "purge", "-y", "-q", "culvert-gateway")
    assert debian.run("pgrep", "sluice", check=False) == ""
    assert (
        debian.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "sluice@*", "culvert-*")
        == ""
    )
    assert find_difference(before, debian.files()) == {}


def test_beside_the_kernel_its_network_comes_and_goes_with_the_unit(debian: Debian, package: Path) -> None:
    debian.run(*INSTALL, f"/srv/{package.name}")
    debian.run("sh", "-c", "ip link delete wan; ip link delete lan", check=False)
    debian.run("sh", "-ec", SET_UP + JOINED_BESIDE)
    before = _network(debian)
    debian.run("systemctl", "start", UNIT)
    _serves(debian)
    assert debian.run("nft", "list", "tables") == TABLES
    watch = "culvert-gateway-watch@berlin"
    assert debian.measure_exposure(f"{watch}.service") <= MAX_EXPOSURE

    # Other programs take parts away, and the switch is killed.
    debian.run("nft", "flush", "ruleset")
    debian.run("ip", "route", "delete", "10.99.0.0/24")
    debian.run("sh", "-c", f"echo 0 > {FORWARDING}")
    debian.run("systemctl", "kill", "--signal=KILL", UNIT)
    debian.run("sleep", "12")
    _serves(debian)
    assert debian.run("systemctl", "is-active", watch, check=False) == "active"
    assert debian.run("nft", "list", "tables") == TABLES
    debian.run("nft", "flush", "ruleset")
    debian.run("sh", "-c", f"echo 0 > {FORWARDING}")
    debian.run("ip", "route", "delete", "10.99.0.0/24")
    debian.run("sleep", "8")
    assert debian.run("nft", "list", "tables") == TABLES, debian.run("journalctl", "--no-pager", "-u", watch)
    assert "culvert-l0" in debian.run("ip", "route", "show", "10.99.0.0/24")
    assert debian.run("cat", FORWARDING) == "1"

    debian.run("systemctl", "stop", UNIT)
    assert _network(debian) == before
    debian.run("apt-get", "purge", "-y", "-q", "culvert-gateway")


def _network(debian: Debian) -> str:
    commands = "ip link; ip address; ip route; nft list ruleset; cat /proc/sys/net/ipv4/conf/*/forwarding"
    found = debian.run("sh", "-ec", commands)
    return "\n".join(it for it in found.splitlines() if "valid_lft" not in it and "inet6" not in it)


def _serves(debian: Debian) -> None:
    assert debian.run("systemctl", "is-active", UNIT, check=False) == "active", debian.run(
        "journalctl", "--no-pager", "-u", UNIT
    )
    assert "127.0.0.1:9559" in debian.run("ss", "--listening", "--tcp", "--numeric")


def _main_process(debian: Debian) -> str:
    return debian.run("systemctl", "show", "--property=MainPID", UNIT)
