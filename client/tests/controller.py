"""An agent API on real mutual TLS whose answers a test chooses. For faults that a real controller can't be made to show."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from culvert_proto import CulvertError, Reason, agent_pb2, agent_pb2_grpc
from culvert_proto.grpc_errors import stream, unary

from .pki import Authority

# gRPC dictates the methods' names, and calls them by position only.
# ruff: noqa: N802
# pyright: reportIncompatibleMethodOverride=false

Context = grpc.aio.ServicerContext[Any, Any]

FAR_FUTURE = 1 << 40
CODE = "123456"


class Controller(agent_pb2_grpc.AgentServiceServicer):
    """One device, one gateway. OpenTunnel ends with `refusal` while it is set, or with the name's of `refusals`."""

    def __init__(self) -> None:
        self.port = 0
        self.profile = agent_pb2.Profile(
            user="alice",
            device_name="laptop",
            managed_zones=["corp.example"],
            protected_prefixes=["10.20.0.0/16"],
            gateways=[agent_pb2.Gateway(name="gw-berlin", address="198.51.100.2", online=True)],
            resources=[agent_pb2.Resource(name="wiki", fqdn="wiki.corp.example", addresses=["10.20.0.10"])],
        )
        self.refusal: CulvertError | None = None
        self.refusals: dict[str, CulvertError] = {}
        self.prefixes = ["10.20.0.10/32"]
        # The prefixes of names that differ from `prefixes`.
        self.prefixes_of: dict[str, list[str]] = {}
        self.inner_address, self.outer_address = "10.99.0.2", "198.51.100.2"
        self.inner_address6 = ""
        self.first_spi = 1000
        self.recovery_codes = ["abcd-efgh-ijkl-mn23", "abcd-efgh-ijkl-mn24"]
        self.renewal: Callable[[str], Awaitable[agent_pb2.RenewCertificateResponse]] = _refuses_renewal
        # Seconds until it says what is protected.
        self.hesitates = 0.0
        # The certificates that have watched.
        self.shown: list[bytes] = []
        # The postures that those computers reported.
        self.said: list[dict[str, str]] = []
        # While it is not set, tunnels are asked for as of a host that is gone.
        self.answers = asyncio.Event()
        self.answers.set()
        self.open: dict[str, int] = {}
        self.distances: dict[str, int] = {}
        self.path_mtus: dict[str, int] = {}
        self.calls: list[str] = []
        self._opened = 0
        self._watchers: list[asyncio.Queue[agent_pb2.WatchResponse]] = []

    def tell(self, event: agent_pb2.WatchResponse) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(event)

    @stream
    async def Watch(
        self, request: agent_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[agent_pb2.WatchResponse]:
        events: asyncio.Queue[agent_pb2.WatchResponse] = asyncio.Queue()
        self._watchers.append(events)
        self.shown += context.auth_context()["x509_pem_cert"]
        self.said.append(dict(request.posture))
        await asyncio.sleep(self.hesitates)
        yield agent_pb2.WatchResponse(profile=self.profile)
        while True:
            yield await events.get()

    @unary
    async def ProveCode(self, request: agent_pb2.ProveCodeRequest, _: Context) -> agent_pb2.ProveCodeResponse:
        if request.code not in (CODE, *self.recovery_codes):
            raise CulvertError(Reason.CODE_WRONG)
        self.profile.code_valid_until = FAR_FUTURE
        answer = agent_pb2.ProveCodeResponse(code_valid_until=FAR_FUTURE)
        if request.code != CODE:
            self.recovery_codes.remove(request.code)
            answer.recovery_codes_left = len(self.recovery_codes)
        return answer

    @unary
    async def OpenTunnel(
        self, request: agent_pb2.OpenTunnelRequest, _: Context
    ) -> agent_pb2.OpenTunnelResponse:
        self.calls.append(f"open {request.fqdn}" + (f" for {request.asked}" if request.asked else ""))
        if not self.answers.is_set():
            await asyncio.Event().wait()
        self.distances = {it.name: it.rtt_us for it in request.distances if it.rtt_us}
        refusal = self.refusals.get(request.fqdn, self.refusal)
        if refusal is not None:
            raise refusal
        if not self.profile.code_valid_until:
            raise CulvertError(Reason.CODE_NEEDED)
        self._opened += 1
        tunnel_id = f"t{self._opened}"
        self.open[tunnel_id] = 1
        return agent_pb2.OpenTunnelResponse(
            tunnel=agent_pb2.Tunnel(
                tunnel_id=tunnel_id,
                resource="wiki",
                fqdn=request.fqdn,
                gateway=self.profile.gateways[0],
                inner_address=self.inner_address,
                inner_address6=self.inner_address6,
                remote_prefixes=self.prefixes_of.get(request.fqdn, self.prefixes),
                outer_address=self.outer_address,
                outer_port=4500,
                inner_mtu=1438,
            ),
            sas=self._pair(1),
            decided_us=200,
            programmed_us=900,
        )

    @unary
    async def RenewSa(self, request: agent_pb2.RenewSaRequest, _: Context) -> agent_pb2.RenewSaResponse:
        self.calls.append(f"renew {request.tunnel_id} {request.generation}")
        return agent_pb2.RenewSaResponse(sas=self._pair(request.generation + 1))

    @unary
    async def ActivateSa(
        self, request: agent_pb2.ActivateSaRequest, _: Context
    ) -> agent_pb2.ActivateSaResponse:
        self.calls.append(f"activate {request.tunnel_id} {request.generation}")
        self.open[request.tunnel_id] = request.generation
        return agent_pb2.ActivateSaResponse()

    @unary
    async def SetPathMtu(
        self, request: agent_pb2.SetPathMtuRequest, _: Context
    ) -> agent_pb2.SetPathMtuResponse:
        self.path_mtus[request.tunnel_id] = request.mtu
        return agent_pb2.SetPathMtuResponse()

    @unary
    async def CloseTunnel(
        self, request: agent_pb2.CloseTunnelRequest, _: Context
    ) -> agent_pb2.CloseTunnelResponse:
        refused = f" for {Reason(request.refused).name}" if request.refused else ""
        self.calls.append(f"close {request.tunnel_id}{refused}")
        self.open.pop(request.tunnel_id, None)
        return agent_pb2.CloseTunnelResponse()

    @unary
    async def RenewCertificate(
        self, request: agent_pb2.RenewCertificateRequest, _: Context
    ) -> agent_pb2.RenewCertificateResponse:
        self.calls.append("renew certificate")
        return await self.renewal(request.csr_pem)

    @unary
    async def Leave(self, request: agent_pb2.LeaveRequest, _: Context) -> agent_pb2.LeaveResponse:
        self.calls.append("leave")
        return agent_pb2.LeaveResponse()

    def _pair(self, generation: int) -> agent_pb2.SaPair:
        def sa(spi: int) -> agent_pb2.Sa:
            suite = agent_pb2.SUITE_AES_GCM_256
            return agent_pb2.Sa(
                spi=spi, suite=suite, key=bytes([spi % 256]) * 36, esn=True, replay_window=1024
            )

        return agent_pb2.SaPair(
            generation=generation,
            inbound=sa(self.first_spi + generation),
            outbound=sa(self.first_spi + 1000 + generation),
            drain_ms=200,
        )


async def _refuses_renewal(_: str) -> agent_pb2.RenewCertificateResponse:
    raise CulvertError(Reason.CERTIFICATE_UNKNOWN)


@contextlib.asynccontextmanager
async def serving(
    controller: Controller, infrastructure: Authority, devices: Authority, port: int = 0
) -> AsyncGenerator[Controller]:
    """Until the block ends; then the port is closed as if the controller had gone away."""
    certificate, key = infrastructure.issue("controller")
    credentials = grpc.ssl_server_credentials(
        [(key, certificate + infrastructure.pem)], root_certificates=devices.pem, require_client_auth=True
    )
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    agent_pb2_grpc.add_AgentServiceServicer_to_server(controller, server)
    controller.port = server.add_secure_port(f"127.0.0.1:{port}", credentials)
    await server.start()
    try:
        yield controller
    finally:
        await server.stop(grace=0)
