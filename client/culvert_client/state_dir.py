"""What the daemon keeps on disk of one organisation, all of it 0600 in a 0700 directory.

identity/       device.key  device.pem  ca.pem  enrolment.json: replaced as a whole
profile.json    the last profile: its prefixes are blocked before the controller answers
tunnels.json    name → tunnel id of what the controller holds for this device
gateway         the pinned gateway
paused          until when, in Unix seconds
consent.json    the person's answers: which public networks the organisation may carry, and which not
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from culvert_proto import agent_pb2
from google.protobuf import json_format

from culvert_client.core.consent import Consent
from culvert_client.core.grant import TunnelId


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this device is to the controller. `owner` is the uid that enrolled it."""

    controller: str
    agent_address: str
    device_id: str
    user: str
    owner: int
    certificate_pem: bytes = field(repr=False)
    ca_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)


_PEM_FILES = {"certificate_pem": "device.pem", "ca_pem": "ca.pem", "key_pem": "device.key"}
_FACTS = "enrolment.json"

KEPT = ("profile.json", "tunnels.json", "gateway", "paused", "consent.json")
"""What belongs to an identity, beside it."""


class StateDir:
    """Raises OSError when the directory cannot be used. What is unreadable inside counts as absent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)

    def identity(self) -> Identity | None:
        directory = self._path / "identity"
        if not directory.exists():
            # A power cut came between the two renamings.
            directory = self._path / "identity-old"
        try:
            facts: dict[str, Any] = json.loads((directory / _FACTS).read_text())
            facts |= {name: (directory / file).read_bytes() for name, file in _PEM_FILES.items()}
            return Identity(**facts)
        except (OSError, ValueError, TypeError):
            return None

    def keep_identity(self, identity: Identity) -> None:
        """Replace the identity, and forget what belonged to the one before."""
        self.keep_renewed(identity)
        for name in KEPT:
            (self._path / name).unlink(missing_ok=True)
        # A missing file would mean an enrolment from before persons were asked, with consent to all that it has.
        self.keep_consent(Consent())

    def keep_renewed(self, identity: Identity) -> None:
        """The same device's next certificate and key."""
        fresh = Path(tempfile.mkdtemp(prefix="identity-", dir=self._path))
        values = asdict(identity)
        # Neither an invitation nor a certificate before the last is good again: this must outlive a power cut.
        for name, file in _PEM_FILES.items():
            write_private(fresh / file, values.pop(name), durable=True)
        write_private(fresh / _FACTS, json.dumps(values).encode(), durable=True)
        current, old = self._path / "identity", self._path / "identity-old"
        if current.exists():
            shutil.rmtree(old, ignore_errors=True)
            current.rename(old)
        fresh.rename(current)
        shutil.rmtree(old, ignore_errors=True)

    def profile(self) -> agent_pb2.Profile | None:
        try:
            return json_format.Parse((self._path / "profile.json").read_text(), agent_pb2.Profile())
        except (OSError, json_format.ParseError, UnicodeDecodeError):
            return None

    def keep_profile(self, profile: agent_pb2.Profile) -> None:
        self._replace("profile.json", json_format.MessageToJson(profile).encode())

    def tunnels(self) -> dict[str, TunnelId]:
        try:
            stored: dict[Any, Any] = json.loads((self._path / "tunnels.json").read_text())
            return {str(fqdn): TunnelId(str(tunnel_id)) for fqdn, tunnel_id in stored.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def keep_tunnels(self, tunnels: Mapping[str, TunnelId]) -> None:
        self._replace("tunnels.json", json.dumps(dict(tunnels)).encode())

    def gateway(self) -> str:
        try:
            return (self._path / "gateway").read_text()
        except (OSError, UnicodeDecodeError):
            return ""

    def keep_gateway(self, gateway: str) -> None:
        self._replace("gateway", gateway.encode())

    def paused_until(self) -> int:
        """0: not paused."""
        try:
            return int((self._path / "paused").read_text())
        except (OSError, ValueError):
            return 0

    def keep_pause(self, until: int) -> None:
        if until:
            self._replace("paused", str(until).encode())
        else:
            (self._path / "paused").unlink(missing_ok=True)

    def consent(self) -> Consent | None:
        """The person's answers. None without a file (from before persons were asked); an unreadable file has no answers."""
        try:
            stored: dict[str, Any] = json.loads((self._path / "consent.json").read_text())
            agreed, declined = (frozenset(map(ip_network, stored[name])) for name in ("agreed", "declined"))
            return Consent(agreed, declined)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError):
            return Consent()

    def keep_consent(self, consent: Consent) -> None:
        answers = {"agreed": consent.agreed, "declined": consent.declined}
        stored = {name: sorted(map(str, prefixes)) for name, prefixes in answers.items()}
        self._replace("consent.json", json.dumps(stored).encode())

    def _replace(self, name: str, content: bytes) -> None:
        fresh = self._path / f".{name}.new"
        fresh.unlink(missing_ok=True)
        write_private(fresh, content)
        fresh.replace(self._path / name)


def write_private(path: Path, content: bytes, *, durable: bool = False) -> None:
    """A file that is not there yet, 0600; `durable` outlives a power cut."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
