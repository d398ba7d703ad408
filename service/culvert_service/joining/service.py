"""Enrolments of gateways, and what becomes of them.

 link is made ─► waiting ─── a computer joins ──► joined ─── renews its certificate ─► … ─── leaves
                    └─ an hour ─► expired

`join` is one transaction: the link is used up if and only if the gateway is registered with its certificate and KEK.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import hashlib
from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from culvert_db import Database, Gateway, GatewayEnrolment, clock
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from culvert_proto.sa import check_allowed
from pydantic import ValidationError
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.admins.notices import tell_owners
from culvert_service.apt.service import ReleasePackages
from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.transaction import AfterCommit, begin
from culvert_service.gateways import repository as gateways
from culvert_service.gateways.changes import Changes
from culvert_service.gateways.config import kek_context
from culvert_service.gateways.key_wrap import KeyWrap
from culvert_service.gateways.kind import GatewayKind
from culvert_service.gateways.neighbours import Neighbour, lan_of
from culvert_service.gateways.ownership import Ownership
from culvert_service.gateways.schemas import GatewayIn
from culvert_service.gateways.service import (
    already_exists,
    check_name,
    check_no_host,
    check_reachable,
    columns,
    keep_certificate_end,
)
from culvert_service.joining import agreement, repository
from culvert_service.joining.free_pools import find_free
from culvert_service.joining.gateway_key import check_signature, lock_joined, to_actor
from culvert_service.joining.schemas import (
    FreePoolsOut,
    GatewayCertificateOut,
    GatewayEnrolmentIn,
    GatewayEnrolmentOut,
    GatewayLeaveIn,
    GatewayLeaveOut,
    GatewayLinkOut,
    GatewayRenewalIn,
    GatewayStateOut,
    JoinCheckIn,
    JoinCheckOut,
    JoinFacts,
    JoinIn,
    JoinOut,
)
from culvert_service.pki import request
from culvert_service.pki.authority import P4RUNTIME_CLIENT_NAME, Authority, Issued
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.field import FieldError
from culvert_service.rest.page import Page

LIFETIME = datetime.timedelta(hours=1)
# For this long a used link answers again to the key that it was used with, after a lost answer.
_REPEATS = datetime.timedelta(minutes=10)
_LEAVES = b"culvert gateway leaves 1\0"

Now = Callable[[], datetime.datetime]


class Joining:
    def __init__(
        self,
        database: Database,
        refusals: Refusals,
        ownership: Ownership,
        changes: Changes,
        authority: Authority,
        infrastructure: Authority,
        master_key: MasterKey,
        packages: ReleasePackages,
        *,
        rest_url: str,
        agent_address: str,
        protected_prefixes: Sequence[str],
        now: Now,
    ) -> None:
        """`authority` signs the certificates of gateways."""
        self._database = database
        self._refusals = refusals
        self._ownership = ownership
        self._changes = changes
        self._authority = authority
        self._infrastructure = infrastructure
        self._master_key = master_key
        self._packages = packages
        self._rest_url = rest_url
        self._agent_address = agent_address
        self._protected_prefixes = protected_prefixes
        self._now = now

    async def enrol(self, by: Actor, asked: GatewayEnrolmentIn) -> GatewayLinkOut:
        """Make a link. It replaces an earlier one for this gateway.

        Raises CulvertError GATEWAY_NAME_RESERVED, SUITE_LEGACY, ALREADY_EXISTS, POOL_OVERLAPS or REQUEST_INVALID.
        """
        if asked.suite is not None:
            check_allowed(asked.suite, [], Phrase("the gateway {gateway}", gateway=asked.gateway))
        token = agreement.new_token()
        made = GatewayEnrolment(
            gateway=asked.gateway,
            token_hash=_hash(token),
            pool=asked.pool,
            pool6=asked.pool6,
            suite=asked.suite.value if asked.suite else None,
            made_by=by.name,
            expires_at=self._now() + LIFETIME,
        )
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                check_name(asked.gateway, await gateways.controller_names(session), "/gateway")
                await check_no_host(session, asked.gateway, "/gateway")
                await _check_asked(session, asked)
                await repository.delete_of(session, asked.gateway)
                session.add(made)
                await session.flush()
                await session.refresh(made)
                details: dict[str, Detail] = {"pool": asked.pool} if asked.pool else {}
                await tell_owners(transaction, Line("gateway.enrol", f"gateway/{asked.gateway}", details))
        except IntegrityError:
            raise CulvertError(
                Reason.ALREADY_EXISTS, what=Phrase("A new link for the gateway {name}", name=asked.gateway)
            ) from None
        fingerprint = base64.urlsafe_b64encode(self._infrastructure.fingerprint).decode().rstrip("=")
        link = f"{self._rest_url}/join#{agreement.write_token(token)}.{fingerprint}"
        offer = await self._packages.offer()
        return GatewayLinkOut(
            **self._out(made).model_dump(), link=link, install=None if offer is None else offer.gateway
        )

    async def free_pools(self) -> FreePoolsOut:
        async with self._database() as session:
            known = await repository.known_networks(session)
        seed = self._infrastructure.fingerprint
        pool, pool6 = await asyncio.to_thread(find_free, seed, [*known, *self._protected_prefixes])
        return FreePoolsOut(pool=pool, pool6=pool6)

    async def list(self, page: Page, *, waiting: bool = False) -> list[GatewayEnrolmentOut]:
        """`waiting`: only those whose link still works."""
        async with self._database() as session:
            found = await repository.enrolments(session, page.by(int), self._now() if waiting else None)
        return [self._out(one) for one in page.cut(found, lambda one: (one.id,))]

    async def get(self, number: int) -> GatewayEnrolmentOut:
        """Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            found = await repository.enrolment(session, number)
        if found is None:
            raise _unknown(number)
        return self._out(found)

    async def withdraw(self, by: Actor, number: int) -> None:
        """The link no longer works; a gateway that has joined stays. Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            gateway = await repository.withdraw(transaction.session, number)
            if gateway is None:
                raise _unknown(number)
            transaction.audit(Line("gateway.withdraw-enrolment", f"gateway/{gateway}"))

    async def check(self, by: Actor, asked: JoinCheckIn) -> JoinCheckOut:
        """Check a link, and that the facts fit. Nothing changes.

        Raises CulvertError as `join`.
        """
        try:
            async with self._database() as session:
                enrolment = await self._find(session, asked.token.get_secret_value())
                gateway = await gateways.by_name(session, enrolment.gateway)
                if asked.facts is not None:
                    wanted, _ = _registration(enrolment, gateway, asked.facts)
                    check_reachable(wanted, self._protected_prefixes)
                    await _check_pools(session, wanted)
        except CulvertError as error:
            await self._refuse(by, error)
            raise
        pool = gateway.pool if gateway is not None else enrolment.pool
        assert pool is not None
        return JoinCheckOut(
            gateway=enrolment.gateway,
            pool=pool,
            pool6=gateway.pool6 if gateway is not None else enrolment.pool6,
            exists=gateway is not None,
            expires_at=enrolment.expires_at,
            now=self._now(),
        )

    async def join(self, by: Actor, asked: JoinIn) -> JoinOut:
        """Register the gateway, and agree on its KEK. After a lost answer the same key may ask again.

        Raises CulvertError JOIN_LINK_UNKNOWN, JOIN_LINK_USED, JOIN_LINK_EXPIRED, CSR_INVALID, POOL_OVERLAPS,
        ALREADY_EXISTS, REQUEST_INVALID, GATEWAY_NAME_RESERVED or GATEWAY_IN_USE. The link stays good.
        """
        try:
            answer, after = await self._join(by, asked)
        except CulvertError as error:
            await self._refuse(by, error)
            raise
        if after is not None:
            await after.finish()
        await self._ownership.look()
        return answer

    async def _join(self, by: Actor, asked: JoinIn) -> tuple[JoinOut, AfterCommit | None]:
        public_key = request.public_key(asked.csr_pem)
        key_hash = request.key_hash(public_key)
        text = asked.token.get_secret_value()
        own, peer = X25519PrivateKey.generate(), base64.b64decode(asked.agreement_key)
        after: AfterCommit | None = None
        wanted: GatewayIn | None = None
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                enrolment = await self._find(session, text, key_hash)
                again = enrolment.used_at is not None
                if not again and not await repository.use(
                    session, enrolment.token_hash, key_hash, self._now()
                ):
                    raise CulvertError(Reason.JOIN_LINK_USED, gateway=enrolment.gateway)
                name = enrolment.gateway
                gateway = await gateways.lock(session, name)
                wanted, found = _registration(enrolment, gateway, asked.facts)
                check_reachable(wanted, self._protected_prefixes)
                await _check_pools(session, wanted)
                reserved = await gateways.controller_names(session)
                check_name(name, reserved)
                await check_no_host(session, name)
                issued = self._authority.issue_gateway_certificate(public_key, name, reserved)
                token = agreement.read_token(text)
                assert token is not None
                kek = agreement.agree(own, peer, token)
                sealed = self._master_key.seal(kek, kek_context(name))
                if gateway is None:
                    gateway = Gateway(name=name, kek_ciphertext=sealed, **columns(wanted, found))
                    gateway.bundled_at = await clock(session)
                    session.add(gateway)
                    await session.flush()
                    await gateways.keep_neighbours(session, gateway, found)
                else:
                    after = await self._changes.replace_in(transaction, gateway, wanted, found)
                    if gateway.bundled_at is None:
                        gateway.kek_ciphertext, gateway.bundled_at = sealed, await clock(session)
                    else:
                        # The gateway begins with it, and the present KEK is rotated out (kek_rotation.py).
                        gateway.next_kek_ciphertext = sealed
                keep_certificate_end(gateway, issued.expires_at)
                gateway.key_hash = key_hash
                await session.flush()
                actor = to_actor(by, name)
                details: dict[str, Detail] = {"address": gateway.address, "made_by": enrolment.made_by}
                if gateway.public_address is not None:
                    details["public_address"] = gateway.public_address
                if again:
                    details["again"] = True
                await tell_owners(transaction, Line("gateway.join", f"gateway/{name}", details, actor=actor))
                await gateways.notify_controllers(session)
                legacy = [Suite(one) for one in gateway.legacy_suites or []]
        except IntegrityError as error:
            if wanted is None:
                raise
            raise already_exists(wanted, error) from None
        return JoinOut(
            **self._certificate(issued).model_dump(),
            gateway=name,
            agreement_key=base64.b64encode(own.public_key().public_bytes_raw()).decode(),
            kek_fingerprint=KeyWrap(kek).fingerprint.hex(),
            device_id=wanted.device_id,
            agent_address=self._agent_address,
            client_name=P4RUNTIME_CLIENT_NAME,
            legacy_suites=legacy,
        ), after

    async def renew(self, by: Actor, asked: GatewayRenewalIn) -> GatewayCertificateOut:
        """A new certificate for the key that the gateway has joined with; the request's signature proves that key.

        Raises CulvertError CSR_INVALID, GATEWAY_NOT_JOINED or GATEWAY_NAME_RESERVED.
        """
        public_key = request.public_key(asked.csr_pem)
        try:
            async with begin(self._database, by) as transaction:
                gateway = await lock_joined(transaction.session, public_key)
                reserved = await gateways.controller_names(transaction.session)
                check_name(gateway.name, reserved)
                issued = self._authority.issue_gateway_certificate(public_key, gateway.name, reserved)
                keep_certificate_end(gateway, issued.expires_at)
                until: dict[str, Detail] = {"until": issued.expires_at.isoformat()}
                actor = to_actor(by, gateway.name)
                transaction.audit(Line("gateway.renew", f"gateway/{gateway.name}", until, actor=actor))
        except CulvertError as error:
            await self._refuse(by, error, "gateway.renew")
            raise
        return self._certificate(issued)

    async def state(self, by: Actor, asked: GatewayRenewalIn) -> GatewayStateOut:
        """Raises CulvertError CSR_INVALID or GATEWAY_NOT_JOINED."""
        public_key = request.public_key(asked.csr_pem)
        try:
            async with self._database() as session:
                name = await repository.find_joined(session, request.key_hash(public_key))
                if name is None:
                    raise CulvertError(Reason.GATEWAY_NOT_JOINED)
                [row] = await gateways.gateway_rows(session, name)
        except CulvertError as error:
            await self._refuse(by, error, "gateway.state")
            raise
        return GatewayStateOut(
            gateway=name,
            state="online" if row.online else "offline",
            reason=row.reason,
            since=row.health.since if row.health is not None else None,
            silent=[it.address for it in row.neighbours if it.mac is None or it.silent_since is not None],
            now=self._now(),
        )

    async def leave(self, by: Actor, asked: GatewayLeaveIn) -> GatewayLeaveOut:
        """Forget the gateway's key, and delete the gateway unless something uses it.

        Raises CulvertError CSR_INVALID, GATEWAY_NOT_JOINED or REQUEST_INVALID.
        """
        public_key = request.public_key(asked.csr_pem)
        try:
            check_signature(public_key, asked.signature, _LEAVES + asked.gateway.encode())
            async with begin(self._database, by) as transaction:
                session = transaction.session
                gateway = await lock_joined(session, public_key, asked.gateway)
                kept = await gateways.uses(session, gateway.id)
                gateway.key_hash = None
                if not kept:
                    await session.delete(gateway)
                await session.flush()
                actor = to_actor(by, gateway.name)
                details: dict[str, Detail] = {"kept": kept} if kept else {}
                await tell_owners(
                    transaction, Line("gateway.leave", f"gateway/{gateway.name}", details, actor=actor)
                )
                await gateways.notify_controllers(session)
        except CulvertError as error:
            await self._refuse(by, error, "gateway.leave")
            raise
        await self._ownership.look()
        return GatewayLeaveOut(kept=kept)

    async def _find(
        self, session: AsyncSession, text: str, key_hash: bytes | None = None
    ) -> GatewayEnrolment:
        """The enrolment that a computer with this key may use. The token is looked up by its hash: the time that takes
        says nothing about the token.

        Raises CulvertError JOIN_LINK_UNKNOWN, JOIN_LINK_USED or JOIN_LINK_EXPIRED.
        """
        token = agreement.read_token(text)
        found = await repository.by_token(session, _hash(token)) if token is not None else None
        if found is None:
            raise CulvertError(Reason.JOIN_LINK_UNKNOWN)
        now = self._now()
        if found.used_at is not None:
            if key_hash is None or found.key_hash != key_hash or found.used_at + _REPEATS <= now:
                raise CulvertError(Reason.JOIN_LINK_USED, gateway=found.gateway)
        elif found.expires_at <= now:
            raise CulvertError(Reason.JOIN_LINK_EXPIRED, gateway=found.gateway)
        return found

    async def _refuse(self, by: Actor, why: CulvertError, action: str = "gateway.join") -> None:
        line = Line(action, f"gateway/{why.fields.get('gateway', 'unknown')}", actor=to_actor(by, "unknown"))
        await self._refusals.of_stranger(by, line, why)

    def _certificate(self, issued: Issued) -> GatewayCertificateOut:
        return GatewayCertificateOut(
            certificate_pem=issued.pem.decode(),
            ca_pem=self._infrastructure.trusted_pem.decode(),
            expires_at=issued.expires_at,
        )

    def _out(self, one: GatewayEnrolment) -> GatewayEnrolmentOut:
        waits = "waiting" if one.expires_at > self._now() else "expired"
        return GatewayEnrolmentOut(
            id=one.id,
            gateway=one.gateway,
            pool=one.pool,
            pool6=one.pool6,
            suite=Suite(one.suite) if one.suite else None,
            state="joined" if one.used_at is not None else waits,
            made_by=one.made_by,
            created_at=one.created_at,
            expires_at=one.expires_at,
            used_at=one.used_at,
        )


async def _check_asked(session: AsyncSession, asked: GatewayEnrolmentIn) -> None:
    described = (asked.pool, asked.pool6, asked.suite) != (None, None, None)
    if await gateways.by_name(session, asked.gateway) is not None:
        if described:
            raise FieldError(
                "/gateway", Reason.ALREADY_EXISTS, what=Phrase("The gateway {name}", name=asked.gateway)
            )
        return
    if asked.pool is None:
        raise FieldError(
            "/pool", Reason.REQUEST_INVALID, why=Phrase("a new gateway needs an address pool for devices")
        )
    for field, pool in (("/pool", asked.pool), ("/pool6", asked.pool6)):
        if pool and (what := await repository.overlapping(session, asked.gateway, pool)):
            raise FieldError(field, Reason.POOL_OVERLAPS, pool=pool, gateway=asked.gateway, what=what)


def _registration(
    enrolment: GatewayEnrolment, gateway: Gateway | None, facts: JoinFacts
) -> tuple[GatewayIn, dict[Neighbour, str]]:
    """The gateway with these facts, and the MAC addresses of neighbours that it goes on finding. One that exists keeps the
    rest of its settings. If the new LAN is the old one, it keeps further neighbours and routes, too.

    Raises CulvertError REQUEST_INVALID.
    """
    found = facts.model_dump(mode="json", exclude={"next_hop"})
    if facts.next_hop is not None:
        found["wan"] |= {"next_hop": facts.next_hop, "next_hop_mac": None}
        found["lan"]["neighbours"] = dict.fromkeys(facts.lan.neighbours)
    if gateway is None:
        settings = {"pool": enrolment.pool, "pool6": enrolment.pool6}
        if enrolment.suite is not None:
            settings["suite"] = enrolment.suite
    else:
        settings = {
            "pool": gateway.pool,
            "pool6": gateway.pool6,
            "suite": gateway.suite,
            "legacy_suites": gateway.legacy_suites,
            "device_id": gateway.p4runtime_device_id,
        }
        found["public_address"] = found["public_address"] or gateway.public_address
        if found["address6"] is not None:
            found["public_address6"] = found["public_address6"] or gateway.public_address6
        lan = found["lan"]
        if lan["prefix"] == gateway.lan.get("prefix"):
            lan["neighbours"] = {**lan_of(gateway).neighbours, **lan["neighbours"]}
            lan["routes"] = {**gateway.lan.get("routes", {}), **lan["routes"]}
    fields = {"name": enrolment.gateway, "kind": GatewayKind.SLUICE, **settings, **found}
    try:
        return GatewayIn.model_validate(fields), facts.found
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise CulvertError(Reason.REQUEST_INVALID, why=faults) from None


async def _check_pools(session: AsyncSession, wanted: GatewayIn) -> None:
    """Raises CulvertError POOL_OVERLAPS: with the gateway's own LAN, or with another gateway's networks."""
    for pool, prefix in ((wanted.pool, wanted.lan.prefix), (wanted.pool6, wanted.lan.prefix6)):
        if pool is None:
            continue
        what = (
            Phrase("its LAN {prefix}", prefix=prefix) if prefix and repository.overlap(pool, prefix) else None
        )
        what = what or await repository.overlapping(session, wanted.name, pool)
        if what:
            raise CulvertError(Reason.POOL_OVERLAPS, pool=pool, gateway=wanted.name, what=what)


def _hash(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _unknown(number: int) -> CulvertError:
    return CulvertError(Reason.NOT_FOUND, what=Phrase("The enrolment {name}", name=number))
