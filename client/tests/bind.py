"""BIND 9 on loopback, with the zones that a test writes."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dns.exception
import dns.message
import dns.query
from culvert_client.config import Endpoint
from culvert_lab.free_port import free_port

HEAD = """$TTL 60
@ SOA ns hostmaster 1 3600 600 86400 60
@ NS ns
ns A 127.0.0.1
"""


@contextmanager
def serving_zones(directory: Path, zones: Mapping[str, str], port: int = 0) -> Generator[Endpoint]:
    """`zones` are records by origin, in a zone file's words, behind HEAD."""
    named = shutil.which("named")
    assert named is not None, "BIND 9 is not installed: run make setup-test"
    port = port or free_port()
    for origin, records in zones.items():
        (directory / origin).write_text(HEAD + records)
    (directory / "named.conf").write_text(f"""
        options {{ directory "{directory}"; pid-file none; session-keyfile none; recursion no; dnssec-validation no;
                   listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; }};
        controls {{ }};
        {" ".join(f'zone "{origin}" {{ type primary; file "{origin}"; }};' for origin in zones)}
    """)
    with subprocess.Popen(
        [named, "-g", "-c", directory / "named.conf"], stderr=subprocess.DEVNULL
    ) as process:
        try:
            # named listens before it has read its zones.
            while not all(_serves(origin, port) for origin in zones):
                assert process.poll() is None
                time.sleep(0.1)
            yield Endpoint("127.0.0.1", port)
        finally:
            process.terminate()


def _serves(origin: str, port: int) -> bool:
    query = dns.message.make_query(origin, "SOA")
    try:
        return bool(dns.query.udp(query, "127.0.0.1", timeout=1, port=port).answer)
    except (dns.exception.DNSException, OSError):
        return False
