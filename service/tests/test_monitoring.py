"""Alert rules and dashboard of deploy/monitoring: Prometheus judges them, and a controller exports what they ask for."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .conftest import World

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy/monitoring"
RULES = (MONITORING / "alerts.yml").read_text()
BOARD = json.loads((MONITORING / "dashboard.json").read_text())
# Prometheus makes this one of each scrape.
OWN = {"up"}
METRIC = re.compile(r"\b(?:(?:culvert|process)_\w+|up)\b(?=[{\[) ]|$)")


def asked() -> Iterator[str]:
    """The expressions of all rules and panels."""
    yield from re.findall(r"^ +expr: (.*)$", RULES, re.MULTILINE)
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


@pytest.mark.slow
async def test_each_metric_that_rules_and_dashboard_ask_for_is_exported(world: World) -> None:
    text = (await world.admin.get("/api/v1/metrics")).text
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}
    exported = {
        family.name + suffix
        for family in text_string_to_metric_families(text)
        for suffix in suffixes.get(family.type, ("",))
    }
    wanted = {name for expression in asked() for name in METRIC.findall(expression)}
    assert {"culvert_gateway_online", "culvert_agent_calls_total", "up"} <= wanted
    assert wanted - OWN - exported == set()


def test_each_alert_has_its_runbook() -> None:
    runbooks = (ROOT / "docs/runbooks.md").read_text()
    alerts = re.findall(r"^ +- alert: (\w+)$", RULES, re.MULTILINE)
    assert alerts == re.findall(r"^## (\w+)$", runbooks, re.MULTILINE)
    assert [f"/docs/runbooks#{it.lower()}" for it in alerts] == re.findall(
        r"runbook: (\S+)$", RULES, re.MULTILINE
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", [("check", "rules", "alerts.yml"), ("test", "rules", "tests.yml")])
def test_promtool_accepts_the_rules_and_their_tests_pass(command: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *command], cwd=MONITORING, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
