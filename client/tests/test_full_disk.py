"""A full disk, and one that nobody may write: what cannot be repeated is not begun, and the person reads what to do."""

from __future__ import annotations

import contextlib
import datetime
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from culvert_proto import Reason, agent_pb2, local_pb2

from .controller import CODE
from .enrolment_server import accepts, enrolment_server
from .test_daemon import Lab, refused
from .test_late_renewal import Sleeper

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems: needs root"),
]


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    """A small file system for the state directory."""
    state = tmp_path / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", state], check=True)
    yield state
    subprocess.run(["umount", "-l", state], check=True)


@contextlib.contextmanager
def full(disk: Path) -> Generator[None]:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    yield
    filler.unlink()


@contextlib.contextmanager
def read_only(disk: Path) -> Generator[None]:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


@pytest.mark.parametrize(("obstacle", "why"), [(full, "No space left"), (read_only, "Read-only file system")])
async def test_an_invitation_is_not_spent_where_its_outcome_cannot_be_kept(
    tmp_path: Path, disk: Path, obstacle: type, why: str
) -> None:
    lab = Lab(tmp_path)
    async with lab.serving() as controller:
        answer = accepts(lab.infrastructure, lab.devices, f"127.0.0.1:{controller.port}")
        with enrolment_server(tmp_path, lab.infrastructure, answer) as server:
            link = local_pb2.EnrollRequest(link=server.link(lab.infrastructure), device_name="laptop")
            async with lab.daemon() as daemon:
                with obstacle(disk):
                    error = await refused(daemon.local.Enroll(link))
                assert error.reason is Reason.STATE_UNWRITABLE
                assert (error.fields["path"], why in error.message) == (str(disk), True)
                assert "Free space" in error.remedy
                assert server.bodies == []
                await daemon.local.Enroll(link)
                assert len(server.bodies) == 1


async def test_a_code_is_not_used_up_where_the_certificate_cannot_be_kept(tmp_path: Path, disk: Path) -> None:
    sleeper = Sleeper(tmp_path)
    async with sleeper.woken() as daemon:
        await daemon.until(lambda it: it.state == local_pb2.STATE_NEEDS_CODE)
        asked = [it for it in sleeper.web.bodies if it.get("code")]
        with full(disk):
            error = await refused(daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE)))
        assert error.reason is Reason.STATE_UNWRITABLE
        assert [it for it in sleeper.web.bodies if it.get("code")] == asked
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await daemon.until(lambda it: it.state != local_pb2.STATE_NEEDS_CODE)


async def test_a_certificate_that_cannot_be_kept_is_told_until_it_can(tmp_path: Path, disk: Path) -> None:
    lab = Lab(tmp_path)

    async def answer(csr_pem: str) -> agent_pb2.RenewCertificateResponse:
        lab.devices.lifetime = datetime.timedelta(days=1)
        certificate = lab.devices.sign(csr_pem.encode())
        return agent_pb2.RenewCertificateResponse(
            certificate_pem=certificate.decode(), ca_pem=lab.infrastructure.pem.decode()
        )

    lab.controller.renewal = answer
    # The certificate began a minute ago, so half of its life is over soon.
    lab.devices.lifetime = datetime.timedelta(seconds=80)
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        with full(disk):
            status = await daemon.until(lambda it: bool(it.warnings))
            [warning] = status.warnings
            assert warning.reason == Reason.STATE_UNWRITABLE
            assert warning.fields["path"].endswith("/identity")
        await daemon.until(lambda it: not it.warnings)
    assert not [it for it, _, _ in os.walk(disk) if "/identity-" in it]


async def test_a_failed_leave_names_its_cause(tmp_path: Path, disk: Path) -> None:
    lab = Lab(tmp_path)
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        with read_only(disk):
            error = await refused(daemon.local.Leave(local_pb2.LeaveRequest()))
        assert (error.reason, error.fields["why"]) == (Reason.STATE_UNWRITABLE, "Read-only file system")
        assert (await daemon.status()).user
        await daemon.local.Leave(local_pb2.LeaveRequest())
        assert (await daemon.status()).state == local_pb2.STATE_NOT_ENROLLED


async def test_a_computer_that_never_enrolled_starts_and_says_why_it_cannot(
    tmp_path: Path, disk: Path
) -> None:
    (disk / "organisations").mkdir()
    lab = Lab(tmp_path)
    with read_only(disk):
        async with lab.daemon() as daemon:
            [warning] = (await daemon.status()).warnings
            assert warning.reason == Reason.STATE_UNWRITABLE
            assert warning.fields["path"] == str(disk / "organisations/1")
            with lab.invitation() as link:
                error = await refused(daemon.local.Enroll(local_pb2.EnrollRequest(link=link)))
            assert error.reason is Reason.STATE_UNWRITABLE
