"""Checks everything that a controller needs, and gives each fault's remedy."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from culvert_db import Database, UntrustedDatabaseError, refusal, why_away
from culvert_db.start_failure import PostgresFailedError
from culvert_proto import CulvertError
from sqlalchemy.exc import SQLAlchemyError

from culvert_service.audit import verifier
from culvert_service.audit.cut import CutKey
from culvert_service.config import ConfigurationError, Settings
from culvert_service.controller.database import open_for_reading
from culvert_service.gateways.config import kek_of
from culvert_service.oidc.service import provider_from_settings
from culvert_service.operation import repository
from culvert_service.operation.rest_client import CallRefusedError, call
from culvert_service.pki.authority import Authority
from culvert_service.pki.master_key import MasterKey, MasterKeyError
from culvert_service.pki.public_certificate import CertificateFaultError
from culvert_service.pki.public_certificate import check as check_certificate

_SECRETS = ("master.key", "infrastructure-ca.key", "gateway-ca.key", "device-ca.key", "admin-token")
# A CA that expires sooner than this is a finding.
_SOON = datetime.timedelta(days=90)
# The same for a gateway's certificate: an operator replaces a bundle by hand, and a renewal is due long before.
_BUNDLE_SOON = datetime.timedelta(days=30)
# The tolerated clock difference: codes and certificates depend on the time.
_CLOCK = datetime.timedelta(seconds=5)
# The same for the public certificate, of which some are valid for a week.
_PUBLIC_SOON = datetime.timedelta(days=3)
_CERTIFICATE_SECONDS = 5.0
# RFC 8305, section 8: after this time without an answer the name's next address is tried as well.
_NEXT_ADDRESS_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Finding:
    """`wrong`: the fault, or empty."""

    what: str
    wrong: str = ""
    remedy: str = ""


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


async def examine(settings: Settings) -> AsyncGenerator[Finding]:
    """Check without changing anything. Checks that depend on a faulty item are skipped."""
    files = _files(settings.state_dir)
    yield files
    if not files.wrong:
        for name in ("infrastructure", "gateway", "device"):
            yield _authority(settings.state_dir, name)
    missing = [
        name
        for name in ("gateway.json", "gateway.p4info.txtpb", "crypto_host.json", "crypto_host.p4info.txtpb")
        if not (settings.p4_artifacts / name).is_file()
    ]
    yield Finding(
        "gateway program",
        f"{settings.p4_artifacts} lacks {' and '.join(missing)}" if missing else "",
        "Set p4_artifacts to the directory of the compiled program.",
    )
    if (certificate := _public_certificate(settings)) is not None:
        yield certificate
    if settings.oidc_issuer is not None:
        yield await _provider(settings)
    try:
        async with open_for_reading(settings) as database:
            async for finding in _database(settings, database, keys=not files.wrong):
                yield finding
    except (ConfigurationError, PostgresFailedError, SQLAlchemyError, OSError) as error:
        telling = (ConfigurationError, PostgresFailedError, UntrustedDatabaseError)
        named = [str(it) for it in (error, error.__cause__) if isinstance(it, telling)]
        wrong = named[0] if named else why_away(error) or refusal(error) or type(error).__name__
        yield Finding(
            "database", wrong, "Check database_url and that Postgres runs; the first time, run init."
        )
        return
    try:
        gateways = await call(settings, "GET", "/gateways")
        zones = await call(settings, "GET", "/dns/zones")
        about = await call(settings, "GET", "/controller")
    except (ConfigurationError, CallRefusedError) as error:
        yield Finding("controller", str(error), "See its log: journalctl -u culvert-controller")
        return
    yield Finding("controller")
    if settings.acme_directory is not None:
        yield _acme_certificate(about)
    for gateway in gateways:
        wrong = "" if gateway["state"] == "online" else str(gateway["reason"])
        remedy = "Check that it runs, that its bundle is the newest, and the path to it."
        yield Finding(f"gateway {gateway['name']}", wrong, remedy)
        if not files.wrong and (finding := await _certificate(settings, gateway)):
            yield finding
    for finding in find_unreachable(gateways, settings.protected_prefixes):
        yield finding
    for zone in zones:
        yield _zone(zone)


def find_unreachable(gateways: Iterable[dict[str, Any]], protected: Iterable[str]) -> Iterator[Finding]:
    """Gateways at protected addresses: each device refuses its whole profile."""
    prefixes = [ipaddress.ip_network(it) for it in protected]
    for gateway in gateways:
        for version in ("", "6"):
            address = gateway[f"public_address{version}"] or gateway[f"address{version}"]
            if address and (found := [it for it in prefixes if ipaddress.ip_address(address) in it]):
                yield Finding(
                    f"gateway {gateway['name']}",
                    f"devices refuse their profiles: {address} is in the protected prefix {found[0]}",
                    "Give it a public address outside of the protected prefixes, or take the prefix out: "
                    "culvert-controller setup --yes --protect PREFIX --change.",
                )


def _public_certificate(settings: Settings) -> Finding | None:
    """None without such a certificate."""
    what = "public certificate"
    certificate, key = settings.public_certificate_file, settings.public_key_file
    if certificate is None or key is None:
        return None
    try:
        found = check_certificate(certificate.read_bytes(), key.read_bytes(), settings.public_name, now())
    except OSError as error:
        return Finding(what, f"{error.filename}: {error.strerror}", "Put it there, or change the settings.")
    except CertificateFaultError as error:
        wrong, _, remedy = str(error).partition(" Remedy: ")
        return Finding(what, wrong, remedy)
    left = found.expires_at - now()
    wrong = f"it ends in {left.days} days" if left < _PUBLIC_SOON else ""
    return Finding(what, wrong, "Renew it: the controller reads the replaced files by itself.")


def _acme_certificate(about: dict[str, Any]) -> Finding:
    what = "public certificate"
    if about["public_certificate_fault"]:
        wrong, _, remedy = about["public_certificate_fault"].partition(" Remedy: ")
        return Finding(what, wrong, remedy)
    there = any(it["name"] == "public" for it in about["certificates"])
    return Finding(what, "" if there else "the authority has not issued it yet", "Look again in a minute.")


async def _provider(settings: Settings) -> Finding:
    what = "sign-in provider"
    try:
        if provider := provider_from_settings(settings):
            await provider.check()
    except ConfigurationError as error:
        return Finding(what, str(error), "Set it to a file that the controller may read.")
    except CulvertError as error:
        return Finding(what, error.message, error.remedy)
    return Finding(what)


async def _certificate(settings: Settings, gateway: dict[str, Any]) -> Finding | None:
    """The certificate that the gateway shows or, if none can be seen, the last one that it got; None without any."""
    what = f"certificate of {gateway['name']}"
    remedy = (
        f"If it has joined, on its computer: culvert-gateway renew {gateway['name']} --now. Otherwise a new bundle: "
        f"culvert-controller gateway bundle {gateway['name']} DIR"
    )
    kept: str | None = gateway["keys"]["certificate_expires_at"]
    end = None if kept is None else datetime.datetime.fromisoformat(kept)
    if gateway["p4runtime"] is not None:
        authorities = [Authority.load(settings.state_dir, name) for name in ("gateway", "infrastructure")]
        trusted = b"".join(authority.trusted_pem for authority in authorities)
        try:
            end = await certificate_ends_at(gateway["p4runtime"], gateway["name"], trusted)
        except ssl.SSLCertVerificationError as error:
            return Finding(what, error.verify_message, remedy)
        except OSError:
            # Nothing answers, as the gateway's own finding says.
            pass
    return None if end is None else Finding(what, _soon(end), remedy)


def _soon(end: datetime.datetime) -> str:
    left = end - now()
    return f"it ends in {left.days} days" if left < _BUNDLE_SOON else ""


async def certificate_ends_at(address: str, name: str, ca_pem: bytes) -> datetime.datetime:
    """The expiry of the certificate of gateway `name` at its P4Runtime `address`. Raises OSError; its subclass
    ssl.SSLCertVerificationError for a certificate that is of another CA or not valid now.
    """
    context = ssl.create_default_context(cadata=ca_pem.decode())
    # In TLS 1.3 the server sends its certificate before it checks the client's (RFC 8446, section 2).
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(_CERTIFICATE_SECONDS):
        _, writer = await asyncio.open_connection(
            host.strip("[]"),
            int(port),
            ssl=context,
            server_hostname=name,
            happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
        )
    try:
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    return x509.load_der_x509_certificate(shown).not_valid_after_utc


def _zone(zone: dict[str, Any]) -> Finding:
    what = f"DNS zone {zone['name']}"
    if zone["keeper"] is None:
        return Finding(what, "nobody keeps it", "Start a dns-updater that has its key.")
    if zone["state"] == "live":
        return Finding(what)
    return Finding(
        what, str(zone["message"] or zone["state"]), str(zone["remedy"] or "Look again in a moment.")
    )


def _files(state_dir: Path) -> Finding:
    what = "state directory"
    for name in _SECRETS:
        file = state_dir / name
        if not file.is_file():
            return Finding(
                what, f"{file} is not there", "Restore it from a backup; the first time, run init."
            )
        if file.stat().st_mode & 0o077:
            return Finding(
                what, f"others may read {file}", f"chmod 600 {file}, and find out who has read it."
            )
    return Finding(what)


def _authority(state_dir: Path, name: str) -> Finding:
    left = Authority((state_dir / f"{name}-ca.key").read_bytes()).expires_at - now()
    wrong = f"it ends in {left.days} days" if left < _SOON else ""
    return Finding(f"{name} CA", wrong, "Replace it before then: what it has signed ends with it.")


async def _database(settings: Settings, database: Database, *, keys: bool) -> AsyncGenerator[Finding]:
    async with database() as session:
        there = await repository.present(session)
        off = abs(there - now())
        yield Finding("database")
        wrong = f"it differs from the database's by {off.total_seconds():.0f} s" if off > _CLOCK else ""
        yield Finding("clock", wrong, "Let NTP set both.")
        gateway = await repository.any_gateway(session) if keys else None
        if gateway is not None:
            try:
                kek_of(gateway, MasterKey.load(settings.state_dir))
                wrong = ""
            except MasterKeyError as error:
                wrong = str(error)
            yield Finding("master key", wrong, "Put the state directory back that belongs to this database.")
    broken = (await verifier.verify(database, CutKey(MasterKey.load(settings.state_dir)))).broken
    wrong = f"chain {broken.chain}, line {broken.seq}: {broken.why}" if broken else ""
    yield Finding("audit log", wrong, "Somebody has changed it in the database: find out who.")
