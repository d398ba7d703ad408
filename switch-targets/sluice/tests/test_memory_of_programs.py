"""Memory is bounded whatever a program declares."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from exchange_entries import PROGRAM, config, p4info
from gateway_authority import Authority
from raw_client import Code, RawClient
from resident import Resident
from sluice_rig import Sluice

pytestmark = pytest.mark.slow

# The most cells that all arrays of a program may have together (pipeline/src/load/objects.rs).
CELLS = 1 << 26
HUGE = 10**12


@pytest.fixture
def resident(sluice: Sluice) -> Resident:
    return Resident(sluice.process.pid)


@pytest.fixture
async def client(address: str, infrastructure: Authority) -> AsyncIterator[RawClient]:
    async with RawClient(address, infrastructure) as client:
        await client.bid(1)
        yield client


def counters(size: int) -> Callable[[Any, Any], None]:
    def change(info: Any, program: Any) -> None:
        info.counters[0].size = size
        next(it for it in program["counter_arrays"] if it["name"] == "Forward.received")["size"] = size

    return change


def registers(size: int) -> Callable[[Any, Any], None]:
    def change(info: Any, program: Any) -> None:
        info.registers[0].size = min(size, 2**31 - 1)
        program["register_arrays"][0]["size"] = size

    return change


def table(size: int) -> Callable[[Any, Any], None]:
    def change(info: Any, program: Any) -> None:
        info.tables[0].size = size
        tables = [table for pipeline in program["pipelines"] for table in pipeline["tables"]]
        next(it for it in tables if it["name"] == "Forward.forward")["max_size"] = size

    return change


def headers(count: int) -> Callable[[Any, Any], None]:
    def change(_info: Any, program: Any) -> None:
        kind = next(it["name"] for it in program["header_types"] if it["name"].startswith("ethernet"))
        first = len(program["headers"])
        for number in range(count):
            program["headers"].append(
                {
                    "name": f"more{number}",
                    "id": first + number,
                    "header_type": kind,
                    "metadata": False,
                    "pi_omit": True,
                }
            )

    return change


def wide(bits: int) -> Callable[[Any, Any], None]:
    def change(_info: Any, program: Any) -> None:
        kind = next(it for it in program["header_types"] if it["name"].startswith("ethernet"))
        kind["fields"][0][1] = bits

    return change


def changed(change: Callable[[Any, Any], None]) -> Any:
    info, program = p4info(), json.loads(PROGRAM.read_text())
    change(info, program)
    return config(info, json.dumps(program).encode())


class TestDeclarations:
    @pytest.mark.parametrize(
        ("change", "place"),
        [
            (counters(HUGE), "counter_arrays"),
            (counters(CELLS + 1), "counter_arrays"),
            (registers(HUGE), "register_arrays"),
            (table(HUGE), "max_size"),
            (wide(10**9), "header_types"),
            (headers(200_000), "header"),
        ],
        ids=["counters", "cells", "registers", "table", "field", "headers"],
    )
    async def test_a_declaration_that_no_memory_holds_is_refused_with_its_place(
        self, client: RawClient, resident: Resident, change: Callable[[Any, Any], None], place: str
    ) -> None:
        with resident.growing_at_most(512):
            code, message = await client.refused(client.push("VERIFY_AND_COMMIT", changed(change)))
        assert code == Code.INVALID_ARGUMENT
        assert place in message

    async def test_a_table_takes_memory_for_its_entries_not_for_its_size(
        self, client: RawClient, resident: Resident
    ) -> None:
        with resident.growing_at_most(32):
            await client.push("VERIFY_AND_COMMIT", changed(table(2**31)))

    async def test_a_program_with_the_most_cells_can_replace_itself(
        self, client: RawClient, resident: Resident
    ) -> None:
        """16 bytes each, in the running program and in the one that takes its place."""
        largest = changed(counters(CELLS - 4096))
        with resident.growing_at_most(2 * 16 * (CELLS >> 20) + 128):
            for _ in range(4):
                await client.push("VERIFY_AND_COMMIT", largest)
