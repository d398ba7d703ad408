"""The source of a request: the connection's address, or the address that a trusted proxy reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import World, running, settings_in

FORGED = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9", "X-Real-IP": "203.0.113.9"}


async def source_of(world: World, headers: list[tuple[str, str]]) -> str:
    """The source of a request in the audit log."""
    answer = await world.admin.post(
        "/api/v1/users", json={"name": "bob", "email": "bob@corp.example"}, headers=headers
    )
    assert answer.status_code == 201
    line = (await world.rest("GET", "/audit?action=user.create&limit=1"))[0]
    return line["source"]


async def test_a_forwarded_address_from_an_untrusted_peer_is_not_believed(world: World) -> None:
    assert await source_of(world, list(FORGED.items())) == "127.0.0.1"


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ([], "127.0.0.1"),
        (["203.0.113.9"], "203.0.113.9"),
        (["198.51.100.66, 203.0.113.9"], "203.0.113.9"),
        (["198.51.100.66", "203.0.113.9, 10.1.2.3"], "203.0.113.9"),
        (["203.0.113.9, nonsense"], "127.0.0.1"),
        (["[2001:db8::7]:4711"], "2001:db8::7"),
    ],
)
async def test_the_last_address_that_is_no_trusted_proxy_is_the_source(
    tmp_path: Path, database_url: str, said: list[str], source: str
) -> None:
    trusting = settings_in(
        tmp_path, database_url=database_url, trusted_proxies=["127.0.0.1/32", "10.0.0.0/8"]
    )
    async with running(trusting) as world:
        assert await source_of(world, [("X-Forwarded-For", one) for one in said]) == source
