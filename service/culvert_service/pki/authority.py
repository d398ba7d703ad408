"""Three certificate authorities (docs/decisions, 3 and 27), P-256.

infrastructure CA ──► the controller's server certificate and P4Runtime client certificate: devices and gateways trust it
gateway CA        ──► each gateway's server certificate, for its registered name alone: controllers trust it
device CA         ──► device client certificates, and nothing else: controllers trust it
  previous CAs        trusted until the last certificate that they issued has expired
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from culvert_proto.phrases import Phrase

from culvert_service import private_files
from culvert_service.pki import issuance, rotation
from culvert_service.pki.issuance import Profile, Token

CA_LIFETIME = datetime.timedelta(days=3650)
# The dNSName that a gateway requires of its P4Runtime client.
P4RUNTIME_CLIENT_NAME = "culvert-controller"
# The dNSName of clients with read access only, if the gateway is started with that name.
P4RUNTIME_READER_NAME = "culvert-reader"
P4RUNTIME_NAMES = frozenset({P4RUNTIME_CLIENT_NAME, P4RUNTIME_READER_NAME})

# Name constraints of the gateway CA (RFC 5280, section 4.2.1.10): no addresses, and not localhost.
_NO_HOST_OF_OTHERS = x509.NameConstraints(
    permitted_subtrees=None,
    excluded_subtrees=[
        x509.IPAddress(ipaddress.ip_network("0.0.0.0/0")),
        x509.IPAddress(ipaddress.ip_network("::/0")),
        x509.DNSName("localhost"),
    ],
)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate; `fingerprint` is the SHA-256 of its DER."""

    pem: bytes
    fingerprint: bytes
    serial: str
    expires_at: datetime.datetime


class PrivateKey:
    """A P-256 key with its certificate. `repr` omits the key."""

    def __init__(self, key_pem: bytes, certificate: Issued) -> None:
        self.key_pem = key_pem
        self.certificate = certificate

    def __repr__(self) -> str:
        return f"PrivateKey(serial={self.certificate.serial})"


