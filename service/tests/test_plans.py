"""The queries of OpenTunnel and RenewTunnel scan no table that grows with devices, tunnels or resources."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import asyncpg
import pytest
from culvert_db import Statement
from culvert_db.engine import SERVER_SETTINGS
from culvert_service.audit import transaction
from culvert_service.identity import repository as identity
from culvert_service.tunnels import hot_queries, repository

GROWING = {"devices", "resources", "tunnels", "security_associations", "addresses", "audit_lines"}

# When the pool's end is reached, those of the whole gateway are read.
WHOLE = {"_TAKEN", "_RELEASE", "_TUNNELS_OF_GATEWAY", "_SHAPES_OF_GATEWAY"}

FILL = """
SET session_replication_role = replica;
INSERT INTO users (name, email) VALUES ('alice', 'alice@corp.example');
INSERT INTO gateways (name, address, p4runtime_address, p4runtime_device_id, pool, wan, lan, kek_ciphertext)
  VALUES ('gw-berlin', '198.51.100.1', '127.0.0.1:9559', 1, '10.96.0.0/14', '{}', '{}', 'x');
INSERT INTO devices (id, user_id, name, state, fingerprint, certificate_serial, certificate_expires_at)
  SELECT gen_random_uuid(), 1, 'laptop', 'approved', sha256(n::text::bytea), n::text, now()
  FROM generate_series(1, 5000) n;
INSERT INTO resources (name, fqdn, owner, targets, idle_seconds, soft_packets, soft_bytes, soft_seconds)
  SELECT 'host-' || n, 'host-' || n || '.corp.example', 'bob', '[{}]', 1, 0, 0, 0 FROM generate_series(1, 2000) n;
INSERT INTO addresses (gateway_id, device_id, address)
  SELECT 1, id, '10.96.0.0'::inet + row_number() OVER () FROM devices;
-- All to one resource: to be one of many does not find them.
INSERT INTO tunnels (id, device_id, resource_id, gateway_id, state, generation, peer_address, peer_port, endpoint,
                     permitted_until, policy_version)
  SELECT gen_random_uuid(), id, 1, 1, 'up', 1, '203.0.113.10', 4500, row_number() OVER (), now(), 1 FROM devices;
INSERT INTO security_associations (tunnel_id, device_id, gateway_id, direction, generation, slot, spi, sa_id, tag)
  SELECT id, device_id, gateway_id, direction, 1, endpoint, 1000 + endpoint,
         2 * endpoint + (direction = 'to_gateway')::int, 1
  FROM tunnels, unnest(ARRAY['to_gateway', 'to_device']) direction;
INSERT INTO resource_gateways (resource_id, gateway_id, position) SELECT id, 1, 0 FROM resources;
ANALYZE;
"""


def statements() -> Iterator[tuple[str, Statement]]:
    for module in (transaction, identity, hot_queries, repository):
        for name, value in vars(module).items():
            if isinstance(value, Statement) and name not in WHOLE:
                yield name, value


def whole(plan: dict[str, Any]) -> Iterator[str]:
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for part in plan.get("Plans", ()):
        yield from whole(part)


@pytest.fixture
async def connection(database_url: str) -> AsyncGenerator[Any]:
    driver: Any = asyncpg
    connection = await driver.connect(database_url.replace("+asyncpg", ""), server_settings=SERVER_SETTINGS)
    yield connection
    await connection.close()


# A plan that PostgreSQL makes for empty tables is used later for full ones.
@pytest.mark.parametrize("filled", [True, False], ids=["thousands", "empty"])
@pytest.mark.slow
async def test_no_statement_on_a_clicks_way_reads_a_table_that_grows(connection: Any, filled: bool) -> None:
    if filled:
        await connection.execute(FILL)
    read: dict[str, set[str]] = {}
    for name, statement in statements():
        await connection.execute(f"PREPARE asked AS {statement.text}")
        values = ", ".join(["NULL"] * len(statement._names))
        plan = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked{f'({values})' * bool(values)}")
        await connection.execute("DEALLOCATE asked")
        if found := GROWING.intersection(whole(json.loads(plan)[0]["Plan"])):
            read[name] = found
    assert read == {}
