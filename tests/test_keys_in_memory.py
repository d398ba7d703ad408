"""Programs that hold keys leave no core file when they crash."""

from __future__ import annotations

import resource
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_authority import Authority
from gateway_target import CLIENT_NAME, infrastructure
from gateway_wires import PREFIX, connect, namespaces

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        Path("/proc/sys/kernel/core_pattern").read_text()[:1] in "|/", reason="core files go elsewhere"
    ),
]

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / ".venv/bin"
_NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def crashed(folder: Path, ready: str, *command: str, **environment: str) -> Generator[list[Path]]:
    """Aborts a program in an empty working directory. Yields the files that are there afterwards."""
    (folder / "work").mkdir()
    log = folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=folder / "work",
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **environment},
            stderr=stream,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, _NO_LIMIT),
        )
    deadline = time.monotonic() + 60
    while ready not in log.read_text() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ready in log.read_text(), log.read_text()
    process.send_signal(signal.SIGABRT)
    assert process.wait(20) == -signal.SIGABRT
    yield list((folder / "work").iterdir())


def test_sluice_leaves_no_core_file(tmp_path: Path) -> None:
    authority: Authority = infrastructure(tmp_path / "pki")
    kek = tmp_path / "kek.bin"
    kek.write_bytes(secrets.token_bytes(32))
    kek.chmod(0o600)
    namespace = f"{PREFIX}-core"
    with namespaces(namespace):
        connect((namespace, "wan"), (namespace, "peer"))
        command = [
            *("ip", "netns", "exec", namespace, str(ROOT / "target/release/sluice"), "run"),
            *("--device-id", "1", "--port", "1=wan", "--grpc", "127.0.0.1:9559"),
            *(
                "--cert",
                str(authority.folder / "gateway.pem"),
                "--key",
                str(authority.folder / "gateway.key"),
            ),
            *("--client-ca", str(authority.certificate), "--client-name", CLIENT_NAME, "--kek", str(kek)),
        ]
        with crashed(tmp_path, "ready", *command) as left:
            assert left == []


def test_the_controller_leaves_no_core_file(tmp_path: Path) -> None:
    settings = {
        "CULVERT_STATE_DIR": str(tmp_path / "state"),
        "CULVERT_REST_LISTEN": f"127.0.0.1:{free_port()}",
        "CULVERT_AGENT_LISTEN": f"127.0.0.1:{free_port()}",
    }
    with crashed(tmp_path, "ready", str(PROGRAMS / "culvert-controller"), "serve", **settings) as left:
        assert left == []


def test_dns_updater_leaves_no_core_file(tmp_path: Path) -> None:
    settings = {
        "CULVERT_DNS_DATABASE_URL": f"postgresql://culvert@/culvert?host={tmp_path}",
        "CULVERT_DNS_KEY_DIR": str(tmp_path),
    }
    with crashed(tmp_path, "ready", str(PROGRAMS / "culvert-dns-updater"), "run", **settings) as left:
        assert left == []


def test_the_daemon_leaves_no_core_file(tmp_path: Path) -> None:
    with namespaces(f"{PREFIX}-core"):
        command = [
            *("ip", "netns", "exec", f"{PREFIX}-core", str(PROGRAMS / "culvertd")),
            *("--state-dir", str(tmp_path / "state"), "--socket", str(tmp_path / "run/culvertd.sock")),
            *("--dns-mode", "watch"),
        ]
        with crashed(tmp_path, "ready", *command) as left:
            assert left == []
