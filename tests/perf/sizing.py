"""`make sizing`: what 100,000 devices cost a controller, in steps, into build/sizing.json. 12 minutes and 8 GiB.

  registered   rows: each device with a person of its own, all in one group, whose policy permits 100 resources
  watching     of these devices, the connected ones, each with its stream

`sizing.py REGISTERED... -- WATCHING...` takes other steps than those of docs/sizing.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "switch-targets/conformance"))

import grpc
import grpc.aio
from controller_rig import GATEWAY, RESOURCES, ROOT, Client, Rig, each, in_a_namespace, rig
from culvert_db import create_engine
from figures import percentile
from httpx import AsyncClient
from sqlalchemy import text
from usage import cpu_seconds

REGISTERED = (10_000, 30_000, 100_000)
WATCHING = (5_000, 10_000)
GROUP = "staff"
# The id of the group's first person; the rig's own is not in the group.
_FIRST_PERSON = 2
# Devices that open tunnels in each step, and the tunnels of each.
ACTIVE = 10
OPENED = 30
_PATIENCE_SECONDS = 900.0
_AGAIN_SECONDS = 1.0
_IDLE_SECONDS = 60.0
# All devices have been told of a change by then.
_SETTLED_SECONDS = 30.0

_REGISTER = """
WITH people AS (
    INSERT INTO users (name, email)
    SELECT 'person-' || i, 'person-' || i || '@corp.example' FROM generate_series({first}, {last}) AS i
    RETURNING id
), members AS (
    INSERT INTO group_members (group_id, user_id)
    SELECT groups.id, people.id FROM groups, people WHERE groups.name = '{group}'
)
INSERT INTO devices (id, user_id, name, state, fingerprint, certificate_serial, certificate_expires_at,
                     code_proven_at, code_valid_until)
SELECT gen_random_uuid(), id, 'laptop', 'approved', sha256(('device ' || id)::bytea), 'registered ' || id,
       now() + interval '90 days', now(), now() + interval '8 hours'
