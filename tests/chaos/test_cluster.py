"""`make chaos-cluster`: a whole organisation (cluster.py) under faults of every kind (faults.py) while people click.

  draw a fault ─► it begins, lasts, ends ─► all parts report ready ─► a pause ─► the next, for CULVERT_CHAOS_MINUTES [10]
  meanwhile: 200 clicks a minute of simulated devices, a laptop's, a denied device's, changes of resources
  at the end: 30 s after the last fault no SA, address or record without its cause; no packet was clear

Figures go into build/chaos.json. CULVERT_CHAOS_SEED [1] repeats a run's faults.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest
from culvert_lab import bind9, capture, netns, parts
from culvert_lab import topology as net
from culvert_lab.topology import Site
from figures import percentile

from . import faults
from .cluster import ALLOWED, GATEWAYS, SERVERS, Cluster, Refused, cluster
from .devices import NO_ANSWER, Click, Device

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(0),
    pytest.mark.skipif("CULVERT_CHAOS_MINUTES" not in os.environ, reason="make chaos-cluster"),
]

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "build/chaos.json"
MINUTES = float(os.environ.get("CULVERT_CHAOS_MINUTES", "10"))
SEED = int(os.environ.get("CULVERT_CHAOS_SEED", "1"))
DEVICES, CLICKS_A_MINUTE = 10, 200
# From the end of a fault until all parts are ready. The slowest chain: a primary's lock expires (ttl, 20 s), the standby
# looks (loop_wait, 3 s) and waits for etcd (retry_timeout, 5 s), the old primary is rewound and starts (10 s), a controller
# ends and starts (RestartSec, 3 s), and a device connects again (5 s): 46 s. On a machine with other work it takes as many
# times longer as `_slowness` says.
BACK_SECONDS = 46.0
_PROBE_SECONDS, _SLOWEST = 0.02, 3.0
ORPHAN_SECONDS = 30.0
IDLE_SECONDS = 10
_QUIET = faults.Fault("none", "")


@dataclass(slots=True)
class Window:
    """The fault is over at `struck`, and its effects at `ended`, in seconds of the monotonic clock."""

    fault: faults.Fault
    began: float
    struck: float = float("inf")
    ended: float = float("inf")


class Run:
    """The faults, and the clicks meanwhile; judged at the end."""

    def __init__(
        self, cluster: Cluster, devices: list[Device], denied: list[Device], names: list[str]
    ) -> None:
        """`denied`: a device of a person who may open nothing, and one that asks for a name that nobody may open."""
        self.cluster, self.devices, self.denied, self.names = cluster, devices, denied, names
        # Seeded, so that a run can be repeated; no secret depends on it.
        self.dice = random.Random(SEED)  # noqa: S311
        self.windows: list[Window] = []
        self.clicks: list[Click] = []
        self.laptop: list[Click] = []
        self.denials: Counter[str] = Counter()

    async def storm(self) -> None:
        ends = time.monotonic() + 60 * MINUTES
        pauses = random.Random(SEED + 1)  # noqa: S311
        while time.monotonic() < ends:
            await asyncio.sleep(pauses.uniform(3, 8))
            fault = faults.draw(self.dice)
            window = Window(fault, time.monotonic())
            self.windows.append(window)
            await faults.strike(self.cluster, fault, self.dice)
            window.struck = time.monotonic()
            # Parts need a moment to notice; before that they would still report ready.
            await asyncio.sleep(1.0)
            last, slow = "", list[float]()
            while why := await self.cluster.not_ready():
                slow.append(await asyncio.to_thread(_slowness))
                limit = BACK_SECONDS * min(median(slow), _SLOWEST)
                assert time.monotonic() < window.struck + limit, f"{limit:.0f} s after {fault}: {why}"
                last = why
                await asyncio.sleep(0.5)
            window.ended = time.monotonic()
            print(f"{fault}: ready {window.ended - window.struck:.1f} s later; at last {last}", flush=True)

    async def click_on(self, device: Device, seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311
        while True:
            await asyncio.sleep(dice.expovariate(CLICKS_A_MINUTE / 60 / DEVICES))
            self.clicks.append(await device.click(dice.choice(self.names), dice))

    async def be_denied(self, device: Device, names: list[str], seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311
        while True:
            await asyncio.sleep(1.0)
            click = await device.click(dice.choice(names), dice)
            self.denials[click.refused or "open"] += 1
            if click.refused in ("", NO_ANSWER):
                device.wrong.append(f"{click.fqdn} was opened")

    async def click_at_the_laptop(self) -> None:
        dice = random.Random(SEED)  # noqa: S311
        while True:
            await asyncio.sleep(2.0)
            fqdn, began = dice.choice(self.names), time.monotonic()
            argv = ["curl", "-sS", "--max-time", "10", f"http://{fqdn}/"]
            with suppress(TimeoutError):
                found = await self.cluster.lab.run(Site.LAPTOP, argv, seconds=15)
                refused = "" if found.code == 0 else f"curl {found.code}"
                self.laptop.append(Click(began, time.monotonic(), fqdn, refused, found.stderr.strip()))

    async def change_resources(self) -> None:
        """So that dns-updater has work: names come and go."""
        for number in range(10**6):
            await asyncio.sleep(4.0)
            with suppress(Refused, httpx.HTTPError):
                await add_resource(self.cluster, f"extra-{number}")
            if number >= 3:
                with suppress(Refused, httpx.HTTPError):
                    await self.cluster.ask(f"/resources/extra-{number - 3}", method="DELETE")

    def during(self, click: Click) -> list[faults.Fault]:
        return [it.fault for it in self.windows if it.began <= click.ended and it.ended >= click.began] or [
            _QUIET
        ]

    def untrue(self) -> list[str]:
        """Refusals whose reason tells of no fault that there was."""
        found: list[str] = []
        for click in self.clicks:
            during = self.during(click)
            if click.refused and not any(click.refused in faults.true_reasons(it) for it in during):
                found.append(
                    f"{click.fqdn}: {click.refused} {click.why} during {', '.join(map(str, during))}"
                )
        return found

    def recoveries(self) -> dict[str, dict[str, float]]:
        """Seconds from the end of a fault until all parts were ready, by kind of fault."""
        groups: defaultdict[str, list[float]] = defaultdict(list)
        for it in self.windows:
            groups[it.fault.kind].append(round(it.ended - it.struck, 1))
        return {
            kind: {"faults": len(took), "median": median(took), "max": max(took)}
            for kind, took in sorted(groups.items())
        }

    def distribution(self) -> dict[str, dict[str, Any]]:
        """By kind of fault, and by kind and target."""
        groups: defaultdict[str, list[Click]] = defaultdict(list)
        for click in self.clicks:
            found = self.during(click)
            for group in {it.kind for it in found} | {str(it).strip() for it in found}:
                groups[group].append(click)
        return {name: _figures(groups[name]) for name in sorted(groups)}


def _slowness() -> float:
    """Factor by which some computing takes longer now than on an idle machine."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() < used + _PROBE_SECONDS:
        pass
    return (time.monotonic() - began) / _PROBE_SECONDS


