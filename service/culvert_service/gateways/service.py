"""Gateways: registration, bundles, and views of their state and entries."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from culvert_db import Database, Gateway, GatewayHealth, clock
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from culvert_proto.sa import check_allowed
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.admins.notices import tell_owners
from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import begin
from culvert_service.gateways import neighbours, repository
from culvert_service.gateways.comparison import Compared, EntryStanding
from culvert_service.gateways.config import kek_context, kek_of
from culvert_service.gateways.entry import Count, EntryKey
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.key_wrap import new_kek
from culvert_service.gateways.kind import GatewayKind
from culvert_service.gateways.link import COUNTED
from culvert_service.gateways.neighbours import Neighbour
from culvert_service.gateways.ownership import Ownership
from culvert_service.gateways.reconcile import DesiredState, read_comparison
from culvert_service.gateways.release import is_older
from culvert_service.gateways.repository import GatewayRow, Load
from culvert_service.gateways.schemas import (
    BundleOut,
    ContentOut,
    DriftOut,
    EntriesOut,
    EntryOut,
    GatewayIn,
    GatewayOut,
    KeysOut,
    NeighbourOut,
    SampleOut,
)
from culvert_service.pki import issuance
from culvert_service.pki.authority import P4RUNTIME_CLIENT_NAME, P4RUNTIME_NAMES, Authority
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.field import FieldError, to_field_error
from culvert_service.rest.page import Page


class Gateways:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        ownership: Ownership,
        authority: Authority,
        clients: Authority,
        master_key: MasterKey,
        desired: DesiredState,
        own_names: Sequence[str],
        protected_prefixes: Sequence[str],
    ) -> None:
        """`authority` signs the certificates of gateways; `clients` signs the certificates of their P4Runtime clients.
        `own_names`: the names and addresses of this controller.
        """
        self._protected_prefixes = protected_prefixes
        self._database = database
        self._fleet = fleet
        self._ownership = ownership
        self._authority = authority
        self._clients = clients
        self._master_key = master_key
        self._desired = desired
        self._own_names = own_names
        self._version = version("culvert-service")

    async def start(self) -> None:
        """Reserve the controller's names, so that no gateway gets a certificate for any of them."""
        async with self._database.begin() as session:
            await repository.reserve(session, {issuance.canonical(name) for name in self._own_names})

    async def stop(self) -> None:
        """The names stay reserved."""

    async def create(self, by: Actor, asked: GatewayIn) -> GatewayOut:
        """Raises CulvertError REQUEST_INVALID, SUITE_LEGACY, GATEWAY_NAME_RESERVED or ALREADY_EXISTS."""
        check_reachable(asked, self._protected_prefixes)
        check_allowed(asked.suite, asked.legacy_suites, Phrase("the gateway {gateway}", gateway=asked.name))
        async with self._database() as session:
            check_name(asked.name, await repository.controller_names(session), "/name")
            await check_no_host(session, asked.name, "/name")
        kek = self._master_key.seal(new_kek(), kek_context(asked.name))
        gateway = Gateway(name=asked.name, kek_ciphertext=kek, **columns(asked, {}))
        try:
            async with begin(self._database, by) as transaction:
                transaction.session.add(gateway)
                await transaction.session.flush()
                await transaction.session.refresh(gateway)
                await repository.keep_neighbours(transaction.session, gateway, {})
                transaction.audit(Line("gateway.create", f"gateway/{asked.name}", audit_details(asked)))
        except IntegrityError as error:
            raise already_exists(asked, error) from None
        await self._ownership.look()
        made, _ = await self.get(asked.name)
        return made

    async def list(self, page: Page) -> list[GatewayOut]:
        async with self._database() as session:
            found = await repository.gateway_rows(session, cut=page.by(str))
            shown = page.cut(found, lambda seen: (seen.gateway.name,))
            return await self._all_out(session, shown)

    async def list_all(self) -> list[GatewayOut]:
        """All gateways, for a live view."""
        async with self._database() as session:
            return await self._all_out(session, await repository.gateway_rows(session))

    async def get(self, name: str) -> tuple[GatewayOut, int]:
        """The gateway and its version. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            found = await repository.gateway_rows(session, name)
            if not found:
                raise unknown_gateway(name)
            [shown] = await self._all_out(session, found)
        return shown, found[0].gateway.version

    async def bundle(self, by: Actor, name: str) -> BundleOut:
        """Make a bundle. Each bundle has a new certificate and, after the first one, a new KEK (kek_rotation.py).

        Raises CulvertError NOT_FOUND or GATEWAY_NAME_RESERVED.
        """
        async with begin(self._database, by) as transaction:
            session = transaction.session
            gateway = await repository.lock(session, name)
            if gateway is None:
                raise unknown_gateway(name)
            reserved = await repository.controller_names(session)
            check_name(name, reserved)
            issued = self._authority.issue_gateway(name, reserved)
            first = gateway.bundled_at is None
            kek = kek_of(gateway, self._master_key) if first else new_kek()
            if first:
                gateway.bundled_at = await clock(session)
            else:
                gateway.next_kek_ciphertext = self._master_key.seal(kek, kek_context(name))
            keep_certificate_end(gateway, issued.certificate.expires_at)
            await tell_owners(transaction, Line("gateway.bundle", f"gateway/{name}", {"first": first}))
            await repository.notify_controllers(session)
            # The bundle's key is made here: the one that the gateway has joined with gets no certificate any more.
            gateway.key_hash = None
            legacy_suites = [Suite(one) for one in gateway.legacy_suites]
        return BundleOut(
            ca_pem=self._clients.pem.decode(),
            certificate_pem=issued.certificate.pem.decode(),
            key_pem=issued.key_pem.decode(),
            kek=base64.b64encode(kek).decode(),
            client_name=P4RUNTIME_CLIENT_NAME,
            legacy_suites=legacy_suites,
        )

    async def entries(self, name: str) -> EntriesOut:
        """Raises CulvertError NOT_FOUND, GATEWAY_DOWN or GATEWAY_ELSEWHERE."""
        await self._find(name)
        link = self._fleet.get(name)
        if link is None:
            standing = self._fleet.find_standing(name)
            if standing is not None and standing.owner:
                raise CulvertError(Reason.GATEWAY_ELSEWHERE, gateway=name, owner=standing.owner)
            raise CulvertError(Reason.GATEWAY_DOWN, gateway=name)
        found, counts = await read_comparison(link, self._desired), await link.counters()
        there = [it.entry for it in found if it.standing is not EntryStanding.MISSING]
        of_tunnels = sum(entry.table in COUNTED for entry in there)
        return EntriesOut(count=len(there), tunnel_entries=of_tunnels, entries=_entries_out(found, counts))

    async def samples(self, name: str, hours: int) -> list[SampleOut]:
        """Raises CulvertError NOT_FOUND."""
        gateway = await self._find(name)
        async with self._database() as session:
            found = await repository.samples(session, gateway.id, hours)
        return [SampleOut.model_validate(it, from_attributes=True) for it in found]

    async def _find(self, name: str) -> Gateway:
        async with self._database() as session:
            gateway = await repository.by_name(session, name)
        if gateway is None:
            raise unknown_gateway(name)
        return gateway

    async def _all_out(self, session: AsyncSession, found: Sequence[GatewayRow]) -> list[GatewayOut]:
        loads = await repository.loads(session, [seen.gateway.id for seen in found])
        return [self._out(seen, loads[seen.gateway.id]) for seen in found]

    def _out(self, seen: GatewayRow, load: Load) -> GatewayOut:
        gateway, health = seen.gateway, seen.health
        link = self._fleet.get(gateway.name)
        # The link of an owned gateway is newer than the database.
        known = link if link is not None and link.epoch == seen.epoch else seen
        software = health.software if health else None
        return GatewayOut(
            name=gateway.name,
            kind=GatewayKind(gateway.kind),
            address=gateway.address,
            address6=gateway.address6,
            public_address=gateway.public_address,
            public_address6=gateway.public_address6,
            p4runtime=gateway.p4runtime_address,
            device_id=gateway.p4runtime_device_id,
            pool=gateway.pool,
            pool6=gateway.pool6,
            wan=neighbours.wan_of(gateway),
            lan=neighbours.lan_of(gateway),
            suite=Suite(gateway.suite),
            legacy=Suite(gateway.suite).legacy,
            legacy_suites=[Suite(name) for name in gateway.legacy_suites],
            state="online" if known.online else "offline",
            reason=known.reason,
            draining_since=gateway.draining_since,
            tunnels=load.tunnels,
            version=link.version if link is not None else None,
            software=software,
            is_outdated=is_older(software, self._version),
            alone_for=list(load.alone),
            end_of=list(load.end_of),
            owner=seen.owner,
            epoch=seen.epoch,
            reconciled_at=health.reconciled_at if health else None,
            drift=_drift_out(health) if health else DriftOut(),
            keys=_keys_out(gateway, link.sas_to_rekey if link is not None else None),
            neighbours=[NeighbourOut.model_validate(it, from_attributes=True) for it in seen.neighbours],
            created_at=gateway.created_at,
        )


def described(gateway: Gateway, **changes: object) -> GatewayIn:
    """The gateway as an administrator describes it, with changes. Raises ValidationError."""
    fields = {
        "name": gateway.name,
        "kind": gateway.kind,
        "address": gateway.address,
        "address6": gateway.address6,
        "public_address": gateway.public_address,
        "public_address6": gateway.public_address6,
        "p4runtime": gateway.p4runtime_address,
        "device_id": gateway.p4runtime_device_id,
        "pool": gateway.pool,
        "pool6": gateway.pool6,
        "wan": neighbours.wan_of(gateway).model_dump(),
        "lan": neighbours.lan_of(gateway).model_dump(),
        "suite": gateway.suite,
        "legacy_suites": gateway.legacy_suites,
    }
    return GatewayIn.model_validate(fields | changes)


def columns(asked: GatewayIn, known: Mapping[Neighbour, str]) -> dict[str, Any]:
    """The columns that an administrator may change. `known`: MAC addresses of neighbours that the gateway finds."""
    return {
        "kind": asked.kind.value,
        "address": asked.address,
        "address6": asked.address6,
        "public_address": asked.public_address,
        "public_address6": asked.public_address6,
        "p4runtime_address": asked.p4runtime,
        "p4runtime_device_id": asked.device_id,
        "pool": asked.pool,
        "pool6": asked.pool6,
        **neighbours.to_columns(asked.wan, asked.lan, known),
        "suite": asked.suite.value,
        "legacy_suites": [suite.value for suite in asked.legacy_suites],
    }


def check_reachable(asked: GatewayIn, protected_prefixes: Sequence[str]) -> None:
    """Raises CulvertError REQUEST_INVALID for an address that tunnels alone may reach. Each device would refuse its whole
    profile, because no packet could reach the gateway before its tunnel is open.
    """
    prefixes = [ipaddress.ip_network(prefix) for prefix in protected_prefixes]
    for own, address, public in (
        ("address", asked.address, asked.public_address),
        ("address6", asked.address6, asked.public_address6),
    ):
        if (told := public or address) is None:
            continue
        if prefix := next((it for it in prefixes if ipaddress.ip_address(told) in it), None):
            why = Phrase(
                "devices reach {told} only through a tunnel, because {prefix} is one of the controller's protected "
                "prefixes; give the gateway a public address outside of them",
                told=told,
                prefix=prefix,
            )
            pointer = f"/{own}" if public is None else f"/public_{own}"
            raise FieldError(pointer, Reason.REQUEST_INVALID, why=why)


def already_exists(asked: GatewayIn, error: IntegrityError) -> CulvertError:
    unique = {
        "uq_gateways_name": ("/name", Phrase("The gateway {name}", name=asked.name)),
        "uq_gateways_address": _taken("address", asked.public_address, asked.address),
        "uq_gateways_address6": _taken("address6", asked.public_address6, asked.address6),
        "uq_gateways_p4runtime_address_p4runtime_device_id": (
            "/p4runtime",
            Phrase(
                "A gateway whose switch is device {device_id} at {p4runtime}",
                device_id=asked.device_id,
                p4runtime=asked.p4runtime,
            ),
        ),
    }
    return to_field_error(error, unique, Phrase("The gateway {name}", name=asked.name))


def _taken(own: str, public: str | None, address: str | None) -> tuple[str, str]:
    field = own if public is None else f"public_{own}"
    return f"/{field}", Phrase("A gateway that devices reach at {address}", address=public or address)


def audit_details(asked: GatewayIn) -> dict[str, Detail]:
    """The details for the audit log."""
    addresses = {"address", "address6", "public_address", "public_address6"}
    fields = addresses | {"kind", "p4runtime", "pool", "pool6", "suite"}
    return asked.model_dump(mode="json", include=fields, exclude_none=True)


def keep_certificate_end(gateway: Gateway, expires_at: datetime.datetime) -> None:
    """Keep the end of a certificate that was just issued. One that comes with a KEK is in use when that KEK is."""
    if gateway.next_kek_ciphertext is None:
        gateway.certificate_expires_at = expires_at
    else:
        gateway.next_certificate_expires_at = expires_at


def check_name(name: str, reserved: Collection[str], pointer: str = "") -> None:
    """`pointer`: the field that has the name, if any. Raises FieldError GATEWAY_NAME_RESERVED."""
    if why := issuance.label_fault(name, P4RUNTIME_NAMES.union(reserved)):
        raise FieldError(pointer, Reason.GATEWAY_NAME_RESERVED, gateway=name, why=why)


async def check_no_host(session: AsyncSession, name: str, pointer: str = "") -> None:
    """A crypto host with the gateway's name would have its certificate. Raises FieldError ALREADY_EXISTS."""
    if await repository.has_host(session, name):
        raise FieldError(pointer, Reason.ALREADY_EXISTS, what=Phrase("The crypto host {name}", name=name))


