"""A device that was off longer than its certificate lives renews it by the certificate's key and a code."""

from __future__ import annotations

import asyncio
import base64
import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import culvert_db
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import RenewalChallenge, Totp
from culvert_proto import Reason
from culvert_proto.late_renewal import statement
from culvert_service.identity.late_renewal import Challenges
from culvert_service.pki import issuance
from sqlalchemy import func, select, update

from .conftest import Device, World, authority, make_csr, refused, running, settings_in
from .switch import Switch

pytestmark = pytest.mark.slow


@dataclass
class Laptop:
    """An enrolled computer that can renew late."""

    world: World
    key: ec.EllipticCurvePrivateKey
    certificate_pem: str
    facts: dict[str, Any]
    device: Device

    @property
    def id(self) -> str:
        return self.device.id

    async def challenge(self) -> str:
        answer = await self.world.anyone.post("/api/v1/renewals/challenge")
        assert answer.status_code == 201, answer.text
        return str(answer.json()["challenge"])

    async def request(self, code: str = "", **changed: str) -> dict[str, str]:
        """A request that would be served, signed after these fields were `changed`."""
        fields = {"challenge": changed.get("challenge") or await self.challenge()}
        fields |= {"certificate_pem": self.certificate_pem, "csr_pem": make_csr()[1]} | changed
        signed = self.key.sign(statement(**fields), ec.ECDSA(hashes.SHA256()))
        return fields | {"signature": base64.b64encode(signed).decode(), "code": code}

    async def post(self, body: dict[str, str]) -> httpx.Response:
        return await self.world.anyone.post("/api/v1/renewals", json=body)

    async def refusal(self, code: str = "", **changed: str) -> str:
        answer = await self.post(await self.request(code, **changed))
        assert answer.is_client_error, answer.text
        return str(answer.json()["reason"])

    async def renewed(self, code: str | None = None) -> Laptop:
        """The same computer with its next certificate, which it has not shown yet."""
        key, csr = make_csr()
        answer = await self.post(await self.request(code or self.device.code(), csr_pem=csr))
        assert answer.status_code == 201, answer.text
        return _laptop(self.world, key, self.facts | answer.json(), self.device)


def _laptop(
    world: World, key: ec.EllipticCurvePrivateKey, facts: dict[str, Any], before: Device | None = None
) -> Laptop:
    device = Device(key, facts)
    if before is not None:
        # The authenticator has shown what it has shown.
        device._spent = before._spent  # pyright: ignore[reportPrivateUsage]
    world.devices.append(device)
    return Laptop(world, key, str(facts["certificate_pem"]), facts, device)


async def enrolled(world: World) -> Laptop:
    key, csr = make_csr()
    body = {"token": (await world.invite()).token, "device_name": "laptop", "csr_pem": csr}
    answer = await world.anyone.post("/api/v1/enrolments", json=body)
    assert answer.status_code == 201, answer.text
    return _laptop(world, key, answer.json())


async def expire(world: World, days: float = 1) -> None:
    """By the controller's word; its clock is the one that counts."""
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    async with world.database.begin() as session:
        await session.execute(update(culvert_db.Device).values(certificate_expires_at=past))


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 10**6:06}"


async def test_a_laptop_that_was_off_too_long_comes_back_by_its_key_and_a_code(
    world: World, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = datetime.timedelta(seconds=1)
    monkeypatch.setattr(
        issuance, "DEVICE", issuance.Profile(issuance.DEVICE.usage, short, named=issuance.DEVICE.named)
    )
    laptop = await enrolled(world)
    monkeypatch.undo()
    # The handshake looks at whole seconds.
    await asyncio.sleep(2.1)
    # Neither a call nor a renewal of the usual kind gets through the handshake.
    laptop.device.connect()
    assert (await refused(laptop.device.open())).reason is Reason.CONTROLLER_UNREACHABLE
    assert await laptop.refusal() == "CODE_NEEDED"
    after = await laptop.renewed()
    certificate = x509.load_pem_x509_certificate(after.certificate_pem.encode())
    assert certificate.public_key() == after.key.public_key()
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority(world, "device").pem))
    # The code that has renewed it opens tunnels, also before any stream has shown the certificate.
    opened = await after.device.open()
    assert opened.tunnel.resource == "wiki"
    await anext(after.device.watch())
    (shown,) = await world.rest("GET", "/devices")
    assert shown["id"] == laptop.id
    done = await world.rest("GET", f"/audit?object=device/{laptop.id}&outcome=done")
    assert {"device.renew-late", "device.renew"} <= {one["action"] for one in done}


