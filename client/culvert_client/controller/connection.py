"""The connection to the controller with the device's identity: the stream of events, and the certificate's renewal.

enrolled ─► take ─► connect ─► Agent ─┬─ watch ─► events, or: the certificate has expired ─┐
                       ▲              └─ renewal ─► the next certificate                   │
                       └────────────────────────────────┘◄──────────── renewal by a code ──┘
"""

from __future__ import annotations

import asyncio
import http.client
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from culvert_proto import CulvertError, Reason, agent_pb2

from culvert_client.controller.agent import Agent
from culvert_client.controller.handshake import has_expired, refusal
from culvert_client.controller.messages import Neighbourhood, accepted_profile, event_from
from culvert_client.controller.renewal import REST, LateRenewal, keep_renewed, renew_late, why_not_late
from culvert_client.core.client import Client
from culvert_client.core.client_events import ControllerLost, Enrolled, Event, ProfileReceived
from culvert_client.core.faults import AWAY
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel import events as tunnel
from culvert_client.platform.interfaces import DaemonPlatform
from culvert_client.state_dir import Identity, StateDir
from culvert_client.state_file import not_kept

log = logging.getLogger("culvertd")

# Refusals that are only reported after the controller has proven its identity.
_PROVEN = frozenset(
    {
        Reason.CERTIFICATE_EXPIRED,
        Reason.CERTIFICATE_REFUSED,
        Reason.CERTIFICATE_UNKNOWN,
        Reason.DEVICE_REVOKED,
        Reason.RENEWAL_TOO_LATE,
    }
)

# Our tunable, in seconds: the interval between questions whether a code can renew an expired certificate.
ASK_AGAIN = 600.0

