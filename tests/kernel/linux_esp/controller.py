"""A controller: finsy on an event loop of its own, so that tests stay plain functions."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import finsy as fy
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
P4INFO, PROGRAM = ROOT / "p4/build/gateway.p4info.txtpb", ROOT / "p4/build/gateway.json"
CLIENT_NAME = "culvert-controller"
ANSWER_SECONDS = 30.0


class Controller:
    """Connected, with the program pushed. Every method waits for the switch's answer and raises what finsy raises."""

    def __init__(self, address: str, certificates: Path) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        credentials = fy.GRPCCredentialsTLS(
            cacert=certificates / "ca.pem",
            cert=certificates / "controller.pem",
            private_key=certificates / "controller.key",
        )
        options = fy.SwitchOptions(p4info=P4INFO, p4blob=PROGRAM, channel_credentials=credentials)
        self._switch = fy.Switch("gateway", address, options)
        self._wait(self._switch.__aenter__())

    def insert(self, entries: Sequence[fy.P4TableEntry]) -> None:
        self._wait(self._switch.insert(entries))

    def modify(self, entries: Sequence[fy.P4TableEntry]) -> None:
        self._wait(self._switch.modify(entries))

    def delete(self, entries: Sequence[fy.P4TableEntry]) -> None:
        self._wait(self._switch.delete(entries))

    def drops(self) -> dict[int, int]:
        """Packets dropped so far, by cause (p4/gateway/metadata.p4); causes without any are left out."""
        counters: Iterable[Any] = self._wait(self._read(fy.P4CounterEntry("drops")))
        return {entry.index: entry.packet_count for entry in counters if entry.packet_count}

    async def _read(self, asked: Any) -> list[Any]:
        answers = cast(AsyncIterator[Any], self._switch.read([asked]))
        return [entity async for entity in answers]

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(ANSWER_SECONDS)

    def close(self) -> None:
        self._wait(self._switch.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)


def issue_certificates(folder: Path) -> None:
    """`ca.pem`, and `gateway` and `controller` each as .pem and .key."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _name("infrastructure")
    constraint = x509.BasicConstraints(ca=True, path_length=0)
    builder = _builder(authority, authority, authority_key.public_key()).add_extension(constraint, True)
    _write(folder / "ca.pem", builder.sign(authority_key, hashes.SHA256()))
    for name, dns_name, usage in (
        ("gateway", "gateway", ExtendedKeyUsageOID.SERVER_AUTH),
        ("controller", CLIENT_NAME, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.IPAddress(ipaddress.ip_address("10.255.0.2"))
        names = x509.SubjectAlternativeName([x509.DNSName(dns_name), address])
        builder = _builder(_name(name), authority, key.public_key()).add_extension(names, False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        _write(folder / f"{name}.pem", builder.sign(authority_key, hashes.SHA256()))
        form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, form, secret)
        (folder / f"{name}.key").write_bytes(pem)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1))
    return builder.not_valid_after(now + datetime.timedelta(days=1))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
