"""A computer that was off longer than its certificate lives comes back by itself once it is given a code."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_client.state_dir import Identity, StateDir
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2
from culvert_proto.late_renewal import statement

from .controller import CODE, FAR_FUTURE, Controller
from .enrolment_server import Enrolments, accepts, enrolment_server, refuses
from .pki import Authority
from .running import FIRST, Running
from .test_daemon import WIKI, Lab, given, refused
from .test_handshake import front

CHALLENGE = "of-this-controller"
UNTIL = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


class _Context:
    """The front's context, for a servicer that was written for gRPC's own server."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [self._context.fingerprint]}


class _Behind(Controller):
    """Behind the controller's own front, which tells a device that its certificate has expired."""

    def Watch(self, request: agent_pb2.WatchRequest, context: Any) -> Any:  # noqa: N802  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().Watch(request, _Context(context))  # pyright: ignore[reportArgumentType]


class Sleeper(Lab):
    """An enrolled computer whose certificate expired while it was off. `verdict`: the refusal of its renewal."""

    verdict: CulvertError | None = None
    # The renewal's answer instead of the next certificate.
    other: bytes | None = None
    # Whether it knows another CA than the controller's.
    astray = False
    web: Enrolments

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.controller = _Behind()

    @contextlib.asynccontextmanager
    async def _front(self) -> AsyncGenerator[None]:
        async with front(self.infrastructure.issue("controller"), self.devices, self.controller) as server:
            self.controller.port = server.port
            yield

    def renewals(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not body:
            return 201, {"challenge": CHALLENGE, "expires_at": UNTIL.isoformat()}
        certificate = x509.load_pem_x509_certificate(body["certificate_pem"].encode())
        key = certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        signed = statement(CHALLENGE, body["certificate_pem"], body["csr_pem"])
        key.verify(base64.b64decode(body["signature"]), signed, ec.ECDSA(hashes.SHA256()))
        if self.verdict is not None:
            return refuses(self.verdict)(body)
        if body["code"] != CODE:
            return refuses(CulvertError(Reason.CODE_WRONG if body["code"] else Reason.CODE_NEEDED))(body)
        self.devices.lifetime = datetime.timedelta(days=1)
        self.controller.profile.code_valid_until = FAR_FUTURE
        return 201, {
            "certificate_pem": (self.other or self.devices.sign(body["csr_pem"].encode())).decode(),
            "ca_pem": self.infrastructure.pem.decode(),
            "code_valid_until": UNTIL.isoformat(),
            "recovery_codes_left": None,
        }

    @contextlib.asynccontextmanager
    async def woken(self) -> AsyncGenerator[Running]:
        """Beside its controller, which it was enrolled with."""
        async with self._front():
            answer = accepts(self.infrastructure, self.devices, f"127.0.0.1:{self.controller.port}")
            with enrolment_server(
                self.directory, self.infrastructure, answer, renewals=self.renewals
            ) as self.web:
                async with self.daemon() as daemon:
                    await daemon.local.Enroll(
                        local_pb2.EnrollRequest(link=self.web.link(self.infrastructure), device_name="laptop")
                    )
                    await daemon.until(lambda it: it.state == local_pb2.STATE_NEEDS_CODE)
                self._let_expire()
                async with self.daemon() as daemon:
                    yield daemon

    def identity(self) -> Identity:
        found = StateDir(self.directory / "state" / FIRST).identity()
        assert found is not None
        return found

    def _let_expire(self) -> None:
        self.devices.begins = datetime.timedelta(days=-3)
        self.devices.lifetime = datetime.timedelta(days=-1)
        csr = self.web.bodies[0]["csr_pem"].encode()
        identity = self.directory / "state" / FIRST / "identity"
        (identity / "device.pem").write_bytes(self.devices.sign(csr))
        if self.astray:
            (identity / "ca.pem").write_bytes(Authority("infrastructure").pem)


def expired(status: local_pb2.Status) -> bool:
    return status.last_error.reason == Reason.CERTIFICATE_EXPIRED


@pytest.fixture
def lab(tmp_path: Path) -> Sleeper:
    return Sleeper(tmp_path)


async def test_an_expired_certificate_is_renewed_with_a_code(lab: Sleeper) -> None:
    async with lab.woken() as daemon:
        told = await daemon.until(expired)
        assert told.state == local_pb2.STATE_NEEDS_CODE
        assert told.last_error.reason == Reason.CERTIFICATE_EXPIRED
        assert (
            await refused(daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code="000000")))
        ).reason is (Reason.CODE_WRONG)
        before = lab.identity()
        answer = await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        assert answer.code_valid_until == round(UNTIL.timestamp())
        # The daemon is connected before it answers, and a program's query opens a tunnel.
        ready = await daemon.status()
        assert (ready.state, ready.HasField("last_error")) == (local_pb2.STATE_READY, False)
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
        after = lab.identity()
        certificate = x509.load_pem_x509_certificate(after.certificate_pem)
        assert lab.controller.shown[-1] == certificate.fingerprint(hashes.SHA256())
        assert after.key_pem != before.key_pem