def unknown_gateway(name: str) -> CulvertError:
    return CulvertError(Reason.NOT_FOUND, what=Phrase("The gateway {name}", name=name))


def _keys_out(gateway: Gateway, sas_left: int | None) -> KeysOut:
    if gateway.next_kek_ciphertext is not None:
        state = "waiting"
    elif gateway.rekeying_since is not None:
        state = "rekeying"
    else:
        state = "new" if gateway.bundled_at is None else "settled"
    return KeysOut(
        state=state,
        bundled_at=gateway.bundled_at,
        certificate_expires_at=gateway.certificate_expires_at,
        rekeying_since=gateway.rekeying_since,
        sas_left=sas_left if gateway.rekeying_since is not None else None,
    )


def _drift_out(health: GatewayHealth) -> DriftOut:
    return DriftOut(
        repaired=health.drifts,
        last_at=health.drifted_at,
        missing=health.missing,
        foreign=health.foreign,
        changed=health.changed,
    )


def _entries_out(found: Sequence[Compared], counts: Mapping[EntryKey, Count]) -> list[EntryOut]:
    def place(it: Compared) -> tuple[str, int, str]:
        return it.entry.table, it.entry.priority, str(it.entry.match)

    return [_entry_out(it, counts.get(it.entry.key)) for it in sorted(found, key=place)]


def _entry_out(it: Compared, count: Count | None) -> EntryOut:
    entry, desired = it.entry, it.desired
    return EntryOut(
        table=entry.table,
        priority=entry.priority,
        match=dict(entry.match),
        action=entry.action,
        params=dict(entry.params),
        standing=it.standing.value,
        desired=ContentOut(action=desired.action, params=dict(desired.params)) if desired else None,
        packets=count.packets if count else None,
        bytes=count.bytes if count else None,
    )
