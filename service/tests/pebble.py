"""Pebble, the ACME server for tests of Let's Encrypt, and the name server that it asks."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from culvert_lab.free_port import free_port

from .conftest import until
from .test_public_certificate import Company, pem

_PROGRAMS = Path(__file__).resolve().parents[2] / "build/bin"
needs_pebble = pytest.mark.skipif(
    not (_PROGRAMS / "pebble").exists(), reason="Pebble is not built: make build/bin/pebble, which needs Go"
)


@dataclass(frozen=True)
class Pebble:
    """`directory` and `management`: its URLs. `ca_file`: the CA of its own TLS certificate."""

    directory: str
    management: str
    ca_file: Path

    async def root(self) -> str:
        """PEM of the CA that issues certificates, which a browser has to trust."""
        return (await self._get("/roots/0")).text

    async def _get(self, path: str) -> httpx.Response:
        trust = ssl.create_default_context(cafile=str(self.ca_file))
        async with httpx.AsyncClient(verify=trust, trust_env=False) as client:
            return await client.get(self.management + path)


@asynccontextmanager
async def pebble(
    directory: Path,
    validates_at: int,
    *,
    seconds: int = 7776000,
    nonces_refused_percent: int = 5,
    eab_keys: Mapping[str, str] | None = None,
    looks: bool = True,
) -> AsyncGenerator[Pebble]:
    """Each name leads to 127.0.0.1. `validates_at`: the port in place of 443. `seconds`: lifetime of certificates.

    `looks`: whether it validates; otherwise it takes each challenge for met.
    """
    company, (https, manages, asks, asked) = Company(), (free_port() for _ in range(4))
    chain, key = company.issue(["localhost"])
    config = {
        "listenAddress": f"127.0.0.1:{https}",
        "managementListenAddress": f"127.0.0.1:{manages}",
        "certificate": str(directory / "chain"),
        "privateKey": str(directory / "key"),
        "httpPort": free_port(),
        "tlsPort": validates_at,
        "externalAccountBindingRequired": eab_keys is not None,
        "externalAccountMACKeys": dict(eab_keys or {}),
        "retryAfter": {"authz": 1, "order": 1},
        "profiles": {"default": {"description": "of tests", "validityPeriod": seconds}},
    }
    _write(directory, {"chain": chain, "key": key, "ca": pem(company.root)}, config)
    dns = [
        "-dnsserver", f"127.0.0.1:{asked}", "-management", f"127.0.0.1:{asks}", "-defaultIPv6", "",
        "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "",
    ]  # fmt: skip
    environment = os.environ | {
        "PEBBLE_VA_NOSLEEP": "1",
        "PEBBLE_WFE_NONCEREJECT": str(nonces_refused_percent),
        "PEBBLE_AUTHZREUSE": "0",
        "PEBBLE_VA_ALWAYS_VALID": "0" if looks else "1",
    }
    served = ["-config", str(directory / "config.json"), "-dnsserver", f"127.0.0.1:{asked}", "-strict"]
    with (directory / "log").open("wb") as log:
        programs = [
            await asyncio.create_subprocess_exec(
                _PROGRAMS / name, *arguments, env=environment, stdout=log, stderr=log
            )
            for name, arguments in (("pebble-challtestsrv", dns), ("pebble", served))
        ]
        try:
            await until(lambda: _listens(https), bool)
            await until(lambda: _listens(asks), bool)
            yield Pebble(f"https://localhost:{https}/dir", f"https://localhost:{manages}", directory / "ca")
        finally:
            for program in programs:
                program.kill()
                await program.wait()


def _write(directory: Path, files: Mapping[str, bytes], config: Mapping[str, object]) -> None:
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    (directory / "config.json").write_text(json.dumps({"pebble": config}))


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
