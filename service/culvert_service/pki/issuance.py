"""Issuance of certificates: each is checked before it is signed, and signed once.

profile, key, names ─► signed with an untrusted key ─► parsed and checked against the profile ─► Token ─► one signature

So a wrongly built certificate is found before the CA's key signs it.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from culvert_proto import dns_name

# A peer's clock may be this much behind ours.
BACKDATE = datetime.timedelta(minutes=5)
# RFC 5280, section 4.1.2.2: at most 20 octets; 64 random bits are what the CA/Browser Forum asks for.
_SERIAL_BITS_MAX, _SERIAL_BITS_MIN = 159, 64
# RFC 1035, section 2.3.1, in lower case. Not only digits, nor 0x and hexadecimal digits: browsers and inet_aton take such a
# label for an IPv4 address.
_LABEL = re.compile(r"(?!(\d+|0x[0-9a-f]*)$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# RFC 6761, section 6.3.
_LOCALHOST = "localhost"
_EXTENSIONS = {
    x509.BasicConstraints.oid,
    x509.KeyUsage.oid,
    x509.ExtendedKeyUsage.oid,
    x509.SubjectKeyIdentifier.oid,
    x509.AuthorityKeyIdentifier.oid,
}


class IssuanceError(Exception):
    """A fault of the controller: the certificate does not match its profile, or its token was used already."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The rules for all certificates of one kind.

    `named`: the certificate carries the names and addresses at which its holder is reached. `registered`: it carries
    exactly one name, which is one label, is also the common name, and is not reserved.
    """

    usage: x509.ObjectIdentifier
    lifetime: datetime.timedelta
    named: bool
    registered: bool = False


SERVER = Profile(ExtendedKeyUsageOID.SERVER_AUTH, datetime.timedelta(days=397), named=True)
GATEWAY = Profile(ExtendedKeyUsageOID.SERVER_AUTH, datetime.timedelta(days=397), named=True, registered=True)
P4RUNTIME_CLIENT = Profile(ExtendedKeyUsageOID.CLIENT_AUTH, datetime.timedelta(days=397), named=True)
# Short, because it cannot be revoked.
P4RUNTIME_READER = Profile(ExtendedKeyUsageOID.CLIENT_AUTH, datetime.timedelta(days=30), named=True)
DEVICE = Profile(ExtendedKeyUsageOID.CLIENT_AUTH, datetime.timedelta(days=14), named=False)


class Token:
    """The right to one signature by one CA over exactly the checked certificate."""

    def __init__(self, builder: x509.CertificateBuilder, seen: bytes, issuer: bytes) -> None:
        """`seen`: the checked to-be-signed part; `issuer`: the fingerprint of the CA's certificate."""
        self._builder: x509.CertificateBuilder | None = builder
        self._seen = seen
        self._issuer = issuer

    def redeem(self, key: ec.EllipticCurvePrivateKey, issuer: x509.Certificate) -> x509.Certificate:
        """Sign. Raises IssuanceError at the second call, and for another CA."""
        builder, self._builder = self._builder, None
        if builder is None:
            raise IssuanceError("this token has been used")
        if issuer.fingerprint(hashes.SHA256()) != self._issuer:
            raise IssuanceError("this token is for another CA")
        certificate = builder.sign(key, hashes.SHA256())
        if certificate.tbs_certificate_bytes != self._seen:
            raise IssuanceError("the signed certificate is not the checked one")
        return certificate


def prepare(
    profile: Profile,
    public_key: ec.EllipticCurvePublicKey,
    common_name: str,
    names: Sequence[str],
    issuer: x509.Certificate,
    now: datetime.datetime,
    reserved: Collection[str] = (),
) -> Token:
    """Check a certificate. `reserved`: names that a registered holder must not have. Raises IssuanceError."""
    # A certificate must not outlive its CA.
    end = min(now + profile.lifetime, issuer.not_valid_after_utc)
    builder = (
        describe(public_key, common_name, issuer.subject, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([profile.usage]), critical=False)
        .add_extension(authority_key(issuer), critical=False)
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    seen = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    faults = list(_faults(profile, public_key, names, issuer, now, seen))
    if profile.registered:
        faults += _registered_faults(common_name, names, reserved)
    if faults:
        raise IssuanceError(f"a certificate for {common_name} was not signed: {'; '.join(faults)}")
    return Token(builder, seen.tbs_certificate_bytes, issuer.fingerprint(hashes.SHA256()))


def label_fault(name: str, reserved: Collection[str]) -> str | None:
    """The reason why `name` cannot be the name of a registered holder; None when it can."""
    if _LABEL.fullmatch(name) is None:
        return "it is not one label of a host name in lower case"
    if name == _LOCALHOST or name in {canonical(one) for one in reserved}:
        return "it is a name of a controller"
    return None


def canonical(name: str) -> str:
    """The canonical spelling of a DNS name or an address: lower case, no final dot, no brackets, IPv4-mapped as IPv4."""
    bare = dns_name.canonical(name.strip("[]"))
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return bare
    return str(getattr(address, "ipv4_mapped", None) or address)


def describe(
    public_key: ec.EllipticCurvePublicKey,
    common_name: str,
    issuer: x509.Name,
    now: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    """The fields and extensions that all certificates share, also those of CAs."""
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _faults(
    profile: Profile,
    public_key: ec.EllipticCurvePublicKey,
    names: Sequence[str],
    issuer: x509.Certificate,
    now: datetime.datetime,
    seen: x509.Certificate,
) -> Iterator[str]:
    key = seen.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        yield "its key is not on the curve P-256"
    elif key != public_key:
        yield "its key is not the one that was asked for"
    elif key == issuer.public_key():
        yield "its key is the CA's"
    if seen.issuer != issuer.subject:
        yield "it names another issuer"
    if not _SERIAL_BITS_MIN <= seen.serial_number.bit_length() <= _SERIAL_BITS_MAX:
        yield "its serial number is too short or too long"
    if not seen.not_valid_before_utc <= now < seen.not_valid_after_utc <= now + profile.lifetime:
        yield "it is not good from now on for its profile's time"
    if seen.not_valid_after_utc > issuer.not_valid_after_utc:
        yield "it outlives its CA"
    yield from _extension_faults(profile, names, seen.extensions)


def _registered_faults(common_name: str, names: Sequence[str], reserved: Collection[str]) -> Iterator[str]:
    if list(names) != [common_name]:
        yield "its one name is not its common name"
    for name in {common_name, *names}:
        if fault := label_fault(name, reserved):
            yield f"{name}: {fault}"


def _extension_faults(profile: Profile, names: Sequence[str], found: x509.Extensions) -> Iterator[str]:
    wanted = _EXTENSIONS | {x509.SubjectAlternativeName.oid} if profile.named else _EXTENSIONS
    if {one.oid for one in found} != wanted:
        yield "it has not the extensions of its profile"
        return
    constraints = found.get_extension_for_class(x509.BasicConstraints)
    if constraints.value.ca or not constraints.critical:
        yield "it could sign others"
    if found.get_extension_for_class(x509.KeyUsage).value != key_usage(ca=False):
        yield "its key may be used for more than signatures"
    if list(found.get_extension_for_class(x509.ExtendedKeyUsage).value) != [profile.usage]:
        yield "its use is not its profile's"
    if profile.named:
        carried = list(found.get_extension_for_class(x509.SubjectAlternativeName).value)
        if not carried or carried != [_general_name(name) for name in names]:
            yield "its names are not those that were asked for"


def authority_key(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    subject_key = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_key)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
