"""Several controllers at once, each in its role."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import finsy as fy
import pytest
from exchange_entries import (
    CPU_PORT,
    IDS,
    P4INFO,
    PROGRAM,
    admission,
    config,
    delete,
    every_table,
    forward,
    group,
    insert,
)
from finsy.proto import p4r, stratum
from gateway_authority import Authority
from gateway_rig import QUIET
from gateway_wires import Wire
from google.protobuf.any_pb2 import Any as Packed
from raw_client import Code, RawClient
from scapy.layers.l2 import Ether
from sluice_rig import Controller

pytestmark = pytest.mark.slow

Connect = Callable[..., RawClient]


@pytest.fixture
def arguments(arguments: dict[str, str]) -> dict[str, str]:
    return {**arguments, "--cpu-port": str(CPU_PORT)}


@pytest.fixture
async def connect(address: str, infrastructure: Authority) -> AsyncIterator[Any]:
    """A client with an open stream. Keywords are those of the role message."""
    async with AsyncExitStack() as stack:

        async def opened(**role: Any) -> RawClient:
            return await stack.enter_async_context(RawClient(address, infrastructure, **role))

        yield opened


@pytest.fixture
async def default(connect: Any) -> RawClient:
    """The default role's primary, which has pushed the program."""
    client = await connect()
    assert (await client.bid(1)).status.code == 0
    await client.push("VERIFY_AND_COMMIT", config())
    return client


def packed(message: Any) -> Packed:
    box = Packed()
    box.Pack(message)
    return box


async def test_each_role_has_a_primary_of_its_own(default: RawClient, connect: Any) -> None:
    guard, other = await connect(name="guard"), await connect(name="guard")
    answer = await guard.bid(1)
    assert answer.status.code == 0, "the default role has the same election id"
    assert answer.role == p4r.Role(name="guard")
    assert (await other.bid(2)).status.code == 0
    assert (await guard.hear("arbitration")).arbitration.status.code == Code.ALREADY_EXISTS.value[0]
    assert await other.write(insert(admission(1))) == [Code.OK]
    code, _ = await guard.refused(guard.write(insert(admission(2))))
    assert code == Code.PERMISSION_DENIED
    assert await default.write(insert(forward(1))) == [Code.OK]
    other.stream.cancel()
    assert (await guard.hear("arbitration")).arbitration.status.code == Code.NOT_FOUND.value[0]


async def test_annotated_objects_are_their_roles_and_the_default_ones(
    default: RawClient, connect: Any
) -> None:
    guard, stranger = await connect(name="guard"), await connect(name="stranger")
    await guard.bid(1)
    await stranger.bid(1)
    batch = [insert(admission(1)), insert(forward(1)), insert(group(1))]
    assert await stranger.write(*batch) == [Code.PERMISSION_DENIED, Code.OK, Code.OK]
    assert await guard.write(*batch) == [Code.OK, Code.ALREADY_EXISTS, Code.ALREADY_EXISTS]
    assert await default.write(delete(admission(1)), insert(admission(2))) == [Code.OK, Code.OK]

    async def tables(client: RawClient) -> list[int]:
        return [entity.table_entry.table_id for entity in await client.read(every_table())]

    assert sorted(await tables(default)) == sorted([IDS["admission"], IDS["forward"]])
    assert sorted(await tables(guard)) == sorted([IDS["admission"], IDS["forward"]])
    assert await tables(stranger) == [IDS["forward"]]


async def test_a_config_limits_its_role(default: RawClient, connect: Any) -> None:
    limits = stratum.P4RoleConfig(exclusive_p4_ids=[IDS["forward"]], can_push_pipeline=False)
    owner, stranger = await connect(name="owner", config=packed(limits)), await connect(name="stranger")
    assert (await owner.bid(1)).role.config == packed(limits)
    await stranger.bid(1)
    assert await owner.write(insert(forward(1)), insert(group(1))) == [Code.OK, Code.PERMISSION_DENIED]
    assert await stranger.write(insert(forward(2))) == [Code.PERMISSION_DENIED], (
        "the owner has it exclusively"
    )
    assert [it.table_entry.table_id for it in await owner.read(every_table())] == [IDS["forward"]]
    code, text = await owner.refused(owner.push("VERIFY", config()))
    assert (code, "can_push_pipeline" in text) == (Code.PERMISSION_DENIED, True)
    await stranger.push("VERIFY", config())
    clash = await connect(name="thief", config=packed(stratum.P4RoleConfig(shared_p4_ids=[IDS["forward"]])))
    code, text = await clash.refused(clash.bid(1))
    assert (code, "'owner'" in text) == (Code.INVALID_ARGUMENT, True)


async def test_bad_roles_are_refused(default: RawClient, connect: Any) -> None:
    unknown = packed(p4r.DigestListAck())
    for role, code, said in [
        ({"name": "r", "config": unknown}, Code.INVALID_ARGUMENT, "type 'p4.v1.DigestListAck' is not known"),
        ({"config": packed(stratum.P4RoleConfig())}, Code.INVALID_ARGUMENT, "default role has no config"),
        ({"name": "r" * 257}, Code.INVALID_ARGUMENT, "longer than 256"),
    ]:
        client = await connect(**role)
        refusal = await client.refused(client.bid(1))
        assert refusal[0] == code
        assert said in refusal[1]
    client = await connect(name="r")
    await client.bid(1)
    client.role = p4r.Role(name="s")
    assert (await client.refused(client.bid(1)))[0] == Code.FAILED_PRECONDITION
    default.role = p4r.Role(name="nobody")
    for call in (
        default.write(insert(forward(1))),
        default.read(every_table()),
        default.push("VERIFY", config()),
    ):
        assert (await default.refused(call))[0] == Code.NOT_FOUND


