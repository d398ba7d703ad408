"""The gateway's switch: $CULVERT_TARGET is sluice (the default), bmv2, or crypto-hosts: sluice with crypto hosts.

Same bundle, same ports, same program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from culvert_lab import topology as net
from culvert_lab.errors import StepError

ROOT = Path(__file__).resolve().parents[3]
SLUICE = ROOT / "target/release/sluice"
BMV2_MODULE = ROOT / "build/bmv2/culvert_bmv2.so"
BUNDLE = "/run/gateway"
# The gateway's ports to crypto hosts; behind each, `host_interface` is the host's port 1.
CRYPTO_PORTS = (4, 5)


@dataclass(frozen=True, slots=True)
class Target:
    """The start of a switch; `name` is its kind to the controller, and its log matches `ready` once it serves.

    `download_rate` is in bytes a second, below what its tunnel carries: a lost byte is then the rekey's and no queue's.
    """

    name: str
    argv: tuple[str, ...]
    ready: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    download_rate: int = 6 << 20


def choose(bundle: str = BUNDLE, port: int = net.P4RUNTIME_PORT) -> Target:
    """With its bundle in that directory, and P4Runtime at that port. Only the first gateway has crypto hosts.

    Raises StepError: no such target, or it is not installed or not built.
    """
    name = _name()
    if name not in ("sluice", "bmv2", "crypto-hosts"):
        raise StepError(f"CULVERT_TARGET is {name!r}; the targets are: sluice, bmv2, crypto-hosts")
    if why := absent():
        raise StepError(f"{why}; install bmv2, or unset CULVERT_TARGET")
    if name == "bmv2":
        return _bmv2(bundle, port)
    crypto = CRYPTO_PORTS if has_crypto_hosts() and bundle == BUNDLE else ()
    return _sluice(bundle, port, "1=wan", "2=lan", *(f"{it}={gateway_interface(it)}" for it in crypto))


def crypto_host(bundle: str, port: int, behind: int) -> Target:
    """A crypto host behind that port of the gateway. Raises StepError."""
    return _sluice(bundle, port, f"1={host_interface(behind)}")


def gateway_interface(port: int) -> str:
    return f"crypto{port}"


def host_interface(port: int) -> str:
    return f"host{port}"


def has_crypto_hosts() -> bool:
    return _name() == "crypto-hosts"


def absent() -> str | None:
    """Why the chosen switch need not be here: bmv2 is in no package registry. What set-up builds is never absent."""
    if _name() == "bmv2" and shutil.which("simple_switch_grpc") is None:
        return "bmv2's simple_switch_grpc is not on the PATH"
    return None


def takes_super_frames() -> bool:
    """Whether hosts may leave segments and checksums to the interface between them and the chosen switch: bmv2 drops such
    frames."""
    return _name() != "bmv2"


def _name() -> str:
    return os.environ.get("CULVERT_TARGET") or "sluice"


def _sluice(bundle: str, port: int, *ports: str) -> Target:
    if not SLUICE.exists():
        raise StepError(f"{SLUICE} is not built; run: make setup")
    argv = (str(SLUICE), "--device-id", "1", *(word for it in ports for word in ("--port", it)))
    argv += ("--grpc", _at(port))
    argv += ("--cert", f"{bundle}/gateway.pem", "--key", f"{bundle}/gateway.key")
    argv += ("--client-ca", f"{bundle}/ca.pem", "--client-name", "culvert-controller")
    argv += ("--kek", f"{bundle}/kek.bin")
    return Target("sluice", argv, r"\bready\b")


def _bmv2(bundle: str, port: int) -> Target:
    if not BMV2_MODULE.exists():
        raise StepError(f"{BMV2_MODULE} is not built; run: make setup")
    # Without stdbuf its words stay in a buffer until it ends.
    argv = (
        "stdbuf",
        "-oL",
        "simple_switch_grpc",
        "--no-p4",
        "--device-id",
        "1",
        "-i",
        "1@wan",
        "-i",
        "2@lan",
    )
    if _speaks_thrift():
        argv += ("--thrift-port", str(port + 1000))
    argv += ("--",)
    argv += ("--load-modules", str(BMV2_MODULE), "--grpc-server-addr", _at(port), "--grpc-server-ssl")
    argv += ("--grpc-server-cert", f"{bundle}/gateway.pem", "--grpc-server-key", f"{bundle}/gateway.key")
    argv += ("--grpc-server-cacert", f"{bundle}/ca.pem", "--grpc-server-with-client-auth")
    env = {"CULVERT_ESP_KEK": f"{bundle}/kek.bin"}
    # bmv2's queues hold 64 packets.
    return Target("bmv2", argv, r"^Server listening on", env, download_rate=3 << 19)


def _speaks_thrift() -> bool:
    """A build without Thrift refuses the option; one with it takes a port that the next bmv2 here would take too."""
    asked = subprocess.run(["simple_switch_grpc", "--help"], capture_output=True, text=True, check=False)
    return "--thrift-port" in asked.stdout + asked.stderr


def _at(port: int) -> str:
    return f"{net.MANAGEMENT_GATEWAY}:{port}"
