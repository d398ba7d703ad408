"""A certificate for reading alone: it shows everything and changes nothing, whatever its client asks for."""

from __future__ import annotations

from pathlib import Path

import finsy as fy
import pytest
import sluice_entries as entries
from finsy.proto import p4r
from gateway_authority import CLIENT, Authority
from gateway_target import CLIENT_NAME, P4INFO, PROGRAM
from raw_client import Code, RawClient
from sluice_rig import Controller, credentials

pytestmark = pytest.mark.slow

READER_NAME = "culvert-reader"
# Streams that readers may have, and streams that they might take from the controllers of one role.
READERS, STREAMS = 8, 16


@pytest.fixture
def arguments(arguments: dict[str, str]) -> dict[str, str]:
    return {**arguments, "--reader-name": READER_NAME}


@pytest.fixture
def paths(infrastructure: Authority) -> tuple[Path, Path]:
    return infrastructure.issue("reader", READER_NAME, CLIENT)


async def test_finsy_reads_and_is_never_primary(
    address: str, infrastructure: Authority, paths: tuple[Path, Path], controller: Controller
) -> None:
    # finsy bids always, and holds it for a fault of the switch when a higher bid than the primary's does not win.
    options = fy.SwitchOptions(
        p4info=P4INFO, channel_credentials=credentials(infrastructure, *paths), initial_election_id=1
    )
    async with controller() as writer:
        await writer.insert(entries.site())
        async with fy.Switch("reader", address, options) as reader:
            assert not reader.is_primary
            shown = await tables(reader)
            assert shown == await tables(writer) != []
            with pytest.raises(fy.P4ClientError) as refusal:
                await reader.delete(entries.site())
            assert refusal.value.code is fy.GRPCStatusCode.PERMISSION_DENIED
        assert writer.is_primary
        assert await tables(writer) == shown


async def tables(switch: fy.Switch) -> list[str]:
    return sorted(map(repr, await entries.read(switch, fy.P4TableEntry())))


async def test_a_higher_election_id_and_another_role_help_nobody(
    address: str, infrastructure: Authority, paths: tuple[Path, Path], controller: Controller
) -> None:
    config = p4r.ForwardingPipelineConfig(p4_device_config=PROGRAM.read_bytes())
    async with RawClient(address, infrastructure, certificate="reader") as alone:
        assert (await alone.bid(2**40)).status.code == Code.NOT_FOUND.value[0]
        for action in ("VERIFY", "VERIFY_AND_COMMIT", "COMMIT"):
            assert (await alone.refused(alone.push(action, config)))[0] is Code.PERMISSION_DENIED
    async with (
        controller() as writer,
        RawClient(address, infrastructure, certificate="reader", name="mine") as other,
        RawClient(address, infrastructure, certificate="reader") as same,
    ):
        assert writer.is_primary
        assert (await other.bid(2**40)).status.code == Code.NOT_FOUND.value[0]
        assert (await same.bid(2**40)).status.code == Code.ALREADY_EXISTS.value[0]
        # The reader claims the primary's election id, but its certificate says who it is.
        same.election_id = writer.election_id
        assert (await same.refused(same.write()))[0] is Code.PERMISSION_DENIED
        await same.stream.write(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=bytes(60))))
        error = (await same.hear("error")).error
        assert error.canonical_code == Code.PERMISSION_DENIED.value[0]
        assert writer.is_primary


async def test_readers_take_no_streams_from_the_controllers(
    address: str, infrastructure: Authority, paths: tuple[Path, Path], controller: Controller
) -> None:
    readers = [RawClient(address, infrastructure, certificate="reader") for _ in range(STREAMS)]
    for reader in readers[:READERS]:
        await reader.__aenter__()
        assert (await reader.bid(1)).status.code == Code.NOT_FOUND.value[0]
    for reader in readers[READERS:]:
        await reader.__aenter__()
        # Before it says anything: as in test_streams_are_bounded.
        refusal = await reader.refused(reader.hear("arbitration"))
        assert refusal == (Code.RESOURCE_EXHAUSTED, f"{READERS} streams are open already: close one")
    async with controller() as writer:
        assert writer.is_primary
    for reader in readers:
        await reader.__aexit__(None, None, None)


async def test_who_has_both_names_is_the_controller(address: str, infrastructure: Authority) -> None:
    infrastructure.issue("both", CLIENT_NAME, CLIENT, more_names=[READER_NAME])
    async with RawClient(address, infrastructure, certificate="both") as both:
        assert (await both.bid(1)).status.code == Code.OK.value[0]
