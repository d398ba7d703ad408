"""The controller's package on a clean release under its own systemd: both programs serve what the package has, confined."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian import INSTALL, TESTED, Debian, find_difference, find_package, satisfy
from releases import Release

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MAX_EXPOSURE = 2.0
UNITS = ("culvert-controller", "culvert-dns-updater")
SETTINGS = """
managed_zones = ["corp.example"]
"""
# Prints the status and the start of a page of the controller.
READ = """
import ssl, sys, urllib.request
context = ssl._create_unverified_context()
answer = urllib.request.urlopen(f"https://127.0.0.1:8443{sys.argv[1]}", context=context)
print(answer.status, answer.read().decode())
"""


@pytest.fixture(params=TESTED, ids=lambda it: it.tag, scope="module")
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture(scope="module")
def package(release: Release) -> Path:
    return find_package("culvert-controller", release)


@pytest.fixture(scope="module")
def debian(release: Release, package: Path) -> Iterator[Debian]:
    with Debian(release) as debian:
        debian.prepare(satisfy([package]), package)
        debian.boot()
        yield debian


def test_the_controller_installs_serves_and_leaves_no_trace(debian: Debian, package: Path) -> None:
    before = debian.files()
    debian.run(*INSTALL, f"/srv/{package.name}")
    for unit in UNITS:
        assert debian.run("systemctl", "is-enabled", unit) == "enabled"
        assert debian.run("systemctl", "is-active", unit, check=False) == "inactive", "it is not set up yet"
    debian.run("sh", "-c", f"mkdir -p /etc/culvert; echo '{SETTINGS}' > /etc/culvert/controller.toml")
    debian.run("systemctl", "start", *UNITS)
    _serves_at_once(debian)
    for unit in UNITS:
        _is_ready(debian, unit)
        assert debian.measure_exposure(f"{unit}.service") <= MAX_EXPOSURE
    _serves_what_the_package_has(debian)
    _sees_only_the_database(debian)

    debian.run("systemctl", "kill", "--signal=KILL", "culvert-controller")
    _is_ready(debian, "culvert-controller", starts=2)
    debian.run(*INSTALL, "--reinstall", f"/srv/{package.name}")
    _serves_at_once(debian)
    _is_ready(debian, "culvert-controller", starts=3)
    _serves_what_the_package_has(debian)

    # The package is installed also if its program does not start.
    debian.run("sh", "-c", "echo 'nonsense = 1' >> /etc/culvert/controller.toml")
    reinstall = " ".join((*INSTALL, "--reinstall", f"/srv/{package.name}"))
    assert "journalctl -u culvert-controller has the reason" in debian.run("sh", "-c", f"{reinstall} 2>&1")

    debian.run("apt-get", "purge", "-y", "-q", "culvert-controller")
    for unit in UNITS:
        assert debian.run("systemctl", "is-failed", unit, check=False) == "inactive"
    assert debian.run("pgrep", "-f", "culvert|postgres", check=False) == ""
    assert find_difference(before, debian.files()) == {}


def test_nothing_in_it_is_under_the_gpl_or_of_this_computer(debian: Debian, package: Path) -> None:
    debian.run(*INSTALL, f"/srv/{package.name}")
    prefix = "/usr/lib/culvert-controller"
    said = debian.run(
        "find", prefix, "(", "-name", "psql", "-o", "-name", "libreadline*", "-o", "-name", "libtinfo*", ")"
    )
    assert said == ""
    libraries = f"find {prefix} -name '*.so*' -o -path '*/pginstall*/bin/*' | xargs ldd 2>/dev/null"
    assert "not found" not in debian.run("sh", "-c", libraries)
    assert debian.run("grep", "-rl", str(package.parents[2]), prefix, check=False) == ""


def _serves_at_once(debian: Debian) -> None:
    """When systemd says that the units are started, both ports answer."""
    assert _read(debian, "/readyz").startswith("200")
    debian.run("bash", "-c", ": >/dev/tcp/127.0.0.1/8444")
    assert debian.run("systemctl", "is-active", *UNITS).split() == ["active", "active"]


def _serves_what_the_package_has(debian: Debian) -> None:
    page = _read(debian, "/console/")
    assert page.startswith("200"), page
    assert "/console/first.js" in page
    assert _read(debian, "/console/first.js").startswith("200")
    checks = debian.run(
        *("setpriv", "--reuid=culvert-controller", "--regid=culvert-controller", "--clear-groups"),
        *("env", "CULVERT_STATE_DIR=/var/lib/culvert-controller"),
        *("culvert-controller", "doctor", "--config", "/etc/culvert/controller.toml"),
        check=False,
    )
    [program] = [line for line in checks.splitlines() if "gateway program" in line]
    assert "lacks" not in program, checks


def _sees_only_the_database(debian: Debian) -> None:
    """dns-updater uses the embedded Postgres, and sees none of the controller's other files."""
    process = debian.run("systemctl", "show", "--property=MainPID", "--value", "culvert-dns-updater")
    seen = debian.run("ls", "-A", f"/proc/{process}/root/var/lib/culvert-controller")
    assert seen.split() == ["database-url", "postgres"]
    data = f"/proc/{process}/root/var/lib/culvert-controller/postgres/data"
    # systemd shows an empty directory in its place.
    assert debian.run("ls", "-A", data) == ""


def _read(debian: Debian, path: str) -> str:
    return debian.run("/usr/lib/culvert-controller/bin/python", "-I", "-c", READ, path)


def _is_ready(debian: Debian, unit: str, starts: int = 1) -> None:
    end = time.monotonic() + 90
    while (said := debian.run("journalctl", "--no-pager", "-u", unit)).count("ready") < starts:
        assert time.monotonic() < end, said
        time.sleep(0.5)
