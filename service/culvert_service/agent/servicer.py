"""The service culvert.agent.v1. Each call looks its device up by the certificate."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator

from culvert_agent_server import Context
from culvert_proto import CulvertError, Reason, agent_pb2, agent_pb2_grpc, dns_name, error_pb2
from culvert_proto.contract import DNS_NAME_MAX
from culvert_proto.grpc_errors import stream, unary
from culvert_proto.phrases import Phrase

from culvert_service.agent import messages
from culvert_service.agent.handover import Handover, serving
from culvert_service.agent.profiles import Profiles
from culvert_service.controllers.calls import Serve
from culvert_service.database import repeat
from culvert_service.gateways.fleet import Elsewhere
from culvert_service.identity.authenticators import Authenticators
from culvert_service.identity.denials import Denials, DeviceCaller
from culvert_service.identity.renewal import Renewal
from culvert_service.identity.service import Identity
from culvert_service.tunnels.opening import OpenRequest
from culvert_service.tunnels.service import Tunnels
from culvert_service.watch.hub import Hub, ProfileChanged
from culvert_service.watch.pushes import Pushes

_log = logging.getLogger(__name__)

_ATTEMPT_BYTES = 16
_PORT_MAX = 65535
# The most streams that are recorded at once. Otherwise, after a restart, streams would take all connections to the
# database, and OpenTunnel would get none.
_STREAMS_AT_ONCE = 8
_CLOSE_REASONS = (
    error_pb2.REASON_CLOSED_BY_USER,
    error_pb2.REASON_CLOSED_IDLE,
    error_pb2.REASON_DAEMON_STOPPED,
)
_REFUSALS = (
    error_pb2.REASON_UNSPECIFIED,
    error_pb2.REASON_ADDRESS_COLLISION,
    error_pb2.REASON_CONSENT_NEEDED,
    error_pb2.REASON_DATAPATH_FAILED,
)


class AgentServicer(agent_pb2_grpc.AgentServiceServicer):
    def __init__(
        self,
        identity: Identity,
        authenticators: Authenticators,
        renewal: Renewal,
        tunnels: Tunnels,
        hub: Hub,
        pushes: Pushes,
        handover: Handover,
        denials: Denials,
        profiles: Profiles,
    ) -> None:
        self._identity = identity
        self._authenticators = authenticators
        self._renewal = renewal
        self._tunnels = tunnels
        self._hub = hub
        self._pushes = pushes
        self._handover = handover
        self._denials = denials
        self._profiles = profiles
        self._stream_turns = asyncio.Semaphore(_STREAMS_AT_ONCE)

    @stream
    async def Watch(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[agent_pb2.WatchResponse]:
        # Locals live as long as the stream, and there are thousands of streams: delete large ones.
        caller = _caller(context)
        device_id = await self._record_watch(caller, request)
        del request
        watcher = self._hub.open(device_id)
        try:
            for one in await repeat(lambda: self._pushes.read_missed(device_id)):
                watcher.send(one)
            while (event := await watcher.next()) is not None:
                match event:
                    case ProfileChanged():
                        # No name for the profile: the stream would keep it until the next one.
                        yield agent_pb2.WatchResponse(
                            profile=await repeat(lambda: self._profiles.read(caller.fingerprint))
                        )
                    case _:
                        yield event.message()
        finally:
            self._hub.close(device_id, watcher)

    @unary
    async def ProveCode(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.ProveCodeRequest, context: Context
    ) -> agent_pb2.ProveCodeResponse:
        caller = _caller(context)
        proof = await self._authenticators.prove(caller.actor, caller.fingerprint, request.code)
        return agent_pb2.ProveCodeResponse(
            code_valid_until=int(proof.until.timestamp()), recovery_codes_left=proof.recovery_codes_left
        )

    @unary
    async def OpenTunnel(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.OpenTunnelRequest, context: Context
    ) -> agent_pb2.OpenTunnelResponse:
        caller = _caller(context)
        return await repeat(lambda: self._open_anywhere(caller, request))

    async def _open_anywhere(
        self, caller: DeviceCaller, request: agent_pb2.OpenTunnelRequest
    ) -> agent_pb2.OpenTunnelResponse:
        failed = frozenset[str]()
        while True:
            answer = await self._open(caller, request, failed)
            try:
                return await self._handover.follow(answer, caller, request, agent_pb2.OpenTunnelResponse)
            except CulvertError as error:
                if error.reason is not Reason.GATEWAY_DOWN or not isinstance(answer, Elsewhere):
                    raise
                # The next gateway may answer; or this gateway has a new owner, and is tried again.
                if self._handover.stands(answer):
                    failed |= {answer.gateway}

    @unary
    async def RenewSa(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.RenewSaRequest, context: Context
    ) -> agent_pb2.RenewSaResponse:
        caller = _caller(context)
        answer = await repeat(lambda: self._renew(caller, request))
        return await self._handover.follow(answer, caller, request, agent_pb2.RenewSaResponse)

    @unary
    async def ActivateSa(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.ActivateSaRequest, context: Context
    ) -> agent_pb2.ActivateSaResponse:
        caller = _caller(context)
        answer = await repeat(lambda: self._activate(caller, request))
        return await self._handover.follow(answer, caller, request, agent_pb2.ActivateSaResponse)

    @unary
    async def SetPathMtu(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.SetPathMtuRequest, context: Context
    ) -> agent_pb2.SetPathMtuResponse:
        caller = _caller(context)
        answer = await repeat(lambda: self._set_path_mtu(caller, request))
        return await self._handover.follow(answer, caller, request, agent_pb2.SetPathMtuResponse)

    @unary
    async def CloseTunnel(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.CloseTunnelRequest, context: Context
    ) -> agent_pb2.CloseTunnelResponse:
        caller, tunnel_id = _caller(context), _tunnel_id(request.tunnel_id)
        if request.reason not in _CLOSE_REASONS or request.refused not in _REFUSALS:
            raise CulvertError(
                Reason.REQUEST_INVALID, why=Phrase("reason is not one that a device closes for")
            )
        reason = Reason(request.refused or request.reason)
        async with self._denials.log_refusals(
            caller.actor, caller.fingerprint, "tunnel.close", f"tunnel/{tunnel_id}"
        ):
            await repeat(lambda: self._tunnels.close_by_device(caller, tunnel_id, reason))
        return agent_pb2.CloseTunnelResponse()

    @unary
    async def RenewCertificate(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.RenewCertificateRequest, context: Context
    ) -> agent_pb2.RenewCertificateResponse:
        caller = _caller(context)
        renewed = await self._renewal.renew(caller.actor, caller.fingerprint, request.csr_pem)
        return agent_pb2.RenewCertificateResponse(
            certificate_pem=renewed.certificate_pem, ca_pem=renewed.ca_pem
        )

    @unary
    async def Leave(  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: agent_pb2.LeaveRequest, context: Context
    ) -> agent_pb2.LeaveResponse:
        caller = _caller(context)
        async with self._denials.log_refusals(caller.actor, caller.fingerprint, "device.leave"):
            await self._identity.leave(caller.actor, caller.fingerprint, self._tunnels)
        return agent_pb2.LeaveResponse()

    def serving(self) -> dict[str, Serve]:
        """The handlers of calls that other controllers hand over, about gateways that this one owns."""
        return {
            **serving(agent_pb2.OpenTunnelRequest, self._open),
            **serving(agent_pb2.RenewSaRequest, self._renew),
            **serving(agent_pb2.ActivateSaRequest, self._activate),
            **serving(agent_pb2.SetPathMtuRequest, self._set_path_mtu),
        }

    async def audit_limited(self, fingerprint: bytes, address: str, count: int) -> None:
        """Audit `count` calls that the rate limit refused before they reached this service."""
        caller = DeviceCaller(fingerprint, address)
        for _ in range(count):
            await self._denials.tell(
                caller.actor, caller.fingerprint, "device.call", CulvertError(Reason.RATE_LIMITED, seconds=1)
            )

    async def _open(
        self, caller: DeviceCaller, request: agent_pb2.OpenTunnelRequest, failed: frozenset[str] = frozenset()
    ) -> agent_pb2.OpenTunnelResponse | Elsewhere:
        if not 0 < request.udp_port <= _PORT_MAX:
            raise CulvertError(Reason.REQUEST_INVALID, why=Phrase("udp_port is not a port"))
        if len(request.attempt) > _ATTEMPT_BYTES:
            raise CulvertError(
                Reason.REQUEST_INVALID,
                why=Phrase("attempt is longer than {number} bytes", number=_ATTEMPT_BYTES),
            )
        name, asked = _name("fqdn", request.fqdn), _name("asked", request.asked)
        opened = await self._tunnels.open(
            OpenRequest(
                caller,
                name,
                request.gateway,
                request.udp_port,
                request.attempt,
                failed,
                messages.distances(request.distances),
                messages.path_mtus(request.distances),
                asked,
            )
        )
        if isinstance(opened, Elsewhere):
            return opened
        return agent_pb2.OpenTunnelResponse(
            tunnel=messages.tunnel(opened.tunnel, opened.permit),
            sas=messages.sa_pair(opened.tunnel.pair, self._tunnels.drain),
            decided_us=opened.timeline.decided_us,
            programmed_us=opened.timeline.programmed_us,
        )

    async def _renew(
        self, caller: DeviceCaller, request: agent_pb2.RenewSaRequest
    ) -> agent_pb2.RenewSaResponse | Elsewhere:
        renewed = await self._tunnels.renew(caller, _tunnel_id(request.tunnel_id), request.generation)
        if isinstance(renewed, Elsewhere):
            return renewed
        return agent_pb2.RenewSaResponse(
            sas=messages.sa_pair(renewed.pair, self._tunnels.drain),
            programmed_us=renewed.timeline.programmed_us,
        )

    async def _activate(
        self, caller: DeviceCaller, request: agent_pb2.ActivateSaRequest
    ) -> agent_pb2.ActivateSaResponse | Elsewhere:
        elsewhere = await self._tunnels.activate(caller, _tunnel_id(request.tunnel_id), request.generation)
        return agent_pb2.ActivateSaResponse() if elsewhere is None else elsewhere

    async def _set_path_mtu(
        self, caller: DeviceCaller, request: agent_pb2.SetPathMtuRequest
    ) -> agent_pb2.SetPathMtuResponse | Elsewhere:
        mtu = messages.path_mtu(request.mtu)
        elsewhere = await self._tunnels.set_path_mtu(caller, _tunnel_id(request.tunnel_id), mtu)
        return agent_pb2.SetPathMtuResponse() if elsewhere is None else elsewhere

    async def _record_watch(self, caller: DeviceCaller, request: agent_pb2.WatchRequest) -> uuid.UUID:
        async with (
            self._stream_turns,
            self._denials.log_refusals(caller.actor, caller.fingerprint, "device.watch"),
        ):
            device = await repeat(
                lambda: self._identity.record_watch(
                    caller.fingerprint, caller.address, request.client_version, request.posture
                )
            )
        _log.info("device watches", extra={"device": str(device.id), "client": request.client_version[:40]})
        return device.id


def _caller(context: Context) -> DeviceCaller:
    return DeviceCaller(context.fingerprint, context.address)


def _name(field: str, text: str) -> str:
    name = dns_name.canonical(text)
    if len(name) > DNS_NAME_MAX or not name.isprintable():
        raise CulvertError(Reason.REQUEST_INVALID, why=Phrase("{field} is not a name", field=field))
    return name


def _tunnel_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise CulvertError(Reason.TUNNEL_UNKNOWN) from None
