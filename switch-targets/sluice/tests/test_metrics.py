"""`--metrics`: what a Prometheus server scrapes."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator

import pytest
from gateway_entries import V4
from gateway_rig import Gateway, new_tunnel, to_server
from gateway_wires import Relay
from sluice_rig import SWITCH, Sluice

pytestmark = pytest.mark.slow

PORT = 9101


@pytest.fixture
def metrics_option(arguments: dict[str, str]) -> None:
    arguments["--metrics"] = f"127.0.0.1:{PORT}"


@pytest.fixture
def page(metrics_option: None, sluice: Sluice) -> Iterator[str]:
    relay = Relay(PORT, SWITCH)
    yield relay.address
    relay.close()


def get(page: str, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(page, timeout=5)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type", ""), text


def scrape(page: str) -> dict[str, float]:
    code, kind, text = get(page, "/metrics")
    assert code == 200
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def test_without_a_program(page: str) -> None:
    samples = scrape(page)
    assert samples["sluice_program_present"] == 0
    assert samples["sluice_p4runtime_primary"] == 0
    assert samples['sluice_port_received_packets_total{port="1",interface="wan"}'] == 0
    assert not any(name.startswith("sluice_table_entries") for name in samples)


def test_there_is_no_other_page(page: str) -> None:
    assert get(page, "/")[0] == 404


async def test_packets_entries_and_writes_are_counted(
    metrics_option: None, wired: Gateway, page: str
) -> None:
    tunnel = new_tunnel()
    await wired.insert(tunnel.entries())
    sealed = wired.seal(tunnel, to_server(V4), 1)
    wired.wan.send(sealed)
    received = wired.lan.receive()
    assert received is not None
    await asyncio.sleep(1.5)
    samples = await asyncio.to_thread(scrape, page)
    wan, lan = 'port="1",interface="wan"', 'port="2",interface="lan"'
    assert samples[f"sluice_port_received_packets_total{{{wan}}}"] == 1
    assert samples[f"sluice_port_received_bytes_total{{{wan}}}"] == len(sealed)
    assert samples[f"sluice_port_sent_packets_total{{{lan}}}"] == 1
    assert samples[f"sluice_port_sent_bytes_total{{{lan}}}"] == len(received)
    assert samples['sluice_table_entries{table="GatewayIngress.open.sad_in"}'] == 1
    assert samples['sluice_p4runtime_writes_total{code="OK"}'] >= 2
    assert samples["sluice_p4runtime_primary"] == 1
    assert samples["sluice_program_present"] == 1
    assert samples['sluice_pipeline_faults_total{cause="too_many_passes"}'] == 0
