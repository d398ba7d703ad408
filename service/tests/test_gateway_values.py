"""Entries as P4Runtime carries them, keys as the gateway unwraps them, limits."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap_with_padding
from culvert_service.config import Settings
from culvert_service.gateways import p4runtime
from culvert_service.gateways.entry import Kind, Update
from culvert_service.gateways.guard import Guard
from culvert_service.gateways.key_wrap import KeyWrap, new_kek, new_sa_key
from culvert_service.gateways.limits import Limits, hard
from culvert_service.gateways.sa import draw
from culvert_service.gateways.site import Lan, Site, Wan, static_entries
from culvert_service.gateways.tunnel_entries import Pair, WrappedKeys, pair_entries, policy_entry
from culvert_service.gateways.tunnel_entries import Path as TunnelPath
from culvert_service.sessions.grant import PairKeys
from culvert_service.sessions.pool import free_address
from finsy import P4Schema, P4TableEntry

SITE = Site(
    "198.51.100.2",
    "10.99.0.0/24",
    Wan(1, "02:00:00:00:01:01", "02:00:00:00:01:02"),
    Lan(2, "02:00:00:00:02:01", "10.20.0.1", "10.20.0.0/16", {"10.20.0.10": "02:00:00:00:02:10"}),
)


def test_every_entry_survives_the_way_to_the_switch_and_back() -> None:
    schema = P4Schema(Settings().p4_artifacts / "gateway.p4info.txtpb")
    path = TunnelPath(
        uuid.uuid4(), SITE.address, "10.99.0.1", "10.20.0.10", "203.0.113.10", 4500, Limits(2**40, 2**50)
    )
    pair = Pair(1, draw(), draw())
    keys = WrappedKeys(b"\0" * 20 + b"\x01" * 28, b"\xff" * 48)
    entries = [
        *static_entries(SITE),
        *pair_entries(path, pair, keys),
        policy_entry(path, pair.to_device.sa_id),
    ]
    for item in entries:
        sent = p4runtime.to_update(Update(Kind.INSERT, item)).encode(schema)
        assert p4runtime.from_finsy(P4TableEntry.decode(sent, schema)) == item


def test_a_key_crosses_wrapped_and_the_engine_can_unwrap_it() -> None:
    kek, key = new_kek(), new_sa_key()
    wrapped = KeyWrap(kek).wrap(key)
    assert len(wrapped) == 48
    assert aes_key_unwrap_with_padding(kek, wrapped) == key


def test_rfc_5649_vector() -> None:
    kek = bytes.fromhex("5840df6e29b02af1ab493b705bf16ea1ae8338f4dcc176a8")
    key = bytes.fromhex("c37b7e6492584340bed12207808941155068f738")
    wrapped = "138bdeaa9b8fa7fc61f97742e72248ee5ae6ae5360d1ae6a5f54f373fa543b6a"
    assert KeyWrap(kek).wrap(key).hex() == wrapped


def test_keys_do_not_print_themselves() -> None:
    keys = PairKeys.new()
    assert keys.to_gateway != keys.to_device
    assert repr(keys) == "PairKeys()"


@pytest.mark.parametrize("soft", [1, 1000, 2**36, 2**62])
def test_the_hard_limit_leaves_room_to_rekey(soft: int) -> None:
    ceiling = hard(Limits(soft, soft, soft))
    assert soft + 2**20 <= ceiling.packets < 2**64
    assert soft + 2**30 <= ceiling.bytes < 2**64
    assert hard(Limits()) == Limits()


def test_the_pool_gives_the_lowest_free_address_and_ends() -> None:
    assert free_address("10.99.0.0/30", []) == "10.99.0.1"
    assert free_address("10.99.0.0/30", ["10.99.0.1"]) == "10.99.0.2"
    assert free_address("10.99.0.0/30", ["10.99.0.1", "10.99.0.2"]) is None


async def test_the_reconciler_works_alone_and_is_not_starved() -> None:
    guard, order = Guard(), list[str]()

    async def set_up(name: str) -> None:
        async with guard.shared():
            order.append(f"{name} in")
            await asyncio.sleep(0.01)
            order.append(f"{name} out")

    async def reconcile() -> None:
        async with guard.exclusive():
            order.append("alone in")
            await asyncio.sleep(0.01)
            order.append("alone out")

    await asyncio.gather(set_up("a"), set_up("b"), reconcile(), set_up("late"))
    assert order == ["a in", "b in", "a out", "b out", "alone in", "alone out", "late in", "late out"]


def test_artifacts_are_found_without_a_setting() -> None:
    assert (Path(Settings().p4_artifacts) / "gateway.json").is_file()
