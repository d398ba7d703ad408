"""Meters, in arrays and for each entry: `programs/meters.p4`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4r
from gateway_wires import Wire
from sluice_entries import read
from sluice_rig import Controller
from test_p4runtime import raw

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
CODE = fy.GRPCStatusCode
SIZE = 100
GREEN, YELLOW, RED = range(3)
LAN = 2
"""Rates of next to nothing: a burst is all that there is."""
RATES = fy.P4MeterConfig(cir=0, cburst=2, pir=0, pburst=4)
NO_RATES = fy.P4MeterConfig(cir=0, cburst=0, pir=0, pburst=0)
BURST = [GREEN, GREEN, YELLOW, YELLOW, RED]


@pytest.fixture
async def switch(controller: Controller) -> AsyncIterator[fy.Switch]:
    async with controller(p4info=PROGRAMS / "meters.p4info.txtpb", p4blob=PROGRAMS / "meters.json") as switch:
        yield switch


def none() -> fy.P4MeterCounterData:
    return fy.P4MeterCounterData(green=fy.P4CounterData(), yellow=fy.P4CounterData(), red=fy.P4CounterData())


def metered(flow: int, action: bool = True, **meter: Any) -> fy.P4TableEntry:
    forward = fy.Action("forward", port=LAN) if action else None
    return fy.P4TableEntry("metered", match=fy.Match(flow=flow), action=forward, **meter)


def cell(index: int | None, config: fy.P4MeterConfig | None = None, **counts: Any) -> fy.P4MeterEntry:
    return fy.P4MeterEntry("array", index=index, config=config, **counts)


def direct(of: fy.P4TableEntry, **meter: Any) -> fy.P4DirectMeterEntry:
    return fy.P4DirectMeterEntry(table_entry=of, **meter)


def colors(wan: Wire, lan: Wire, count: int, *, index: int = 0, flow: int = 7) -> list[tuple[int, int]]:
    """The colours of packets in a row by the array's cell and by the entry's meter."""
    for _ in range(count):
        wan.send(index.to_bytes(4) + flow.to_bytes(2) + bytes([0xEE, 0xEE]) + bytes(SIZE - 8))
    found = [bytes(packet) for packet in lan.drain()]
    return [(it[6], it[7]) for it in found if it[:6] == index.to_bytes(4) + flow.to_bytes(2)]


async def refused(switch: fy.Switch, update: Any) -> tuple[CODE, str]:
    with pytest.raises(fy.P4ClientError) as refusal:
        await switch.write([update])
    (detail,) = refusal.value.details.values()
    return detail.canonical_code, detail.message


class TestArrays:
    async def test_a_cell_marks_by_its_rates_and_counts_colours(
        self, switch: fy.Switch, wan: Wire, lan: Wire
    ) -> None:
        await switch.insert([metered(7)])
        assert [it[0] for it in colors(wan, lan, 5, index=3)] == [GREEN] * 5
        bytes_of = fy.P4MeterConfig(cir=0, cburst=2 * SIZE, pir=0, pburst=4 * SIZE)
        await switch.modify([cell(3, bytes_of, counter_data=none())])
        assert [it[0] for it in colors(wan, lan, 5, index=3)] == BURST
        (found,) = await read(switch, cell(3, counter_data=none()))
        assert found.config == bytes_of
        counts = found.counter_data
        assert [it.packet_count for it in (counts.green, counts.yellow, counts.red)] == [2, 2, 1]
        assert counts.yellow.byte_count == 2 * SIZE
        await switch.modify([cell(3)])
        assert [it[0] for it in colors(wan, lan, 2, index=3)] == [GREEN] * 2

    async def test_cells_fill_with_time(self, switch: fy.Switch, wan: Wire, lan: Wire) -> None:
        await switch.insert([metered(7)])
        fast = fy.P4MeterConfig(cir=1000 * SIZE, cburst=SIZE, pir=1000 * SIZE, pburst=SIZE)
        await switch.modify([cell(3, fast)])
        assert colors(wan, lan, 1, index=3)[0][0] == GREEN
        assert colors(wan, lan, 1, index=3)[0][0] == GREEN, "a tenth of a second later"

    async def test_reads_and_writes_take_wildcards(self, switch: fy.Switch) -> None:
        await switch.modify([cell(None, RATES)])
        await switch.modify([cell(5)])
        found = await read(switch, fy.P4MeterEntry())
        assert [it.index for it in found] == list(range(16))
        assert [it.config for it in found] == [None if n == 5 else RATES for n in range(16)]
        assert all(it.counter_data is None for it in found)
        assert await read(switch, cell(None)) == found
        assert await read(switch, cell(4)) == [cell(4, RATES)]

    async def test_refusals(self, switch: fy.Switch) -> None:
        await switch.modify([cell(3, RATES)])
        some = none()
        some.red.packet_count = 1

        def rates(**changes: int) -> fy.P4MeterConfig:
            return fy.P4MeterConfig(**{"cir": 1, "cburst": 1, "pir": 2, "pburst": 2, **changes})

        for update, code, text in (
            (~cell(16, RATES), CODE.OUT_OF_RANGE, "the array has 16 cells"),
            (~cell(-1, RATES), CODE.INVALID_ARGUMENT, "it is negative"),
            (~cell(3, rates(pir=0)), CODE.INVALID_ARGUMENT, "pir 0 is below cir 1"),
            (~cell(3, rates(cburst=-1)), CODE.INVALID_ARGUMENT, "cburst -1 is negative"),
            (~cell(3, rates(eburst=1)), CODE.INVALID_ARGUMENT, "eburst is not for a meter"),
            (~cell(3, RATES, counter_data=some), CODE.INVALID_ARGUMENT, "can only be set to 0"),
        ):
            assert (answer := await refused(switch, update)) == (code, answer[1])
            assert text in answer[1]
        assert await read(switch, cell(3)) == [cell(3, RATES)]
        with pytest.raises(fy.P4ClientError, match="the array has 16 cells"):
            await read(switch, cell(16))


class TestDirect:
    async def test_an_entry_brings_the_rates_of_its_meter(
        self, switch: fy.Switch, wan: Wire, lan: Wire
    ) -> None:
        await switch.insert([metered(7, meter_config=RATES), metered(8)])
        assert [it[1] for it in colors(wan, lan, 5)] == BURST
        assert [it[1] for it in colors(wan, lan, 5, flow=8)] == [GREEN] * 5
        found = await read(switch, metered(7, action=False, meter_config=NO_RATES))
        assert found == [metered(7, meter_config=RATES)]
        assert await read(switch, metered(7, action=False)) == [metered(7)]
        assert await read(switch, metered(8, action=False, meter_config=NO_RATES)) == [metered(8)]

        await switch.modify([metered(7, meter_config=RATES)])
        assert [it[1] for it in colors(wan, lan, 1)] == [RED], "the same rates leave the buckets alone"
        await switch.modify([metered(7)])
        assert [it[1] for it in colors(wan, lan, 5)] == [GREEN] * 5, "no rates are the default"
        (found,) = await read(switch, metered(7, action=False, meter_counter_data=none()))
        assert found.meter_counter_data.red.packet_count == 2
        assert found.meter_counter_data.green.packet_count == 7

    async def test_a_direct_meter_is_modified_by_itself(
        self, switch: fy.Switch, wan: Wire, lan: Wire
    ) -> None:
        await switch.insert([metered(7), metered(8)])
        of = fy.P4TableEntry("metered", match=fy.Match(flow=7))
        await switch.modify([direct(of, config=RATES)])
        assert [it[1] for it in colors(wan, lan, 5)] == BURST
        asked = direct(of, counter_data=none())
        (found,) = await read(switch, asked)
        assert found.config == RATES
        assert found.counter_data.yellow.packet_count == 2
        await switch.modify([direct(of, config=RATES, counter_data=none())])
        (found,) = await read(switch, asked)
        assert found.counter_data == none()
        for every in (fy.P4DirectMeterEntry(), direct(fy.P4TableEntry("metered"))):
            found = await read(switch, every)
            assert [it.config for it in found] == [RATES, None]
        await switch.delete([metered(7)])
        await switch.insert([metered(7)])
        assert [it[1] for it in colors(wan, lan, 5)] == [GREEN] * 5, "a new entry, a new meter"

    async def test_refusals(self, switch: fy.Switch) -> None:
        await switch.insert([metered(7, meter_config=RATES)])
        plain = fy.P4TableEntry("plain", match=fy.Match(flow=7), action=fy.Action("allow", port=LAN))
        await switch.insert([plain])
        bad = fy.P4MeterConfig(cir=2, cburst=1, pir=1, pburst=1)
        plain_metered = fy.P4TableEntry("plain", match=plain.match, action=plain.action, meter_config=RATES)
        some = none()
        some.green.byte_count = 1
        for update, code, text in (
            (~direct(metered(9), config=RATES), CODE.NOT_FOUND, "no entry has this key"),
            (~direct(plain, config=RATES), CODE.INVALID_ARGUMENT, "no direct meter"),
            (~direct(metered(7), config=bad), CODE.INVALID_ARGUMENT, "pir 1 is below cir 2"),
            (~plain_metered, CODE.INVALID_ARGUMENT, "no direct meter"),
            (~metered(7, meter_config=bad), CODE.INVALID_ARGUMENT, "pir 1 is below cir 2"),
            (+metered(9, meter_config=bad), CODE.INVALID_ARGUMENT, "pir 1 is below cir 2"),
            (+metered(9, meter_counter_data=some), CODE.INVALID_ARGUMENT, "can only be set to 0"),
        ):
            assert (answer := await refused(switch, update)) == (code, answer[1])
            assert text in answer[1]
        assert len(await read(switch, fy.P4TableEntry("metered"))) == 1
        assert await read(switch, metered(7, action=False, meter_config=NO_RATES)) == [
            metered(7, meter_config=RATES)
        ]


async def test_a_program_pushed_to_be_reconciled_keeps_meters(
    switch: fy.Switch, wan: Wire, lan: Wire
) -> None:
    await switch.insert([metered(7, meter_config=RATES)])
    await switch.modify([cell(3, fy.P4MeterConfig(cir=0, cburst=3 * SIZE, pir=0, pburst=4 * SIZE))])
    assert colors(wan, lan, 3, index=3) == [(GREEN, GREEN), (GREEN, GREEN), (GREEN, YELLOW)]
    config = p4r.ForwardingPipelineConfig(
        p4info=switch.p4info.p4info, p4_device_config=(PROGRAMS / "meters.json").read_bytes()
    )
    action = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT
    await raw(switch, p4r.SetForwardingPipelineConfigRequest(device_id=1, action=action, config=config))
    assert colors(wan, lan, 2, index=3) == [(YELLOW, YELLOW), (RED, RED)], "buckets are not filled anew"
    (found,) = await read(switch, cell(3, counter_data=none()))
    assert found.counter_data.green.packet_count == 3
