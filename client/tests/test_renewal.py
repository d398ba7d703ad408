"""The device's certificate is renewed at half of its life; tunnels and calls do not notice."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import pytest
from culvert_client.controller.agent import Agent
from culvert_client.controller.renewal import RETRY, SPREAD, renew, renew_at, retry_after
from culvert_client.state_dir import Identity, StateDir
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2

from .controller import CODE
from .pki import Authority
from .running import FIRST, PLATFORM
from .test_daemon import WIKI, Lab, given


def identity(lab: Lab) -> Identity:
    found = StateDir(lab.directory / "state" / FIRST).identity()
    assert found is not None
    return found


def test_renewal_is_at_half_of_the_life_with_a_spread() -> None:
    certificate, _ = Authority("devices").issue("laptop")
    now = datetime.datetime.now(datetime.UTC)
    half = datetime.timedelta(hours=12)
    minute = datetime.timedelta(minutes=1)
    assert abs(renew_at(certificate, 0) - (now + half)) < minute
    assert renew_at(certificate, SPREAD) - renew_at(certificate, 0) == SPREAD * (2 * half + minute)


async def test_the_certificate_is_renewed_with_a_new_key_and_used_at_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    other = Authority("infrastructure, next")
    asked, clicked = asyncio.Event(), asyncio.Event()

    async def answer(csr_pem: str) -> agent_pb2.RenewCertificateResponse:
        asked.set()
        await clicked.wait()
        lab.devices.lifetime = datetime.timedelta(days=1)
        return agent_pb2.RenewCertificateResponse(
            certificate_pem=lab.devices.sign(csr_pem.encode()).decode(),
            ca_pem=(lab.infrastructure.pem + other.pem).decode(),
        )

    lab.controller.renewal = answer
    # The certificate began a minute ago, so half of its life is over.
    lab.devices.lifetime = datetime.timedelta(seconds=35)
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
        async with asyncio.timeout(30):
            await asked.wait()
        first = identity(lab)
        clicked.set()
        async with asyncio.timeout(30):
            while len(controller.shown) < 2:  # noqa: ASYNC110  the status does not change with it
                await asyncio.sleep(0.01)
        second = identity(lab)
        assert controller.shown == [first.certificate_pem, second.certificate_pem]
        assert second.key_pem != first.key_pem
        assert second.ca_pem == lab.infrastructure.pem + other.pem
        # The tunnel is still there, and is asked for over the new connection.
        assert controller.open == {"t1": 1}
        assert (await daemon.status()).state == local_pb2.STATE_CONNECTED
        await daemon.local.CloseTunnel(local_pb2.CloseTunnelRequest(name=WIKI))
        assert controller.open == {}


@pytest.mark.slow
async def test_a_failed_renewal_is_repeated_before_the_certificate_ends(tmp_path: Path) -> None:
    lab, tries = Lab(tmp_path), list[bytes]()

    async def answer(csr_pem: str) -> agent_pb2.RenewCertificateResponse:
        if len(tries) < 2:
            tries.append(b"")
            raise CulvertError(Reason.DATABASE_DOWN)
        lab.devices.lifetime = datetime.timedelta(days=1)
        tries.append(lab.devices.sign(csr_pem.encode()))
        return agent_pb2.RenewCertificateResponse(
            certificate_pem=tries[-1].decode(), ca_pem=lab.infrastructure.pem.decode()
        )

    lab.controller.renewal = answer
    # Half of such a life is over when it begins, and it ends before an ordinary second try.
    lab.devices.lifetime = datetime.timedelta(seconds=25)
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        async with asyncio.timeout(20):
            while controller.shown[-1:] != tries[2:]:  # noqa: ASYNC110  the status does not change with it
                await asyncio.sleep(0.01)


def test_a_renewal_is_retried_at_least_ten_times_before_the_end() -> None:
    assert retry_after(1, 14 * 86400.0) == RETRY.first
    assert retry_after(20, 1200.0) == 120.0
    assert retry_after(1, 2.0) == 1.0
    # After its end no try succeeds before a code.
    assert retry_after(20, 0.0) == RETRY.longest


async def test_a_clock_ahead_does_not_repeat_renewals(tmp_path: Path) -> None:
    lab, issued = Lab(tmp_path), list[bytes]()

    async def answer(csr_pem: str) -> agent_pb2.RenewCertificateResponse:
        issued.append(lab.devices.sign(csr_pem.encode()))
        return agent_pb2.RenewCertificateResponse(
            certificate_pem=issued[-1].decode(), ca_pem=lab.infrastructure.pem.decode()
        )

    lab.controller.renewal = answer
    # Half of such a life is over when it begins.
    lab.devices.lifetime = datetime.timedelta(seconds=35)
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        async with asyncio.timeout(30):
            # The first one may be over before any stream has shown it.
            while not issued or controller.shown[-1:] != issued[:1]:  # noqa: ASYNC110  the status does not change with it
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert len(issued) == 1


async def test_an_answer_for_another_key_is_not_taken(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    theirs, _ = lab.devices.issue("laptop")

    async def answer(_: str) -> agent_pb2.RenewCertificateResponse:
        return agent_pb2.RenewCertificateResponse(
            certificate_pem=theirs.decode(), ca_pem=lab.infrastructure.pem.decode()
        )

    lab.controller.renewal = answer
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        ours = identity(lab)
        agent = Agent(ours, "test", PLATFORM.posture)
        with pytest.raises(CulvertError) as refused:
            await renew(agent, ours)
        await agent.close()
        assert refused.value.reason is Reason.INTERNAL
        assert identity(lab) == ours
