"""Outside: every test of this folder is forwarded into one machine. Inside: the fixtures."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from linux_esp.controller import Controller, issue_certificates
from linux_esp.entries import site_entries
from linux_esp.forwarding import Inside, Outside
from linux_esp.machine import INSIDE
from linux_esp.site import P4RUNTIME, Site, Sluice
from linux_esp.tunnel import Tunnels
from linux_esp.two_tuns import Kernel

_OUTSIDE = pytest.StashKey[Outside]()


def pytest_configure(config: pytest.Config) -> None:
    if INSIDE in os.environ:
        config.pluginmanager.register(Inside(config))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    # pytest asks every conftest about every item.
    if INSIDE in os.environ or Path(__file__).parent not in item.path.parents:
        return None
    session = item.session
    outside = session.stash.setdefault(_OUTSIDE, Outside(session))
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in outside.reports(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # The next test does not need the neighbours that the test before has set up.
    session._setupstate.teardown_exact(nextitem)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _OUTSIDE in session.stash:
        session.stash[_OUTSIDE].close()


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture(scope="session")
def site() -> Site:
    return Site()


@pytest.fixture(scope="session")
def controller(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """The controller of a gateway with its static entries. sluice's log is shown when a test fails."""
    folder = tmp_path_factory.mktemp("gateway")
    issue_certificates(folder)
    sluice = Sluice(folder)
    try:
        controller = Controller(P4RUNTIME, folder)
        controller.insert(site_entries())
        yield controller
        controller.close()
        assert sluice.stop() == 0
    finally:
        print(sluice.log.read_text())


@pytest.fixture(scope="session")
def tunnels(controller: Controller) -> Tunnels:
    return Tunnels(controller)
