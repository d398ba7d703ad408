"""Idempotency-Key: a request that is sent again has no second effect, and gets the first one's answer."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from culvert_db import IdempotencyKey
from culvert_proto.invitation_link import parse_invitation
from culvert_service.http.idempotency import Idempotency
from sqlalchemy import delete, select, text, update

from .conftest import World, until
from .test_secrets import dump

pytestmark = pytest.mark.slow

BOB = {"name": "bob", "email": "bob@corp.example"}


async def post(world: World, path: str, body: object, key: str, **headers: str) -> httpx.Response:
    sent = {"Idempotency-Key": key} | headers
    return await world.admin.post(f"/api/v1{path}", json=body, headers=sent)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]


async def test_a_repeated_request_gets_the_first_answer(world: World) -> None:
    for body in (BOB, BOB | {"name": "alice"}):
        first = await post(world, "/users", body, f"key-{body['name']}")
        again = await post(world, "/users", body, f"key-{body['name']}")
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["content-type"] == first.headers["content-type"]
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
    assert refusal(first) == (409, "ALREADY_EXISTS")
    assert refusal(await post(world, "/users", BOB | {"name": "carol"}, "key-bob")) == (
        422,
        "IDEMPOTENCY_KEY_REUSED",
    )
    assert refusal(await post(world, "/invitations", BOB, "key-bob")) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert refusal(await post(world, "/users", BOB, "k" * 129)) == (422, "REQUEST_INVALID")
    told: Any = await world.rest("GET", "/audit?action=user.create&object=user/bob")
    assert len(told) == 1


async def test_concurrent_requests_with_one_key_run_once(world: World) -> None:
    asked = {"user": "alice"}
    answers = await asyncio.gather(*(post(world, "/invitations", asked, "k") for _ in range(8)))
    made = [answer for answer in answers if answer.status_code == 201]
    assert len({answer.json()["link"] for answer in made}) == 1
    assert all(refusal(answer) == (409, "IDEMPOTENCY_KEY_BUSY") for answer in answers if answer not in made)
    link = made[0].json()["link"]
    assert (await post(world, "/invitations", asked, "k")).json()["link"] == link
    assert parse_invitation(link).token not in await dump(world)


async def test_an_answer_is_its_callers_while_they_may_ask(world: World) -> None:
    token = await world.rest("POST", "/tokens", {"name": "ci", "scopes": ["users:write"]})
    bearer = f"Bearer {token['token']}"
    assert (await post(world, "/users", BOB, "k", Authorization=bearer)).status_code == 201
    assert refusal(await post(world, "/users", BOB, "k")) == (409, "ALREADY_EXISTS")
    await world.rest("DELETE", f"/tokens/{token['id']}")
    answer = await post(world, "/users", BOB, "k", Authorization=bearer)
    assert refusal(answer) == (401, "ADMIN_TOKEN_INVALID")


async def test_a_key_is_free_after_a_day_and_soon_after_a_crash(world: World) -> None:
    async def age(**values: object) -> None:
        async with world.database.begin() as session:
            await session.execute(update(IdempotencyKey).values(**values))

    now = datetime.datetime.now(datetime.UTC)
    await post(world, "/users", BOB, "k")
    await age(status=None, body_ciphertext=None, effect=False)
    assert refusal(await post(world, "/users", BOB, "k")) == (409, "IDEMPOTENCY_KEY_BUSY")
    await age(claimed_at=now - datetime.timedelta(minutes=2))
    assert refusal(await post(world, "/users", BOB, "k")) == (409, "ALREADY_EXISTS")
    await age(claimed_at=now - datetime.timedelta(hours=23))
    assert (await post(world, "/users", BOB, "k")).headers["idempotency-replayed"] == "true"
    await age(claimed_at=now - datetime.timedelta(hours=25))
    assert (await post(world, "/users", BOB | {"name": "carol"}, "k")).status_code == 201


async def aged(world: World) -> None:
    """As if everything had been claimed two minutes ago."""
    earlier = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=2)
    async with world.database.begin() as session:
        await session.execute(update(IdempotencyKey).values(claimed_at=earlier))


async def test_a_controller_that_dies_before_its_answer_has_made_the_change_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: object) -> None:
        raise ConnectionError

    asked = {"user": "alice"}
    with monkeypatch.context() as patch:
        patch.setattr(Idempotency, "_keep", dies)
        assert (await post(world, "/invitations", asked, "k", Connection="close")).status_code == 500
    assert refusal(await post(world, "/invitations", asked, "k")) == (409, "IDEMPOTENCY_KEY_BUSY")
    await aged(world)
    for _ in range(2):
        assert refusal(await post(world, "/invitations", asked, "k")) == (409, "IDEMPOTENCY_ANSWER_LOST")
    assert len(await world.rest("GET", "/audit?action=user.invite")) == 1


async def test_a_refusal_is_no_change(world: World) -> None:
    token = await world.rest("POST", "/tokens", {"name": "ci", "scopes": ["users:write"]})
    bearer = f"Bearer {token['token']}"
    for _ in range(2):
        answer = await post(world, "/invitations", {"user": "alice"}, "k", Authorization=bearer)
        assert refusal(answer) == (403, "NOT_PERMITTED")


@contextlib.asynccontextmanager
async def delayed(world: World) -> AsyncGenerator[asyncio.Task[httpx.Response]]:
    """A request that has its claim, and whose insert waits for the end of another transaction."""
    async with world.database() as session:
        await session.execute(text("INSERT INTO users (name, email) VALUES ('bob', 'x')"))
        slow = asyncio.create_task(post(world, "/users", BOB, "k"))
        async with world.database() as other:
            waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            await until(lambda: other.scalar(waits), bool)
        yield slow
        await session.rollback()


async def test_a_request_that_was_taken_over_changes_nothing(world: World) -> None:
    async with delayed(world) as slow, world.database.begin() as session:
        await session.execute(delete(IdempotencyKey))
    assert refusal(await slow) == (409, "IDEMPOTENCY_KEY_BUSY")
    assert [user["name"] for user in await world.rest("GET", "/users")] == ["alice"]


async def test_a_request_that_was_taken_over_leaves_the_newer_claim_alone(world: World) -> None:
    newer = IdempotencyKey.claimed_at + datetime.timedelta(seconds=1)
    async with delayed(world) as slow, world.database.begin() as session:
        await session.execute(update(IdempotencyKey).values(claimed_at=newer))
    assert refusal(await slow) == (409, "IDEMPOTENCY_KEY_BUSY")
    async with world.database() as session:
        assert (await session.scalars(select(IdempotencyKey.status))).all() == [None]
