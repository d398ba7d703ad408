"""The intranet's web server: a wiki page, and downloads whose every byte is known. Run as `python -m culvert_lab.web`.

GET /                        the page; holds MARKER, which a capture outside of the tunnel must never show
GET /download?bytes=N&rate=R N known bytes (R bytes a second, 0 or absent: as fast as TCP goes), SHA-256 in Repr-Digest
GET /downloads               JSON: for each finished download what TCP had to send twice
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from culvert_lab.topology import MARKER

BLOCK = 65536
LARGEST = 1 << 32
SETTLE_SECONDS = 1.0


def generate_bytes(total: int) -> Iterator[bytes]:
    """`total` bytes that depend on their position alone, in blocks."""
    for start in range(0, total, BLOCK):
        yield hashlib.shake_128(start.to_bytes(8)).digest(min(BLOCK, total - start))


def repr_digest(total: int) -> str:
    """The Repr-Digest field (RFC 9530 section 3) of `generate_bytes(total)`."""
    digest = hashlib.sha256()
    for block in generate_bytes(total):
        digest.update(block)
    return f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"


class Resent(NamedTuple):
    """The repeats of a connection's sender (linux/tcp.h, struct tcp_info).

    A repeat is needless when the receiver reported it as a duplicate (RFC 2883): nothing had been lost.
    """

    unacknowledged: int
    resent_segments: int
    resent_bytes: int
    needless_segments: int

    @property
    def is_settled(self) -> bool:
        return not self.unacknowledged and self.resent_segments <= self.needless_segments


def resent(connection: socket.socket) -> Resent:
    """Read it from the kernel."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    raw += bytes(256 - len(raw))
    (unacknowledged,) = struct.unpack_from("=I", raw, 24)
    (segments,) = struct.unpack_from("=I", raw, 100)
    (count,) = struct.unpack_from("=Q", raw, 208)
    (needless,) = struct.unpack_from("=I", raw, 216)
    return Resent(unacknowledged, segments, count, needless)


class Intranet(ThreadingHTTPServer):
    """The server. `downloads` grows by one for each download that ended; `quiet` is notified when none is running."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, Handler)
        self.downloads: list[dict[str, int]] = []
        self.running = 0
        self.quiet = threading.Condition()


class Handler(BaseHTTPRequestHandler):
    """A connection."""

    protocol_version = "HTTP/1.1"
    server_version = "CorpWiki"
    sys_version = ""
    server: Intranet  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/":
            self._body("text/html; charset=utf-8", self._page().encode())
        elif url.path == "/wiki.css":
            self._body("text/css", files("culvert_lab").joinpath("pages/wiki.css").read_bytes())
        elif url.path == "/download":
            self._download(parse_qs(url.query))
        elif url.path == "/downloads":
            with self.server.quiet:
                self.server.quiet.wait_for(lambda: not self.server.running, 2 * SETTLE_SECONDS)
                self._body("application/json", json.dumps(self.server.downloads).encode())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _page(self) -> str:
        template = files("culvert_lab").joinpath("pages/index.html").read_text()
        return template.format(
            client=self.client_address[0],
            server=str(self.connection.getsockname()[0]),
            host=html.escape(self.headers.get("Host", "")),
            time=time.strftime("%H:%M:%S"),
            marker=MARKER,
        )

    def _body(self, kind: str, body: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _download(self, query: dict[str, list[str]]) -> None:
        try:
            total, rate = int(query["bytes"][0]), int(query.get("rate", ["0"])[0])
        except (KeyError, ValueError):
            self.send_error(HTTPStatus.BAD_REQUEST, "bytes and rate are whole numbers")
            return
        if not (0 <= total <= LARGEST and rate >= 0):
            self.send_error(HTTPStatus.BAD_REQUEST, f"bytes is at most {LARGEST}")
            return
        with self.server.quiet:
            self.server.running += 1
        try:
            self._send(total, rate)
        finally:
            state = self._settle()
            with self.server.quiet:
                self.server.downloads.append(state._asdict())
                self.server.running -= 1
                self.server.quiet.notify_all()

    def _send(self, total: int, rate: int) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(total))
        self.send_header("Repr-Digest", repr_digest(total))
        self.end_headers()
        began, sent = time.monotonic(), 0
        for block in generate_bytes(total):
            self.wfile.write(block)
            sent += len(block)
            if rate:
                time.sleep(max(0.0, began + sent / rate - time.monotonic()))

    def _settle(self) -> Resent:
        # The receiver reports a repeat one round trip after it has acknowledged the data.
        deadline = time.monotonic() + SETTLE_SECONDS
        while not (state := resent(self.connection)).is_settled and time.monotonic() < deadline:
            time.sleep(0.005)
        return state


def main() -> None:
    parser = argparse.ArgumentParser(prog="culvert_lab.web", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    options = parser.parse_args()
    server = Intranet((options.address, options.port))
    print(f"ready on {options.address}:{options.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
