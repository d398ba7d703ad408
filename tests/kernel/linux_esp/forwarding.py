"""Tests of this folder run inside one machine; outside, each is reported as if it had run here.

pytest here                            pytest in the machine
  item 1 ─ first of this folder ─boot─►  -m pytest item 1 … item n
  item 1 ◄───────── reports ───────────    item 1
  item 2 ◄───────── reports ───────────    item 2       one JSON object a line, in the machine's folder
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, TextIO

import pytest

from linux_esp.machine import INSIDE, Machine, MachineError

SILENCE_SHARE = 0.75
"""pytest's limit for a test: longer than the test takes, boot included."""
ROOT = Path(__file__).parents[3]


class Outside:
    """Boots at the first item, and hands over what comes back."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._machine: Machine | None = None
        self._failure: str | None = None
        self._reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
        self._stream: TextIO | None = None
        self._partial = ""

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        """All reports of one test. A machine that fails fails every test that it has not reported."""
        try:
            if self._failure is None:
                self._collect(item.nodeid, _patience(item))
        except MachineError as error:
            self._failure = str(error)
        found = self._reports[item.nodeid]
        if found and found[-1].when == "teardown":
            return found
        reason = self._failure or "The machine has not run this test."
        return [*found, pytest.TestReport(item.nodeid, item.location, {}, "failed", reason, "call")]

    def _collect(self, wanted: str, patience: float) -> None:
        machine = self._machine or self._boot()
        deadline = time.monotonic() + patience
        while True:
            ended = machine.ended()  # looked at before the stream, so that the last reports are not missed
            if self._read():
                deadline = time.monotonic() + patience
            found = self._reports[wanted]
            if found and found[-1].when == "teardown":
                return
            if ended:
                machine.status()
                raise MachineError(f"The machine ended without this test. {machine.said()}")
            if time.monotonic() > deadline:
                machine.kill()
                raise MachineError(
                    f"Nothing from the machine for {patience:g} s; it was killed. {machine.said()}"
                )
            time.sleep(0.02)

    def _boot(self) -> Machine:
        here = Path(__file__).parents[1]
        items = [item.nodeid for item in self._session.items if here in item.path.parents]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *items]
        # Bytecode makes the second run's start faster, and belongs with what is built.
        pycache = {"PYTHONPYCACHEPREFIX": str(ROOT / "build/machine-pycache")}
        self._machine = Machine(command, ROOT, {"HOME": "/root", **pycache})
        reports = self._machine.folder / "reports"
        reports.touch()
        self._stream = reports.open(encoding="utf-8")
        return self._machine

    def _read(self) -> bool:
        assert self._stream is not None
        text = self._stream.read()
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            data: dict[str, Any] = json.loads(line)
            if data["outcome"] == "skipped" and "wasxfail" not in data:
                # JSON has no tuples: pytest wants the place and the reason of a skipped test as one.
                data["longrepr"] = tuple(data["longrepr"])
            report = self._session.config.hook.pytest_report_from_serializable(
                config=self._session.config, data=data
            )
            self._reports[report.nodeid].append(report)
        return bool(text)

    def close(self) -> None:
        if self._machine is not None:
            with self._machine:
                pass


def _patience(item: pytest.Item) -> float:
    own = item.get_closest_marker("timeout")
    return SILENCE_SHARE * float(item.config.getini("timeout") if own is None else own.args[0])


class Inside:
    """Writes each report to the file at once: a machine that dies later has still told."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file = Path(os.environ[INSIDE], "reports").open("a", encoding="utf-8")  # noqa: SIM115 - as long as the run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data: dict[str, Any] = self._config.hook.pytest_report_to_serializable(
            config=self._config, report=report
        )
        self._file.write(json.dumps(data, default=str) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
