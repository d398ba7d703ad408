"""Crypto hosts as administrators register, drain and remove them (docs/crypto-port.md)."""

from __future__ import annotations

import base64
from typing import Any

from culvert_db import CryptoHost, Database, Gateway, clock
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.admins.notices import tell_owners
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import begin
from culvert_service.gateways import repository
from culvert_service.gateways.config import host_kek_context
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.key_wrap import new_kek
from culvert_service.gateways.ownership import Ownership
from culvert_service.gateways.schemas import BundleOut, CryptoHostIn, CryptoHostOut
from culvert_service.gateways.service import check_name, unknown_gateway
from culvert_service.pki.authority import P4RUNTIME_CLIENT_NAME, Authority
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.field import FieldError, to_field_error
from culvert_service.rest.version import MayMatch


class CryptoHosts:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        ownership: Ownership,
        authority: Authority,
        clients: Authority,
        master_key: MasterKey,
    ) -> None:
        """`authority` signs the certificates of hosts; `clients` signs the certificates of their P4Runtime clients."""
        self._database = database
        self._fleet = fleet
        self._ownership = ownership
        self._authority = authority
        self._clients = clients
        self._master_key = master_key

    async def create(self, by: Actor, gateway: str, asked: CryptoHostIn) -> CryptoHostOut:
        """Raises CulvertError NOT_FOUND, REQUEST_INVALID, GATEWAY_NAME_RESERVED or ALREADY_EXISTS."""
        kek = self._master_key.seal(new_kek(), host_kek_context(asked.name))
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                row = await repository.lock(session, gateway)
                if row is None:
                    raise unknown_gateway(gateway)
                check_name(asked.name, await repository.controller_names(session), "/name")
                if await repository.by_name(session, asked.name) is not None:
                    what = Phrase("The gateway {name}", name=asked.name)
                    raise FieldError("/name", Reason.ALREADY_EXISTS, what=what)
                _check_port(row, asked.port)
                session.add(CryptoHost(gateway_id=row.id, kek_ciphertext=kek, **_columns(asked)))
                await session.flush()
                details = asked.model_dump(mode="json", include={"p4runtime", "port", "host_port"})
                transaction.audit(
                    Line("crypto-host.create", _subject(asked.name), {"gateway": gateway, **details})
                )
                await repository.notify_controllers(session)
        except IntegrityError as error:
            raise _already_exists(asked, error) from None
        await self._ownership.look()
        return await self.get(gateway, asked.name)

    async def list(self, gateway: str) -> list[CryptoHostOut]:
        """By port. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            row = await repository.by_name(session, gateway)
            if row is None:
                raise unknown_gateway(gateway)
            return await self._shown(session, row)

    async def get(self, gateway: str, name: str) -> CryptoHostOut:
        """Raises CulvertError NOT_FOUND."""
        found = next((it for it in await self.list(gateway) if it.name == name), None)
        if found is None:
            raise _unknown(name)
        return found

    async def bundle(self, by: Actor, gateway: str, name: str) -> BundleOut:
        """A new certificate, and the host's KEK, which stays the same. Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            host = await _lock(transaction.session, gateway, name)
            issued = self._authority.issue_gateway(
                name, await repository.controller_names(transaction.session)
            )
            kek = self._master_key.open(host.kek_ciphertext, host_kek_context(name))
            await tell_owners(transaction, Line("crypto-host.bundle", _subject(name), {"gateway": gateway}))
        return BundleOut(
            ca_pem=self._clients.pem.decode(),
            certificate_pem=issued.certificate.pem.decode(),
            key_pem=issued.key_pem.decode(),
            kek=base64.b64encode(kek).decode(),
            client_name=P4RUNTIME_CLIENT_NAME,
            legacy_suites=[],
        )

    async def drain(self, by: Actor, gateway: str, name: str) -> CryptoHostOut:
        """From now on the host gets no SA, and devices renew those that it has. Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            host = await _lock(transaction.session, gateway, name)
            if host.draining_since is None:
                host.draining_since = await clock(transaction.session)
                transaction.audit(Line("crypto-host.drain", _subject(name), {"gateway": gateway}))
                await repository.notify_controllers(transaction.session)
        await self._ownership.look()
        return await self.get(gateway, name)

    async def undrain(self, by: Actor, gateway: str, name: str) -> CryptoHostOut:
        """Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            host = await _lock(transaction.session, gateway, name)
            if host.draining_since is not None:
                host.draining_since = None
                transaction.audit(Line("crypto-host.undrain", _subject(name), {"gateway": gateway}))
                await repository.notify_controllers(transaction.session)
        await self._ownership.look()
        return await self.get(gateway, name)

    async def delete(self, by: Actor, gateway: str, name: str, seen: MayMatch) -> None:
        """Remove a host without SAs. Raises CulvertError NOT_FOUND, VERSION_STALE or CRYPTO_HOST_IN_USE."""
        async with begin(self._database, by) as transaction:
            session = transaction.session
            host = await _lock(session, gateway, name)
            seen.check(_what(name), host.version)
            if sas := (await repository.count_sas_by_host(session, host.gateway_id)).get(host.port, 0):
                raise CulvertError(Reason.CRYPTO_HOST_IN_USE, host=name, sas=sas)
            await session.delete(host)
            transaction.audit(Line("crypto-host.delete", _subject(name), {"gateway": gateway}))
            await repository.notify_controllers(session)
        await self._ownership.look()

    async def _shown(self, session: AsyncSession, gateway: Gateway) -> list[CryptoHostOut]:
        sas = await repository.count_sas_by_host(session, gateway.id)
        link = self._fleet.get(gateway.name)
        shown: list[CryptoHostOut] = []
        for host in await repository.hosts_of(session, gateway.id):
            at = link.hosts.get(host.port) if link is not None else None
            state = "unknown" if at is None else "online" if at.usable else "offline"
            out = CryptoHostOut(
                name=host.name,
                p4runtime=host.p4runtime_address,
                device_id=host.p4runtime_device_id,
                port=host.port,
                mac=host.mac,
                host_port=host.host_port,
                host_mac=host.host_mac,
                state=state,
                reason=at.reason if at is not None else "",
                sas=sas.get(host.port, 0),
                draining_since=host.draining_since,
                created_at=host.created_at,
            )
            shown.append(out)
        return shown


