"""Profiles of more devices than one read serves: each device gets its own person's names, and the last ones."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import random
import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import Device as DeviceRow
from culvert_db import DeviceState
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason, agent_pb2, agent_pb2_grpc
from culvert_proto.grpc_errors import from_rpc_error
from culvert_service.agent.profiles import BATCH
from culvert_service.batches import Batches
from culvert_service.decision.decision import GatewayFact, in_turn
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_only

from .conftest import World, authority, next_event, until

DEVICES = BATCH + 16
PEOPLE, GROUPS, RESOURCES = 12, 4, 10
WEIGHTS = {"gw-berlin": 2, "gw-paris": 1}
# The controller refuses connections when more handshakes are under way.
_AT_ONCE = 8
# The leaders in place of the writers, and the secret in place of the wiki.
_MOVE = (
    "UPDATE policies SET group_id = (SELECT id FROM groups WHERE name = 'leaders')",
    "UPDATE policy_resources SET resource_id = (SELECT id FROM resources WHERE name = 'secret')",
)


async def test_waiting_calls_are_joined_up_to_the_limit() -> None:
    reads: list[list[int]] = []

    async def read(keys: Sequence[int]) -> int:
        reads.append(list(keys))
        await asyncio.sleep(0)
        return len(reads)

    batches = Batches("test", read, most=3)
    assert await asyncio.gather(*map(batches.ask, range(7))) == [1, 1, 1, 2, 2, 2, 3]
    assert reads == [[0, 1, 2], [3, 4, 5], [6]]


async def test_a_call_during_a_read_gets_the_next_one() -> None:
    value = 0
    reading, proceed = asyncio.Event(), asyncio.Event()

    async def read(_keys: Sequence[int]) -> int:
        found = value
        reading.set()
        await proceed.wait()
        return found

    batches = Batches("test", read, most=100)
    early = asyncio.create_task(batches.ask(1))
    await reading.wait()
    value = 1
    late = asyncio.create_task(batches.ask(2))
    await asyncio.sleep(0)
    proceed.set()
    assert (await early, await late) == (0, 1)
    await batches.stop()


async def test_a_failed_read_fails_its_own_calls_alone() -> None:
    async def read(keys: Sequence[int]) -> str:
        if 1 in keys:
            raise CulvertError(Reason.DATABASE_DOWN)
        return "found"

    batches = Batches("test", read, most=2)
    found = await asyncio.gather(*map(batches.ask, range(3)), return_exceptions=True)
    assert [getattr(it, "reason", it) for it in found] == [
        Reason.DATABASE_DOWN,
        Reason.DATABASE_DOWN,
        "found",
    ]


async def test_a_cancelled_call_leaves_the_others_their_result() -> None:
    read_keys: list[int] = []

    async def read(keys: Sequence[int]) -> str:
        read_keys.extend(keys)
        return "found"

    batches = Batches("test", read, most=10)
    calls = [asyncio.create_task(batches.ask(key)) for key in range(3)]
    await asyncio.sleep(0)
    calls[0].cancel()
    assert await asyncio.gather(*calls[1:]) == ["found", "found"]
    with pytest.raises(asyncio.CancelledError):
        await calls[0]
    assert read_keys in ([0, 1, 2], [1, 2])


@dataclass
class Stream:
    """A device with its stream, and its last profile, or the refusal that the stream ended with."""

    id: uuid.UUID
    person: str
    channel: grpc.aio.Channel
    fingerprint: bytes
    last: agent_pb2.Profile | None = None
    refused: CulvertError | None = None
    reading: asyncio.Task[None] | None = field(default=None, repr=False)

    async def read(self) -> None:
        stub = agent_pb2_grpc.AgentServiceStub(self.channel)
        try:
            async for told in stub.Watch(agent_pb2.WatchRequest(client_version="test")):
                if told.HasField("profile"):
                    self.last = told.profile
        except grpc.aio.AioRpcError as error:
            self.refused = from_rpc_error(error, peer="controller")

    def shown(self) -> dict[str, list[str]]:
        """The gateways of each resource."""
        assert self.last is not None
        assert (self.last.device_id, self.last.user) == (str(self.id), self.person)
        return {it.name: list(it.gateways) for it in self.last.resources}


@dataclass
class Organisation:
    """People, their groups, and the resources that policies permit, as the test has written them."""

    world: World
    streams: list[Stream]
    members: dict[str, set[str]]
    permitted: dict[str, set[str]]
    weighted: set[str]

    def reach(self, stream: Stream) -> dict[str, list[str]]:
        """The gateways of each resource that this device may reach."""
        groups = {name for name, people in self.members.items() if stream.person in people}
        names = set[str]().union(*(self.permitted.get(it, ()) for it in [stream.person, *groups]))
        return {name: self._gateways(stream, name) for name in names}

    def _gateways(self, stream: Stream, name: str) -> list[str]:
        weights = WEIGHTS if name in self.weighted else dict.fromkeys(WEIGHTS)
        facts = [GatewayFact(gateway, online=False, weight=weight) for gateway, weight in weights.items()]
        return [it.name for it in in_turn(stream.id, facts)]

    async def agreed(self) -> None:
        """Waits until each device's last profile is what it may reach."""

        async def differing() -> list[str]:
            watching = [it for it in self.streams if it.refused is None]
            return [it.person for it in watching if it.last is None or it.shown() != self.reach(it)]

        await until(differing, lambda people: not people)


