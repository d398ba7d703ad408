"""`culvert-controller setup` under a clean release's systemd: it starts the units, or leaves the host as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian import INSTALL, TESTED, Debian, find_difference, find_package, satisfy
from releases import Release

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SETUP = "culvert-controller setup --yes --public-name vpn.corp.example --zone corp.example"
_BROKEN = "/run/systemd/system/culvert-controller.service.d/broken.conf"


@pytest.fixture(params=TESTED, ids=lambda it: it.tag)
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture
def package(release: Release) -> Path:
    return find_package("culvert-controller", release)


@pytest.fixture
def host(release: Release, package: Path) -> Iterator[Debian]:
    """A host with a name and an address."""
    with Debian(release) as host:
        host.prepare(satisfy([package]), package)
        host.boot()
        host.run(
            "sh", "-c", "ip addr replace 192.0.2.5/32 dev lo; echo 192.0.2.5 vpn.corp.example >> /etc/hosts"
        )
        host.run("sh", "-c", "echo 'precedence ::ffff:0:0/96 100' > /etc/gai.conf")
        yield host


def _break(host: Debian, setting: str) -> None:
    """Adds a setting to the unit."""
    host.run("sh", "-c", f'mkdir -p $(dirname {_BROKEN}); echo "[Service]\n{setting}" > {_BROKEN}')


def _said(host: Debian, command: str) -> str:
    """Output and exit code."""
    return host.run("sh", "-c", f"{command} 2>&1 </dev/null; echo exit $?")


def test_setup_starts_a_controller_or_leaves_the_host_as_it_was(host: Debian, package: Path) -> None:
    bare = host.files()
    host.run(*INSTALL, f"/srv/{package.name}")
    before = host.files()
    # A unit that cannot run: keys, tables and settings are made by then.
    _break(host, "ExecStart=\nExecStart=/bin/false")
    said = _said(host, SETUP)
    assert "does not run" in said
    assert said.endswith("exit 1"), said
    assert find_difference(before, host.files()) == {}
    assert host.run("systemctl", "is-active", "culvert-controller", check=False) in ("inactive", "failed")
    host.run("sh", "-c", f"rm {_BROKEN}; systemctl daemon-reload; systemctl reset-failed")

    said = _said(host, SETUP)
    assert said.endswith("exit 0"), said
    assert re.search(r"https://vpn\.corp\.example:8443/console/setup#token=\S{40,}", said), said
    assert host.run("stat", "-c", "%a %U %G", "/etc/culvert/controller.toml") == "640 root culvert-controller"
    assert (
        host.run("stat", "-c", "%a %U", "/var/lib/culvert-controller/master.key") == "600 culvert-controller"
    )
    for unit in ("culvert-controller", "culvert-dns-updater"):
        assert host.run("systemctl", "is-active", unit) == "active"
        assert host.run("systemctl", "is-enabled", unit) == "enabled"

    said = _said(host, SETUP)
    assert "Nothing differs" in said, said
    # A change under which it cannot start is taken back, and the controller serves as before.
    settings = host.run("cat", "/etc/culvert/controller.toml")
    _break(host, "ExecStartPre=/bin/sh -c '! grep lab.example /etc/culvert/controller.toml'")
    said = _said(host, f"{SETUP} --zone lab.example --change")
    assert "Everything is as it was before" in said, said
    assert host.run("cat", "/etc/culvert/controller.toml") == settings
    assert host.run("systemctl", "is-active", "culvert-controller") == "active"
    host.run("sh", "-c", f"rm {_BROKEN}; systemctl daemon-reload")
    said = _said(host, f"{SETUP} --zone lab.example --change")
    assert said.endswith("exit 0"), said
    assert "lab.example" in host.run("cat", "/etc/culvert/controller.toml")
    assert _said(host, "culvert-controller doctor").endswith("exit 0")

    host.run("apt-get", "purge", "-y", "-q", "culvert-controller")
    assert find_difference(bare, host.files()) == {}