async def _lock(session: AsyncSession, gateway: str, name: str) -> CryptoHost:
    host = await repository.lock_host(session, gateway, name)
    if host is None:
        raise _unknown(name)
    return host


def _check_port(gateway: Gateway, port: int) -> None:
    for side, of in (("WAN", gateway.wan), ("LAN", gateway.lan)):
        if of["port"] == port:
            why = Phrase("port {port} is the gateway's {side} port", port=port, side=side)
            raise FieldError("/port", Reason.REQUEST_INVALID, why=why)


def _columns(asked: CryptoHostIn) -> dict[str, Any]:
    return {
        "name": asked.name,
        "p4runtime_address": asked.p4runtime,
        "p4runtime_device_id": asked.device_id,
        "port": asked.port,
        "mac": asked.mac,
        "host_port": asked.host_port,
        "host_mac": asked.host_mac,
    }


def _already_exists(asked: CryptoHostIn, error: IntegrityError) -> CulvertError:
    switch = Phrase(
        "A crypto host whose switch is device {device_id} at {p4runtime}",
        device_id=asked.device_id,
        p4runtime=asked.p4runtime,
    )
    unique = {
        "uq_crypto_hosts_name": ("/name", _what(asked.name)),
        "uq_crypto_hosts_gateway_id_port": ("/port", Phrase("A crypto host at port {port}", port=asked.port)),
        "uq_crypto_hosts_p4runtime_address_p4runtime_device_id": ("/p4runtime", switch),
    }
    return to_field_error(error, unique, _what(asked.name))


def _what(name: str) -> Phrase:
    return Phrase("The crypto host {name}", name=name)


def _unknown(name: str) -> CulvertError:
    return CulvertError(Reason.NOT_FOUND, what=_what(name))


def _subject(name: str) -> str:
    return f"crypto-host/{name}"