async def test_a_lost_renewal_answer_does_not_lock_the_device_out(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    lost, after = await laptop.renewed(), await laptop.renewed()
    assert (await refused(anext(lost.device.watch()))).reason is Reason.CERTIFICATE_UNKNOWN
    await anext(after.device.watch())
    # From here on the one before is over for good.
    assert await laptop.refusal(laptop.device.code()) == "CERTIFICATE_UNKNOWN"


async def test_an_unused_certificate_is_the_devices_last_one(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    unseen = await laptop.renewed()
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    async with world.database.begin() as session:
        await session.execute(update(culvert_db.Device).values(next_expires_at=past))
    assert (await refused(unseen.device.open())).reason is Reason.CERTIFICATE_EXPIRED
    await anext((await unseen.renewed(laptop.device.code())).device.watch())


async def test_a_stolen_expired_key_renews_nothing_without_a_code(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    assert await laptop.refusal() == "CODE_NEEDED"
    guess = wrong(laptop.device.code())
    for _ in range(5):
        assert await laptop.refusal(guess) == "CODE_WRONG"
    # Also by the right one now: the guesses are those of every other way to prove a code.
    answer = await laptop.post(await laptop.request(laptop.device.code()))
    assert (answer.status_code, answer.json()["reason"]) == (429, "CODE_LOCKED")
    assert int(answer.headers["Retry-After"]) > 50
    (row,) = await world.rest("GET", "/audit?action=device.renew-late&reason=CODE_LOCKED")
    assert (row["actor"], row["details"]["user"]) == (laptop.id, "alice")
    assert len(await world.rest("GET", "/audit?action=device.renew-late&reason=CODE_WRONG")) == 5
    async with world.database() as session:
        assert await session.scalar(select(Totp.failures)) == 5
        assert await session.scalar(select(culvert_db.Device.next_fingerprint)) is None


async def test_a_code_renews_nothing_without_the_key(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    thief = Laptop(world, make_csr()[0], laptop.certificate_pem, laptop.facts, laptop.device)
    assert await thief.refusal(laptop.device.code()) == "REQUEST_INVALID"
    # A certificate of the right CA that the controller has not stored.
    forged = authority(world, "device").issue_device(thief.key.public_key(), laptop.id)
    thief.certificate_pem = forged.pem.decode()
    assert await thief.refusal(laptop.device.code()) == "CERTIFICATE_UNKNOWN"
    async with world.database() as session:
        assert await session.scalar(select(Totp.failures)) == 0


async def test_a_request_is_served_once_and_only_as_it_was_signed(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    body = await laptop.request(laptop.device.code())
    for field, other in (("csr_pem", make_csr()[1]), ("challenge", await laptop.challenge())):
        answer = await laptop.post(body | {field: other})
        assert answer.json()["reason"] == "REQUEST_INVALID", field
        assert "signature" in answer.json()["detail"]
    assert (await laptop.post(body)).status_code == 201
    again = await laptop.post(body | {"code": laptop.device.code()})
    assert "has been used" in again.json()["detail"]
    # A wrong guess uses it up too.
    challenge, guess = await laptop.challenge(), wrong(laptop.device.code())
    assert await laptop.refusal(guess, challenge=challenge) == "CODE_WRONG"
    assert await laptop.refusal(laptop.device.code(), challenge=challenge) == "REQUEST_INVALID"


async def test_a_challenge_or_a_code_serves_a_single_request(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    challenge, code = await laptop.challenge(), laptop.device.code()
    bodies = [await laptop.request(code, challenge=challenge) for _ in range(4)]
    answers = await asyncio.gather(*map(laptop.post, bodies))
    assert sorted(one.status_code for one in answers) == [201, 422, 422, 422]
    await expire(world)
    code = laptop.device.code()
    answers = await asyncio.gather(*[laptop.post(await laptop.request(code)) for _ in range(4)])
    assert sorted(one.status_code for one in answers) == [201, 403, 403, 403]


async def test_a_challenge_ends_and_is_forgotten(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    now = datetime.datetime.now(datetime.UTC)
    theirs = Challenges(b"of another controller").make(now + datetime.timedelta(minutes=1))
    for bad in (theirs, "?", "AAAA", "nonsense!", (await laptop.challenge())[:-4]):
        assert await laptop.refusal("000000", challenge=bad) == "REQUEST_INVALID"
    async with world.database.begin() as session:
        session.add_all(RenewalChallenge(digest=bytes([n]), expires_at=now) for n in range(3))
    await laptop.renewed()
    # The newest alone.
    async with world.database() as session:
        assert await session.scalar(select(func.count()).select_from(RenewalChallenge)) == 1


def test_a_challenge_is_good_until_its_end() -> None:
    made, now = Challenges(b"k"), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    text = made.make(now)
    assert made.read(text, now - datetime.timedelta(seconds=1)).expires_at == now
    with pytest.raises(Exception, match="over"):
        made.read(text, now)
    assert text != made.make(now)


async def test_a_recovery_code_renews_too(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    codes: list[str] = laptop.facts["recovery_codes"]
    answer = await laptop.post(await laptop.request(codes[0]))
    assert answer.json()["recovery_codes_left"] == 9
    assert await laptop.refusal(codes[0]) == "CODE_WRONG"


async def test_a_revoked_device_and_one_whose_person_is_gone_stay_out(world: World) -> None:
    laptop, other = await enrolled(world), await enrolled(world)
    await expire(world)
    await world.rest("POST", f"/devices/{laptop.id}/revoke")
    for code in ("", "000000"):
        assert await laptop.refusal(code) == "DEVICE_REVOKED"
    await world.rest("DELETE", "/users/alice")
    assert await other.refusal(other.device.code()) == "CERTIFICATE_UNKNOWN"


async def test_beyond_the_administrators_bound_a_device_is_enrolled_again(
    tmp_path: Path, database_url: str
) -> None:
    async with running(settings_in(tmp_path, database_url=database_url, late_renewal_days=7)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        assert (await world.rest("GET", "/controller"))["late_renewal_days"] == 7
        laptop = await enrolled(world)
        await expire(world, days=7.01)
        code = laptop.device.code()
        answer = await laptop.post(await laptop.request(code))
        assert (answer.status_code, answer.json()["reason"]) == (403, "RENEWAL_TOO_LATE")
        assert answer.json()["fields"] == {"days": "7"}
        await expire(world, days=6.99)
        await laptop.renewed(code)


async def test_with_a_bound_of_zero_nothing_expired_is_renewed(tmp_path: Path, database_url: str) -> None:
    async with running(settings_in(tmp_path, database_url=database_url, late_renewal_days=0)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        laptop = await enrolled(world)
        await expire(world, days=0)
        assert await laptop.refusal(laptop.device.code()) == "RENEWAL_TOO_LATE"


async def test_an_administrators_new_device_ca_keeps_no_sleeper_out(world: World) -> None:
    laptop = await enrolled(world)
    await expire(world)
    state = world.settings.state_dir
    # As after a rotation, once the old CA's time is over.
    for file in ("device-ca.key", "device-ca.pem"):
        (state / file).unlink()
    assert authority(world, "device").pem
    await laptop.renewed()


async def test_strangers_are_limited_before_anything_is_read(tmp_path: Path, database_url: str) -> None:
    limited = settings_in(tmp_path, database_url=database_url, rest_strangers_calls_per_second=0.1)
    async with running(limited) as world:
        kind = {"Content-Type": "application/json"}
        answers = [
            await world.anyone.post("/api/v1/renewals", content=b"x" * 100, headers=kind) for _ in range(3)
        ]
        assert [one.status_code for one in answers] == [422, 429, 429]
        assert (await world.anyone.post("/api/v1/renewals/challenge")).status_code == 429
