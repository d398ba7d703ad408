"""`first-page` with podman and the images of `make images`, and restarts after it. `make test-compose`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import stand_ins
from releases import ROOT

import build

COMPOSE = ROOT / "deploy/compose"
OVERRIDE = Path("tests/compose.test.yaml")
# An engine starts no container if its limits are above this computer's own.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
OPEN = "import urllib.request as u; print(u.urlopen('http://wiki.corp.example/', timeout=20).read().decode())"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("podman"), reason="needs root and podman"),
]


class Containers:
    """A copy of deploy/compose, so that its secrets are the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "compose"
        shutil.copytree(COMPOSE, self.folder, ignore=shutil.ignore_patterns("secrets", "__pycache__"))
        (folder / "containers.conf").write_text(CONTAINERS_CONF)
        podman_compose = Path(sys.executable).with_name("podman-compose")
        # podman's health checks are systemd's timers.
        own = {"CONTAINERS_CONF": str(folder / "containers.conf"), "DISABLE_HC_SYSTEMD": "true"}
        self._environment = (
            os.environ | own | {"CULVERT_COMPOSE": f"{podman_compose} --project-name culvert-test"}
        )
        self._compose = [podman_compose, "--project-name", "culvert-test"]
        self._compose += ["--file", str(self.folder / "compose.yaml"), "--file", str(self.folder / OVERRIDE)]

    def first_page(self) -> str:
        return self._run(self.folder / "first-page", OVERRIDE)

    def refusal_of_first_page(self) -> str:
        command = [self.folder / "first-page", OVERRIDE]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr

    def compose(self, *arguments: str) -> str:
        return self._run(*self._compose, *arguments)

    def podman(self, *arguments: str) -> str:
        return self._run("podman", *arguments)

    def logs(self, service: str) -> str:
        """The standard error of a service."""
        command = ["podman", "logs", f"culvert-test_{service}_1"]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=True
        ).stderr

    def inspect(self, service: str) -> dict[str, Any]:
        return json.loads(self.podman("container", "inspect", f"culvert-test_{service}_1"))[0]

    def open_page(self) -> str:
        python = "/usr/lib/culvert/bin/python"
        return self.podman("exec", "culvert-test_client_1", python, "-I", "-c", OPEN)

    def _run(self, *command: str | Path) -> str:
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-8000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    made = Containers(tmp_path_factory.mktemp("compose"))
    stand_ins.build()
    try:
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout", "15")


def test_one_command_leads_to_the_first_page(containers: Containers) -> None:
    with socket.create_server(("", 8443)):
        said = containers.refusal_of_first_page()
        assert "another program has TCP port 8443. Set CULVERT_CONSOLE_PORT" in said
    # The failed start is in nobody's way.
    said = containers.first_page()
    assert "<h1>The first page</h1>" in said
    assert "https://vpn.corp.example:8443/console/setup#token=" in said
    # A second run changes nothing.
    assert "<h1>The first page</h1>" in containers.first_page()


def test_containers_may_do_what_they_need_and_no_more(containers: Containers) -> None:
    for service in ("controller-1", "controller-2", "dns-updater"):
        assert containers.inspect(service)["Config"]["User"] == "10001:10001"
        assert containers.inspect(service)["EffectiveCaps"] in (None, [])
    for service in ("controller-1", "dns-updater", "gateway", "client"):
        assert containers.inspect(service)["HostConfig"]["ReadonlyRootfs"]
    switch = containers.podman("top", "culvert-test_gateway_1", "user", "comm", "capeff")
    [line] = [it.split() for it in switch.splitlines() if "sluice" in it.split()[1:2]]
    assert line == ["sluice", "sluice", "NET_RAW"]


def test_no_secret_is_in_an_argument_or_the_environment(containers: Containers) -> None:
    password = (containers.folder / "secrets/database/database-password").read_text()
    for service in ("database", "controller-1", "controller-2", "dns-updater", "gateway", "client"):
        described = json.dumps(containers.inspect(service))
        assert password not in described
        assert "/join#" not in described
    assert not (containers.folder / "secrets/gateway/link").exists()


def test_logs_are_json(containers: Containers) -> None:
    lines = [json.loads(it) for it in containers.logs("controller-1").splitlines()]
    assert any(it["message"] == "ready" for it in lines)


def test_the_page_opens_while_either_controller_or_the_gateway_restarts(containers: Containers) -> None:
    for service, most in (("controller-1", 30.0), ("controller-2", 30.0), ("gateway", 15.0)):
        began = time.monotonic()
        containers.podman("stop", "--time", "60", f"culvert-test_{service}_1")
        assert time.monotonic() - began < most
        assert containers.inspect(service)["State"]["ExitCode"] == 0
        if service != "gateway":
            assert "<h1>The first page</h1>" in containers.open_page()
        containers.podman("start", f"culvert-test_{service}_1")
        _until(lambda: containers.podman("exec", "culvert-test_gateway_1", "culvert-gateway", "status"))
        assert "<h1>The first page</h1>" in _until(containers.open_page)


def test_an_image_goes_into_a_release_with_its_digest(containers: Containers, tmp_path: Path) -> None:
    """Twice the same bytes; loaded elsewhere, the image has the digest that is published."""
    [image] = [it for it in build.IMAGES if it.name == "culvert-gateway"]
    folders = [tmp_path / name for name in ("one", "two")]
    published: set[str] = set()
    for folder in folders:
        folder.mkdir()
        published.add(build.archive(image, folder))
    [named] = published
    one, two = (next(it.glob("*.oci.tar")) for it in folders)
    assert one.read_bytes() == two.read_bytes()
    assert (folders[0] / "culvert-gateway.cdx.json").is_file()
    name, _, digest = named.partition("@")
    # Podman takes no run folder with a path of more than 50 characters.
    with TemporaryDirectory() as run:
        elsewhere = ("--root", f"{tmp_path}/store", "--runroot", run, "--storage-driver", "vfs")
        containers.podman(*elsewhere, "load", "--input", str(one))
        assert (
            containers.podman(*elsewhere, "image", "inspect", "--format={{.Digest}}", name).strip() == digest
        )


def _until(works: Callable[[], str]) -> str:
    end = time.monotonic() + 90
    while True:
        try:
            return works()
        except AssertionError:
            if time.monotonic() > end:
                raise
            time.sleep(2)