@pytest.fixture
async def organisation(world: World) -> AsyncGenerator[Organisation]:
    people = ["alice", *(f"person-{number}" for number in range(1, PEOPLE))]
    chance = random.Random(7)  # noqa: S311
    for name in people[1:]:
        await world.rest("POST", "/users", {"name": name, "email": f"{name}@corp.example"})
    for number, gateway in enumerate(WEIGHTS, start=1):
        await world.add_gateway(gateway, free_port(), number)
    resources = [f"host-{number}" for number in range(RESOURCES)]
    weighted = set(resources[::3])
    for name in resources:
        more: dict[str, object] = {"weights": WEIGHTS} if name in weighted else {}
        await world.add_resource(name, [*WEIGHTS], address="10.20.0.10", users=[], **more)
    members = {f"group-{number}": set(chance.sample(people, 4)) for number in range(GROUPS)}
    for name, of_group in members.items():
        await world.rest("POST", "/groups", {"name": name, "members": sorted(of_group)})
    permitted: dict[str, set[str]] = {}
    for kind, name in [*(("group", it) for it in members), *(("user", it) for it in people[::2])]:
        permitted[name] = set(chance.sample(resources, 3))
        body = {"name": name, kind: name, "resources": sorted(permitted[name])}
        await world.rest("POST", "/policies", body)
    streams = await _make_devices(world, [people[number % PEOPLE] for number in range(DEVICES)])
    turns = asyncio.Semaphore(_AT_ONCE)

    async def come(stream: Stream) -> None:
        async with turns:
            stream.reading = asyncio.create_task(stream.read())
            await until(lambda: asyncio.sleep(0, stream.last), bool)

    try:
        await asyncio.gather(*map(come, streams))
        yield Organisation(world, streams, members, permitted, weighted)
    finally:
        for stream in streams:
            await stream.channel.close()
            if stream.reading is not None:
                stream.reading.cancel()


async def _make_devices(world: World, people: Sequence[str]) -> list[Stream]:
    """A device for each of these people, whose certificate is the controller's, without the enrolment."""
    async with world.database.begin() as session:
        ids = dict(tuple(row) for row in await session.execute(text("SELECT name, id FROM users")))
        key, made = ec.generate_private_key(ec.SECP256R1()), list[Stream]()
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        ca_pem = (world.settings.state_dir / "infrastructure-ca.pem").read_bytes()
        for person in people:
            device_id = uuid.uuid4()
            issued = authority(world, "device").issue_device(key.public_key(), str(device_id))
            session.add(
                DeviceRow(
                    id=device_id,
                    user_id=ids[person],
                    name="laptop",
                    state=DeviceState.APPROVED,
                    fingerprint=issued.fingerprint,
                    certificate_serial=issued.serial,
                    certificate_expires_at=issued.expires_at,
                )
            )
            credentials = grpc.ssl_channel_credentials(ca_pem, pem, issued.pem)
            # Without it, channels of equal arguments share a connection, and with it a certificate.
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.aio.secure_channel(world.settings.agent_address, credentials, options=options)
            made.append(Stream(device_id, person, channel, issued.fingerprint))
    return made


@contextlib.contextmanager
def _statements(world: World, call: Any) -> Any:
    engine = cast("AsyncEngine", world.database.kw["bind"]).sync_engine
    event.listen(engine, "after_cursor_execute", call)
    try:
        yield
    finally:
        event.remove(engine, "after_cursor_execute", call)