def _figures(clicks: list[Click]) -> dict[str, Any]:
    took = [(it.ended - it.began) * 1000 for it in clicks if not it.refused] or [0.0]
    return {
        "clicks": len(clicks),
        **{f"p{share:g}_ms": round(percentile(took, share / 100), 1) for share in (50, 95, 99)},
        "max_ms": round(max(took), 1),
        "refused": dict(Counter(it.refused for it in clicks if it.refused)),
    }


async def add_resource(cluster: Cluster, name: str, **fields: object) -> str:
    body: dict[str, object] = {
        "name": name,
        "fqdn": f"{name}.{net.ZONE}",
        "address": net.WIKI_ADDRESS,
        "gateways": list(GATEWAYS),
        "users": [parts.USER],
        "owner": f"bob@{net.ZONE}",
        "idle_seconds": IDLE_SECONDS,
    }
    await cluster.ask("/resources", method="POST", body=body | fields)
    return f"{name}.{net.ZONE}"


async def orphans(cluster: Cluster) -> list[str]:
    """SAs, addresses and records without their cause, from the rows, the gateways' tables and both zones."""
    found: list[str] = []
    sas = await cluster.postgres.query(
        "SELECT name, spi FROM security_associations AS sa JOIN gateways ON gateways.id = sa.gateway_id"
    )
    for gateway in GATEWAYS:
        entries = await _entries(cluster, gateway)
        found += [
            f"{gateway}: {it['table']} is {it['standing']}" for it in entries if it["standing"] != "held"
        ]
        at_gateway = sorted(
            (it["match"] | it["params"])["spi"] for it in entries if it["table"] in ("sad_in", "sad_out")
        )
        wanted = sorted(int(spi) for name, _, spi in (it.partition("|") for it in sas) if name == gateway)
        if at_gateway != wanted:
            found.append(f"{gateway}: SPIs {at_gateway}, in the database {wanted}")
    tunnels = await cluster.ask("/tunnels")
    # The simulated devices have been idle for longer than IDLE_SECONDS.
    found += [f"the tunnel {it['id']} is open" for it in tunnels if it["device"] == "simulated"]
    nobodys = (
        "SELECT host(address) FROM addresses WHERE NOT EXISTS"
        " (SELECT FROM devices WHERE id = device_id AND state <> 'revoked')"
    )
    found += [f"the address {it} is nobody's" for it in await cluster.postgres.query(nobodys)]
    names = {it["fqdn"] for it in await cluster.ask("/resources?limit=500")}
    for server in (cluster.bind, cluster.secondary):
        zone = await cluster.lab.inside(Site.DNS).run(server.transfer)
        owned = {name.removeprefix("_culvert-owner.") for name in zone if name.startswith("_culvert-owner.")}
        foreign = {f"vpn.{net.ZONE}", f"ns.{net.ZONE}", bind9.FOREIGN_NAME}
        addresses = {
            name for name, rdatas in zone.items() if any(kind == "A" for kind, _ in rdatas)
        } - foreign
        found += [f"{server.address}: {name}" for name in sorted((owned | addresses) ^ names)]
    return found


