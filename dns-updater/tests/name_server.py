"""Real name servers, each on a free loopback port and in a directory of its own: TSIG for updates and transfers."""

from __future__ import annotations

import abc
import base64
import secrets
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rdata
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.update
from culvert_lab.free_port import free_port

KEY_NAME = "culvert-dns"
ZONE = "corp.example"

_START_SECONDS = 40.0
# Loaded machines are slow to answer.
_LOOKUP_SECONDS = 10
# A zone of the SOA, an NS, and a host that is not ours.
_ZONE_FILE = """\
$TTL 300
@ SOA ns hostmaster 1 3600 600 86400 60
@ NS ns
ns A 127.0.0.1
mail A 192.0.2.25
mail TXT "kept by hand"
"""


class NameServer(abc.ABC):
    """`key_dir` holds the client's key as KEY_NAME.key. `updates`: whether that key may change the zone."""

    package: str
    program: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = "127.0.0.1"
        self.port = free_port()
        self.key_dir = directory / "keys"
        self.key_dir.mkdir(parents=True)
        self.key_file = self.key_dir / f"{KEY_NAME}.key"
        self.secret = base64.b64encode(secrets.token_bytes(32)).decode()
        self.process: subprocess.Popen[bytes] | None = None
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(self.key_text())
        self.reset()
        self.configure(updates=True)

    @abc.abstractmethod
    def configure(self, *, updates: bool) -> None:
        """Counts from the next start on."""

    @abc.abstractmethod
    def command(self) -> list[str]: ...

    def reset(self) -> None:
        """The zone as it was at first, from the next start on."""
        for left in self.directory.glob(f"{ZONE}.zone*"):
            left.unlink()
        (self.directory / f"{ZONE}.zone").write_text(_ZONE_FILE)

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self.process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, (self.directory / "log").read_text()
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            self.process.wait(20)
            self.process = None

    def freeze(self) -> None:
        """Stop the process: the kernel still accepts connections, and nobody answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def lookup(self, name: str, rtype: str, *, signed: bool = False) -> list[str]:
        """The answer to a resolver now; or the answer to the holder of the key."""
        rrsets = self._answer(name, rtype, signed=signed)
        records = [record for rrset in rrsets for record in cast(Iterable[dns.rdata.Rdata], rrset)]
        return sorted(record.to_text() for record in records)

    def ttls(self, name: str, rtype: str) -> set[int]:
        return {rrset.ttl for rrset in self._answer(name, rtype)}

    def _answer(self, name: str, rtype: str, *, signed: bool = False) -> list[dns.rrset.RRset]:
        query = dns.message.make_query(name, rtype)
        if signed:
            query.use_tsig(dns.tsig.Key(KEY_NAME, self.secret))
        return dns.query.udp(query, self.address, port=self.port, timeout=_LOOKUP_SECONDS).answer

    def edit(self, *edits: tuple[str, str, str], delete: Iterable[tuple[str, str]] = ()) -> None:
        """Change the zone behind the updater's back, as an administrator with nsupdate would."""
        update = dns.update.UpdateMessage(ZONE, keyring=dns.tsig.Key(KEY_NAME, self.secret))
        for name, rtype in delete:
            update.delete(f"{name}.", rtype)
        for name, rtype, rdata in edits:
            update.add(f"{name}.", 300, rtype, rdata)
        answer = dns.query.tcp(update, self.address, port=self.port, timeout=_LOOKUP_SECONDS)
        assert answer.rcode() == dns.rcode.NOERROR, answer

    def spoil_key(self) -> str:
        """Puts another secret into the client's key file; returns the right content."""
        right = self.key_file.read_text()
        other = base64.b64encode(secrets.token_bytes(32)).decode()
        self.key_file.write_text(right.replace(self.secret, other))
        return right

    def key_text(self) -> str:
        return f'key "{KEY_NAME}" {{ algorithm hmac-sha256; secret "{self.secret}"; }};\n'

    def found(self) -> str:
        path = shutil.which(self.program, path="/usr/sbin:/usr/bin")
        assert path is not None, f"install {self.package}"
        return path

    def _answers(self) -> bool:
        query = dns.message.make_query(ZONE, dns.rdatatype.SOA)
        try:
            answer = dns.query.udp(query, self.address, port=self.port, timeout=0.5)
        except (dns.exception.Timeout, OSError):
            return False
        return answer.rcode() == dns.rcode.NOERROR


class Bind(NameServer):
    package, program = "bind9", "named"

    def configure(self, *, updates: bool, journal: str = f"{ZONE}.zone.jnl") -> None:
        who = f"key {KEY_NAME}" if updates else "none"
        (self.directory / "named.conf").write_text(
            f"""
            {self.key_text()}
            options {{
                directory "{self.directory}"; pid-file none; session-keyfile none; recursion no; dnssec-validation no;
                listen-on port {self.port} {{ {self.address}; }}; listen-on-v6 {{ none; }};
                allow-transfer {{ key {KEY_NAME}; }}; notify no;
            }};
            controls {{}};
            zone "{ZONE}" {{
                type primary; file "{ZONE}.zone"; journal "{journal}"; allow-update {{ {who}; }};
            }};
            """
        )

    def command(self) -> list[str]:
        return [self.found(), "-g", "-n", "1", "-c", str(self.directory / "named.conf")]


