"""The requests of tray and CLI: finds the organisation, checks the permission, and merges several answers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from culvert_proto import CulvertError, Reason, dns_name, error_pb2, local_pb2
from culvert_proto.invitation_link import Invitation, parse_invitation
from culvert_proto.phrases import Phrase

from culvert_client.config import DnsMode
from culvert_client.controller.enrolment import enrol, show_invitation
from culvert_client.core.client_events import Desired, PauseRequested
from culvert_client.core.desired_tunnels import fit_mtus
from culvert_client.core.merged_status import merge
from culvert_client.core.profile import Profile
from culvert_client.core.roles import ROOT_UID, Act, Role, may, role_of
from culvert_client.core.status import redact
from culvert_client.daemon.datapath_owner import DatapathOwner
from culvert_client.daemon.organisation import LOOK_AGAIN, Organisation, SharedParts
from culvert_client.daemon.router import Router, find_by_resource
from culvert_client.enrolments import Enrolments
from culvert_client.examination import examine
from culvert_client.state_dir import Identity, StateDir

log = logging.getLogger("culvertd")

# Our tunable, in seconds.
PUSH_EVERY = 0.2

Value = TypeVar("Value")


class Daemon(Protocol):
    """The parts of the daemon that the local API uses."""

    shared: SharedParts
    router: Router
    datapath: DatapathOwner

    @property
    def warnings(self) -> Sequence[CulvertError]: ...
    @property
    def warnings_for_all(self) -> Sequence[CulvertError]: ...
    def add(self, number: int, state: StateDir) -> Organisation: ...
    def forget(self, organisation: Organisation) -> None: ...


class LocalApi:
    """Each method but those that read raises CulvertError: LOCAL_PERMISSION where the uid may not with any organisation,
    ORGANISATION_UNCLEAR where it may with more than one and does not say which."""

    def __init__(self, daemon: Daemon, enrolments: Enrolments) -> None:
        self._daemon, self._shared, self._enrolments = daemon, daemon.shared, enrolments
        self._enrolling = asyncio.Lock()
        self._begun: set[asyncio.Task[Any]] = set()
        self._epoch = time.time() - time.monotonic()
        self.state_dir = daemon.shared.settings.state_dir

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def status(self, uid: int) -> local_pb2.Status:
        status = merge([(it.name, self._status_for(it, uid)) for it in self._all()])
        status.warnings.extend(it.to_proto() for it in self._daemon.warnings_for_all)
        if any(role_of(uid, it.owner) >= Role.OWNER for it in self._all()):
            status.warnings.extend(it.to_proto() for it in self._daemon.warnings)
        if (error := self._daemon.datapath.blocked_by) is not None:
            # Faults of this computer are shown to all users.
            _tell_blocked(status, error.to_proto())
        return status

    async def statuses(self, uid: int) -> AsyncIterator[local_pb2.Status]:
        """The present status, then one after each change, at most 5 per second."""
        shown: local_pb2.Status | None = None
        while True:
            changed, status = self._shared.changes.next, self.status(uid)
            if status != shown:
                shown = status
                yield status
                await asyncio.sleep(PUSH_EVERY)
            try:
                # The end of a code causes no event.
                async with asyncio.timeout(LOOK_AGAIN):
                    await changed.wait()
            except TimeoutError:
                continue

    async def activities(self, uid: int, follow: bool) -> AsyncIterator[local_pb2.Activity]:
        """The stored entries; then, if `follow`, new ones. A reader that is too slow misses the oldest."""
        self._mine(uid, Act.ACTIVITY)
        seen = 0
        while True:
            changed = self._shared.changes.next
            for entry in self._shared.log.after(seen):
                seen = entry.number
                # Root may have enrolled this computer for another user meanwhile.
                of = next(
                    (it for it in self._mine(uid, Act.ACTIVITY) if it.number == entry.organisation), None
                )
                if of is not None:
                    yield entry.to_proto(self._shown_name(of))
            if not follow:
                return
            await changed.wait()

    async def examine(self, organisation: str, uid: int) -> local_pb2.ExamineResponse:
        of = self._one(self._mine(uid, Act.EXAMINE), organisation)
        _, identity = of.connection.check()
        held = (it.desired() for it in of.client.machines.values() if it.is_up)
        sas = Desired(frozenset(), tuple(fit_mtus(it, of.client.path_mtus) for it in held if it is not None))
        up = [it.tunnel for it in self._shared.nat64.over(sas).tunnels]
        watches = self._shared.settings.dns_mode is DnsMode.WATCH
        probe = None if watches else self._shared.resolver.new_probe()
        upstream, reach = self._shared.upstream, self._shared.nat64.reach
        platform = self._shared.platform
        return await examine(identity, of.client.profile, up, upstream, reach, platform, probe=probe)

    # ── tunnels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def open_tunnel(self, name: str, uid: int) -> local_pb2.Tunnel:
        mine, name = self._mine(uid, Act.OPEN), _canonical(name)
        of = self._find_named(mine, name)
        fqdn = await of.open_tunnel(name)
        shown = (tunnel for tunnel in self._status_of(of).tunnels if tunnel.fqdn == fqdn)
        opened = next(shown, local_pb2.Tunnel(fqdn=fqdn))
        opened.organisation = self._shown_name(of)
        return opened

    async def time_hops(self, name: str, uid: int) -> local_pb2.HopTimes:
        mine, name = self._mine(uid, Act.EXAMINE), _canonical(name)
        of = self._find_named(mine, name)
        timed = local_pb2.HopTimes()
        timed.CopyFrom(await of.time_hops(name))
        timed.organisation = self._shown_name(of)
        return timed

    async def close_tunnel(self, name: str | None, uid: int) -> int:
        """The number of closed tunnels; None closes all."""
        mine = self._mine(uid, Act.CLOSE)
        if name is not None:
            name = _canonical(name)
            return await self._find_named(mine, name).requests.close_tunnel(name)
        return sum(await asyncio.gather(*(it.requests.close_tunnel(None) for it in mine)))

    def select_gateway(self, gateway: str, organisation: str, uid: int) -> None:
        mine = self._mine(uid, Act.GATEWAY)
        if organisation or len(mine) == 1:
            mine = [self._one(mine, organisation)]
        elif gateway:
            having = [it for it in mine if any(gateway == known.name for known in it.client.profile.gateways)]
            mine = [self._one(having or mine[:1], "")]
        for it in mine:
            it.requests.select_gateway(gateway)

    async def pause(self, until: int, uid: int) -> None:
        """Unix seconds. Returns once the tunnels are closed."""
        await asyncio.gather(*(it.requests.pause(until) for it in self._mine(uid, Act.PAUSE)))

    def resume(self, uid: int) -> None:
        for it in self._mine(uid, Act.PAUSE):
            it.requests.resume()

    async def answer_claims(
        self, prefixes: Sequence[str], organisation: str, uid: int, *, agreed: bool
    ) -> None:
        of = self._one(self._mine(uid, Act.CLAIMS), organisation)
        await of.answer_claims(prefixes, agreed=agreed)
        log.info("uid %d %s %s", uid, "agreed to" if agreed else "declined", ", ".join(prefixes))

    # ── who this computer is ────────────────────────────────────────────────────────────────────────────────────────────

    async def submit_code(self, code: str, organisation: str, uid: int) -> local_pb2.SubmitCodeResponse:
        proven = await self._one(self._mine(uid, Act.CODE), organisation).prove_code(code)
        self._enrolments.forget_key()
        return proven

    async def show_invitation(self, link: str, uid: int) -> local_pb2.ShowInvitationResponse:
        self._check_may_enrol(uid)
        invitation = parse_invitation(link)
        repeats = self._enrolments.find_key(invitation.token) is not None
        shown = await show_invitation(invitation, self._shared.nat64.reach, repeats=repeats)
        of = self._find_invited(invitation, uid)
        if of is not None and of.connection.identity is not None:
            shown.replaces = of.connection.identity.user
        return shown

    async def enroll(self, link: str, device_name: str, uid: int) -> local_pb2.EnrollResponse:
        return await self._to_the_end(self._enroll(link, device_name, uid))

    async def leave(self, organisation: str, uid: int) -> str:
        """Leave an organisation. Returns its name."""
        return await self._to_the_end(self._leave(organisation, uid))

    async def _to_the_end(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Finish the work even if the caller disconnects, because half of it would be worse than none."""
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return await asyncio.shield(task)

    async def _enroll(self, link: str, device_name: str, uid: int) -> local_pb2.EnrollResponse:
        async with self._enrolling:
            # Another user may have enrolled while this call waited.
            self._check_may_enrol(uid)
            invitation = parse_invitation(link)
            of = self._find_invited(invitation, uid)
            name, reach = device_name or socket.gethostname(), self._shared.nat64.reach
            with self._enrolments.room():
                # Store the key before the request, so that the request can be repeated after a lost answer.
                key = self._enrolments.key_for(invitation.token)
                try:
                    enrolment = await enrol(invitation, key, device_name=name, owner=uid, reach=reach)
                except CulvertError as error:
                    if error.reason is Reason.INVITATION_INVALID:
                        self._enrolments.forget_key()
                    raise
            if of is None:
                of = self._add(enrolment.identity)
            else:
                await of.take(enrolment.identity)
            await of.settle()
            log.info("enrolled with %s as %s", enrolment.identity.controller, enrolment.identity.user)
            answer = enrolment.response()
            answer.organisation = self._shown_name(of)
            profile = of.client.profile
            answer.zones.extend(profile.managed_zones)
            answer.prefixes.extend(map(str, profile.protected_prefixes))
            answer.awaiting_prefixes.extend(map(str, profile.awaiting))
            return answer

    async def _leave(self, organisation: str, uid: int) -> str:
        async with self._enrolling:
            of = self._one(self._mine(uid, Act.LEAVE), organisation)
            if len(self._all()) == 1:
                of.connection.check()
            name = of.name
            self._enrolments.forget_key()
            await of.leave()
            self._daemon.forget(of)
            try:
                self._enrolments.remove(of.number)
            finally:
                if not self._all():
                    self._daemon.add(*next(iter(self._enrolments.all().items())))
            self._daemon.datapath.claims_changed(of)
            log.info("left %s", name)
            return name

    def _check_may_enrol(self, uid: int) -> None:
        if not any(may(uid, act, it.owner) for it in self._all() for act in (Act.ENROLL, Act.ADD)):
            raise CulvertError(Reason.LOCAL_PERMISSION, what=Act.ENROLL.value)

    def _add(self, identity: Identity) -> Organisation:
        paused_until = max(it.client.paused_until for it in self._all())
        of = self._daemon.add(*self._enrolments.add(identity))
        if paused_until:
            of.post(PauseRequested(paused_until))
        return of

    def _find_invited(self, invitation: Invitation, uid: int) -> Organisation | None:
        """The organisation with this controller, or else an organisation without an identity.

        Raises CulvertError LOCAL_PERMISSION if the user may not replace it.
        """
        of = self._find_place(invitation)
        if of is not None and not (uid == ROOT_UID if _is_lost(of) else may(uid, Act.ENROLL, of.owner)):
            raise CulvertError(Reason.LOCAL_PERMISSION, what=Act.ENROLL.value)
        return of

    def _find_place(self, invitation: Invitation) -> Organisation | None:
        """As `_find_invited`, for any user."""
        for it in self._all():
            identity = it.connection.identity
            if identity is not None and (
                identity.controller == invitation.controller
                or invitation.ca_sha256 in _fingerprints(identity.ca_pem)
            ):
                return it
        places = [it for it in self._all() if it.connection.identity is None]
        # An organisation with a lost identity still protects its prefixes, so do not replace it.
        return next((it for it in places if not _is_lost(it) or len(self._all()) == 1), None)

    # ── which one ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _all(self) -> list[Organisation]:
        return self._daemon.router.all()

    def _mine(self, uid: int, act: Act) -> list[Organisation]:
        mine = [it for it in self._all() if may(uid, act, it.owner)]
        if not mine:
            raise CulvertError(Reason.LOCAL_PERMISSION, what=act.value)
        # An organisation with a lost identity can only be left.
        usable = [it for it in mine if it.owner is not None]
        return usable if usable and act is not Act.LEAVE else mine

    def _one(self, among: Sequence[Organisation], name: str) -> Organisation:
        named = [it for it in among if it.name == name] if name else among
        if not named:
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("The organisation {name}", name=name))
        if len(named) > 1:
            raise CulvertError(Reason.ORGANISATION_UNCLEAR, organisations=", ".join(it.name for it in named))
        return named[0]

    def _find_named(self, among: Sequence[Organisation], name: str) -> Organisation:
        """Find the organisation by a resource's name or DNS name. If no profile has it, all organisations are possible."""
        numbers = find_by_resource({it.number: it.client.profile for it in among}, name)
        return self._one([it for it in among if it.number in numbers] or among[:1], "")

    def _shown_name(self, of: Organisation) -> str:
        return of.name if len(self._all()) > 1 else ""

    def _status_for(self, of: Organisation, uid: int) -> local_pb2.Status:
        status = self._status_of(of)
        return status if role_of(uid, of.owner) >= Role.OWNER else redact(status)

    def _status_of(self, of: Organisation) -> local_pb2.Status:
        return of.status(epoch=self._epoch, datapath=self._daemon.datapath.name)


def _tell_blocked(status: local_pb2.Status, error: error_pb2.Error) -> None:
    if status.state != local_pb2.STATE_NOT_ENROLLED:
        status.state = local_pb2.STATE_BLOCKED
    status.warnings.insert(0, error)
    for it in (status, *status.organisations):
        if it.last_error == error:
            it.ClearField("last_error")
            it.ClearField("last_error_at")


def _canonical(name: str) -> str:
    """Raises CulvertError REQUEST_INVALID."""
    try:
        return dns_name.parse(name, wildcard=True)
    except dns_name.NameInvalidError as error:
        raise CulvertError(Reason.REQUEST_INVALID, why=error) from None


def _is_lost(of: Organisation) -> bool:
    """Whether this computer was enrolled but its identity cannot be read."""
    return of.connection.identity is None and of.client.profile != Profile()


def _fingerprints(ca_pem: bytes) -> set[bytes]:
    try:
        found = x509.load_pem_x509_certificates(ca_pem)
    except ValueError:
        return set()
    return {hashlib.sha256(it.public_bytes(serialization.Encoding.DER)).digest() for it in found}