class Authority:
    """A CA. Its key stays in this object and in one file of mode 0600."""

    def __init__(self, pem: bytes, earlier: bytes = b"", crossed: bytes = b"") -> None:
        """`earlier`: the certificates of the previous CAs; `crossed`: the cross-certificates that they issued. PEM."""
        self._source: tuple[Path, str] | None = None
        self._take(pem, earlier, crossed)

    def _take(self, pem: bytes, earlier: bytes, crossed: bytes) -> None:
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("a CA key is a P-256 key")
        self._key = key
        self._certificate = x509.load_pem_x509_certificate(pem)
        self._earlier, self._crossed = earlier, crossed

    @classmethod
    def load(cls, state_dir: Path, name: str) -> Authority:
        """Load state_dir/NAME-ca.key, and create it at first use; NAME-ca.pem is the certificate alone."""
        pem = private_files.read_or_make(state_dir / f"{name}-ca.key", lambda: make_authority(name))
        authority = cls(
            pem, rotation.earlier(state_dir, name), rotation.read_cross_certificates(state_dir, name)
        )
        authority._source = state_dir, name
        private_files.write(state_dir / f"{name}-ca.pem", authority.pem)
        return authority

    def refresh(self) -> bool:
        """Load the new CA if a rotation has replaced this one. Returns whether it has."""
        if self._source is None:
            return False
        state_dir, name = self._source
        pem = (state_dir / f"{name}-ca.key").read_bytes()
        found = rotation.earlier(state_dir, name), rotation.read_cross_certificates(state_dir, name)
        if pem.endswith(self.pem) and found == (self._earlier, self._crossed):
            return False
        self._take(pem, *found)
        private_files.write(state_dir / f"{name}-ca.pem", self.pem)
        return True

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def trusted_pem(self) -> bytes:
        """Its certificate, and those of previous CAs that are still trusted."""
        return self.pem + self._earlier

    @property
    def crossed_pem(self) -> bytes:
        """Cross-certificates: this CA's key certified by previous CAs, for peers that know only those."""
        return self._crossed

    @property
    def fingerprint(self) -> bytes:
        return self._certificate.fingerprint(hashes.SHA256())

    @property
    def expires_at(self) -> datetime.datetime:
        return self._certificate.not_valid_after_utc

    def issue_server(self, common_name: str, names: Sequence[str]) -> PrivateKey:
        """Issue for serverAuth, with DNS names and IP addresses. Raises IssuanceError, as the other methods."""
        return self._make(issuance.SERVER, common_name, names)

    def issue_gateway(self, name: str, reserved: Collection[str]) -> PrivateKey:
        """Issue as `issue_gateway_certificate`, for a key that is made here."""
        key = ec.generate_private_key(ec.SECP256R1())
        issued = self.issue_gateway_certificate(key.public_key(), name, reserved)
        return PrivateKey(_key_pem(key), issued)

    def issue_gateway_certificate(
        self, public_key: ec.EllipticCurvePublicKey, name: str, reserved: Collection[str]
    ) -> Issued:
        """Issue for serverAuth, with only this name, by which controllers identify the gateway at any address. `reserved`:
        the names of controllers.
        """
        kept = P4RUNTIME_NAMES.union(reserved)
        return self._sign(self._prepare(issuance.GATEWAY, public_key, name, [name], kept))

    def issue_p4runtime_client(self) -> PrivateKey:
        """Issue for clientAuth, with the one name that gateways accept for writing."""
        return self._make(issuance.P4RUNTIME_CLIENT, P4RUNTIME_CLIENT_NAME, [P4RUNTIME_CLIENT_NAME])

    def issue_p4runtime_reader(self) -> PrivateKey:
        """Issue for clientAuth, with the name of clients that only read."""
        return self._make(issuance.P4RUNTIME_READER, P4RUNTIME_READER_NAME, [P4RUNTIME_READER_NAME])

    def issue_device(self, public_key: ec.EllipticCurvePublicKey, device_id: str) -> Issued:
        """Issue for clientAuth, valid for 14 days."""
        return self._sign(self._prepare(issuance.DEVICE, public_key, device_id, []))

    def _make(self, profile: Profile, common_name: str, names: Sequence[str]) -> PrivateKey:
        key = ec.generate_private_key(ec.SECP256R1())
        token = self._prepare(profile, key.public_key(), common_name, names)
        return PrivateKey(_key_pem(key), self._sign(token))

    def _prepare(
        self,
        profile: Profile,
        public_key: ec.EllipticCurvePublicKey,
        common_name: str,
        names: Sequence[str],
        reserved: Collection[str] = (),
    ) -> Token:
        now = datetime.datetime.now(datetime.UTC)
        return issuance.prepare(profile, public_key, common_name, names, self._certificate, now, reserved)

    def _sign(self, token: Token) -> Issued:
        """The only place where the CA's key signs."""
        certificate = token.redeem(self._key, self._certificate)
        return Issued(
            certificate.public_bytes(serialization.Encoding.PEM),
            certificate.fingerprint(hashes.SHA256()),
            f"{certificate.serial_number:x}",
            certificate.not_valid_after_utc,
        )


def make_authority(name: str) -> bytes:
    """Key and certificate, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    common_name = f"Culvert {name} CA"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    described = (
        issuance.describe(key.public_key(), common_name, subject, now, now + CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(issuance.key_usage(ca=True), critical=True)
    )
    if name == "gateway":
        described = described.add_extension(_NO_HOST_OF_OTHERS, critical=True)
    certificate = described.sign(key, hashes.SHA256())
    return _key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)


def cross_certify(earlier: bytes, fresh: bytes) -> bytes:
    """The certificate that `earlier` issues for `fresh`, PEM. Both arguments are keys with certificates, PEM.

    Both CAs must have the same name, so that the certification path does not get longer (RFC 5280, section 4.2.1.9).
    """
    key = serialization.load_pem_private_key(earlier, password=None)
    issuer, subject = x509.load_pem_x509_certificate(earlier), x509.load_pem_x509_certificate(fresh)
    public_key = subject.public_key()
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(
        public_key, ec.EllipticCurvePublicKey
    ):
        raise TypeError("a CA key is a P-256 key")
    if issuer.subject != subject.subject:
        raise ValueError(Phrase("a CA can only replace a CA of the same name"))
    now = datetime.datetime.now(datetime.UTC)
    common_name = str(subject.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    certificate = (
        issuance.describe(public_key, common_name, issuer.subject, now, issuer.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(issuance.key_usage(ca=True), critical=True)
        .add_extension(issuance.authority_key(issuer), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
