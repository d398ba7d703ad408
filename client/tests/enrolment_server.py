"""A small real HTTPS server that answers enrolments and late renewals, and remembers each body that it was sent."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from culvert_proto import CulvertError

from .pki import Authority, write_chain

TOKEN = "one-time-token"
TOTP_URI = "otpauth://totp/Culvert:alice?secret=JBSWY3DPEHPK3PXP&issuer=Culvert"

RECOVERY_CODES = ["abcd-efgh-ijkl-mn23", "abcd-efgh-ijkl-mn24"]

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


class Enrolments:
    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self.bodies: list[dict[str, Any]] = []

    def link(self, authority: Authority) -> str:
        return f"culvert://enroll?controller=https://{self.address}:{self.port}&token={TOKEN}&ca=sha256:{authority.fingerprint}"


@contextlib.contextmanager
def enrolment_server(
    directory: Path,
    issuer: Authority,
    answer: Answer,
    shown: Authority | None = None,
    address: str = "127.0.0.1",
    ahead: int = 0,
    renewals: Answer = lambda _: (404, {"reason": "NOT_FOUND"}),
) -> Generator[Enrolments]:
    """`issuer` signs the server's certificate, which is for `address`; `shown` is the CA that the server claims to have.

    Its clock is `ahead`, in seconds. `renewals` answers both calls of a late renewal; the one for a challenge has no body.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            server.bodies.append(body)
            status, document = (renewals if self.path.startswith("/api/v1/renewals") else answer)(body)
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # The client may have been killed meanwhile.
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.end_headers()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string((time.time() if timestamp is None else timestamp) + ahead)

        def log_message(self, format: str, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        *write_chain(directory, *issuer.issue("controller", address), (shown or issuer).pem)
    )
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True, do_handshake_on_connect=False)
    server = Enrolments(address, httpd.server_address[1])
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def accepts(issuer: Authority, devices: Authority, agent_address: str) -> Answer:
    """Answer as the controller does."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if "csr_pem" not in body:
            return 200, {"user": "alice", "user_display_name": "Alice Liddell"}
        return 201, {
            "device_id": "d1",
            "user": "alice",
            "certificate_pem": devices.sign(body["csr_pem"].encode()).decode(),
            "ca_pem": issuer.pem.decode(),
            "agent_address": agent_address,
            "totp_uri": TOTP_URI,
            "recovery_codes": RECOVERY_CODES,
        }

    return answer


def refuses(error: CulvertError) -> Answer:
    problem = {"reason": error.reason.name, "detail": error.message, "remedy": error.remedy}
    return lambda _: (error.entry.http, problem | {"fields": error.fields})
