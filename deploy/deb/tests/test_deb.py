"""The client's packages on a clean release under its own systemd: they start, survive a kill, and leave no trace."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian import INSTALL, TESTED, Debian, find_difference, find_package, satisfy
from releases import Release

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MAX_EXPOSURE = 3.0
HOLD_PORT_53 = "import socket, time; taken = socket.create_server(('127.0.0.1', 53)); time.sleep(600)"


@pytest.fixture(params=TESTED, ids=lambda it: it.tag, scope="module")
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture(scope="module")
def client(release: Release) -> Path:
    return find_package("culvert-client", release)


@pytest.fixture(scope="module")
def tray(release: Release) -> Path:
    return find_package("culvert-tray", release)


@pytest.fixture(scope="module")
def old(client: Path, tray: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of version 0.1.0, in which the tray was."""
    folder = tmp_path_factory.mktemp("old")
    root = folder / "root"
    for package in (tray, client):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
        subprocess.run(["dpkg-deb", "--control", package, root / "DEBIAN"], check=True)
        conffiles = (root / "DEBIAN/conffiles").read_text()
        (folder / "conffiles").open("a").write(conffiles)
    control = root / "DEBIAN/control"
    control.write_text(re.sub("^Version:.*", "Version: 0.1.0", control.read_text(), flags=re.MULTILINE))
    (root / "DEBIAN/conffiles").write_text((folder / "conffiles").read_text())
    # There it was in /lib.
    (root / "lib/systemd").mkdir(parents=True)
    (root / "usr/lib/systemd/system").rename(root / "lib/systemd/system")
    (root / "usr/lib/systemd").rmdir()
    package = folder / "old.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, package], check=True)
    return package


@pytest.fixture(scope="module")
def debian(release: Release, client: Path, tray: Path, old: Path) -> Iterator[Debian]:
    with Debian(release) as debian:
        debian.prepare(satisfy([client, tray]), client, tray, old)
        debian.boot()
        yield debian


def test_the_client_installs_runs_and_leaves_no_trace(debian: Debian, client: Path) -> None:
    before, resolver = debian.files(), debian.run("cat", "/etc/resolv.conf")
    links = debian.run("ip", "-brief", "link")
    deb = f"/srv/{client.name}"

    debian.run(*INSTALL, deb)
    assert debian.run("systemctl", "is-enabled", "culvertd") == "enabled"
    # systemd calls the unit active when the daemon answers, also where it cannot serve names yet.
    assert "Not enrolled" in debian.run("culvert", "status")
    debian.run("systemctl", "stop", "culvertd")
    debian.run("systemd-run", "--unit=taken", "/usr/lib/culvert/bin/python", "-c", HOLD_PORT_53)
    debian.run("timeout", "20", "sh", "-c", "until ss -Hltn | grep -q 127.0.0.1:53; do sleep 0.1; done")
    debian.run("systemctl", "start", "culvertd")
    assert "another program has it" in debian.run("culvert", "status")
    debian.run("systemctl", "stop", "taken")
    _answers(debian)
    assert "culvert0" in debian.run("ip", "-brief", "link")
    assert debian.measure_exposure("culvertd.service") <= MAX_EXPOSURE
    assert debian.run("find", "/usr/lib/culvert", "-iname", "*qt*") == ""

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
    assert find_difference(before, debian.files()) == {}


def test_the_old_package_becomes_two(debian: Debian, client: Path, tray: Path, old: Path) -> None:
    before = debian.files()
    debian.run(*INSTALL, f"/srv/{old.name}")
    _answers(debian)
    debian.run("sh", "-c", "echo 'udp_port = 4501' >> /etc/culvert/culvertd.toml")
    debian.run(*INSTALL, f"/srv/{client.name}", f"/srv/{tray.name}")
    _answers(debian)
    assert "4501" in debian.run("cat", "/etc/culvert/culvertd.toml")
    # dpkg knows one owner of each file.
    for place, owner in [
        ("/usr/bin/culvert-tray", "culvert-tray"),
        ("/etc/xdg/autostart/culvert-tray.desktop", "culvert-tray"),
        ("/usr/bin/culvert", "culvert-client"),
    ]:
        assert debian.run("dpkg", "-S", place) == f"{owner}: {place}"
    assert debian.run("dpkg", "--verify", "culvert-tray") == ""
    assert debian.run("systemctl", "is-enabled", "culvertd") == "enabled"
    debian.run("apt-get", "purge", "-y", "-q", "culvert-client", "culvert-tray")
    assert find_difference(before, debian.files()) == {}


def test_the_old_package_becomes_the_client_alone(debian: Debian, client: Path, old: Path) -> None:
    before = debian.files()
    debian.run(*INSTALL, f"/srv/{old.name}")
    debian.run(*INSTALL, f"/srv/{client.name}")
    _answers(debian)
    assert debian.run("find", "/usr/lib/culvert", "-iname", "*qt*") == ""
    debian.run("apt-get", "purge", "-y", "-q", "culvert-client")
    assert find_difference(before, debian.files()) == {}


def test_links_are_for_the_tray(debian: Debian, client: Path, tray: Path) -> None:
    debian.run(*INSTALL, f"/srv/{client.name}", f"/srv/{tray.name}")
    said = debian.run("gio", "mime", "x-scheme-handler/culvert")
    assert "org.culvert.Tray.desktop" in said.splitlines()[0]
    debian.run("desktop-file-validate", "/usr/share/applications/org.culvert.Tray.desktop")
    debian.run("desktop-file-validate", "/etc/xdg/autostart/culvert-tray.desktop")


def test_every_library_that_the_tray_loads_is_there(debian: Debian, client: Path, tray: Path) -> None:
    debian.run(*INSTALL, f"/srv/{client.name}", f"/srv/{tray.name}")
    said = debian.run("sh", "-c", "find /usr/lib/culvert -name '*.so*' | xargs ldd 2>/dev/null")
    missing = {line.strip() for line in said.splitlines() if "not found" in line}
    # GTK and CUPS are only recommended: a desktop with GTK's settings, or with a printer, has them.
    assert not [it for it in missing if not re.match(r"lib(gtk|gdk|atk|cairo|pango|harfbuzz|cups)", it)], (
        missing
    )
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