FROM people
"""

Step = dict[str, float]


async def _all(registered: Sequence[int], watching: Sequence[int]) -> dict[str, list[Step]]:
    async with rig() as parts:
        await _permit(parts)
        # Their connections and inner addresses are there before the first step.
        active = await parts.devices(ACTIVE)
        await each(active, lambda device: device.open(0))
        found: dict[str, list[Step]] = {"registered": [await _registered(parts, 0, active)], "watching": []}
        last = 0
        for number in registered:
            await _register(parts, 1 + last, number)
            last = number
            found["registered"].append(await _registered(parts, number, active))
            print(found["registered"][-1], file=sys.stderr)
        watchers: list[Client] = []
        for number in watching:
            watchers += await _connect(parts, watchers, number)
            found["watching"].append(await _watching(parts, watchers, active))
            print(found["watching"][-1], file=sys.stderr)
        await each([*active, *watchers], lambda device: device.close())
        return found


async def _permit(parts: Rig) -> None:
    names = [f"host-{number}" for number in range(RESOURCES)]
    async with parts.admin() as admin:
        for path, body in (
            ("/groups", {"name": GROUP}),
            ("/policies", {"name": GROUP, "group": GROUP, "resources": names}),
        ):
            (await admin.post(path, json=body)).raise_for_status()


async def _register(parts: Rig, first: int, last: int) -> None:
    await _execute(parts, _REGISTER.format(first=first, last=last, group=GROUP))
    # As autovacuum does within a minute.
    await _execute(parts, "ANALYZE")


async def _registered(parts: Rig, number: int, active: Sequence[Client]) -> Step:
    step: Step = {"devices": number}
    step["database_mib"] = await _execute(parts, "SELECT pg_database_size(current_database())") / 2**20
    step |= await _setups(parts, active, number)
    step["audit_line_bytes"] = await _execute(
        parts, "SELECT pg_total_relation_size('audit_lines') / count(*) FROM audit_lines"
    )
    async with parts.admin() as admin:
        for name, call in (
            ("list_ms", "/devices?limit=100"),
            ("search_ms", "/users?limit=100&q=person-9"),
            ("group_ms", f"/groups?q={GROUP}"),
        ):
            began = time.perf_counter()
            (await admin.get(call, timeout=_PATIENCE_SECONDS)).raise_for_status()
            step[name] = (time.perf_counter() - began) * 1000
        step["join_group_ms"] = await _join_group(parts, number)
        began = time.perf_counter()
        preview = {"name": GROUP, "group": GROUP, "resources": ["host-0"]}
        call = admin.post(f"/policies/preview?replaces={GROUP}", json=preview, timeout=_PATIENCE_SECONDS)
        (await call).raise_for_status()
        step["preview_ms"] = (time.perf_counter() - began) * 1000
    return step | _memory(parts)


async def _join_group(parts: Rig, number: int) -> float:
    async with parts.admin() as admin:
        newcomer = f"newcomer-{number}"
        person = {"name": newcomer, "email": f"{newcomer}@corp.example"}
        (await admin.post("/users", json=person)).raise_for_status()
        began = time.perf_counter()
        joining = admin.put(f"/groups/{GROUP}/members/{newcomer}", timeout=_PATIENCE_SECONDS)
        (await joining).raise_for_status()
        return (time.perf_counter() - began) * 1000


async def _setups(parts: Rig, active: Sequence[Client], step: int) -> Step:
    cpu, postgres = parts.controller_cpu_seconds(), _postgres_cpu_seconds(parts)
    took: list[float] = []
    for number in range(OPENED):
        # Each step opens tunnels that no other has.
        name = 1 + (step // 1000 * 7 + number) % (RESOURCES - 1)
        took += [(await device.open(name)).programmed_us / 1000 for device in active]
    count = OPENED * len(active)
    return {
        "setup_p50_ms": percentile(took, 0.50),
        "setup_p99_ms": percentile(took, 0.99),
        "setup_cpu_ms": (parts.controller_cpu_seconds() - cpu) / count * 1000,
        "setup_postgres_cpu_ms": (_postgres_cpu_seconds(parts) - postgres) / count * 1000,
    }


async def _connect(parts: Rig, already: Sequence[Client], number: int) -> list[Client]:
    devices = await parts.devices(
        number - len(already), addresses=True, first_person=_FIRST_PERSON + len(already)
    )
    await each(devices, _come)
    return devices


async def _come(device: Client) -> None:
    """On a new connection. The controller refuses some while many come at once; a device comes again."""
    while True:
        try:
            await device.reconnect()
            return
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)


async def _watching(parts: Rig, watchers: Sequence[Client], active: Sequence[Client]) -> Step:
    step: Step = {"devices": len(watchers)} | _memory(parts)
    step |= await _setups(parts, active, len(watchers) + 1000)
    cpu, postgres = parts.controller_cpu_seconds(), _postgres_cpu_seconds(parts)
    # The controller writes each stream's presence once in this time.
    await asyncio.sleep(_IDLE_SECONDS)
    step["idle_cores"] = (parts.controller_cpu_seconds() - cpu) / _IDLE_SECONDS
    step["idle_postgres_cores"] = (_postgres_cpu_seconds(parts) - postgres) / _IDLE_SECONDS
    async with parts.admin() as admin:
        new = f"new-{len(watchers)}"
        told = [asyncio.ensure_future(device.profile(new)) for device in watchers]
        await _add_resource(admin, new)
        # Its own profiles, which do not have the resource yet.
        await asyncio.sleep(_SETTLED_SECONDS)
        cpu, postgres = parts.controller_cpu_seconds(), _postgres_cpu_seconds(parts)
        began = time.perf_counter()
        await _permit_resource(admin, new)
        step["change_call_ms"] = (time.perf_counter() - began) * 1000
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.gather(*told)
    step["told_s"] = time.perf_counter() - began
    step["told_cpu_s"] = parts.controller_cpu_seconds() - cpu
    step["told_postgres_cpu_s"] = _postgres_cpu_seconds(parts) - postgres
    step["rss_after_mib"] = parts.rss_mib()
    began = time.perf_counter()
    await parts.restart()
    step["restart_s"] = time.perf_counter() - began
    cpu = parts.controller_cpu_seconds()
    await each(watchers, _come)
    step["return_s"] = time.perf_counter() - began
    step["return_cpu_s"] = parts.controller_cpu_seconds() - cpu
    await each(active, _come)
    return step


async def _add_resource(admin: AsyncClient, name: str) -> None:
    body = {"name": name, "fqdn": f"{name}.corp.example", "address": "10.20.0.10"}
    body |= {"gateways": [GATEWAY], "owner": "bob@corp.example"}
    (await admin.post("/resources", json=body)).raise_for_status()


async def _permit_resource(admin: AsyncClient, name: str) -> None:
    policy = {"name": name, "group": GROUP, "resources": [name]}
    (await admin.post("/policies", json=policy, timeout=_PATIENCE_SECONDS)).raise_for_status()


def _memory(parts: Rig) -> Step:
    """Postgres: the proportional share of each process, since shared buffers are in all of them."""
    pss = sum(_pss_mib(pid) for pid in _postgres(parts))
    return {"controller_rss_mib": parts.rss_mib(), "postgres_pss_mib": pss}


def _pss_mib(pid: int) -> float:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    line = next((line for line in rollup.splitlines() if line.startswith("Pss:")), "Pss: 0")
    return int(line.split()[1]) / 1024


def _postgres_cpu_seconds(parts: Rig) -> float:
    total = 0.0
    for pid in _postgres(parts):
        try:
            total += cpu_seconds(pid)
        except OSError:
            continue
    return total


def _postgres(parts: Rig) -> list[int]:
    """The server's processes: the postmaster and its children."""
    postmaster = parts.postmaster()
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


async def _execute(parts: Rig, statement: str) -> float:
    """The first value of the answer, or 0."""
    engine = create_engine(parts.database_url()).execution_options(isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            answer = await connection.execute(text(statement))
            return float(answer.scalar_one()) if answer.returns_rows else 0.0
    finally:
        await engine.dispose()


def main() -> None:
    if os.environ.get("CULVERT_SIZING") is None:
        os.environ["CULVERT_SIZING"] = json.dumps(_steps(sys.argv[1:]))
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        found = in_a_namespace(__file__, "sizing")
        (ROOT / "build/sizing.json").write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found, indent=1))
        return
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("10240 65535")
    registered, watching = json.loads(os.environ["CULVERT_SIZING"])
    print(json.dumps(asyncio.run(_all(registered, watching))))


def _steps(words: Sequence[str]) -> tuple[list[int], list[int]]:
    if not words:
        return list(REGISTERED), list(WATCHING)
    cut = words.index("--")
    return [int(it) for it in words[:cut]], [int(it) for it in words[cut + 1 :]]


if __name__ == "__main__":
    main()
