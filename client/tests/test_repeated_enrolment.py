"""An enrolment whose answer is lost is asked for again with the same key, which is on the disk before it is shown."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from culvert_client.enrolments import AGAIN, Enrolments
from culvert_client.state_dir import Identity, StateDir, key_pem
from culvert_proto import CulvertError, Reason, local_pb2

from .controller import CODE
from .enrolment_server import TOKEN, Answer, accepts, enrolment_server, refuses
from .running import FIRST
from .test_daemon import Lab, refused

# The daemon's first steps of an enrolment, in a process that can be killed.
_ENROLLING = """
import asyncio, sys
from pathlib import Path
from culvert_client.controller.enrolment import enrol
from culvert_proto.invitation_link import parse_invitation
from culvert_client.enrolments import Enrolments
invitation = parse_invitation(sys.argv[2])
key = Enrolments(Path(sys.argv[1])).key_for(invitation.token)
asyncio.run(enrol(invitation, key, device_name="laptop", owner=0))
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def key_of(body: dict[str, Any]) -> bytes:
    """The public key that a certificate was asked for."""
    key = x509.load_pem_x509_csr(body["csr_pem"].encode()).public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def keys(bodies: list[dict[str, Any]]) -> set[bytes]:
    return {key_of(body) for body in bodies}


def identity(lab: Lab) -> Identity:
    found = StateDir(lab.directory / "state" / FIRST).identity()
    assert found is not None
    return found


def asked(link: str) -> local_pb2.EnrollRequest:
    return local_pb2.EnrollRequest(link=link, device_name="laptop")


def after(failures: int, failing: Answer, then: Answer) -> Answer:
    left = [failing] * failures
    return lambda body: (left.pop() if left else then)(body)


async def test_a_client_that_is_killed_before_the_answer_asks_again_with_its_key(lab: Lab) -> None:
    taken, over = threading.Event(), threading.Event()

    def silent(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        taken.set()
        over.wait(30)
        return refuses(CulvertError(Reason.INTERNAL))(body)

    async with lab.serving() as controller:
        honest = accepts(lab.infrastructure, lab.devices, f"127.0.0.1:{controller.port}")
        with enrolment_server(lab.directory, lab.infrastructure, after(1, silent, honest)) as server:
            link = server.link(lab.infrastructure)
            command = [sys.executable, "-c", _ENROLLING, str(lab.directory / "state"), link]
            with subprocess.Popen(command) as killed:  # noqa: ASYNC220  the server has a thread of its own
                assert taken.wait(30)
                killed.kill()
            over.set()
            async with lab.daemon() as daemon:
                answer = await daemon.local.Enroll(asked(link))
                assert answer.recovery_codes
                assert len(server.bodies) == 2
                assert len(keys(server.bodies)) == 1


async def test_a_secret_that_was_not_shown_can_be_fetched_until_a_code_is_proven(lab: Lab) -> None:
    async with lab.serving() as controller:
        honest = accepts(lab.infrastructure, lab.devices, f"127.0.0.1:{controller.port}")
        with enrolment_server(lab.directory, lab.infrastructure, honest) as server:
            link = server.link(lab.infrastructure)
            async with lab.daemon() as daemon:
                # The daemon has the answer, and the command that asked died before it could print it.
                await daemon.local.Enroll(asked(link))
                await daemon.local.Enroll(asked(link))
                assert len(keys(server.bodies)) == 1
                await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
                assert not list((lab.directory / "state").glob("enrolling*"))
                await daemon.local.Enroll(asked(link))
                assert len(keys(server.bodies)) == 2


async def test_a_cut_answer_keeps_the_key_and_a_refused_invitation_forgets_it(lab: Lab) -> None:
    async with lab.serving() as controller:
        honest = accepts(lab.infrastructure, lab.devices, f"127.0.0.1:{controller.port}")
        cut, no = refuses(CulvertError(Reason.INTERNAL)), refuses(CulvertError(Reason.INVITATION_INVALID))
        answers = after(1, cut, after(1, no, honest))
        with enrolment_server(lab.directory, lab.infrastructure, answers) as server:
            link = server.link(lab.infrastructure)
            async with lab.daemon() as daemon:
                assert (await refused(daemon.local.Enroll(asked(link)))).reason is Reason.INTERNAL
                assert (await refused(daemon.local.Enroll(asked(link)))).reason is Reason.INVITATION_INVALID
                await daemon.local.Enroll(asked(link))
                first, second, third = map(key_of, server.bodies)
                assert first == second != third
                assert identity(lab).key_pem


def test_a_key_is_private_and_for_one_invitation_and_some_time(tmp_path: Path) -> None:
    kept, file = Enrolments(tmp_path), tmp_path / "enrolling"
    key = key_pem(kept.key_for(TOKEN))
    assert {it.stat().st_mode & 0o777 for it in tmp_path.glob("enrolling*")} == {0o600}
    assert TOKEN.encode() not in file.read_bytes()
    assert key_pem(Enrolments(tmp_path).key_for(TOKEN)) == key
    other = key_pem(kept.key_for("another"))
    assert other != key
    long_ago = time.time() - AGAIN - 1
    os.utime(file, (long_ago, long_ago))
    assert key_pem(Enrolments(tmp_path).key_for("another")) != other


@pytest.mark.parametrize("damage", [b"", b"\0" * 300, b"{}", b"[1]", b'{"invitation": 1, "key": "x"}'])
def test_a_damaged_key_is_replaced(tmp_path: Path, damage: bytes) -> None:
    key = key_pem(Enrolments(tmp_path).key_for(TOKEN))
    for file in tmp_path.glob("enrolling*"):
        file.write_bytes(damage)
    again = key_pem(Enrolments(tmp_path).key_for(TOKEN))
    assert again != key
    assert key_pem(Enrolments(tmp_path).key_for(TOKEN)) == again