# Portals intercept this port for everybody.
PORTAL_PORT = 80
# Our tunable, in seconds: short, because a person waits.
PORTAL_PATIENCE = 1.5
# RFC 6585 section 6.
_NETWORK_AUTHENTICATION_REQUIRED = 511

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Connection:
    """`identity`, `agent`: None until this computer is enrolled."""

    def __init__(
        self,
        state: StateDir,
        identity: Identity | None,
        client: Client,
        post: Callable[[Event], None],
        spawn: Spawn,
        version: str,
        neighbourhood: Neighbourhood,
        platform: DaemonPlatform,
        reach: Callable[[str], str],
        *,
        portal_probe: bool,
    ) -> None:
        self.identity = identity
        self.agent: Agent | None = None
        self._state, self._client, self._post, self._spawn = state, client, post, spawn
        self._version, self._neighbourhood = version, neighbourhood
        self._platform, self._reach = platform, reach
        self._portal_probe = portal_probe
        self._tasks: list[asyncio.Task[None]] = []
        self._renewing = asyncio.Lock()
        # The time of the last answer whether a code can renew an expired certificate, and the refusal, if any.
        self._late: tuple[float, CulvertError | None] | None = None

    def open(self, rest: float = 0.0) -> None:
        """Connect. `rest`: seconds before the next renewal of the certificate."""
        self._late = None
        if self.identity is not None:
            self.agent = Agent(self.identity, self._version, self._platform.posture, self._reach)
            renewal = keep_renewed(self.agent, self.identity, self._take_identity, rest)
            self._tasks = [self._spawn(self._watch(self.agent)), self._spawn(renewal)]

    async def leave(self) -> None:
        """Close for ever: if it can be reached, the controller is told to revoke this device."""
        self._stop_tasks()
        if self.agent is not None:
            try:
                await self.agent.leave()
            except CulvertError as error:
                log.warning("the controller does not know that this device has left: %s", error)
        await self.close()

    def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self._stop_tasks()
        if self.agent is not None:
            await self.agent.close()

    async def take(self, identity: Identity) -> None:
        """Replace the identity after an enrolment, and leave with the one before. Raises OSError."""
        self._stop_tasks()
        self._post(Enrolled())
        try:
            self._state.keep_identity(identity)
        except OSError:
            await self.close()
            raise
        await self.leave()
        self._client.files_kept()
        self.identity = identity
        self.open()

    def check(self) -> tuple[Agent, Identity]:
        """Raises CulvertError NOT_ENROLLED."""
        if self.agent is None or self.identity is None:
            raise CulvertError(Reason.NOT_ENROLLED)
        return self.agent, self.identity

    @property
    def has_expired(self) -> bool:
        """Whether the certificate has expired, so that a code must renew it first."""
        if self.identity is None or self._client.connected:
            return False
        return self._client.needs_late_renewal or has_expired(self.identity)

    async def renew_late(self, code: str) -> LateRenewal:
        """Raises CulvertError, and then has changed nothing. Raises OSError if the state directory cannot be written."""
        async with self._renewing:
            agent, identity = self.check()
            # Reserve disk space first: the answer uses the code up and must be stored.
            with self._state.room():
                renewed = await renew_late(identity, code, self._reach)
            self._tasks[1].cancel()
            self._take_identity(renewed.identity)
            await agent.close()
        log.info("the expired certificate is renewed")
        return renewed

    def _take_identity(self, identity: Identity) -> None:
        path = self._state.path_of("identity")
        try:
            # Store the certificate before it is used: its first use ends the old one.
            self._state.keep_renewed(identity)
        except OSError as error:
            self._client.file_warnings[str(path)] = not_kept(path, error)
            raise
        self._client.files_kept(str(path))
        self.identity = identity
        self._tasks[0].cancel()
        self.open(REST)

    async def _watch(self, agent: Agent) -> None:
        async for event in agent.watch():
            try:
                self._post(await self._on_watch_event(event, agent))
            except CulvertError as error:
                self._post(ControllerLost(error))

    async def _on_watch_event(self, event: agent_pb2.WatchResponse | CulvertError, agent: Agent) -> Event:
        if isinstance(event, CulvertError):
            return await self._on_loss(event, agent)
        if event.HasField("profile"):
            profile = await accepted_profile(event.profile, agent, self._client.profile, self._neighbourhood)
            for it in profile.collisions:
                if it not in self._client.profile.collisions:
                    log.warning("%s", it.warning)
            try:
                self._state.keep_profile(_as_accepted(event.profile, profile))
                self._client.files_kept(str(self._state.profile_path))
            except (OSError, CulvertError) as error:
                # A full disk, or a file of a newer version, must not stop tunnels.
                log.error("the profile cannot be stored: %s", error)
                self._client.file_warnings[str(self._state.profile_path)] = not_kept(
                    self._state.profile_path, error
                )
            return ProfileReceived(profile)
        # Unknown: an event of a newer controller.
        return event_from(event) or tunnel.Tick()

    async def _on_loss(self, error: CulvertError, agent: Agent) -> ControllerLost:
        before = self._client.controller_error
        if error.reason is Reason.CONTROLLER_UNREACHABLE:
            if before is None or before.reason not in AWAY | _PROVEN or before.reason is error.reason:
                # Report the loss at once, because finding its cause takes seconds.
                self._post(ControllerLost(error))
            error = await self._cause(error, agent)
        if before is None or before.reason is not error.reason:
            log.warning("%s", error)
        return ControllerLost(error)

    async def _cause(self, error: CulvertError, agent: Agent) -> CulvertError:
        portal, refused = await asyncio.gather(self._portal(agent), self._refusal(agent))
        # A portal that intercepts the connection presents its own certificate.
        if portal is not None and (refused is None or refused.reason not in _PROVEN):
            return portal
        return refused or error

    async def _portal(self, agent: Agent) -> CulvertError | None:
        if self._portal_probe and await portal_stands_before(agent.address, agent.reach):
            return CulvertError(Reason.CAPTIVE_PORTAL, controller=agent.address)
        return None

    async def _refusal(self, agent: Agent) -> CulvertError | None:
        if self.identity is None:
            return None
        device, process = self._client.profile.device_name, self._platform.process
        refused = await refusal(self.identity, device, process, agent.reach)
        if refused is None or refused.reason is not Reason.CERTIFICATE_EXPIRED:
            return refused
        now = asyncio.get_running_loop().time()
        if self._late is None or now - self._late[0] > ASK_AGAIN:
            self._late = now, await why_not_late(self.identity, agent.reach)
        return self._late[1] or refused


def _as_accepted(message: agent_pb2.Profile, profile: Profile) -> agent_pb2.Profile:
    """The message with only accepted prefixes, so that the next start does not block networks that the computer needs."""
    kept = agent_pb2.Profile()
    kept.CopyFrom(message)
    kept.protected_prefixes[:] = map(str, profile.offered)
    return kept


async def portal_stands_before(controller: str, reach: Callable[[str], str] = str) -> bool:
    """Whether the network asks for a sign-in of its own before it lets anything through (RFC 8952 section 1): something
    else answers in the place of `controller`, which is "host:port", and leads elsewhere.

    `reach` gives the address that stands for a host on this network (nat64_reach.py).
    Nothing of this device is told, and what is answered opens nothing: it is only said to the person.
    """
    host = controller.rpartition(":")[0].strip("[]")
    try:
        async with asyncio.timeout(PORTAL_PATIENCE):
            return await asyncio.to_thread(_leads_elsewhere, host, reach(host))
    except (OSError, TimeoutError, http.client.HTTPException, ValueError):
        return False


def _leads_elsewhere(host: str, reached: str) -> bool:
    connection = http.client.HTTPConnection(reached, PORTAL_PORT, timeout=PORTAL_PATIENCE)
    try:
        connection.request("GET", "/", headers={"Host": f"[{host}]" if ":" in host else host})
        answer = connection.getresponse()
        if answer.status == _NETWORK_AUTHENTICATION_REQUIRED:
            return True
        there = urlsplit(answer.headers["Location"] or "").hostname
        return 300 <= answer.status < 400 and there is not None and there != host.lower()
    finally:
        connection.close()
