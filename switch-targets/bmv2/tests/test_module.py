"""The extern module inside a real bmv2. What the program does is tested in switch-targets/conformance."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import cast

import bmv2_gateway as gw
import finsy as fy
import pytest
from bmv2_gateway import AES_GCM_256, NULL_HMAC_SHA256, SPI_IN, SPI_OUT, Sa
from bmv2_switch import Bmv2, Wire

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Bmv2]
Connect = Callable[..., AbstractAsyncContextManager[fy.Switch]]
DROP_KEY = 11


async def drops(switch: fy.Switch, cause: int) -> int:
    found = cast("AsyncIterator[fy.P4CounterEntry]", switch.read(fy.P4CounterEntry("drops", index=cause)))
    return sum([entry.packet_count async for entry in found])


def crosses(inbound: Sa, outbound: Sa, wan: Wire, lan: Wire, sequence: int = 1, size: int = 100) -> None:
    """One packet each way."""
    frame = gw.clear(size)
    lan.send(frame)
    out = wan.receive()
    assert out is not None
    sent, inner = outbound.open(gw.esp_of(out))
    assert sent == sequence
    assert inner[20:] == frame[34:]
    wan.send(gw.sealed(inbound, sequence, size))
    arrived = lan.receive()
    assert arrived is not None
    assert arrived[42:] == b"y" * size


async def test_packets_of_many_sizes_cross(
    start: Start, connect: Connect, kek: Path, wan: Wire, lan: Wire
) -> None:
    inbound, outbound = gw.fresh(SPI_IN), gw.fresh(SPI_OUT)
    async with connect(start({"CULVERT_ESP_KEK": str(kek)})) as switch:
        await switch.insert([*gw.static(), *gw.tunnel(inbound, outbound)])
        for sequence, size in enumerate([18, 19, 20, 21, 22, 23, 255, 1000, 1399, 1400], 1):
            crosses(inbound, outbound, wan, lan, sequence, size)


async def test_a_wrapped_key_may_begin_with_zeros(
    start: Start, connect: Connect, kek: Path, wan: Wire, lan: Wire
) -> None:
    keys = (os.urandom(36) for _ in range(100_000))
    key = next(key for key in keys if gw.wrapped(key)[0] == 0)
    inbound, outbound = Sa(SPI_IN, AES_GCM_256, key), gw.fresh(SPI_OUT)
    async with connect(start({"CULVERT_ESP_KEK": str(kek)})) as switch:
        await switch.insert([*gw.static(), *gw.tunnel(inbound, outbound)])
        crosses(inbound, outbound, wan, lan)


async def test_a_new_push_forgets_no_sequence_number(
    start: Start, connect: Connect, kek: Path, wan: Wire, lan: Wire
) -> None:
    inbound, outbound = gw.fresh(SPI_IN), gw.fresh(SPI_OUT)
    bmv2 = start({"CULVERT_ESP_KEK": str(kek)})
    for sequence in (1, 2, 3):
        async with connect(bmv2, p4force=True) as switch:
            await switch.insert([*gw.static(), *gw.tunnel(inbound, outbound)])
            crosses(inbound, outbound, wan, lan, sequence)
            wan.send(gw.sealed(inbound, 1))
            assert lan.receive(0.3) is None


async def test_a_legacy_suite_waits_for_permission(
    start: Start, connect: Connect, kek: Path, wan: Wire, lan: Wire
) -> None:
    inbound, outbound = gw.fresh(SPI_IN, NULL_HMAC_SHA256), gw.fresh(SPI_OUT, NULL_HMAC_SHA256)
    bmv2 = start({"CULVERT_ESP_KEK": str(kek)})
    async with connect(bmv2) as switch:
        await switch.insert([*gw.static(), *gw.tunnel(inbound, outbound)])
        await _refuses(switch, inbound, wan, lan)
    bmv2.stop()
    allowed = {"CULVERT_ESP_KEK": str(kek), "CULVERT_ESP_ALLOW": "null-hmac-sha256-128"}
    async with connect(start(allowed)) as switch:
        await switch.insert([*gw.static(), *gw.tunnel(inbound, outbound)])
        crosses(inbound, outbound, wan, lan)


@pytest.mark.parametrize(
    ("env", "kek", "reason"),
    [
        ({}, 0o600, "CULVERT_ESP_KEK is not set"),
        ({"CULVERT_ESP_KEK": "kek.bin"}, 0o644, "open to others"),
        ({"CULVERT_ESP_KEK": "no-such-file"}, 0o600, "cannot be read"),
        (
            {"CULVERT_ESP_KEK": "kek.bin", "CULVERT_ESP_ALLOW": "rot13"},
            0o600,
            "names one that does not exist",
        ),
    ],
    indirect=["kek"],
)
async def test_without_an_engine_no_packet_passes_and_stderr_says_why(
    start: Start,
    connect: Connect,
    kek: Path,
    wan: Wire,
    lan: Wire,
    env: dict[str, str],
    reason: str,
) -> None:
    if "CULVERT_ESP_KEK" in env:
        env = {**env, "CULVERT_ESP_KEK": str(kek.with_name(env["CULVERT_ESP_KEK"]))}
    bmv2 = start(env)
    inbound, outbound = gw.fresh(SPI_IN), gw.fresh(SPI_OUT)
    async with connect(bmv2) as switch:
        await switch.insert([*gw.static(), *gw.tunnel(inbound, outbound)])
        await _refuses(switch, inbound, wan, lan)
    assert reason in bmv2.log()
    assert gw.KEK.hex() not in bmv2.log()


async def _refuses(switch: fy.Switch, inbound: Sa, wan: Wire, lan: Wire) -> None:
    lan.send(gw.clear())
    wan.send(gw.sealed(inbound, 1))
    assert wan.receive(0.5) is None
    assert lan.receive(0.3) is None
    assert await drops(switch, DROP_KEY) == 2


async def test_without_the_module_nothing_is_forwarded(
    start: Start, connect: Connect, wan: Wire, lan: Wire
) -> None:
    bmv2 = start({}, module=None)
    async with connect(bmv2) as switch:
        with pytest.raises(fy.P4ClientError):
            await switch.insert(gw.static())
        lan.send(gw.clear())
        assert wan.receive(0.5) is None
    assert "Invalid reference to extern type" in bmv2.log()


def test_before_a_program_is_pushed_nothing_is_forwarded(
    start: Start, kek: Path, wan: Wire, lan: Wire
) -> None:
    start({"CULVERT_ESP_KEK": str(kek)})
    for _ in range(3):
        lan.send(gw.clear())
        wan.send(gw.clear())
    assert wan.receive(0.5) is None
    assert lan.receive(0.1) is None


async def test_a_client_needs_a_certificate_for_clients(start: Start, connect: Connect, kek: Path) -> None:
    bmv2 = start({"CULVERT_ESP_KEK": str(kek)})
    async with connect(bmv2) as switch:
        await switch.insert(gw.static())
        # bmv2 looks at no name, and gates no read: why keys cross P4Runtime wrapped (README).
        async with connect(bmv2, "stranger", initial_election_id=1) as other:
            assert not other.is_primary
            read = cast("AsyncIterator[fy.P4TableEntry]", other.read(fy.P4TableEntry("nexthop")))
            assert len([entry async for entry in read]) == 2
    with pytest.raises(fy.P4ClientError):
        async with connect(bmv2, "gateway", fail_fast=True):
            pass
