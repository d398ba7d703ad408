"""BIND 9 in the lab: a fresh zone each run, updated (RFC 2136) and transferred (AXFR) by the holder of one TSIG key."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.tsig
import dns.tsigkeyring
import dns.update
import dns.zone

from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.topology import DNS_ADDRESS, ZONE, Site

TSIG_NAME = "culvert-updater"
TSIG_ALGORITHM = "hmac-sha256"
FOREIGN_NAME = f"legacy.{ZONE}"
FOREIGN_ADDRESS = "10.20.0.77"

CONFIGURATION = """\
options {{
    directory "{directory}";
    pid-file none;
    session-keyfile "{directory}/session.key";
    listen-on port 53 {{ {address}; 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    recursion no;
    allow-query {{ any; }};
    allow-transfer {{ key {key}; }};
    dnssec-validation no;
    {notify};
}};
controls {{ }};
include "{directory}/tsig.key";
zone "{zone}" {{
    type primary;
    file "{directory}/{zone}.zone";
    update-policy {{ grant {key} zonesub ANY; }};
}};
"""

# legacy is a foreign record, which Culvert must leave alone.
ZONE_FILE = """\
$TTL 60
@       SOA  ns.{zone}. hostmaster.{zone}. 1 3600 600 86400 5
        NS   ns.{zone}.
ns      A    {address}
legacy  A    {foreign}
"""


@dataclass(frozen=True, slots=True)
class Bind9:
    """A name server that runs. `tsig_secret` is base64; `tsig_file` holds it in BIND's own format, mode 0600."""

    program: Running
    tsig_file: Path
    tsig_secret: str = field(repr=False)
    address: str = DNS_ADDRESS
    zone: str = ZONE
    tsig_name: str = TSIG_NAME
    tsig_algorithm: str = TSIG_ALGORITHM

    def ask(self, name: str, kind: str) -> list[str]:
        """Texts of the answer records, sorted. Call inside a namespace that reaches it. Raises dns.exception.Timeout."""
        answer = dns.query.udp(dns.message.make_query(name, kind), self.address, timeout=2)
        wanted = dns.rdatatype.from_text(kind)
        return sorted(
            rdata.to_text()
            for rrset in answer.answer
            if rrset.rdtype == wanted
            for rdata in rrset.processing_order()
        )

    def update(self, name: str, kind: str, text: str, *, signed: bool = True, add: bool = False) -> str:
        """Replace the record set of a name relative to the zone, or add to it; the answer's code ("NOERROR", "REFUSED")."""
        message = dns.update.Update(self.zone, keyring=self._keyring() if signed else None)
        (message.add if add else message.replace)(name, 60, kind, text)
        return dns.rcode.to_text(dns.query.tcp(message, self.address, timeout=2).rcode())

    def transfer(self, *, signed: bool = True) -> dict[str, set[tuple[str, str]]]:
        """The zone by AXFR: absolute name → {(type, text)}. Raises dns.exception.DNSException when refused."""
        keyring = self._keyring() if signed else None
        zone = dns.zone.from_xfr(
            dns.query.xfr(self.address, self.zone, keyring=keyring, timeout=2, lifetime=5)
        )
        found: dict[str, set[tuple[str, str]]] = {}
        for name, _, rdata in zone.iterate_rdatas():
            absolute = str(name.derelativize(zone.origin or dns.name.root)).rstrip(".")
            found.setdefault(absolute, set()).add((dns.rdatatype.to_text(rdata.rdtype), str(rdata)))
        return found

    def _keyring(self) -> dict[dns.name.Name, dns.tsig.Key]:
        return dns.tsigkeyring.from_text({self.tsig_name: (self.tsig_algorithm, self.tsig_secret)})


async def start(lab: Lab, secondaries: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Bind9:
    """Start BIND with a fresh zone and a fresh key; it notifies the secondaries of changes. Raises ProgramError."""
    directory = lab.work / "bind"
    directory.mkdir(mode=0o700, exist_ok=True)
    secret = base64.b64encode(secrets.token_bytes(32)).decode()
    key_file = directory / "tsig.key"
    with os.fdopen(os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(f'key "{TSIG_NAME}" {{ algorithm {TSIG_ALGORITHM}; secret "{secret}"; }};\n')
    (directory / f"{ZONE}.zone").write_text(
        ZONE_FILE.format(zone=ZONE, address=DNS_ADDRESS, foreign=FOREIGN_ADDRESS)
    )
    also = "".join(f"{address}; " for address in secondaries)
    notify = f"notify explicit; also-notify {{ {also}}}" if secondaries else "notify no"
    (directory / "named.conf").write_text(
        CONFIGURATION.format(
            directory=directory, address=DNS_ADDRESS, key=TSIG_NAME, zone=ZONE, notify=notify
        )
    )
    _copy_named(directory)
    return Bind9(await serve(lab, directory, env=env), key_file, secret)


async def start_again(lab: Lab, stopped: Bind9) -> Bind9:
    """Start a stopped BIND with its zone and its key. Raises ProgramError."""
    return replace(stopped, program=await serve(lab, stopped.tsig_file.parent))


async def serve(
    lab: Lab, directory: Path, name: str = "bind9", env: Mapping[str, str] | None = None
) -> Running:
    """Start the BIND whose `named` and `named.conf` are in this directory. Raises ProgramError."""
    argv = [str(directory / "named"), "-g", "-n", "1", "-c", str(directory / "named.conf")]
    program = await lab.start(name, Site.DNS, argv, env=env)
    await program.ready(r" running$")
    return program


def _copy_named(directory: Path) -> None:
    """AppArmor may confine the original by its path; that profile does not let it read this directory."""
    found = shutil.which("named", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise FileNotFoundError("named is not installed; on Debian: apt-get install bind9")
    shutil.copy2(found, directory / "named")
