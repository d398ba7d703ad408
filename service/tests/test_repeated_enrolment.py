"""A computer that has lost the answer of its enrolment asks again with the same key, and gets what it needs anew."""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import Invitation, RecoveryCode, Totp
from culvert_proto import Reason
from sqlalchemy import func, select, update

from .conftest import Device, World, make_csr, refused

pytestmark = pytest.mark.slow


class Computer:
    """A computer that has kept its key and the link."""

    def __init__(self, world: World, token: str) -> None:
        self.world, self.token = world, token
        self.key, self.csr = make_csr()

    @property
    def body(self) -> dict[str, str]:
        return {"token": self.token, "device_name": "laptop", "csr_pem": self.csr}

    async def enrol(self) -> Device:
        answer = await self.world.anyone.post("/api/v1/enrolments", json=self.body)
        assert answer.status_code == 201, answer.text
        return self.device(answer.json())

    def device(self, facts: dict[str, Any], key: ec.EllipticCurvePrivateKey | None = None) -> Device:
        made = Device(key or self.key, facts)
        self.world.devices.append(made)
        return made

    async def refusal(self) -> tuple[int, str]:
        answer = await self.world.anyone.post("/api/v1/enrolments", json=self.body)
        return answer.status_code, answer.json()["reason"]

    async def enrol_and_hang_up(self) -> None:
        """The request goes out whole; the answer is cut."""
        url = self.world.settings.rest_url.removeprefix("https://")
        host, _, port = url.rpartition(":")
        trust = ssl.create_default_context(
            cafile=str(self.world.settings.state_dir / "infrastructure-ca.pem")
        )
        _, writer = await asyncio.open_connection(host, int(port), ssl=trust)
        content = json.dumps(self.body).encode()
        head = f"POST /api/v1/enrolments HTTP/1.1\r\nHost: {url}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()
        async with asyncio.timeout(30):
            while not await self.world.rest("GET", "/devices"):  # noqa: ASYNC110  nothing tells of it
                await asyncio.sleep(0.01)
        writer.transport.abort()


@pytest.fixture
async def computer(world: World) -> Computer:
    return Computer(world, (await world.invite()).token)


async def test_an_answer_that_was_cut_is_asked_for_again(world: World, computer: Computer) -> None:
    await computer.enrol_and_hang_up()
    device = await computer.enrol()
    await device.prove()
    await anext(device.watch())
    (shown,) = await world.rest("GET", "/devices")
    assert shown["id"] == device.id
    lines = await world.rest("GET", f"/audit?object=device/{device.id}&action=device.enrol")
    assert sorted("again" in line["details"] for line in lines) == [False, True]


async def test_a_repeated_enrolment_voids_the_first_answer(world: World, computer: Computer) -> None:
    first, second = await computer.enrol(), await computer.enrol()
    assert second.id == first.id
    assert (await refused(first.prove())).reason is Reason.CERTIFICATE_UNKNOWN
    assert (await refused(second.prove(first.code()))).reason is Reason.CODE_WRONG
    await second.prove()
    async with world.database() as session:
        for table, count in ((Totp, 1), (RecoveryCode, 10)):
            assert await session.scalar(select(func.count()).select_from(table)) == count


async def test_another_key_gets_nothing(computer: Computer) -> None:
    await computer.enrol()
    _, computer.csr = make_csr()
    assert await computer.refusal() == (403, "INVITATION_INVALID")


async def test_enrolment_repeats_end_after_10_minutes_a_code_or_revocation(world: World) -> None:
    late, proven, revoked = [Computer(world, (await world.invite()).token) for _ in range(3)]
    await late.enrol()
    ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=10)
    async with world.database.begin() as session:
        await session.execute(update(Invitation).values(used_at=ago).where(Invitation.used_at.is_not(None)))
    assert await late.refusal() == (403, "INVITATION_INVALID")
    device = await proven.enrol()
    await device.prove()
    assert await proven.refusal() == (403, "INVITATION_INVALID")
    device = await revoked.enrol()
    await world.rest("POST", f"/devices/{device.id}/revoke")
    assert await revoked.refusal() == (403, "INVITATION_INVALID")


async def test_concurrent_enrolments_with_a_key_make_a_single_device(
    world: World, computer: Computer
) -> None:
    made = await asyncio.gather(*(computer.enrol() for _ in range(20)))
    assert len({one.id for one in made}) == len(await world.rest("GET", "/devices")) == 1
    watching = [await asyncio.gather(anext(one.watch()), return_exceptions=True) for one in made]
    assert sum(not isinstance(one[0], Exception) for one in watching) == 1


async def test_an_invitation_whose_device_is_gone_gives_nothing(world: World, computer: Computer) -> None:
    await computer.enrol()
    await world.rest("DELETE", "/users/alice")
    assert await computer.refusal() == (403, "INVITATION_INVALID")
