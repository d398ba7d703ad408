"""The package on a clean Debian under its own systemd: installed, started, killed, upgraded, removed without a trace."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .debian import Debian

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BUILD = Path(__file__).parents[3] / "build"
RELEASE = "bookworm"
MAX_EXPOSURE = 4.0
INSTALL = ("apt-get", "install", "-y", "-q", "--no-install-recommends")


def _package() -> Path:
    [found] = BUILD.glob("culvert-client_*.deb")
    return found


@pytest.fixture(scope="module")
def debian() -> Iterator[Debian]:
    """A Debian with the package's dependencies, which are no trace of the package."""
    with Debian(BUILD / "test-deb", RELEASE) as debian:
        depends = subprocess.check_output(["dpkg-deb", "--field", _package(), "Depends"], text=True).strip()
        satisfy = f"apt-get satisfy -y -q --no-install-recommends '{depends}'"
        debian.prepare(f"apt-get update -q; {satisfy}; apt-get clean", _package())
        debian.boot()
        yield debian


def test_the_package_installs_runs_and_leaves_no_trace(debian: Debian) -> None:
    before, resolver = debian.files(), debian.run("cat", "/etc/resolv.conf")
    links = debian.run("ip", "-brief", "link")
    deb = f"/srv/{_package().name}"

    debian.run(*INSTALL, deb)
    assert debian.run("systemctl", "is-enabled", "culvertd") == "enabled"
    _answers(debian)
    assert "culvert0" in debian.run("ip", "-brief", "link")
    said = debian.run("systemd-analyze", "security", "--no-pager", "culvertd.service")
    exposure = re.search(r"Overall exposure level for .*: ([0-9.]+)", said)
    assert exposure is not None, said
    assert float(exposure[1]) <= MAX_EXPOSURE

    # A crash: the service manager starts it anew, and it knows what the name service was before.
    debian.run("systemctl", "kill", "--signal=KILL", "culvertd")
    _answers(debian)

    debian.run("sh", "-c", "echo 'udp_port = 4501' >> /etc/culvert/culvertd.toml")
    old = _main_process(debian)
    debian.run(*INSTALL, "--reinstall", deb)
    _answers(debian)
    assert _main_process(debian) != old
    assert "4501" in debian.run("cat", "/etc/culvert/culvertd.toml")

    # Removed while it is down after a crash.
    debian.run("systemctl", "mask", "--runtime", "culvertd")
    debian.run("systemctl", "kill", "--signal=KILL", "culvertd")
    debian.run("systemctl", "unmask", "--runtime", "culvertd")
    debian.run("apt-get", "purge", "-y", "-q", "culvert-client")
    assert debian.run("cat", "/etc/resolv.conf") == resolver
    assert debian.run("ip", "-brief", "link") == links
    assert debian.run("pgrep", "-f", "culvert", check=False) == ""
    after = debian.files()
    assert {it: after.get(it) for it in before.keys() | after.keys() if after.get(it) != before.get(it)} == {}


def test_links_are_for_the_tray(debian: Debian) -> None:
    debian.run(*INSTALL, f"/srv/{_package().name}")
    said = debian.run("gio", "mime", "x-scheme-handler/culvert")
    assert "org.culvert.Tray.desktop" in said.splitlines()[0]
    debian.run("desktop-file-validate", "/usr/share/applications/org.culvert.Tray.desktop")
    debian.run("desktop-file-validate", "/etc/xdg/autostart/culvert-tray.desktop")


def test_every_library_that_the_tray_loads_is_there(debian: Debian) -> None:
    debian.run(*INSTALL, f"/srv/{_package().name}")
    said = debian.run("sh", "-c", "find /usr/lib/culvert -name '*.so*' | xargs ldd 2>/dev/null")
    missing = {line.strip() for line in said.splitlines() if "not found" in line}
    # GTK is only recommended: a desktop with GTK's settings has it.
    assert not [it for it in missing if not re.match(r"lib(gtk|gdk|atk|cairo|pango|harfbuzz)", it)], missing
    ended = "QT_QPA_PLATFORM=offscreen timeout 3 culvert-tray; echo $?"
    assert debian.run("setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", ended).endswith("124")


def _answers(debian: Debian) -> None:
    """Anyone may ask what the daemon does."""
    for _ in range(50):
        asked = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "culvert", "status")
        if "Not enrolled" in debian.run(*asked, check=False):
            return
    raise AssertionError(debian.run("journalctl", "--no-pager", "--unit=culvertd"))


def _main_process(debian: Debian) -> str:
    return debian.run("systemctl", "show", "--property=MainPID", "culvertd")
