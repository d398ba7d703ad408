"""A monitoring's view of an updater that publishes, and then loses its database."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from culvert_db import bind_database, create_engine, dns_role, upgrade
from culvert_db.embedded import EmbeddedPostgres
from culvert_dns_updater.instruments import Instruments
from culvert_dns_updater.monitoring import serve
from culvert_lab.free_port import free_port

from .name_server import Bind
from .world import PASSWORD, World, until

pytestmark = pytest.mark.slow


def asked(url: str, method: str = "GET") -> tuple[int, str]:
    """Status and body; 0 while nobody answers."""
    try:
        answer = httpx.request(method, url, trust_env=False)
    except httpx.TransportError:
        return 0, ""
    return answer.status_code, answer.text


async def test_health_metrics_and_log_tell_how_an_updater_fares(bind: Bind, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        listen = f"127.0.0.1:{port}"
        here = f"http://{listen}"
        monitored = {"CULVERT_DNS_MONITORING_LISTEN": listen, "CULVERT_DNS_LOG_JSON": "true"}
        postgres = EmbeddedPostgres(tmp_path / "pg")
        async with postgres as url:
            engine = create_engine(url)
            await upgrade(engine)
            await dns_role.prepare(engine, url, PASSWORD)
            world = World(url, bind_database(engine), tmp_path)
            assert await (await world.daemon(bind, **monitored)).wait() == 2
            assert f"cannot listen on {listen}" in world.log()
            (tmp_path / "updater.log").unlink()
            taken.close()
            await world.publish_to(bind)
            await world.put({"wiki.corp.example": "10.20.0.10"})
            daemon = await world.daemon(bind, **monitored)
            try:
                await until(lambda: asked(f"{here}/readyz")[0] == 200)
                live = 'culvert_dns_passes_total{outcome="live",zone="corp"}'
                await until(lambda: live in asked(f"{here}/metrics")[1])
                metrics = asked(f"{here}/metrics")[1]
                assert 'culvert_dns_names_written_total{zone="corp"} 1.0' in metrics
                assert "wiki" not in metrics
                assert asked(f"{here}/healthz", "POST")[0] == 405
                assert asked(f"{here}/etc/passwd")[0] == 404
                with socket.create_connection(("127.0.0.1", port)) as nonsense:
                    nonsense.sendall(b"\xff\xfe\r\n")
                    assert b"400" in nonsense.recv(1000)
                await engine.dispose()
                await postgres.stop()
                await until(lambda: asked(f"{here}/readyz")[0] == 503)
                assert asked(f"{here}/healthz")[0] == 200
                assert "culvert_dns_database_up 0.0" in asked(f"{here}/metrics")[1]
            finally:
                daemon.terminate()
                assert await daemon.wait() == 0
    lines = [json.loads(line) for line in world.log().splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert {"1 names written", "1 names live"} <= {
        line["message"] for line in lines if line.get("zone") == "corp"
    }
    assert any(line["message"] == "the database does not answer" and line["why"] for line in lines)


async def test_idle_strangers_neither_keep_a_monitor_out_nor_take_a_thread_each() -> None:
    port = free_port()
    before = threading.active_count()
    with ExitStack() as strangers:
        async with serve(f"127.0.0.1:{port}", Instruments(), lambda: True):
            for _ in range(100):
                stranger = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port))
                strangers.enter_context(stranger)
            assert (await asyncio.to_thread(asked, f"http://127.0.0.1:{port}/healthz"))[0] == 200
            assert threading.active_count() - before < 30
