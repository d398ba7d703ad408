"""culvert.agent.v1: each call finds its device by certificate, anew."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Sequence

from culvert_db import Sessions
from culvert_proto import CulvertError, Reason, agent_pb2, agent_pb2_grpc, error_pb2
from culvert_proto.grpc_errors import stream, unary

from culvert_service.agent import caller, messages
from culvert_service.agent.caller import Context
from culvert_service.gateways.fleet import Fleet
from culvert_service.identity.authenticators import Authenticators
from culvert_service.identity.renewal import Renewal
from culvert_service.identity.service import Identity, Now
from culvert_service.resources import repository as resources
from culvert_service.sessions.opening import OpenRequest
from culvert_service.sessions.service import Tunnels
from culvert_service.watch.hub import Hub, ProfileChanged, SaExpiring, TunnelClosed

_log = logging.getLogger(__name__)

_PORT_MAX = 65535
_CLOSE_REASONS = (error_pb2.REASON_CLOSED_BY_USER, error_pb2.REASON_CLOSED_IDLE)


class AgentServicer(agent_pb2_grpc.AgentServiceServicer):
    def __init__(
        self,
        sessions: Sessions,
        identity: Identity,
        authenticators: Authenticators,
        renewal: Renewal,
        tunnels: Tunnels,
        fleet: Fleet,
        hub: Hub,
        *,
        managed_zones: Sequence[str],
        protected_prefixes: Sequence[str],
        now: Now,
    ) -> None:
        self._sessions = sessions
        self._identity = identity
        self._authenticators = authenticators
        self._renewal = renewal
        self._tunnels = tunnels
        self._fleet = fleet
        self._hub = hub
        self._managed_zones = managed_zones
        self._protected_prefixes = protected_prefixes
        self._now = now

    @stream
    async def Watch(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[agent_pb2.WatchResponse]:
        fingerprint = caller.fingerprint(context)
        device = await self._identity.seen(
            fingerprint, caller.outer_address(context), request.client_version, request.posture
        )
        watcher = self._hub.open(device.id)
        _log.info("device watches", extra={"device": str(device.id), "client": request.client_version[:40]})
        try:
            async for event in watcher.events():
                match event:
                    case ProfileChanged():
                        yield agent_pb2.WatchResponse(profile=await self._profile(fingerprint))
                    case TunnelClosed():
                        yield messages.tunnel_closed(event)
                    case SaExpiring():
                        yield messages.sa_expiring(event)
        finally:
            self._hub.close(device.id, watcher)

    @unary
    async def ProveCode(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.ProveCodeRequest, context: Context
    ) -> agent_pb2.ProveCodeResponse:
        until = await self._authenticators.prove(caller.fingerprint(context), request.code)
        return agent_pb2.ProveCodeResponse(code_valid_until=int(until.timestamp()))

    @unary
    async def OpenTunnel(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.OpenTunnelRequest, context: Context
    ) -> agent_pb2.OpenTunnelResponse:
        fingerprint = caller.fingerprint(context)
        if not 0 < request.udp_port <= _PORT_MAX:
            raise CulvertError(Reason.REQUEST_INVALID, why="udp_port is not a port")
        opened = await self._tunnels.open(
            OpenRequest(
                fingerprint,
                request.fqdn.rstrip(".").lower(),
                request.gateway,
                caller.outer_address(context),
                request.udp_port,
            )
        )
        return agent_pb2.OpenTunnelResponse(
            tunnel=messages.tunnel(opened.tunnel),
            sas=messages.sa_pair(opened.tunnel.pair),
            decided_us=opened.timeline.decided_us,
            programmed_us=opened.timeline.programmed_us,
        )

    @unary
    async def RenewSa(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.RenewSaRequest, context: Context
    ) -> agent_pb2.RenewSaResponse:
        fingerprint, tunnel_id = caller.fingerprint(context), _tunnel_id(request.tunnel_id)
        pair = await self._tunnels.renew(fingerprint, tunnel_id, request.generation)
        return agent_pb2.RenewSaResponse(sas=messages.sa_pair(pair))

    @unary
    async def ActivateSa(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.ActivateSaRequest, context: Context
    ) -> agent_pb2.ActivateSaResponse:
        fingerprint, tunnel_id = caller.fingerprint(context), _tunnel_id(request.tunnel_id)
        await self._tunnels.activate(fingerprint, tunnel_id, request.generation)
        return agent_pb2.ActivateSaResponse()

    @unary
    async def CloseTunnel(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.CloseTunnelRequest, context: Context
    ) -> agent_pb2.CloseTunnelResponse:
        fingerprint, tunnel_id = caller.fingerprint(context), _tunnel_id(request.tunnel_id)
        if request.reason not in _CLOSE_REASONS:
            raise CulvertError(Reason.REQUEST_INVALID, why="reason is not one that a device closes for")
        why = CulvertError(Reason(request.reason))
        await self._tunnels.close_by_device(fingerprint, tunnel_id, why)
        return agent_pb2.CloseTunnelResponse()

    @unary
    async def RenewCertificate(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.RenewCertificateRequest, context: Context
    ) -> agent_pb2.RenewCertificateResponse:
        renewed = await self._renewal.renew(caller.fingerprint(context), request.csr_pem)
        return agent_pb2.RenewCertificateResponse(
            certificate_pem=renewed.certificate_pem, ca_pem=renewed.ca_pem
        )

    async def _profile(self, fingerprint: bytes) -> agent_pb2.Profile:
        device = await self._identity.known(fingerprint)
        async with self._sessions() as session:
            reachable = await resources.reachable_by(session, device.user_id)
        return messages.profile(
            device, reachable, self._fleet, self._managed_zones, self._protected_prefixes, self._now()
        )


def _tunnel_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise CulvertError(Reason.TUNNEL_UNKNOWN) from None