async def test_a_code_right_after_the_start_renews_too(lab: Sleeper) -> None:
    async with lab.woken() as daemon:
        # By this computer's own clock: the controller may not have been asked yet.
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        assert (await daemon.status()).state == local_pb2.STATE_READY


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (CulvertError(Reason.RENEWAL_TOO_LATE, days=30), Reason.RENEWAL_TOO_LATE),
        (CulvertError(Reason.DEVICE_REVOKED, device="laptop"), Reason.DEVICE_REVOKED),
        (CulvertError(Reason.CERTIFICATE_UNKNOWN), Reason.CERTIFICATE_UNKNOWN),
        # A controller that cannot renew late.
        (CulvertError(Reason.NOT_FOUND, what="The path"), Reason.RENEWAL_TOO_LATE),
    ],
)
async def test_no_code_is_asked_for_where_none_helps(
    lab: Sleeper, verdict: CulvertError, said: Reason
) -> None:
    lab.verdict = verdict
    async with lab.woken() as daemon:
        told = await daemon.until(lambda it: it.last_error.reason == said)
        assert told.state == local_pb2.STATE_OFFLINE
        assert "invitation" in told.last_error.remedy
        assert "code" not in told.last_error.remedy
        examined = await daemon.local.Examine(local_pb2.ExamineRequest())
        assert examined.controller_error.reason == said
        refusal = await refused(daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE)))
        assert refusal.reason is verdict.reason


async def test_a_certificate_for_another_key_is_not_taken(lab: Sleeper) -> None:
    lab.other, _ = lab.devices.issue("laptop")
    async with lab.woken() as daemon:
        await daemon.until(expired)
        before = lab.identity()
        refusal = await refused(daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE)))
        assert refusal.reason is Reason.INTERNAL
        assert lab.identity() == before


async def test_no_code_goes_to_a_server_of_another_ca(lab: Sleeper) -> None:
    lab.astray = True
    async with lab.woken() as daemon:
        await daemon.until(lambda it: it.last_error.reason == Reason.CONTROLLER_CA_UNKNOWN)
        refusal = await refused(daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE)))
        assert refusal.reason is Reason.CONTROLLER_CA_UNKNOWN
        assert not any("code" in body for body in lab.web.bodies)


async def test_a_click_during_the_renewal_does_not_block_the_next(lab: Sleeper) -> None:
    async with lab.woken() as daemon:
        clicks: list[asyncio.Task[object]] = []

        async def click() -> None:
            while True:
                clicks.append(asyncio.create_task(daemon.ask(WIKI)))
                await asyncio.sleep(0.05)

        async with asyncio.timeout(20):
            clicking = asyncio.create_task(click())
            await asyncio.sleep(0.4)
            await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
            clicking.cancel()
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
        await asyncio.gather(*clicks, return_exceptions=True)
