"""A key-encryption key (KEK) file that is replaced under a running switch: controllers and readers see the change, and a
controller deletes the earlier key."""

from __future__ import annotations

import asyncio
import hmac
import os
from pathlib import Path

import pytest
import sluice_entries as entries
from finsy.proto import p4r
from gateway_authority import CLIENT, Authority
from gateway_entries import KEK
from google.protobuf import wrappers_pb2
from raw_client import Code, RawClient
from sluice_rig import Controller, Sluice

pytestmark = pytest.mark.slow

READER_NAME = "culvert-reader"
EVERYTHING = p4r.ExternEntry(extern_type_id=0x81)


@pytest.fixture
def arguments(arguments: dict[str, str]) -> dict[str, str]:
    return {**arguments, "--reader-name": READER_NAME}


def named(kek: bytes) -> p4r.ExternEntry:
    entry = p4r.ExternEntry(extern_type_id=0x81, extern_id=0x81000001)
    fingerprint = hmac.digest(kek, b"culvert key-encryption key", "sha256")
    entry.entry.Pack(wrappers_pb2.BytesValue(value=fingerprint))
    return entry


def update(kind: p4r.Update.Type.ValueType, entry: p4r.ExternEntry) -> p4r.Update:
    return p4r.Update(type=kind, entity=p4r.Entity(extern_entry=entry))


async def keks(client: RawClient, asked: p4r.ExternEntry = EVERYTHING) -> list[p4r.ExternEntry]:
    return [one.extern_entry for one in await client.read(p4r.Entity(extern_entry=asked))]


async def has(client: RawClient, *expected: bytes) -> None:
    async with asyncio.timeout(20):
        while await asyncio.sleep(0.1, await keks(client) != list(map(named, expected))):
            pass


def put(file: Path, kek: bytes, mode: int = 0o600) -> None:
    """Replaces the file as a tool that keeps times does: only its inode shows the change."""
    fresh, before = file.with_suffix(".fresh"), file.stat()
    fresh.write_bytes(kek)
    fresh.chmod(mode)
    os.utime(fresh, ns=(before.st_atime_ns, before.st_mtime_ns))
    fresh.replace(file)


def overwrite(file: Path, kek: bytes) -> None:
    """Rewrites the file in place: only its time of change (ctime) shows it."""
    before = file.stat()
    file.write_bytes(kek)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_a_replaced_file_is_the_newest_kek_and_an_earlier_one_deletable(
    arguments: dict[str, str], sluice: Sluice, address: str, infrastructure: Authority, controller: Controller
) -> None:
    file, first, second = Path(arguments["--kek"]), bytes([1] * 32), bytes([2] * 32)
    infrastructure.issue("reader", READER_NAME, CLIENT)
    async with controller() as switch:
        await switch.insert(entries.site())
        async with (
            RawClient(address, infrastructure) as client,
            RawClient(address, infrastructure, certificate="reader") as reader,
        ):
            client.election_id = switch.election_id
            assert await keks(client) == [named(KEK)]
            # An unusable file changes nothing.
            for content, mode in ((first, 0o644), (first[1:], 0o600)):
                put(file, content, mode)
                await sluice.says("open to others" if mode == 0o644 else "exactly 32 raw bytes")
                assert await keks(client) == [named(KEK)]
            put(file, first)
            await has(client, first, KEK)
            overwrite(file, second)
            await has(client, second, first, KEK)
            assert await keks(reader, named(first)) == [named(first)]
            assert await keks(reader, named(bytes(32))) == []

            forget = update(p4r.Update.DELETE, named(KEK))
            assert (await reader.refused(reader.write(forget)))[0] is Code.PERMISSION_DENIED
            assert await client.write(
                update(p4r.Update.INSERT, named(bytes(32))),
                update(p4r.Update.MODIFY, named(first)),
                update(p4r.Update.DELETE, named(second)),
                update(p4r.Update.DELETE, named(bytes(32))),
                update(p4r.Update.DELETE, p4r.ExternEntry(extern_type_id=0x81)),
                update(p4r.Update.DELETE, p4r.ExternEntry(extern_type_id=0x82)),
            ) == [
                Code.INVALID_ARGUMENT,
                Code.INVALID_ARGUMENT,
                Code.FAILED_PRECONDITION,
                Code.NOT_FOUND,
                Code.INVALID_ARGUMENT,
                Code.UNIMPLEMENTED,
            ]
            # A rollback could not restore the key.
            assert await client.write(forget, atomicity="ROLLBACK_ON_ERROR") == [Code.UNIMPLEMENTED]
            assert await keks(client) == [named(second), named(first), named(KEK)]
            assert await client.write(forget) == [Code.OK]
            assert await keks(client) == [named(second), named(first)]