async def test_a_role_may_be_a_number(default: RawClient, connect: Any) -> None:
    old = await connect(id=7)
    answer = await old.bid(1)
    assert answer.role == p4r.Role(id=7)
    request = p4r.WriteRequest(device_id=1, role_id=7, election_id=p4r.Uint128(low=1))
    request.updates.append(insert(forward(1)))
    await old.stub.Write(request)
    assert (await connect(id=8)) is not None


async def test_streams_are_bounded(connect: Any) -> None:
    clients = list[RawClient]()
    # Clients connect one after the other: 64 handshakes at once are more than an unknown address may have.
    for n in range(64):
        clients.append(await connect(name=f"r{n % 8}"))
        await clients[-1].bid(n + 1)
    # Refused before it says anything; who writes to a stream that has ended is told so by grpc alone (INTERNAL).
    code, text = await clients[0].refused((await connect(name="r0")).hear("arbitration"))
    assert code == Code.RESOURCE_EXHAUSTED
    assert "close one" in text


async def test_packets_go_to_the_roles_that_hear_them(
    default: RawClient, connect: Any, wan: Wire, lan: Wire
) -> None:
    punt = insert(forward(1))
    punt.entity.table_entry.action.action.CopyFrom(p4r.Action(action_id=IDS["punt"]))
    await default.write(punt)
    from_lan = stratum.P4RoleConfig.PacketFilter(metadata_id=1, value=b"\2")
    hears = await connect(
        name="hears", config=packed(stratum.P4RoleConfig(receives_packet_ins=True, packet_in_filter=from_lan))
    )
    deaf = await connect(name="deaf", config=packed(stratum.P4RoleConfig()))
    await hears.bid(1)
    await deaf.bid(1)
    frame = Ether(dst="00:00:00:00:00:01", src="02:00:00:00:00:02", type=0x88B5) / bytes(46)
    wan.send(frame)
    assert (await default.hear("packet")).packet.payload == bytes(frame)
    lan.send(frame)
    assert (await hears.hear("packet")).packet.metadata[0].value == b"\2", "not the one from the wan"
    await default.hear("packet")
    packet = p4r.PacketOut(payload=bytes(frame))
    packet.metadata.add(metadata_id=1, value=b"\2")
    packet.metadata.add(metadata_id=2, value=b"\0")
    await deaf.stream.write(p4r.StreamMessageRequest(packet=packet))
    error = (await deaf.hear("error")).error
    assert error.canonical_code == Code.PERMISSION_DENIED.value[0]
    assert lan.receive(QUIET) is None
    await hears.stream.write(p4r.StreamMessageRequest(packet=packet))
    assert bytes(lan.receive() or b"") == bytes(frame)


async def test_digests_go_to_the_roles_that_have_them(default: RawClient, connect: Any, wan: Wire) -> None:
    learn = insert(forward(1, port=2))
    learn.entity.table_entry.action.action.action_id = IDS["learn"]
    learner = await connect(
        name="learner", config=packed(stratum.P4RoleConfig(shared_p4_ids=[IDS["seen_t"]]))
    )
    stranger = await connect(name="stranger", config=packed(stratum.P4RoleConfig()))
    await learner.bid(1)
    await stranger.bid(1)
    digest = p4r.DigestEntry(digest_id=IDS["seen_t"], config=p4r.DigestEntry.Config(max_list_size=1))
    assert await learner.write(insert(p4r.Entity(digest_entry=digest))) == [Code.OK]
    await default.write(learn)
    wan.send(Ether(dst="00:00:00:00:00:01", src="02:00:00:00:00:02", type=0x88B5) / bytes(46))
    heard = (await learner.hear("digest")).digest
    ack = p4r.DigestListAck(digest_id=heard.digest_id, list_id=heard.list_id)
    await stranger.stream.write(p4r.StreamMessageRequest(digest_ack=ack))
    error = (await stranger.hear("error")).error
    assert error.canonical_code == Code.PERMISSION_DENIED.value[0]
    unknown = p4r.DigestListAck(digest_id=5)
    await learner.stream.write(p4r.StreamMessageRequest(digest_ack=unknown))
    assert (await learner.hear("error")).error.canonical_code == Code.INVALID_ARGUMENT.value[0]


async def test_finsy_s_roles(controller: Controller) -> None:
    async with controller(p4info=P4INFO, p4blob=PROGRAM) as first:
        limits = stratum.P4RoleConfig(shared_p4_ids=[IDS["forward"]])
        async with controller(
            p4info=P4INFO, p4blob=PROGRAM, role_name="writer", role_config=limits
        ) as writer:
            assert first.is_primary
            assert writer.is_primary
            entry = fy.P4TableEntry("forward", match=fy.Match(dst=1), action=fy.Action("to_port", port=1))
            await writer.insert([entry])
            async with asyncio.timeout(3):
                await first.delete([entry])
