"""The daemon's files of one organisation, all of them 0600 in a 0700 directory.

identity/       device.key  device.pem  ca.pem  enrolment.json: replaced as a whole
profile.json    the last profile: its prefixes are blocked before the controller answers
tunnels.json    name → tunnel id, for the tunnels that the controller has for this device
gateway         the pinned gateway
paused          the end of the pause, in Unix seconds
consent.json    the person's answers about public networks

Each of the last five has a checksum and a copy (state_file.py). If both are unreadable:

profile.json, consent.json   all prefixes that the organisation might protect are blocked
identity/                    the profile's prefixes stay blocked; only a new enrolment helps
gateway, paused              the choice is forgotten, with a warning
tunnels.json                 the tunnels of the last run are not closed; their keys are not used again
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from culvert_proto import CulvertError, agent_pb2
from culvert_proto.phrases import Phrase
from google.protobuf import json_format

from culvert_client import state_file
from culvert_client.core.consent import Consent
from culvert_client.core.grant import TunnelId
from culvert_client.state_file import sync_directory, unreadable, why_unread, write_private


@dataclass(frozen=True, slots=True)
class Identity:
    """The device's identity at the controller. `owner`: the uid of the user who enrolled it."""

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
"""The files that belong to an identity, beside it."""


class StateDir:
    """Raises OSError if the directory cannot be used. Unless `made`, nothing is written before the first `keep_…` call.

    With a `fault`, the content counts as unreadable: no identity, and an unreadable profile.
    """

    def __init__(self, path: Path, *, made: bool = True, fault: CulvertError | None = None) -> None:
        self.path, self._fault = path, fault
        if made:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.stat().st_mode & 0o777 != 0o700:
                path.chmod(0o700)

    def identity(self) -> Identity | None:
        directory = self.path / "identity"
        try:
            if not directory.exists():
                # A power cut happened between the two renamings.
                directory = self.path / "identity-old"
            facts: dict[str, Any] = json.loads((directory / _FACTS).read_text())
            facts |= {name: (directory / file).read_bytes() for name, file in _PEM_FILES.items()}
            return Identity(**facts)
        except (OSError, ValueError, TypeError):
            return None

    def keep_identity(self, identity: Identity) -> None:
        """Replace the identity, and delete the former one's files."""
        self.keep_renewed(identity)
        for name in KEPT:
            state_file.remove(self.path / name)
        # Write an empty profile, because a missing one counts as lost.
        self.keep_profile(agent_pb2.Profile())
        # Write an empty consent, because a missing one means an old enrolment with consent to all of its networks.
        self.keep_consent(Consent())

    def keep_renewed(self, identity: Identity) -> None:
        """The same device's next certificate and key."""
        fresh = Path(tempfile.mkdtemp(prefix="identity-", dir=self.path))
        values = asdict(identity)
        try:
            # Must survive a power cut: the invitation and the previous certificate cannot be used again.
            for name, file in _PEM_FILES.items():
                write_private(fresh / file, values.pop(name), durable=True)
            write_private(fresh / _FACTS, json.dumps(values).encode(), durable=True)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        current, old = self.path / "identity", self.path / "identity-old"
        if current.exists():
            shutil.rmtree(old, ignore_errors=True)
            current.rename(old)
        fresh.rename(current)
        sync_directory(self.path)
        shutil.rmtree(old, ignore_errors=True)

    @property
    def is_enrolled(self) -> bool:
        """True also with an unreadable identity."""
        return self._identity_directory is not None

    @property
    def _identity_directory(self) -> Path | None:
        """The identity's directory. One whose presence cannot be checked counts as present."""
        return next(
            (it for it in (self.path / "identity", self.path / "identity-old") if _may_exist(it)), None
        )

    def check_identity(self) -> None:
        """Raises CulvertError STATE_UNREADABLE, which names the file, unless the identity is intact or absent."""
        directory = self._identity_directory
        if directory is None:
            return
        parsers: dict[str, Callable[[bytes], object]] = {
            _FACTS: json.loads,
            "device.pem": x509.load_pem_x509_certificate,
            "ca.pem": x509.load_pem_x509_certificate,
            "device.key": lambda pem: load_pem_private_key(pem, None),
        }
        for name, parse in parsers.items():
            try:
                parse((directory / name).read_bytes())
            except OSError as error:
                raise unreadable(directory / name, why_unread(error)) from None
            except (ValueError, TypeError, UnsupportedAlgorithm):
                raise unreadable(directory / name, Phrase("it is damaged")) from None
        if self.identity() is None:
            raise unreadable(directory / _FACTS, Phrase("a different version wrote it"))

    @property
    def profile_path(self) -> Path:
        return self.path / "profile.json"

    def profile(self) -> agent_pb2.Profile | None:
        """Raises CulvertError STATE_UNREADABLE: the protected prefixes are then unknown."""
        if self._fault is not None:
            raise self._fault
        return state_file.read(self.profile_path, _profile)

    def keep_profile(self, profile: agent_pb2.Profile) -> None:
        """Raises CulvertError STATE_UNREADABLE for a newer version's file, which is not overwritten."""
        state_file.write(self.profile_path, json_format.MessageToJson(profile).encode())

    def room(self) -> AbstractContextManager[None]:
        return state_file.room(self.path)

    def path_of(self, name: str) -> Path:
        return self.path / name

    def tunnels(self) -> dict[str, TunnelId]:
        """Raises CulvertError STATE_UNREADABLE, as all reading methods."""
        return state_file.read(self.path / "tunnels.json", _tunnels) or {}

    def keep_tunnels(self, tunnels: Mapping[str, TunnelId]) -> None:
        # Not durable: it changes with each tunnel, and a lost change does little harm.
        state_file.write(self.path / "tunnels.json", json.dumps(dict(tunnels)).encode(), durable=False)

    def gateway(self) -> str:
        return state_file.read(self.path / "gateway", bytes.decode) or ""

    def keep_gateway(self, gateway: str) -> None:
        state_file.write(self.path / "gateway", gateway.encode())

    def paused_until(self) -> int:
        """0: not paused."""
        return state_file.read(self.path / "paused", int) or 0

    def keep_pause(self, until: int) -> None:
        if until:
            state_file.write(self.path / "paused", str(until).encode())
        else:
            state_file.remove(self.path / "paused")

    def consent(self) -> Consent | None:
        """The person's answers. None without a file (from before persons were asked).

        Raises CulvertError STATE_UNREADABLE.
        """
        return state_file.read(self.path / "consent.json", _consent)

    def keep_consent(self, consent: Consent) -> None:
        answers = {"agreed": consent.agreed, "declined": consent.declined}
        stored = {name: sorted(map(str, prefixes)) for name, prefixes in answers.items()}
        state_file.write(self.path / "consent.json", json.dumps(stored).encode())


def _may_exist(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True


def _profile(content: bytes) -> agent_pb2.Profile:
    try:
        return json_format.Parse(content.decode(), agent_pb2.Profile(), ignore_unknown_fields=True)
    except json_format.ParseError:
        raise ValueError from None


def _tunnels(content: bytes) -> dict[str, TunnelId]:
    stored: dict[Any, Any] = json.loads(content)
    return {str(fqdn): TunnelId(str(tunnel_id)) for fqdn, tunnel_id in stored.items()}


def _consent(content: bytes) -> Consent:
    stored: dict[str, Any] = json.loads(content)
    agreed, declined = (frozenset(map(ip_network, stored[name])) for name in ("agreed", "declined"))
    return Consent(agreed, declined)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
