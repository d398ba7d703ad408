"""kill -9, of the switch and of its controller, in the middle of a batch.

kill the switch:      write, write, ✗, restarted: empty ─► program ─► what is wanted ─► read: the same
kill the controller:  write, write, ✗, another client:     read ─► difference ─► write ─► read: the same
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import finsy as fy
import grpc.aio
import pytest
from gateway_authority import Authority
from gateway_entries import Site
from gateway_rig import Gateway, esp_bytes, new_tunnel
from gateway_target import GRPC_PORT, controller_options
from gateway_wires import Relay, Wire
from inventory_entries import State, config, generation, generation_of, observed, texts, updates
from raw_client import Code, RawClient
from sluice_rig import PEERS, SWITCH, Sluice, flat

pytestmark = pytest.mark.slow

ROUNDS = 10
ATOMICITIES = ("CONTINUE_ON_ERROR", "ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC")
ATOMIC = ATOMICITIES[1:]
WRITER = Path(__file__).parent / "inventory_writer.py"
NO_PROGRAM = (Code.FAILED_PRECONDITION, "No forwarding pipeline config has been set")

Launch = Callable[[], Sluice]


@pytest.fixture
def launch(rig: None, program: Path, arguments: dict[str, str], tmp_path: Path) -> Iterator[Launch]:
    """Starts the switch, as often as asked; the last one is ended."""
    switches: list[Sluice] = []

    def start() -> Sluice:
        switches.append(Sluice(program, flat(arguments), tmp_path / f"sluice{len(switches)}.log"))
        return switches[-1]

    yield start
    assert switches[-1].stop() == 0
    print(switches[-1].log.read_text())


@pytest.fixture
def relay(rig: None) -> Iterator[str]:
    relay = Relay(GRPC_PORT, SWITCH)
    yield relay.address
    relay.close()


def kill(switch: Sluice) -> None:
    switch.process.kill()
    switch.process.wait()


async def reconcile(client: RawClient, want: State) -> None:
    have = await observed(client)
    assert set(await client.write(*updates(have, want))) == {Code.OK}
    assert texts(await observed(client)) == texts(want)


async def write_until_killed(client: RawClient, first: int, atomicity: str) -> int:
    """The generation that was being written."""
    at = first
    while True:
        batch = updates(generation(at), generation(at + 1))
        at += 1
        try:
            codes = await client.write(*batch, atomicity=atomicity)
        except grpc.aio.AioRpcError as error:
            if error.code() not in (Code.UNAVAILABLE, Code.CANCELLED):
                raise
            return at
        assert set(codes) == {Code.OK}


class TestTheSwitch:
    @pytest.mark.parametrize("atomicity", ATOMICITIES)
    async def test_restarted_and_reconciled_it_ends_in_the_same_state(
        self, launch: Launch, relay: str, infrastructure: Authority, atomicity: str
    ) -> None:
        chance = random.Random(atomicity)  # noqa: S311
        want = 0
        for round_ in range(ROUNDS + 1):
            switch = launch()
            async with RawClient(relay, infrastructure) as client:
                await client.bid(round_ + 1)
                assert await client.refused(client.read(*generation(0).values())) == NO_PROGRAM
                action = "RECONCILE_AND_COMMIT" if round_ % 2 else "VERIFY_AND_COMMIT"
                await client.push(action, config())
                await reconcile(client, generation(want))
                if round_ < ROUNDS:
                    killing = threading.Timer(chance.uniform(0.01, 0.6), kill, [switch])
                    killing.start()
                    want = await write_until_killed(client, want, atomicity)
                    killing.join()

    async def test_it_forgets_associations_so_that_only_fresh_keys_are_safe(
        self, launch: Launch, relay: str, infrastructure: Authority
    ) -> None:
        tunnel = new_tunnel()
        for sequences in ([1, 2, 3], [1, 2]):
            switch = launch()
            wan, lan = Wire("wan", PEERS), Wire("lan", PEERS)
            async with fy.Switch("gateway", relay, controller_options(infrastructure)) as controller:
                gateway = Gateway(controller, Site(), wan, lan, lan)
                await gateway.insert(Site().entries(), tunnel.entries())
                sealed = [esp_bytes(await gateway.seals(tunnel)) for _ in sequences]
            assert [int.from_bytes(it[4:8]) for it in sealed] == sequences
            wan.close()
            lan.close()
            if sequences[-1] == 3:
                kill(switch)


class TestTheController:
    @pytest.mark.parametrize("atomicity", ATOMICITIES)
    async def test_another_client_finds_a_state_that_it_can_reconcile(
        self, launch: Launch, relay: str, infrastructure: Authority, atomicity: str
    ) -> None:
        """An atomic batch is there as a whole or not at all."""
        launch()
        chance = random.Random(atomicity)  # noqa: S311
        for round_ in range(ROUNDS):
            first = round_ * 100
            async with RawClient(relay, infrastructure) as client:
                await client.bid(2 * round_ + 1)
                if round_ == 0:
                    await client.push("VERIFY_AND_COMMIT", config())
                await reconcile(client, generation(first))
            async with writing(relay, infrastructure, 2 * round_ + 1, atomicity, first) as writer:
                await asyncio.sleep(chance.uniform(0, 0.4))
                writer.kill()
            async with RawClient(relay, infrastructure) as client:
                await client.bid(2 * round_ + 2)
                have = await observed(client)
                if atomicity in ATOMIC:
                    at = generation_of(have)
                    assert at > first
                    assert texts(have) == texts(generation(at))
                await reconcile(client, generation(first + 50))

    @pytest.mark.parametrize("atomicity", ATOMIC)
    async def test_no_reader_sees_a_part_of_a_batch(
        self, launch: Launch, relay: str, infrastructure: Authority, atomicity: str
    ) -> None:
        switch = launch()
        async with RawClient(relay, infrastructure) as client:
            await client.bid(1)
            await client.push("VERIFY_AND_COMMIT", config())
            await reconcile(client, generation(0))
        async with (
            writing(relay, infrastructure, 1, atomicity, 0) as writer,
            RawClient(relay, infrastructure) as reader,
        ):
            await reader.bid(0)
            seen: set[int] = set()
            while len(seen) < ROUNDS:
                have = await observed(reader)
                at = generation_of(have)
                assert texts(have) == texts(generation(at))
                seen.add(at)
            writer.kill()
        assert switch.process.poll() is None


@asynccontextmanager
async def writing(
    address: str, infrastructure: Authority, election_id: int, atomicity: str, first: int
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A controller of its own that writes one generation after another; it has written one."""
    folder = str(infrastructure.folder)
    command = [sys.executable, str(WRITER), address, folder, str(election_id), atomicity, str(first)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"written\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