@pytest.mark.slow
async def test_each_device_is_told_its_own_persons_names_alone(organisation: Organisation) -> None:
    await organisation.agreed()
    world, permitted, members = organisation.world, organisation.permitted, organisation.members
    orders = {tuple(it.shown()["host-0"]) for it in organisation.streams if "host-0" in it.shown()}
    # By its weights, the devices differ.
    assert len(orders) == 2

    read = list[str]()

    def note(*arguments: Any) -> None:
        read.append(arguments[2])

    with _statements(world, note):
        members["group-0"].symmetric_difference_update({"alice", "person-1"})
        body = {"name": "group-0", "members": sorted(members["group-0"])}
        await world.rest("PUT", "/groups/group-0", body)
        await organisation.agreed()
    of_profiles = [it for it in read if "FROM devices" in it and "ANY" in it]
    assert 0 < len(of_profiles) <= 2 * (1 + DEVICES // BATCH)

    # Changes while earlier ones are being told: the last profile is as the database is.
    for number in range(6):
        name = f"group-{number % GROUPS}"
        permitted[name] = {f"host-{(number + it) % RESOURCES}" for it in range(2)}
        await world.rest(
            "PUT", f"/policies/{name}", {"name": name, "group": name, "resources": [*permitted[name]]}
        )
    await organisation.agreed()


@pytest.mark.slow
async def test_refused_devices_of_a_batch_are_refused_alone(organisation: Organisation) -> None:
    await organisation.agreed()
    world, (revoked, unknown, expired) = organisation.world, organisation.streams[:3]
    # Behind the controller's back, as another controller does it: their streams are still there.
    async with world.database.begin() as session:
        await session.execute(text("UPDATE devices SET state = 'revoked' WHERE id = :id"), {"id": revoked.id})
        await session.execute(text("DELETE FROM devices WHERE id = :id"), {"id": unknown.id})
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
        await session.execute(
            text("UPDATE devices SET certificate_expires_at = :at WHERE id = :id"),
            {"at": past, "id": expired.id},
        )
    before = [it.last for it in (revoked, unknown, expired)]
    organisation.permitted["group-1"] = {"host-9"}
    await world.rest(
        "PUT", "/policies/group-1", {"name": "group-1", "group": "group-1", "resources": ["host-9"]}
    )
    await organisation.agreed()
    for stream in (revoked, unknown, expired):
        await until(lambda stream=stream: asyncio.sleep(0, stream.refused), bool)
    assert [it.refused.reason for it in (revoked, unknown, expired) if it.refused] == [
        Reason.DEVICE_REVOKED,
        Reason.CERTIFICATE_UNKNOWN,
        Reason.CERTIFICATE_EXPIRED,
    ]
    assert [it.last for it in (revoked, unknown, expired)] == before
    assert all(it.refused is None for it in organisation.streams[3:])


async def test_a_policy_that_changes_within_a_read_shows_nobody_others_names(world: World) -> None:
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    await world.add_gateway("gw-berlin", free_port())
    for name in ("wiki", "secret"):
        await world.add_resource(name, ["gw-berlin"], address="10.20.0.10", users=[])
    for group, person in (("writers", "alice"), ("leaders", "bob")):
        await world.rest("POST", "/groups", {"name": group, "members": [person]})
    await world.rest("POST", "/policies", {"name": "moves", "group": "writers", "resources": ["wiki"]})
    events = (await world.enrol()).watch()
    changed = False

    async def change() -> None:
        async with world.database.begin() as session:
            for statement in _MOVE:
                await session.execute(text(statement))

    def between(*arguments: Any) -> None:
        nonlocal changed
        if not changed and "group_members" in arguments[2] and "UNION ALL" in arguments[2]:
            changed = True
            await_only(change())

    with _statements(world, between):
        profile = (await next_event(events, "profile")).profile
    assert changed
    assert [it.name for it in profile.resources] == ["wiki"]


async def test_a_stream_that_waits_keeps_no_profile(world: World) -> None:
    """Ten thousand streams would keep hundreds of MiB."""
    device = await world.enrol()
    stream: Any = device.stub.Watch(agent_pb2.WatchRequest(client_version="test"))
    assert (await stream.read()).profile.device_id == device.id

    async def kept() -> int:
        gc.collect()
        return sum(isinstance(it, agent_pb2.Profile | agent_pb2.WatchResponse) for it in gc.get_objects())

    await until(kept, lambda count: count == 0, 5)
