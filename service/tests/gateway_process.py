"""The real gateways as processes with the files of their bundle: sluice, and bmv2 where it is installed."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

ROOT = Path(__file__).resolve().parents[2]
SLUICE = ROOT / "target/release/sluice"
BMV2 = shutil.which("simple_switch_grpc")
BMV2_MODULE = ROOT / "build/bmv2/culvert_bmv2.so"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for interfaces")

# Directory of the bundle, WAN and LAN interfaces, P4Runtime port.
Start = Callable[[Path, tuple[str, str], int], AbstractAsyncContextManager[None]]


def gateways() -> list[ParameterSet]:
    """For `parametrize`: each as a Start."""
    absent = pytest.mark.skipif(BMV2 is None, reason="no simple_switch_grpc is on the PATH")
    return [pytest.param(sluice, id="sluice"), pytest.param(bmv2, marks=absent, id="bmv2")]


def unpack(bundle: dict[str, str], directory: Path) -> None:
    directory.mkdir(mode=0o700)
    for name, content in (
        ("ca.pem", bundle["ca_pem"].encode()),
        ("gateway.pem", bundle["certificate_pem"].encode()),
        ("gateway.key", bundle["key_pem"].encode()),
        ("kek.bin", base64.b64decode(bundle["kek"])),
    ):
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)


@asynccontextmanager
async def sluice(directory: Path, ports: tuple[str, str], port: int, *more: str) -> AsyncGenerator[None]:
    async with _running(
        str(SLUICE), *_sluice_arguments(directory, ports), "--grpc", f"127.0.0.1:{port}", *more
    ):
        yield


@asynccontextmanager
async def dialling(
    directory: Path,
    ports: tuple[str, str],
    *targets: str,
    inside: Sequence[str] = (),
    more: Sequence[str] = (),
) -> AsyncGenerator[None]:
    """sluice that connects to the controllers. `inside`: a command that starts it elsewhere. `more`: options."""
    dials = [word for target in targets for word in ("--dial", target)]
    async with _running(*inside, str(SLUICE), *_sluice_arguments(directory, ports), *dials, *more):
        yield


def _sluice_arguments(directory: Path, ports: tuple[str, str]) -> tuple[str, ...]:
    return (
        *("--device-id", "1", "--port", f"1={ports[0]}", "--port", f"2={ports[1]}"),
        *("--client-name", "culvert-controller"),
        *("--cert", str(directory / "gateway.pem"), "--key", str(directory / "gateway.key")),
        *("--client-ca", str(directory / "ca.pem"), "--kek", str(directory / "kek.bin")),
    )


@asynccontextmanager
async def bmv2(directory: Path, ports: tuple[str, str], port: int) -> AsyncGenerator[None]:
    arguments = (
        *("--no-p4", "--device-id", "1", "-i", f"1@{ports[0]}", "-i", f"2@{ports[1]}", "--"),
        *("--load-modules", str(BMV2_MODULE), "--grpc-server-addr", f"127.0.0.1:{port}", "--grpc-server-ssl"),
        *("--grpc-server-cert", str(directory / "gateway.pem")),
        *("--grpc-server-key", str(directory / "gateway.key")),
        *("--grpc-server-cacert", str(directory / "ca.pem"), "--grpc-server-with-client-auth"),
    )
    env = os.environ | {"CULVERT_ESP_KEK": str(directory / "kek.bin")}
    async with _running(str(BMV2), *arguments, env=env):
        yield


@asynccontextmanager
async def _running(*argv: str, env: dict[str, str] | None = None) -> AsyncGenerator[None]:
    process = await asyncio.create_subprocess_exec(*argv, env=env)
    try:
        yield
    finally:
        # One that was handed over has ended.
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
