"""`make audit`: a lock file with an advisory is reported with it, and one that could not be checked as not checked."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import shutil
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from gateway_authority import SERVER, Authority

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="cuts the network off, as root")
def test_without_a_network_every_lock_file_is_named_as_not_checked() -> None:
    kinds = ("*Cargo.lock", "*requirements.lock", "deploy/setup/*.lock", "*package-lock.json")
    listed = ["git", "ls-files", *kinds]
    locks = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert len(locks) >= 7
    command = ["unshare", "--net", str(ROOT / "deploy/setup/audit")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert all("NOT CHECKED: " in line for line in ended.stdout.splitlines())
    assert sorted(line.split()[0] for line in ended.stdout.splitlines()) == sorted(locks)


RUST = """```toml
[advisory]
id = "RUSTSEC-2099-0001"
package = "prost"
date = "2099-01-01"

[versions]
patched = [">= 99.0.0"]
```

# An advisory of a test
"""
PYTHON = {"id": "PYSEC-2099-1", "aliases": [], "summary": "An advisory of a test", "fixed_in": ["99.0.0"]}
NODE: dict[str, object] = {
    "id": 1,
    "url": "https://advisories.example/NODE-2099-1",
    "title": "An advisory of a test",
    "severity": "high",
    "vulnerable_versions": "<99.0.0",
    "cwe": [],
    "cvss": {"score": 0, "vectorString": None},
}


class Services(http.server.BaseHTTPRequestHandler):
    """PyPI, behind this proxy, with an advisory about fastapi. The npm registry, with one about react."""

    protocol_version = "HTTP/1.1"
    tls: ssl.SSLContext

    def do_CONNECT(self) -> None:
        if self.path != "pypi.org:443":
            self.send_error(403)
            return
        self.send_response(200)
        self.end_headers()
        self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False

    def do_GET(self) -> None:
        if not self.path.startswith("/pypi/"):
            self.send_error(404)
            return
        named = self.path.removeprefix("/pypi/").split("/")[0]
        self._answer({"vulnerabilities": [PYTHON] if named == "fastapi" else []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        packages = json.loads(gzip.decompress(body))
        self._answer({"react": [NODE]} if "react" in packages else {})

    def _answer(self, content: object) -> None:
        encoded = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def services(tmp_path: Path) -> Generator[dict[str, str]]:
    """The environment with which the audit's programs ask local services instead of the databases."""
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.issue("pypi", "pypi.org", SERVER)
    Services.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    Services.tls.load_cert_chain(certificate, key)
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Services)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    home = Path.home()
    cargo = Path(os.environ.get("CARGO_HOME", home / ".cargo"))
    (tmp_path / "cargo").mkdir()
    # Downloaded packages are used; the advisory databases are the test's own.
    (tmp_path / "cargo/registry").symlink_to(cargo / "registry")
    yield {
        "PATH": f"{cargo}/bin:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", f"{home}/.rustup"),
        "CARGO_HOME": str(tmp_path / "cargo"),
        "PIP_CACHE_DIR": str(tmp_path / "pip"),
        "HTTPS_PROXY": url,
        "REQUESTS_CA_BUNDLE": str(authority.certificate),
        "npm_config_registry": url,
        "CARGO_NET_RETRY": "0",
    }
    server.shutdown()
    server.server_close()


def rust_advisories(home: Path) -> None:
    """RustSec's repository as git sees it in this home directory."""
    database = home / "advisory-db"
    (database / "crates/prost").mkdir(parents=True)
    (database / "crates/prost/RUSTSEC-2099-0001.md").write_text(RUST)
    git = ["git", "-C", str(database), "-c", "user.name=test", "-c", "user.email=test@example.com"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Add an advisory"]):
        subprocess.run([*git, *command], check=True)
    instead = f'[url "file://{database}"]\n\tinsteadOf = https://github.com/RustSec/advisory-db\n'
    (home / ".gitconfig").write_text(instead)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_advisory_is_reported_for_the_lock_file_that_has_the_package(
    services: dict[str, str], tmp_path: Path
) -> None:
    rust_advisories(tmp_path)
    command = [str(ROOT / "deploy/setup/audit")]
    ended = subprocess.run(command, env=services, capture_output=True, text=True, check=False)
    said = ended.stdout
    assert ended.returncode == 1, said
    verdicts = {
        line.split()[0]: line for line in said.splitlines() if ".lock " in line or "-lock.json " in line
    }
    affected = ("Cargo.lock", "requirements.lock", "service/console/package-lock.json")
    assert all(verdicts[lock].endswith("ADVISORIES") for lock in affected), said
    assert verdicts["deploy/setup/bootstrap.lock"].endswith("nothing known")
    for advisory in ("RUSTSEC-2099-0001", "PYSEC-2099-1", "NODE-2099-1"):
        assert advisory in said
