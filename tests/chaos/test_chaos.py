"""Parts are killed at random while a person clicks. The test repairs nothing: each part restarts as its unit file says.

    kill a controller, gateway's switch, daemon, postmaster or backend ─► all parts report ready ─► the next kill
    meanwhile: a click about every second, on a tunnel that stays open or on a new one
    at the end: Postgres, gateway and client must agree, no packet was clear, no IV served twice, the audit log verifies

CULVERT_CHAOS_KILLS is the number of kills [12], CULVERT_CHAOS_SEED chooses their order [1].
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import struct
import time
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from culvert_lab import capture, laptop, parts, pcapng
from culvert_lab import topology as net
from culvert_lab.errors import LabError
from culvert_lab.office import Office, open_office
from culvert_lab.process import Running
from culvert_proto import local_pb2

from .supervised import Outages, Supervised

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("CULVERT_CHAOS_KILLS", "12"))
SEED = int(os.environ.get("CULVERT_CHAOS_SEED", "1"))
PARTS = ("controller", "gateway", "culvertd", "postmaster", "backend")
# A part that is not ready by then needs a person.
BACK_SECONDS = 90.0
CLICK_SECONDS = 8.0
GOOD_SHARE = 0.95


@dataclass(slots=True)
class Clicks:
    """`outside` and `failed` are about clicks that no outage overlapped."""

    made: int = 0
    outside: int = 0
    failed: list[str] = field(default_factory=list[str])


class Chaos:
    def __init__(self, office: Office, names: list[str]) -> None:
        self.office = office
        self.outages = Outages()
        self.clicks = Clicks()
        self.ready_after: dict[str, list[float]] = {part: [] for part in PARTS}
        # Seeded, so that a run can be repeated; no secret depends on it.
        self._random = random.Random(SEED)  # noqa: S311
        self._names = names
        joined, lab = office.joined, office.lab

        async def controller(name: str) -> Running:
            return (await parts.start_controller(lab, name=name)).program

        self.parts = {
            "controller": Supervised("controller", joined.controller.program, controller),
            "gateway": Supervised("gateway", joined.gateway, lambda name: parts.start_gateway(lab, name)),
            "culvertd": Supervised("culvertd", office.daemon, lambda name: laptop.start_daemon(lab, name)),
        }

    async def kill(self, part: str) -> None:
        """Kills one part, and waits until all parts report that they are ready."""
        number = self.outages.begin()
        if part in self.parts:
            self.parts[part].program.kill()
        elif (pid := self._postgres(part)) is not None:
            os.kill(pid, signal.SIGKILL)
        # Parts need a moment to notice the kill; before that they would still report ready.
        await asyncio.sleep(0.3)
        deadline = time.monotonic() + BACK_SECONDS
        while why := await self.not_ready():
            assert time.monotonic() < deadline, f"{part} was killed, and {why}"
            await asyncio.sleep(0.2)
        self.ready_after[part].append(self.outages.end(number))

    def _postgres(self, part: str) -> int | None:
        lock = self.office.joined.controller.state / "postgres/data/postmaster.pid"
        postmaster = int(lock.read_text().split("\n", 1)[0])
        if part == "postmaster":
            return postmaster
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        backends = [
            pid for pid in children if b"postgres: culvert " in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        return int(self._random.choice(backends)) if backends else None

    async def not_ready(self) -> str:
        """The parts that are not ready, with the reason; empty when all are ready."""
        admin = self.office.joined.admin
        try:
            gateway = await admin.get(f"/gateways/{parts.GATEWAY}")
            status = await laptop.status(self.office.lab)
        except (LabError, httpx.HTTPError, TimeoutError) as error:
            return str(error)
        if gateway["state"] != "online":
            return f"the gateway is {gateway['state']}: {gateway['reason']}"
        if status.state not in (local_pb2.STATE_READY, local_pb2.STATE_CONNECTED):
            return f"the daemon is {local_pb2.State.Name(status.state)}"
        return ""

    async def click_on(self) -> None:
        """Clicks for ever: on the wiki, whose tunnel stays open, and on others, whose tunnels are closed again."""
        while True:
            name = self._random.choice(self._names)
            began = time.monotonic()
            found = await self.office.fetch(name, CLICK_SECONDS)
            ended = time.monotonic()
            self.clicks.made += 1
            if not self.outages.overlap(began, ended):
                self.clicks.outside += 1
                if found.code != 0:
                    why = await self._why()
                    self.clicks.failed.append(f"{name}: {found.stderr.strip()}: {why}")
            if name != net.WIKI_NAME:
                await self.office.culvert("close", name)
            await asyncio.sleep(0.5)

    async def _why(self) -> str:
        try:
            return await laptop.why(self.office.lab)
        except (LabError, TimeoutError) as error:
            return str(error)

    async def disagreement(self) -> object:
        """The difference between the tunnels in Postgres, at the gateway and at the client; None when they agree."""
        admin = self.office.joined.admin
        try:
            tunnels = {it["id"] for it in await admin.get("/tunnels")}
            entries = (await admin.get(f"/gateways/{parts.GATEWAY}/entries"))["entries"]
            client = {it.tunnel_id for it in (await laptop.status(self.office.lab)).tunnels}
        except (LabError, httpx.HTTPError, TimeoutError) as error:
            return error
        if stray := [it for it in entries if it["standing"] != "held"]:
            return stray
        if tunnels != client:
            return {"controller": tunnels, "client": client}
        tables = Counter(it["table"] for it in entries if it["table"].startswith("sad_"))
        pairs = {"sad_in": len(tunnels), "sad_out": len(tunnels)} if tunnels else {}
        return None if tables == pairs else {"tunnels": len(tunnels), "pairs": tables}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office() -> AsyncGenerator[Office]:
    async with open_office() as office:
        yield office


async def test_killed_parts_recover_by_themselves_and_their_records_agree(office: Office) -> None:
    names = [net.WIKI_NAME, await office.add_resource("git"), await office.add_resource("docs")]
    path = office.lab.work / "chaos.pcapng"
    capturing = await capture.start(office.lab, path, name="chaos-capture")
    chaos = Chaos(office, names)
    # Each part equally often, in an order that the seed chooses.
    victims = [PARTS[number % len(PARTS)] for number in range(KILLS)]
    random.Random(SEED).shuffle(victims)  # noqa: S311
    clicking = asyncio.create_task(chaos.click_on())
    pauses = random.Random(SEED + 1)  # noqa: S311
    try:
        for victim in victims:
            # Leaves time for clicks outside of outages.
            await asyncio.sleep(pauses.uniform(2.0, 8.0))
            assert not clicking.done(), clicking.exception()
            await chaos.kill(victim)
        await asyncio.sleep(5.0)
    finally:
        clicking.cancel()
        await asyncio.gather(clicking, return_exceptions=True)
    deadline = time.monotonic() + BACK_SECONDS
    while (wrong := await chaos.disagreement()) is not None and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.5)
    for each in chaos.parts.values():
        await each.stop()
    seen = await capturing.stop()
    twice = ivs_used_twice(path)
    audit = await office.joined.admin.get("/audit/verification")
    print_books(chaos, seen, audit["lines"])
    assert wrong is None, wrong
    assert seen.cleartext == 0, seen.cleartext_samples
    assert seen.esp > 0
    assert twice == []
    assert audit["broken"] is None
    assert chaos.clicks.outside > 0
    good = chaos.clicks.outside - len(chaos.clicks.failed)
    assert good >= GOOD_SHARE * chaos.clicks.outside, chaos.clicks.failed


def ivs_used_twice(path: Path) -> list[tuple[int, int]]:
    """SPI and sequence number (which is the IV) that different packets on the gateway's wire share. SPIs are random."""
    met: dict[tuple[int, int], bytes] = {}
    twice: list[tuple[int, int]] = []
    with path.open("rb") as source:
        for packet in pcapng.read(source):
            frame = packet.frame
            is_esp = packet.interface == "gateway" and frame[12:14] == b"\x08\x00" and frame[23] == 17
            if not is_esp or b"\x11\x94" not in (frame[34:36], frame[36:38]) or len(frame) < 58:
                continue
            number = struct.unpack_from("!II", frame, 42)
            if met.setdefault(number, frame[42:]) != frame[42:]:
                twice.append(number)
    return twice


def print_books(chaos: Chaos, seen: capture.Seen, audit_lines: int) -> None:
    clicks = chaos.clicks
    print(f"\nseed {SEED}, {KILLS} kills; seconds until all parts were ready again:")
    for part, found in chaos.ready_after.items():
        if found:
            print(
                f"  {part:10} {len(found):3} kills, median {sorted(found)[len(found) // 2]:5.1f}, most {max(found):5.1f}"
            )
    print(f"clicks: {clicks.made}, outside of outages {clicks.outside}, of these failed {len(clicks.failed)}")
    for why in clicks.failed:
        print(f"  {why}")
    print(
        f"frames: {seen.frames}, ESP {seen.esp}, cleartext {seen.cleartext}; audit lines: {audit_lines}",
        flush=True,
    )
