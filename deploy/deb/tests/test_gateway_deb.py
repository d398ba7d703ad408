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


def _serves(debian: Debian) -> None:
    assert debian.run("systemctl", "is-active", UNIT, check=False) == "active", debian.run(
        "journalctl", "--no-pager", "-u", UNIT
    )
    assert "127.0.0.1:9559" in debian.run("ss", "--listening", "--tcp", "--numeric")


def _main_process(debian: Debian) -> str:
    return debian.run("systemctl", "show", "--property=MainPID", UNIT)
