"""The published part of a resource: its single hosts, under its own name alone."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from culvert_db import Resource
from culvert_dns_updater.store import Store

from .world import World

pytestmark = pytest.mark.slow

TARGETS = [{"prefix": "10.20.0.0/16"}, {"prefix": "10.20.0.10/32"}, {"prefix": "2001:db8:20::10/128"}]


async def test_hosts_are_published_and_neither_prefixes_nor_wildcards(world: World) -> None:
    limits = {"idle_seconds": 60, "soft_packets": 0, "soft_bytes": 0, "soft_seconds": 0, "owner": "bob"}
    async with world.database.begin() as session:
        for fqdn, targets in (
            ("wiki.corp.example", TARGETS),
            ("*.dev.corp.example", TARGETS),
            ("net", TARGETS[:1]),
        ):
            session.add(Resource(name=fqdn, fqdn=fqdn, targets=targets, **limits))
    store = Store(world.database_url, "tester", 10)
    try:
        found = (await store.intent()).resources
    finally:
        await store.close()
    assert set(found) == {("wiki.corp.example", ip_address(it)) for it in ("10.20.0.10", "2001:db8:20::10")}
