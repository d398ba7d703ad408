"""A network that wants a sign-in first: what is said, what stays closed, and what passes so that one can sign in."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dns.rcode
import pytest
from culvert_client.controller import connection
from culvert_client.controller.connection import portal_stands_before
from culvert_lab.free_port import free_port
from culvert_proto import Reason, local_pb2

from .name_server import from_records, name_server
from .running import running
from .test_daemon import WIKI, Lab, given, why

PORTAL = "198.51.100.80"
# The portal's resolver gives its own address for every name.
RECORDS = {(name, "A"): [PORTAL] for name in (WIKI, "www.example.org", "portal.example")}


@pytest.fixture(autouse=True)
def port(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own port 80 may be in use."""
    monkeypatch.setattr(connection, "PORTAL_PORT", free_port())


@contextlib.contextmanager
def web_server(status: int, location: str = "") -> Generator[list[str]]:
    """Serves at the port that the client probes. Yields the Host header of each request."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Host"])
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", connection.PORTAL_PORT), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield asked
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


async def test_a_portal_differs_from_an_absent_controller() -> None:
    controller = "127.0.0.1:8444"
    assert not await portal_stands_before(controller)
    for status, location, expected in (
        (302, "http://portal.example/login", True),
        (307, "https://127.0.0.2/", True),
        (511, "", True),
        # The controller's own web server, or a proxy before it.
        (301, "https://127.0.0.1/", False),
        (302, "/login", False),
        (302, "http://[", False),
        (200, "", False),
        (404, "http://portal.example/", False),
    ):
        with web_server(status, location):
            assert await portal_stands_before(controller) is expected, (status, location)


async def test_a_portal_at_the_controllers_address_is_asked_by_its_name() -> None:
    asked = ("192.0.2.1:8444", {"192.0.2.1": "127.0.0.1"}.__getitem__)
    with web_server(301, "https://192.0.2.1/"):
        assert not await portal_stands_before(*asked)
    with web_server(302, "http://portal.example/login"):
        assert await portal_stands_before(*asked)


@pytest.mark.slow
async def test_a_person_behind_a_portal_is_told_and_can_sign_in(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
    port = lab.controller.port
    async with name_server(from_records(RECORDS)) as (resolver, _), running(tmp_path, resolver) as daemon:
        with web_server(302, "http://portal.example/login"):
            told = await daemon.until(lambda it: it.last_error.reason == Reason.CAPTIVE_PORTAL)
            assert told.state == local_pb2.STATE_OFFLINE
            # Names that open the portal are answered; a name that needs a tunnel does not lead to the portal.
            assert given(await daemon.ask("www.example.org")) == {PORTAL}
            assert given(await daemon.ask("portal.example")) == {PORTAL}
            refused = await daemon.ask(WIKI)
            assert refused.rcode() == dns.rcode.SERVFAIL
            assert "sign in" in why(refused)
        async with lab.serving(port):
            signed_in = await daemon.until(lambda it: it.state == local_pb2.STATE_NEEDS_CODE)
            assert signed_in.last_error.reason != Reason.CAPTIVE_PORTAL


@pytest.mark.parametrize("probe", [True, False])
async def test_portal_probe_off_sends_no_request_in_clear(tmp_path: Path, probe: bool) -> None:
    lab = Lab(tmp_path)
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
    async with name_server(from_records(RECORDS)) as (resolver, _):
        with web_server(302, "http://portal.example/login") as asked:
            async with running(tmp_path, resolver, portal_probe=probe) as daemon:
                reason = Reason.CAPTIVE_PORTAL if probe else Reason.CONTROLLER_UNREACHABLE
                await daemon.until(lambda it: it.last_error.reason == reason)
    assert set(asked) == ({"127.0.0.1"} if probe else set())
