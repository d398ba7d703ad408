"""A real BIND 9 on a free loopback port, in a directory of its own: TSIG for updates and transfers, nothing else."""

from __future__ import annotations

import base64
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import dns.exception
import dns.message
import dns.query
import dns.rdata
import dns.rdatatype
import dns.tsig
import dns.update

KEY_NAME = "culvert-dns"
ZONE = "corp.example"

_START_SECONDS = 15.0


class NameServer:
    """`key_file` is what a client needs; `bare_zone` content is the SOA, an NS, and a host that is not ours."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()
        self.address = "127.0.0.1"
        self.port = _free_port()
        self.key_file = directory / "client.key"
        self._secret = base64.b64encode(secrets.token_bytes(32)).decode()
        self._process: subprocess.Popen[bytes] | None = None
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(self._key_text())
        (directory / "db.corp.example").write_text(
            "$TTL 300\n"
            "@ SOA ns hostmaster 1 3600 600 86400 60\n"
            "@ NS ns\n"
            "ns A 127.0.0.1\n"
            "mail A 192.0.2.25\n"
            'mail TXT "kept by hand"\n'
        )
        self.configure(update_policy=f"allow-update {{ key {KEY_NAME}; }};")

    def configure(self, *, update_policy: str) -> None:
        (self._directory / "named.conf").write_text(
            f"""
            {self._key_text()}
            options {{
                directory "{self._directory}"; pid-file none; session-keyfile none; recursion no; dnssec-validation no;
                listen-on port {self.port} {{ {self.address}; }}; listen-on-v6 {{ none; }};
                allow-transfer {{ key {KEY_NAME}; }}; notify no;
            }};
            controls {{}};
            zone "{ZONE}" {{ type primary; file "db.corp.example"; {update_policy} }};
            """
        )

    def start(self) -> None:
        named = shutil.which("named", path="/usr/sbin:/usr/bin")
        assert named is not None, "install bind9"
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [named, "-g", "-n", "1", "-c", str(self._directory / "named.conf")], stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self._directory / "log").read_text()
            assert time.monotonic() < deadline, "named did not start"
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(10)
            self._process = None

    def lookup(self, name: str, rtype: str) -> list[str]:
        """What a resolver would be told now."""
        query = dns.message.make_query(name, rtype)
        answer = dns.query.udp(query, self.address, port=self.port, timeout=5)
        records = [record for rrset in answer.answer for record in cast(Iterable[dns.rdata.Rdata], rrset)]
        return sorted(record.to_text() for record in records)

    def edit(self, *edits: tuple[str, str, str]) -> None:
        """Add (name, type, rdata) behind the updater's back, as an administrator with nsupdate would."""
        key = dns.tsig.Key(KEY_NAME, self._secret)
        update = dns.update.UpdateMessage(ZONE, keyring=key)
        for name, rtype, rdata in edits:
            update.add(f"{name}.", 300, rtype, rdata)
        dns.query.tcp(update, self.address, port=self.port, timeout=5)

    def spoil_key(self) -> str:
        """Puts another secret into the client's key file; returns the right content."""
        right = self.key_file.read_text()
        other = base64.b64encode(secrets.token_bytes(32)).decode()
        self.key_file.write_text(right.replace(self._secret, other))
        return right

    def _key_text(self) -> str:
        return f'key "{KEY_NAME}" {{ algorithm hmac-sha256; secret "{self._secret}"; }};\n'

    def _answers(self) -> bool:
        query = dns.message.make_query(ZONE, dns.rdatatype.SOA)
        try:
            dns.query.udp(query, self.address, port=self.port, timeout=0.5)
        except (dns.exception.Timeout, OSError):
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