async def _entries(cluster: Cluster, gateway: str) -> list[dict[str, Any]]:
    return (await cluster.ask(f"/gateways/{gateway}/entries"))["entries"]


@pytest.fixture(scope="module", autouse=True)
def own_network() -> None:
    """The devices' wire is in no network but this process's own."""
    netns.leave()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


async def test_an_organisation_under_faults() -> None:
    async with cluster(ROOT / "build/lab", ROOT / "build/chaos-logs", faults.clock, faults.lay_clocks) as up:
        for user in (parts.USER, "mallory"):
            await up.ask("/users", method="POST", body={"name": user, "email": f"{user}@{net.ZONE}"})
        names: list[str] = []
        for number, (name, address) in enumerate(SERVERS.items()):
            gateways = list(GATEWAYS) if number % 2 else list(reversed(GATEWAYS))
            names.append(await add_resource(up, name, address=address, gateways=gateways))
        await add_resource(up, "secret", users=[])
        await up.enrol_laptop()
        devices = [await Device.enrol(up, parts.USER) for _ in range(DEVICES)]
        denied = [await Device.enrol(up, user) for user in ("mallory", parts.USER)]
        async with asyncio.timeout(_SLOWEST * BACK_SECONDS):
            while await up.not_ready():  # noqa: ASYNC110  of other processes
                await asyncio.sleep(0.5)
        await storm(Run(up, devices, denied, names))


async def storm(run: Run) -> None:
    up, path = run.cluster, run.cluster.lab.work / "chaos.pcapng"
    capturing = await capture.start(up.lab, path, name="chaos-capture")
    clicking = [
        asyncio.create_task(run.click_on(device, SEED + number)) for number, device in enumerate(run.devices)
    ]
    stranger, curious = run.denied
    others = (
        run.be_denied(stranger, run.names, SEED),
        run.be_denied(curious, [f"secret.{net.ZONE}"], SEED),
        run.click_at_the_laptop(),
        run.change_resources(),
    )
    clicking += map(asyncio.create_task, others)
    try:
        await run.storm()
        for task in clicking:
            assert not task.done(), task.exception()
    finally:
        for task in clicking:
            task.cancel()
        await asyncio.gather(*clicking, return_exceptions=True)
    await asyncio.sleep(ORPHAN_SECONDS)
    left = await orphans(up)
    for device in (*run.devices, *run.denied):
        await device.close()
    seen = await capturing.stop(ALLOWED)
    wrong = [it for device in (*run.devices, *run.denied) for it in device.wrong]
    audit = await up.ask("/audit/verification")
    untrue = run.untrue()
    laptop = [it for it in run.laptop if it.refused and run.during(it) == [_QUIET]]
    report = {
        "seed": SEED,
        "minutes": MINUTES,
        "chaos_faults": len(run.windows),
        "chaos_clicks": len(run.clicks),
        "chaos_orphans": len(left),
        "chaos_cleartext": seen.cleartext,
        "chaos_wrong_access": len(wrong),
        "chaos_untrue_refusals": len(untrue),
        "denials": dict(run.denials),
        "click_ms": run.distribution(),
        "laptop": {"clicks": len(run.laptop), "failed_without_fault": len(laptop)},
        "recovery_s": run.recoveries(),
        "esp_packets": seen.esp,
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    for line in (
        *left,
        *seen.cleartext_samples,
        *untrue,
        *(f"laptop: {it.fqdn} {it.refused} {it.why}" for it in laptop),
    ):
        print(line, flush=True)
    assert left == []
    assert seen.cleartext == 0, seen.cleartext_samples
    assert wrong == []
    assert audit["broken"] is None
    assert untrue == []
    assert seen.esp > 0
