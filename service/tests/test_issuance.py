"""A CA signs what was looked at, and that once."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_service.pki import issuance
from culvert_service.pki.authority import Authority, make_authority
from culvert_service.pki.issuance import DEVICE, SERVER, IssuanceError, Profile, Token, prepare

NOW = datetime.datetime.now(datetime.UTC)


def ca() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    pem = make_authority("device")
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key, x509.load_pem_x509_certificate(pem)


CA_KEY, CA = ca()


def fresh_key() -> ec.EllipticCurvePublicKey:
    return ec.generate_private_key(ec.SECP256R1()).public_key()


def token() -> Token:
    return prepare(SERVER, fresh_key(), "gw", ("gw.example", "192.0.2.1"), CA, NOW)


def test_a_token_signs_once_and_under_its_own_ca() -> None:
    one = token()
    certificate = one.redeem(CA_KEY, CA)
    certificate.verify_directly_issued_by(CA)
    with pytest.raises(IssuanceError, match="has been used"):
        one.redeem(CA_KEY, CA)
    other_key, other = ca()
    stolen = token()
    with pytest.raises(IssuanceError, match="another CA"):
        stolen.redeem(other_key, other)
    with pytest.raises(IssuanceError, match="has been used"):
        stolen.redeem(CA_KEY, CA)


def test_a_certificate_does_not_outlive_its_ca(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("culvert_service.pki.authority.CA_LIFETIME", datetime.timedelta(days=3))
    authority = Authority(make_authority("device"))
    assert authority.issue_device(fresh_key(), "one").expires_at == authority.expires_at


@pytest.mark.parametrize(
    ("common_name", "names"),
    [
        ("gw", ("gw", "vpn.example.org")),
        ("gw", ("other",)),
        ("gw", ("gw", "192.0.2.1")),
        ("vpn", ("vpn",)),
        ("vpn", ("gw",)),
        ("localhost", ("localhost",)),
        ("culvert-controller", ("culvert-controller",)),
        *((name, (name,)) for name in ("*", "*.example.org", "VPN", "vpn.", "vpn.example.org", "")),
        *((name, (name,)) for name in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "2130706433", "0x7f000001")),
    ],
)
def test_a_gateways_certificate_carries_its_own_name_and_no_controllers(
    common_name: str, names: tuple[str, ...]
) -> None:
    reserved = ("VPN.", "vpn.example.org", "127.0.0.1", "culvert-controller")
    with pytest.raises((IssuanceError, ValueError)):
        prepare(issuance.GATEWAY, fresh_key(), common_name, names, CA, NOW, reserved)
    prepare(issuance.GATEWAY, fresh_key(), "gw", ("gw",), CA, NOW, reserved).redeem(CA_KEY, CA)


def test_names_are_compared_in_one_spelling() -> None:
    for one, other in (
        ("VPN.Example.org.", "vpn.example.org"),
        ("[::ffff:192.0.2.1]", "192.0.2.1"),
        ("2001:DB8:0::1", "2001:db8::1"),
    ):
        assert issuance.canonical(one) == issuance.canonical(other)


@pytest.mark.parametrize(
    ("profile", "names", "key", "why"),
    [
        (SERVER, (), fresh_key(), "extensions"),
        (DEVICE, ("wiki.corp.example",), fresh_key(), "extensions"),
        (DEVICE, (), ec.generate_private_key(ec.SECP384R1()).public_key(), "P-256"),
        (DEVICE, (), CA.public_key(), "the CA's"),
    ],
)
def test_a_certificate_outside_of_its_profile_is_not_signed(
    profile: Profile, names: tuple[str, ...], key: ec.EllipticCurvePublicKey, why: str
) -> None:
    with pytest.raises(IssuanceError, match=why):
        prepare(profile, key, "gw", names, CA, NOW)


def test_the_lint_finds_a_wrong_time_or_serial_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuance, "BACKDATE", datetime.timedelta(days=-1))
    with pytest.raises(IssuanceError, match="profile's time"):
        token()
    monkeypatch.undo()
    monkeypatch.setattr(x509, "random_serial_number", lambda: 7)
    with pytest.raises(IssuanceError, match="serial number"):
        token()