class BindWithViews(Bind):
    """BIND with two views of one zone name: one for holders of the key, the other for everybody else."""

    def configure(self, *, updates: bool, journal: str = f"{ZONE}.zone.jnl") -> None:
        super().configure(updates=updates, journal=journal)
        file = self.directory / "named.conf"
        options, zone, inside = file.read_text().partition(f'zone "{ZONE}"')
        outside = inside.replace(f"{ZONE}.zone", f"{ZONE}.zone.outside")
        file.write_text(
            f"""
            {options}
            view inside {{ match-clients {{ key {KEY_NAME}; }}; {zone} {inside} }};
            view outside {{ match-clients {{ any; }}; {zone} {outside} }};
            """
        )

    def reset(self) -> None:
        super().reset()
        (self.directory / f"{ZONE}.zone.outside").write_text(_ZONE_FILE)


class BindWith(Bind):
    """`more`: statements of named.conf. `policy`: what the key may update, in place of everything."""

    def __init__(self, directory: Path, more: str = "", policy: str = "") -> None:
        self._more, self._policy = more, policy
        super().__init__(directory)

    def configure(self, *, updates: bool, journal: str = f"{ZONE}.zone.jnl") -> None:
        super().configure(updates=updates, journal=journal)
        file = self.directory / "named.conf"
        text = file.read_text()
        if self._policy:
            text = text.replace(f"allow-update {{ key {KEY_NAME}; }}", f"update-policy {{ {self._policy} }}")
        file.write_text(text + self._more)


class BindAsSecondary(Bind):
    """A secondary that forwards updates to its primary, and asks for changes there once an hour."""

    def __init__(self, directory: Path, primary: Bind) -> None:
        self._primary = primary
        super().__init__(directory)

    def configure(self, *, updates: bool, journal: str = f"{ZONE}.zone.jnl") -> None:
        self.secret = self._primary.secret
        self.key_file.write_text(self.key_text())
        super().configure(updates=updates, journal=journal)
        file = self.directory / "named.conf"
        options, zone, _ = file.read_text().partition(f'zone "{ZONE}"')
        primary = f"{self._primary.address} port {self._primary.port} key {KEY_NAME}"
        file.write_text(
            f"""
            {options} {zone} {{
                type secondary; file "copy"; primaries {{ {primary}; }}; allow-update-forwarding {{ any; }};
            }};
            """
        )


class Knot(NameServer):
    package, program = "knot", "knotd"

    def configure(self, *, updates: bool) -> None:
        actions = "[transfer, update]" if updates else "transfer"
        (self.directory / "knot.conf").write_text(
            f"""
server:
    rundir: "{self.directory}"
    listen: {self.address}@{self.port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: info
database:
    storage: "{self.directory}"
key:
  - id: {KEY_NAME}
    algorithm: hmac-sha256
    secret: {self.secret}
acl:
  - id: culvert
    key: {KEY_NAME}
    action: {actions}
template:
  - id: default
    storage: "{self.directory}"
    acl: culvert
    # The journal is what a change is written to.
    zonefile-sync: -1
    zonefile-load: difference
    journal-content: all
zone:
  - domain: {ZONE}
    file: "{ZONE}.zone"
"""
        )

    def reset(self) -> None:
        super().reset()
        shutil.rmtree(self.directory / "journal", ignore_errors=True)

    def command(self) -> list[str]:
        return [self.found(), "-c", str(self.directory / "knot.conf")]


class KnotWithTypes(Knot):
    """The key may write A and TXT alone."""

    def configure(self, *, updates: bool) -> None:
        super().configure(updates=updates)
        file = self.directory / "knot.conf"
        write = (
            f"transfer\n  - id: write\n    key: {KEY_NAME}\n    action: update\n    update-type: [A, TXT]\n"
        )
        text = file.read_text().replace("[transfer, update]\n", write)
        file.write_text(text.replace("acl: culvert", "acl: [culvert, write]"))


class PowerDns(NameServer):
    """On SQLite. The zone's metadata say which key may do what."""

    package, program = "pdns-server pdns-backend-sqlite3", "pdns_server"

    def configure(self, *, updates: bool) -> None:
        (self.directory / "pdns.conf").write_text(
            f"""
launch=gsqlite3
gsqlite3-database={self.directory}/pdns.sqlite
local-address={self.address}
local-port={self.port}
socket-dir={self.directory}
dnsupdate=yes
allow-dnsupdate-from=127.0.0.0/8
receiver-threads=1
distributor-threads=1
cache-ttl=0
query-cache-ttl=0
negquery-cache-ttl=0
zone-cache-refresh-interval=0
disable-axfr=no
security-poll-suffix=
"""
        )
        if not (self.directory / "pdns.sqlite").exists():
            schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql"
            with sqlite3.connect(self.directory / "pdns.sqlite") as database:
                database.executescript(Path(schema).read_text())
            self._util("load-zone", ZONE, str(self.directory / f"{ZONE}.zone"))
            self._util("import-tsig-key", KEY_NAME, "hmac-sha256", self.secret)
            self._util("set-meta", ZONE, "TSIG-ALLOW-AXFR", KEY_NAME)
        self._util("set-meta", ZONE, "TSIG-ALLOW-DNSUPDATE", KEY_NAME if updates else "nobody")

    def reset(self) -> None:
        super().reset()
        (self.directory / "pdns.sqlite").unlink(missing_ok=True)

    def command(self) -> list[str]:
        return [self.found(), f"--config-dir={self.directory}", "--daemon=no", "--guardian=no"]

    def _util(self, *arguments: str) -> None:
        command = ["/usr/bin/pdnsutil", f"--config-dir={self.directory}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


class PowerDnsWithTypes(PowerDns):
    """A PowerDNS whose policy ignores updates of AAAA without an error."""

    def configure(self, *, updates: bool) -> None:
        super().configure(updates=updates)
        script = self.directory / "policy.lua"
        script.write_text("function updatepolicy(input) return input:getQType() ~= pdns.AAAA end")
        with (self.directory / "pdns.conf").open("a") as conf:
            conf.write(f"lua-dnsupdate-policy-script={script}\n")
