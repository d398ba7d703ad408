"""Who connects and shows nothing: cut off after a while, and in nobody's way meanwhile."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from culvert_service import servers

from .conftest import World, free_port, running, settings_in
from .test_live import watching

SILENT = 300
CUT_OFF_SECONDS = 5.0


@pytest.fixture
async def hasty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> AsyncGenerator[World]:
    monkeypatch.setattr(servers, "HANDSHAKE_SECONDS", CUT_OFF_SECONDS)
    monkeypatch.setattr(servers, "REQUEST_SECONDS", CUT_OFF_SECONDS)
    async with running(settings_in(tmp_path, database_url=database_url)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(60):
            while await reader.read(4096):
                pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.slow
async def test_silent_connections_keep_no_device_out_and_are_cut_off(hasty: World) -> None:
    host, port = hasty.settings.agent_listen.rsplit(":", 1)
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(SILENT)]
    for _, writer in silent[::2]:
        # A record that says it is a handshake of 512 bytes, and no more.
        writer.write(bytes.fromhex("1603010200"))
    device = await hasty.enrol()
    await device.prove()
    assert all(await asyncio.gather(*(ended(reader) for reader, _ in silent)))
    await device.prove()
    for _, writer in silent:
        writer.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "owed",
    [
        b"",
        b"GET /api/v1/ca HTTP/1.1\r\nHost:",
        b"POST /api/v1/enrolments HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ],
)
async def test_a_request_that_does_not_come_to_its_end_is_cut_off(hasty: World, owed: bytes) -> None:
    host, port = hasty.settings.rest_listen.rsplit(":", 1)
    tls = ssl.create_default_context(cafile=str(hasty.settings.state_dir / "infrastructure-ca.pem"))
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    writer.write(owed)
    assert await ended(reader)
    writer.close()
    assert (await hasty.anyone.get("/api/v1/ca")).status_code == 200


@pytest.mark.slow
async def test_an_answer_may_take_longer_than_a_request(hasty: World) -> None:
    async with watching(hasty, "gateways") as stream:
        await stream.next()
        await asyncio.sleep(2 * CUT_OFF_SECONDS)
        await hasty.add_gateway("gw-berlin", free_port())
        await stream.until("changed", "gw-berlin")


def test_as_many_connections_as_the_process_may_have() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 1024), before[1]))
        servers.raise_file_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert hard == before[1]
        assert soft == min(hard, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
