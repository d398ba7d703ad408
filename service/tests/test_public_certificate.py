"""The certificate that browsers get from files: what is refused, replaced files, and devices, which get Culvert's own."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from culvert_proto.own_ca import ask_for_own_ca
from culvert_service.config import split_listen
from culvert_service.controller.database import open_database
from culvert_service.controller.lifecycle import Controller
from culvert_service.pki.public_certificate import CertificateFaultError, CertificateFiles, check
from culvert_service.setup import examination
from culvert_service.setup.answers import Answers

from .conftest import running, settings_in, until

NAME = "vpn.corp.example"
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Company:
    """A CA of a company: root, intermediate, and what it issues."""

    def __init__(self) -> None:
        self._root_key, self._key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self.root = self._sign("Root", self._root_key, "Root", self._root_key, ca=True)
        self.intermediate = self._sign("Intermediate", self._key, "Root", self._root_key, ca=True)

    def issue(
        self,
        names: Sequence[str] = (NAME,),
        begins: datetime.timedelta = -DAY,
        ends: datetime.timedelta = 30 * DAY,
        use: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
    ) -> tuple[bytes, bytes]:
        """Chain and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = self._sign(
            "server", key, "Intermediate", self._key, names=names, begins=begins, ends=ends, use=use
        )
        return pem(leaf) + pem(self.intermediate), key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def _sign(
        self,
        subject: str,
        key: ec.EllipticCurvePrivateKey,
        issuer: str,
        by: ec.EllipticCurvePrivateKey,
        *,
        names: Sequence[str] = (),
        begins: datetime.timedelta = -DAY,
        ends: datetime.timedelta = 300 * DAY,
        use: x509.ObjectIdentifier | None = None,
        ca: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + begins)
            .not_valid_after(NOW + ends)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
            )
        if use is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        return builder.sign(by, hashes.SHA256())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


def fault(chain: bytes, key: bytes, name: str = NAME) -> str:
    with pytest.raises(CertificateFaultError) as caught:
        check(chain, key, name, NOW)
    assert "Remedy: " in str(caught.value)
    return str(caught.value)


def test_a_certificate_with_its_chain_and_key_is_taken(company: Company) -> None:
    assert check(*company.issue(), NAME, NOW).expires_at.date() == (NOW + 30 * DAY).date()
    assert check(*company.issue(["*.corp.example"]), NAME, NOW)
    # Authorities end a chain at an intermediate or at the root.
    chain, key = company.issue()
    assert check(chain + pem(company.root), key, NAME, NOW)


def test_each_fault_is_named_with_a_remedy(company: Company) -> None:
    chain, key = company.issue()
    assert "no PEM certificate" in fault(b"nothing", key)
    assert "no PEM private key" in fault(chain, b"nothing")
    assert "not the first certificate's" in fault(chain, company.issue()[1])
    parts = chain.split(b"-----END CERTIFICATE-----\n")
    first, second = (part + b"-----END CERTIFICATE-----\n" for part in parts[:2])
    assert "put the certificate of the name first" in fault(second + first, key)
    assert "has not issued" in fault(first + pem(company.root), key)
    assert "ended at" in fault(*company.issue(ends=-DAY / 2))
    assert "begins at" in fault(*company.issue(begins=DAY))
    assert "browsers use vpn.corp.example" in fault(*company.issue(["other.corp.example"]))
    assert "browsers use" in fault(*company.issue(["*.corp.example"]), name="a.b.corp.example")
    assert "browsers use" in fault(*company.issue(["*.example"]))
    assert "not for servers" in fault(*company.issue(use=ExtendedKeyUsageOID.CLIENT_AUTH))


def test_a_bad_replacement_leaves_the_last_good_one(tmp_path: Path, company: Company) -> None:
    certificate, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    files = CertificateFiles(certificate, key, NAME, lambda: NOW)
    assert files.current is None
    assert "No such file" in files.fault
    write(certificate, key, company.issue())
    files.look()
    good = files.current
    assert good is not None
    assert files.fault == ""
    write(certificate, key, company.issue(["other.corp.example"]))
    files.look()
    assert files.current == good
    assert "browsers use" in files.fault
    write(certificate, key, company.issue())
    files.look()
    assert files.current != good
    assert files.fault == ""


def test_setup_examines_the_files(tmp_path: Path, company: Company) -> None:
    certificate, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    told = Answers(NAME, ("corp.example",), certificate=(str(certificate), str(key)))
    missing = examination.certificate(told, None)
    assert missing is not None
    assert "No such file" in missing.wrong
    write(certificate, key, company.issue(["other.corp.example"]))
    other = examination.certificate(told, None)
    assert other is not None
    assert "browsers use" in other.wrong
    assert other.remedy
    write(certificate, key, company.issue())
    good = examination.certificate(told, None)
    assert good is not None
    assert good.wrong == ""
    assert told.settings(tmp_path, any_host="[::]")["public_key_file"] == str(key)


def write(certificate: Path, key: Path, pair: tuple[bytes, bytes]) -> None:
    for file, content in zip((certificate, key), pair, strict=True):
        fresh = file.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(file)


async def shown(listen: str, context: ssl.SSLContext, name: str) -> bytes:
    """The certificate, DER, of a handshake that trusts the context's CAs."""
    host, port = split_listen(listen)
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return found


@pytest.mark.slow
async def test_browsers_get_it_and_culverts_programs_get_their_own(
    tmp_path: Path, database_url: str, company: Company
) -> None:
    certificate, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    write(certificate, key, company.issue([NAME, "localhost"]))
    settings = settings_in(
        tmp_path,
        database_url=database_url,
        server_names=[NAME],
        public_certificate_file=certificate,
        public_key_file=key,
    )
    async with running(settings) as plain:
        ours = ssl.create_default_context(cafile=str(settings.state_dir / "infrastructure-ca.pem"))
        theirs = ssl.create_default_context(cadata=pem(company.root).decode())
        listen = settings.rest_listen
        # Its name is 127.0.0.1 here, and the certificate is for another: Culvert's own is shown, and the reason told.
        await shown(listen, ours, "127.0.0.1")
        told = await plain.rest("GET", "/controller")
        assert "browsers use 127.0.0.1" in told["public_certificate_fault"]
        assert told["own_certificate"]
    listening = settings.model_copy(
        update={"public_rest_url": f"https://localhost:{split_listen(listen)[1]}"}
    )
    async with open_database(listening) as database, Controller(listening, database):
        first = await shown(listen, theirs, "localhost")
        ask_for_own_ca(ours)
        await shown(listen, ours, "localhost")
        write(certificate, key, company.issue(["localhost"]))
        await until(lambda: shown(listen, theirs, "localhost"), lambda found: found != first)
