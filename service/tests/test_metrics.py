"""Prometheus's scrape and a load balancer's probe, of a controller that has had calls and loses its database."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from culvert_db import DnsRecord, DnsState, Gateway, GatewaySample
from culvert_db.embedded import EmbeddedPostgres
from culvert_proto import Reason
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select

from .conftest import World, refused, running, settings_in, until
from .switch import Switch
from .test_failover import spare

pytestmark = pytest.mark.slow


async def scraped(world: World) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and label values, in the order of the labels' names."""
    answer = await world.admin.get("/api/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_calls_tunnels_and_gateways_are_counted(world: World, switch: Switch) -> None:
    device = await world.enrol()
    assert (await refused(device.open())).reason is Reason.CODE_NEEDED
    await device.prove()
    await device.open()
    events = device.watch()
    await anext(events)
    assert (await world.anyone.get("/api/v1/devices/mallory/secret-name")).status_code == 404
    found = await scraped(world)
    assert found["culvert_agent_calls_total", ("OpenTunnel", "OK")] == 1
    assert found["culvert_agent_calls_total", ("OpenTunnel", "CODE_NEEDED")] == 1
    assert found["culvert_agent_call_seconds_count", ("OpenTunnel",)] == 2
    assert found["culvert_tunnels", ("gw-berlin", "up")] == 1
    assert found["culvert_devices", ("pending",)] == 1
    assert found["culvert_devices_watching", ()] == 1
    assert found["culvert_gateway_online", ("gw-berlin",)] == 1
    assert found["culvert_ca_expires_timestamp_seconds", ("device",)] > 1.9e9
    assert found["culvert_rest_calls_total", ("POST", "/enrolments", "201")] == 1
    assert (await scraped(world))["culvert_rest_calls_total", ("GET", "/metrics", "200")] == 1
    assert found["process_resident_memory_bytes", ()] > 0
    labels = {label for _, values in found for label in values}
    assert not {"alice", "mallory", "secret-name", device.id}.intersection(labels)
    assert (await world.anyone.get("/api/v1/metrics")).status_code == 401
    body = {"name": "prometheus", "scopes": ["metrics:read"], "days": 1}
    token = (await world.rest("POST", "/tokens", body))["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert (await world.anyone.get("/api/v1/metrics", headers=bearer)).status_code == 200
    assert (await world.anyone.get("/api/v1/users", headers=bearer)).status_code == 403


async def test_repairs_and_denials_are_counted(
    world: World, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("culvert_service.gateways.link._RECONCILE_SECONDS", 0.05)
    device = await world.enrol()
    await refused(device.open())
    await refused(device.open("nobody.corp.example"))
    (policy,) = await world.rest("GET", "/policies")
    await device.prove()
    async with world.database.begin() as session:
        number = await session.scalar(select(Gateway.id))
        # Newer than any that is taken meanwhile.
        at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        session.add(GatewaySample(gateway_id=number, drops={"icv": 3}, at=at))
        session.add(DnsRecord(name="a", zone="corp", type="A", state=DnsState.FOREIGN))
    async with spare(world):
        opened = (await device.open()).tunnel
        await device.renew(opened.tunnel_id, 1)
        await world.rest("POST", "/gateways/gw-berlin/drain")
        await until(device.open, lambda answer: answer.tunnel.gateway.name == "gw-paris")
    # The next reconciliation is as far away as when the link began.
    switch.silent = True
    await world.online("gw-berlin", wanted="offline")
    switch.silent = False
    await world.online("gw-berlin")
    key = next(key for key, entry in switch.entries.items() if entry.table_id == switch.table("own_address"))
    del switch.entries[key]
    drift = ("culvert_drift_repaired_entries_total", ("gw-berlin", "missing"))
    found = await until(lambda: scraped(world), lambda found: found.get(drift, 0) > 0)
    assert found[drift] == 1
    assert found["culvert_reconcile_seconds_count", ()] >= 2
    assert found["culvert_denials_total", ("tunnel.open", "CODE_NEEDED")] == 1
    assert found["culvert_policy_denials_total", (policy["name"], "CODE_NEEDED")] == 1
    assert found["culvert_policy_denials_total", ("", "NAME_UNKNOWN")] == 1
    assert found["culvert_rekeys_total", ("device",)] == 1
    assert found["culvert_failovers_total", ("gw-berlin",)] == 1
    assert found["culvert_gateway_drops_total", ("icv", "gw-berlin")] == 3
    assert found["culvert_dns_records", ("foreign", "corp")] == 1
    labels = {label for _, values in found for label in values}
    assert not {"alice", "a", "nobody.corp.example", device.id}.intersection(labels)


async def test_without_its_database_it_lives_and_is_not_ready(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "pg")
    async with postgres as url, running(settings_in(tmp_path, database_url=url)) as world:
        ready = {"ready": True, "checks": {"database": "ok"}}
        assert (await world.anyone.get("/readyz")).json() == ready
        await postgres.stop()
        lost = await until(lambda: world.anyone.get("/readyz"), lambda answer: answer.status_code == 503)
        assert lost.json()["ready"] is False
        assert str(tmp_path) not in lost.text
        assert (await world.anyone.get("/healthz")).json() == {"status": "ok", "stuck": []}
        await postgres.start()
        await until(lambda: world.anyone.get("/readyz"), lambda answer: answer.json() == ready)
