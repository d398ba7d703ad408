"""Fetches a known download and checks every byte. Run as `python -m culvert_lab.download URL`; prints one JSON object."""

from __future__ import annotations

import argparse
import base64
import hashlib
import http.client
import json
import sys
import time
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

CHUNK = 65536
STALL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Download:
    """A received file. `intact` says that every byte came, in its place."""

    expected: int
    received: int
    intact: bool
    seconds: float
    error: str = ""

    @property
    def missing(self) -> int:
        """Bytes lost; all of them when what came is not what was sent."""
        return (
            self.expected
            if not self.intact and self.received == self.expected
            else self.expected - self.received
        )


def fetch(url: str) -> Download:
    """GET the URL. A connection that fails or stalls ends the download: it is a result, not an exception."""
    parts = urlsplit(url)
    began = time.monotonic()
    digest, received, expected, announced, error = hashlib.sha256(), 0, 0, "", ""
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=STALL_SECONDS)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        response = connection.getresponse()
        expected = int(response.headers["Content-Length"])
        announced = response.headers.get("Repr-Digest", "")
        while chunk := response.read1(CHUNK):
            digest.update(chunk)
            received += len(chunk)
    except (OSError, http.client.HTTPException) as problem:
        error = f"{type(problem).__name__}: {problem}"
    finally:
        connection.close()
    computed = f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
    return Download(expected, received, announced == computed, round(time.monotonic() - began, 3), error)


def main() -> None:
    parser = argparse.ArgumentParser(prog="culvert_lab.download", description=__doc__)
    parser.add_argument("url")
    found = fetch(parser.parse_args().url)
    print(json.dumps(asdict(found)))
    sys.exit(0 if found.intact and not found.error else 1)


if __name__ == "__main__":
    main()
