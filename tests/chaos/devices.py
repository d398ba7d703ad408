"""Simulated devices: enrolled computers that know each controller, open tunnels, and ask through them by real ESP.

click: OpenTunnel at the controller of the last answer ─┬─► ESP: ICMP echo ─► gateway ─► intranet ─► answer
              └── none in time: at the next one, too    └─► refused, with a reason
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_client.controller.agent import SILENT_AFTER
from culvert_lab import laptop
from culvert_lab import topology as net
from culvert_proto import CulvertError, Reason, agent_pb2, agent_pb2_grpc
from culvert_proto.grpc_errors import from_rpc_error
from culvert_proto.invitation_link import parse_invitation
from esp_peer import AES_GCM_256, Association
from scapy.layers.inet import ICMP, IP

from .cluster import CONTROLLERS, FORBIDDEN_ADDRESS, Cluster

ATTEMPT_SECONDS = 8.0
ATTEMPTS = 4
ECHOES, ECHO_SECONDS = 5, 0.6
NO_ANSWER = "NO_ANSWER"
_ELSEWHERE = (Reason.CONTROLLER_UNREACHABLE, Reason.TIMEOUT)
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class Click:
    """Times in seconds of the monotonic clock. `refused`: a reason's name or NO_ANSWER; empty for an open name."""

    began: float
    ended: float
    fqdn: str
    refused: str = ""
    why: str = ""


@dataclass(slots=True)
class Device:
    """`wrong`: accesses that no policy permits."""

    id: str
    key_pem: bytes
    certificate_pem: bytes
    ca_pem: bytes
    totp_uri: str
    wrong: list[str] = field(default_factory=list[str])
    _at: int = 0
    _channels: dict[str, grpc.aio.Channel] = field(default_factory=dict[str, grpc.aio.Channel])

    @classmethod
    async def enrol(cls, cluster: Cluster, user: str) -> Device:
        """With a code proven. Raises Refused, CulvertError."""
        key = ec.generate_private_key(ec.SECP256R1())
        csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        link = (await cluster.ask("/invitations", method="POST", body={"user": user}))["link"]
        body = {
            "token": parse_invitation(link).token,
            "device_name": "simulated",
            "csr_pem": csr.public_bytes(serialization.Encoding.PEM).decode(),
        }
        found = await cluster.ask("/enrolments", method="POST", body=body)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        device = cls(
            found["device_id"], pem, found["certificate_pem"].encode(), cluster.ca_pem, found["totp_uri"]
        )
        code = laptop.code_of(device.totp_uri)
        await device.call("ProveCode", agent_pb2.ProveCodeRequest(code=code))
        return device

    async def click(self, fqdn: str, dice: random.Random) -> Click:
        """Opens the name and asks the intranet once; mostly closes it again."""
        began = time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.bind(("", 0))
            request = agent_pb2.OpenTunnelRequest(
                fqdn=fqdn, udp_port=end.getsockname()[1], attempt=os.urandom(16)
            )
            try:
                opened = await self.call("OpenTunnel", request)
            except CulvertError as error:
                return Click(began, time.monotonic(), fqdn, error.reason.name, error.message)
            path = _Path(end, opened)
            answered = await path.echo(opened.tunnel.remote_prefixes[0].partition("/")[0], ECHOES)
            ended = time.monotonic()
            if answered and dice.random() < 0.2 and await path.echo(FORBIDDEN_ADDRESS, 1):
                self.wrong.append(f"{fqdn} reached {FORBIDDEN_ADDRESS}")
        if dice.random() < 0.7:
            close = agent_pb2.CloseTunnelRequest(
                tunnel_id=opened.tunnel.tunnel_id, reason=cast("Any", int(Reason.CLOSED_BY_USER))
            )
            # If it fails, the tunnel is idle from now on.
            with suppress(CulvertError):
                await self.call("CloseTunnel", close)
        why = "" if answered else f"through {opened.tunnel.gateway.name}"
        return Click(began, ended, fqdn, "" if answered else NO_ANSWER, why)

    async def call(self, method: str, request: Any) -> Any:
        """At the controller of the last answer; after a while without one at the next as well, as culvertd does.

        Raises CulvertError.
        """
        names, trying = list(CONTROLLERS), set[asyncio.Task[Any]]()
        fault = CulvertError(Reason.TIMEOUT, what="The answer of any controller")
        try:
            for _ in range(ATTEMPTS):
                name = names[self._at % len(names)]
                trying.add(asyncio.create_task(self._ask(name, method, request)))
                done, trying = await asyncio.wait(
                    trying, timeout=SILENT_AFTER, return_when=asyncio.FIRST_COMPLETED
                )
                for answer in (it.result() for it in done):
                    if not isinstance(answer, CulvertError):
                        return answer
                    if answer.reason not in _ELSEWHERE:
                        raise answer
                    fault = answer
                self._at += 1
            raise fault
        finally:
            for each in trying:
                each.cancel()

    async def _ask(self, name: str, method: str, request: Any) -> Any:
        """The answer, or the CulvertError with which the call has ended."""
        stub = agent_pb2_grpc.AgentServiceStub(self._channel(name))
        try:
            return await getattr(stub, method)(request, timeout=ATTEMPT_SECONDS)
        except grpc.aio.AioRpcError as error:
            told = from_rpc_error(error, peer=name)
            if told.reason in _ELSEWHERE:
                await self._give_up(name)
            return told
        except asyncio.CancelledError:
            # An earlier call to that controller has closed the channel.
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            return CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=name)

    def _channel(self, name: str) -> grpc.aio.Channel:
        if name not in self._channels:
            credentials = grpc.ssl_channel_credentials(self.ca_pem, self.key_pem, self.certificate_pem)
            address = f"{CONTROLLERS[name]}:{net.AGENT_PORT}"
            self._channels[name] = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
        return self._channels[name]

    async def _give_up(self, name: str) -> None:
        if (channel := self._channels.pop(name, None)) is not None:
            await channel.close()

    async def close(self) -> None:
        for name in list(self._channels):
            await self._give_up(name)


class _Path:
    """An open tunnel's packets."""

    def __init__(self, end: socket.socket, opened: agent_pb2.OpenTunnelResponse) -> None:
        self._end, self._tunnel = end, opened.tunnel
        out, into = opened.sas.outbound, opened.sas.inbound
        self._out = Association(AES_GCM_256, bytes(out.key), out.spi)
        self._into = Association(AES_GCM_256, bytes(into.key), into.spi)
        self._sent = 0

    async def echo(self, target: str, tries: int) -> bool:
        """Whether that host answers."""
        where = (self._tunnel.outer_address, self._tunnel.outer_port)
        token = os.urandom(8)
        for _ in range(tries):
            self._sent += 1
            asks = IP(src=self._tunnel.inner_address, dst=target) / ICMP(id=1, seq=self._sent) / token
            await asyncio.get_running_loop().sock_sendto(self._end, self._out.seal(asks, self._sent), where)
            if await self._heard(target, token):
                return True
        return False

    async def _heard(self, target: str, token: bytes) -> bool:
        try:
            async with asyncio.timeout(ECHO_SECONDS):
                while True:
                    packet = await asyncio.get_running_loop().sock_recv(self._end, 4096)
                    if int.from_bytes(packet[:4]) != self._into.spi:
                        continue
                    inner = self._into.open(packet)
                    if inner.src == target and bytes(inner).endswith(token):
                        return True
        except TimeoutError:
            return False
