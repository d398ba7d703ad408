"""strongSwan of Debian's packages on both ends of a veth pair, its ESP in user space as ours: charon with libipsec.

LEFT 192.0.2.1 ── veth ── 192.0.2.2 RIGHT      inside: 10.78.0.1 and 10.78.0.2, AES-GCM-128, pre-shared key
"""

from __future__ import annotations

import secrets
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from baselines import LEFT, RIGHT, pair

CHARON = Path("/usr/lib/ipsec/charon")
LIBIPSEC = Path("/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so")
OPENSSL = Path("/usr/lib/ipsec/plugins/libstrongswan-openssl.so")
PEER = "10.78.0.2"
_START_SECONDS = 10.0
_PLUGINS = "random nonce openssl pem pkcs1 pubkey x509 kdf hmac sha2 socket-default kernel-libipsec kernel-netlink vici"


class StrongSwan:
    """LEFT's end."""

    def __init__(self, vici: Path) -> None:
        self._vici = f"unix://{vici}"

    def initiate(self) -> None:
        """Returns when the tunnel is up. Raises CalledProcessError."""
        self._run("--initiate", "--child", "bench", "--loglevel", "-1")

    def terminate(self) -> None:
        """Returns when it is down at both ends. Raises CalledProcessError."""
        self._run("--terminate", "--ike", "bench", "--loglevel", "-1")

    def _run(self, *arguments: str) -> None:
        command = ["swanctl", *arguments, "--uri", self._vici]
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def strongswan() -> Generator[StrongSwan | None]:
    """None where it is not installed. Raises CalledProcessError, TimeoutError."""
    if not all(it.exists() for it in (CHARON, LIBIPSEC, OPENSSL)):
        yield None
        return
    with tempfile.TemporaryDirectory() as kept, pair(), ExitStack() as stack:
        key = secrets.token_hex(32)
        for namespace, own, peer in ((LEFT, 1, 2), (RIGHT, 2, 1)):
            directory = Path(kept, str(own))
            directory.mkdir()
            stack.enter_context(_charon(namespace, directory, own, peer, key))
        yield StrongSwan(Path(kept, "1", "vici"))


@contextmanager
def _charon(namespace: str, directory: Path, own: int, peer: int, key: str) -> Generator[None]:
    vici = directory / "vici"
    settings = directory / "strongswan.conf"
    settings.write_text(
        f"charon {{\n load = {_PLUGINS}\n plugins {{\n  vici {{\n   socket = unix://{vici}\n  }}\n }}\n}}\n"
    )
    connection = directory / "swanctl.conf"
    connection.touch(0o600)
    connection.write_text(
        f"connections {{\n bench {{\n  local_addrs = 192.0.2.{own}\n  remote_addrs = 192.0.2.{peer}\n"
        "  version = 2\n  proposals = aes128gcm16-prfsha256-ecp256\n"
        f"  local {{\n   auth = psk\n   id = end{own}\n  }}\n  remote {{\n   auth = psk\n   id = end{peer}\n  }}\n"
        f"  children {{\n   bench {{\n    local_ts = 10.78.0.{own}/32\n    remote_ts = 10.78.0.{peer}/32\n"
        "    esp_proposals = aes128gcm16\n   }\n  }\n }\n}\n"
        f'secrets {{\n ike-bench {{\n  secret = "{key}"\n }}\n}}\n'
    )
    address = ["ip", "-n", namespace, "addr", "add", f"10.78.0.{own}/32", "dev", "lo"]
    subprocess.run(address, check=True)
    # ip-netns-exec(8) gives it mounts of its own: a charon's process id is always in /run.
    inside = ["ip", "netns", "exec", namespace, "sh", "-c", f"mount -t tmpfs tmpfs /run && exec {CHARON}"]
    with (directory / "charon.log").open("wb") as log:
        charon = subprocess.Popen(
            inside, env={"STRONGSWAN_CONF": str(settings), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not vici.exists():
            if time.monotonic() > deadline or charon.poll() is not None:
                raise TimeoutError((directory / "charon.log").read_text())
            time.sleep(0.05)
        load = ["swanctl", "--load-all", "--noprompt", "--file", str(connection), "--uri", f"unix://{vici}"]
        subprocess.run(load, check=True, capture_output=True)
        yield
    finally:
        charon.terminate()
        charon.wait()
