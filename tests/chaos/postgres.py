"""Postgres that fails over, from Debian's packages: Patroni and etcd choose the primary, HAProxy leads to it.

controllers ─► haproxy :5000 ─► the primary     pg-1 :5432 ◄── streaming ──► :5433 pg-2
                   └── OPTIONS /primary ──► patroni-1 :8008 ─► etcd ◄─ :8009 patroni-2
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from culvert_lab.errors import StepError
from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.topology import Site

PORT = 5000
URL = f"postgresql://culvert@127.0.0.1:{PORT}/culvert"
_SUPERUSER_URL = f"postgresql://postgres@127.0.0.1:{PORT}/postgres"
SERVERS, _PATRONI_REST = {"pg-1": 5432, "pg-2": 5433}, {"pg-1": 8008, "pg-2": 8009}
KEEPERS = {"pg-1": "patroni-1", "pg-2": "patroni-2"}

_PATRONI = """\
scope: culvert
name: {name}
log: {{level: INFO}}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
# With etcd's API v3, Patroni before 3.0.3 takes the lock back unasked when it wakes up (patroni/patroni#2689).
etcd: {{host: "127.0.0.1:2379"}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 3
    retry_timeout: 5
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 150, max_wal_size: 96MB, min_wal_size: 32MB, wal_keep_size: 160MB}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, data-checksums]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: /run/{name}/data
  bin_dir: {programs}
  pgpass: /run/{name}/pgpass
  # Without these a person has to call `patronictl reinit`.
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  authentication:
    superuser: {{username: postgres, password: lab}}
    replication: {{username: replicator, password: lab}}
  parameters: {{unix_socket_directories: /run/{name}, shared_buffers: 32MB}}
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
"""
_HAPROXY = """\
global
  log stdout format raw local0
defaults
  mode tcp
  log global
  timeout connect 2s
  timeout check 2s
  timeout client 1h
  timeout server 1h
listen postgres
  bind 127.0.0.1:{at}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""


class Postgres:
    """`environment`: of the programs of the computer with that name."""

    def __init__(self, lab: Lab, environment: Callable[[str], Mapping[str, str]]) -> None:
        self._lab, self._environment = lab, environment
        self._run = lab.run_directory(Site.CONTROLLER)

    async def etcd(self, log: str) -> Running:
        argv = ["etcd", "--name", "etcd", "--data-dir", "/run/etcd/data"]
        for flag, port in (("client", 2379), ("peer", 2380)):
            argv += [f"--listen-{flag}-urls", f"http://127.0.0.1:{port}"]
        argv += ["--advertise-client-urls", "http://127.0.0.1:2379"]
        argv += ["--initial-advertise-peer-urls", "http://127.0.0.1:2380"]
        argv += ["--initial-cluster", "etcd=http://127.0.0.1:2380", "--enable-v2"]
        program = await self._lab.start(log, Site.CONTROLLER, argv)
        await program.ready("ready to serve client requests")
        return program

    def make(self, name: str) -> None:
        directory = self._run / name
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        text = _PATRONI.format(name=name, rest=_PATRONI_REST[name], port=SERVERS[name], programs=programs)
        (directory / "patroni.yml").write_text(text)
        for path in (directory, directory / "patroni.yml"):
            shutil.chown(path, "postgres", "postgres")

    async def patroni(self, name: str, log: str) -> Running:
        # The change of the user has ended the lab's own signal for the end of its process (prctl(2)).
        argv = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL", "--"]
        argv += ["patroni", f"/run/{name}/patroni.yml"]
        env = dict(self._environment(name)) | {"HOME": f"/run/{name}", "TMPDIR": f"/run/{name}"}
        return await self._lab.start(log, Site.CONTROLLER, argv, env=env)

    async def until_running(self, name: str, seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while (await self.members()).get(name) not in ("running", "streaming"):  # noqa: ASYNC110
                await asyncio.sleep(0.2)

    async def members(self) -> dict[str, str]:
        """State of each Postgres, as Patroni tells it; empty when it does not answer."""
        found = await self._cluster_view()
        return {it["name"]: it["state"] for it in found.get("members", ())}

    async def primary(self) -> str:
        """Name of the Postgres that takes writes; empty when there is none."""
        found = await self._cluster_view()
        return next((it["name"] for it in found.get("members", ()) if it["role"] == "leader"), "")

    async def _cluster_view(self) -> dict[str, Any]:
        for port in _PATRONI_REST.values():
            with suppress(httpx.HTTPError, ValueError):
                return await self._lab.inside(Site.CONTROLLER).run(_get, f"http://127.0.0.1:{port}/cluster")
        return {}

    async def switch_over(self) -> None:
        """Asks Patroni for another primary."""
        primary = await self.primary()
        at = f"http://127.0.0.1:{_PATRONI_REST.get(primary, 8008)}/switchover"
        argv = ["curl", "-s", "--max-time", "20", "-d", json.dumps({"leader": primary}), at]
        await self._lab.run(Site.CONTROLLER, argv)

    def postmaster(self, name: str) -> int | None:
        """Process id of a Postgres server; None while it does not run."""
        lock = self._run / name / "data/postmaster.pid"
        with suppress(OSError, ValueError, IndexError):
            pid = int(lock.read_text().split("\n", 1)[0])
            return pid if Path(f"/proc/{pid}").exists() else None
        return None

    async def haproxy(self, log: str) -> Running:
        servers = "\n".join(
            f"  server {name} 127.0.0.1:{port} check port {_PATRONI_REST[name]}"
            for name, port in SERVERS.items()
        )
        file = self._run / "haproxy.cfg"
        file.write_text(_HAPROXY.format(at=PORT, servers=servers))
        program = await self._lab.start(log, Site.CONTROLLER, ["haproxy", "-db", "-f", "/run/haproxy.cfg"])
        await asyncio.sleep(0.5)
        if program.code is not None:
            raise StepError(program.text())
        return program

    async def make_database(self) -> None:
        psql = ["psql", "-v", "ON_ERROR_STOP=1", _SUPERUSER_URL]
        for statement in ("CREATE ROLE culvert LOGIN CREATEROLE", "CREATE DATABASE culvert OWNER culvert"):
            async with asyncio.timeout(30):
                # Until HAProxy has found the primary.
                while (await self._lab.run(Site.CONTROLLER, [*psql, "-c", statement])).code != 0:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)

    async def has_standby(self) -> bool:
        """Whether the primary streams to another. A standby on a history of its own is `running` for Patroni, too."""
        streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        return await self.query(streams, _SUPERUSER_URL) == ["1"]

    async def query(self, statement: str, url: str = URL) -> list[str]:
        """Lines of the answer, with `|` between columns. Raises StepError."""
        argv = ["psql", "-At", "-v", "ON_ERROR_STOP=1", url, "-c", statement]
        done = await self._lab.run(Site.CONTROLLER, argv)
        if done.code != 0:
            raise StepError(done.stderr)
        return done.stdout.splitlines()


def _get(url: str) -> dict[str, Any]:
    return httpx.get(url, timeout=3, trust_env=False).json()
