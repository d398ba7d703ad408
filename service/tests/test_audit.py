"""The audit log: what it tells, that it cannot be changed, and that a change is found."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import long_log
import pytest
from culvert_db import ActorKind, AuditLine, Outcome
from culvert_proto import Reason
from culvert_service.audit import repository, retention, verifier
from culvert_service.audit.line import GENESIS, Broken, Detail, Verification, Written, canonical, digest
from culvert_service.audit.log import CONTROLLER, Actor, Line
from culvert_service.audit.transaction import begin, begin_uncommitted
from culvert_service.config import ConfigurationError
from culvert_service.operation.commands import cut, verify
from hypothesis import given
from hypothesis import strategies as st
from long_log import cut_key
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from .conftest import World, refused
from .switch import Switch

slow = pytest.mark.slow


def chain(length: int) -> list[AuditLine]:
    """A chain as the database makes it."""
    lines: list[AuditLine] = []
    for seq in range(1, length + 1):
        line = AuditLine(
            chain=3,
            seq=seq,
            at=datetime.datetime(2026, 1, 31, 9, tzinfo=datetime.UTC),
            actor_kind=ActorKind.TOKEN,
            actor="ci",
            source=None,
            action="user.create",
            object=f"user/{seq}",
            outcome=Outcome.DONE,
            reason=None,
            why=None,
            details="{}",
        )
        line.hash = digest(lines[-1].hash if lines else GENESIS, line)
        lines.append(line)
    return lines


@given(st.integers(1, 8), st.data())
def test_the_first_line_that_was_changed_or_taken_out_is_named(length: int, data: st.DataObject) -> None:
    assert Verification().take(chain(length)) is None
    place = data.draw(st.integers(0, length - 1))
    changed = chain(length)
    changed[place].actor = "someone else"
    found = Verification().take(changed)
    assert found is not None
    assert found.seq == place + 1
    if place + 1 < length:
        without = chain(length)
        del without[place]
        assert Verification().take(without) == Broken(3, place + 1, "it is not there")


async def log(world: World, **which: str) -> list[dict[str, Any]]:
    answer = await world.admin.get("/api/v1/audit", params=which)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def exported(world: World) -> list[dict[str, Any]]:
    answer = await world.admin.get("/api/v1/audit/export")
    assert answer.headers["content-type"].startswith("application/jsonl")
    return [json.loads(line) for line in answer.text.rstrip("\n").split("\n")]


@slow
async def test_the_audit_log_has_actor_reason_and_source(world: World, switch: Switch) -> None:
    device = await world.enrol()
    needed = await refused(device.open())
    await device.prove()
    opened = await device.open()
    await device.close(opened.tunnel.tunnel_id)
    opened = await device.open()
    await device.close(opened.tunnel.tunnel_id, reason=Reason.DAEMON_STOPPED)
    opened = await device.open()
    await world.rest("POST", f"/devices/{device.id}/revoke")
    assert (await refused(device.open())).reason is Reason.DEVICE_REVOKED

    told = [(line["action"], line["outcome"], line["reason"]) for line in reversed(await log(world))]
    assert told == [
        ("user.create", "done", None),
        ("gateway.create", "done", None),
        ("gateway.bundle", "done", None),
        ("resource.create", "done", None),
        ("user.invite", "done", None),
        ("device.enrol", "done", None),
        ("tunnel.open", "denied", "CODE_NEEDED"),
        ("device.prove", "done", None),
        ("tunnel.open", "done", None),
        ("tunnel.close", "done", "CLOSED_BY_USER"),
        ("tunnel.open", "done", None),
        ("tunnel.close", "done", "DAEMON_STOPPED"),
        ("tunnel.open", "done", None),
        ("device.revoke", "done", None),
        ("tunnel.close", "done", "CLOSED_BY_ADMIN"),
        ("tunnel.open", "denied", "DEVICE_REVOKED"),
    ]
    by_device = await log(world, actor=device.id, outcome="denied", reason="CODE_NEEDED")
    assert [(line["object"], line["source"], line["why"]) for line in by_device] == [
        ("name/wiki.corp.example", "127.0.0.1", needed.message)
    ]
    (enrolled,) = await log(world, action="device.enrol")
    assert (enrolled["actor_kind"], enrolled["actor"]) == ("invitation", "alice")
    (closed,) = await log(
        world, action="tunnel.close", object=f"tunnel/{opened.tunnel.tunnel_id}", actor="admin-token"
    )
    assert closed["details"] == {"device": device.id, "gateway": "gw-berlin", "name": "wiki.corp.example"}


@slow
async def test_a_devices_own_refusal_of_a_name_is_in_the_log(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    for reason, why in (
        (Reason.ADDRESS_COLLISION, "10.20.0.10/32 collides with a network that the device is in"),
        (Reason.CONSENT_NEEDED, "10.20.0.10/32, and nobody has agreed"),
        (Reason.DATAPATH_FAILED, "the log of its daemon has the cause"),
    ):
        await device.close((await device.open()).tunnel.tunnel_id, reason)
        closed, refusal = (await log(world))[:2]
        assert (closed["action"], closed["outcome"], closed["reason"]) == (
            "tunnel.close",
            "done",
            reason.name,
        )
        assert (refusal["action"], refusal["outcome"], refusal["reason"]) == (
            "tunnel.open",
            "denied",
            reason.name,
        )
        assert (refusal["object"], refusal["actor"]) == ("name/wiki.corp.example", device.id)
        assert refusal["details"]["user"] == "alice"
        assert why in refusal["why"]
    tunnel_id = (await device.open()).tunnel.tunnel_id
    assert (await refused(device.close(tunnel_id, Reason.NO_POLICY))).reason is Reason.REQUEST_INVALID
    assert [it["id"] for it in await world.rest("GET", "/tunnels")] == [tunnel_id]


async def test_an_opening_and_a_refusal_log_the_asked_name_of_an_alias(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await refused(device.open(asked="Alias.corp.example."))
    await device.prove()
    await device.open(asked="Alias.corp.example.")
    invalid = await refused(device.open(asked="x" * 254))
    assert invalid.reason is Reason.REQUEST_INVALID
    told = await log(world, action="tunnel.open")
    assert [line["details"].get("asked") for line in told] == ["alias.corp.example"] * 2
    assert told[0]["details"]["name"] == "wiki.corp.example"
    assert told[1]["object"] == "name/wiki.corp.example"


@slow
async def test_changes_of_permissions_log_the_tunnels_they_close(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    tunnel = (await device.open()).tunnel.tunnel_id
    begin = len(await log(world))
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
    await world.rest("DELETE", "/groups/writers/members/alice")
    await world.rest("PUT", "/groups/writers/members/alice")
    policy: dict[str, Any] = {"name": "wiki", "group": "writers", "resources": ["wiki"]}
    await world.rest("POST", "/policies", policy)
    await world.rest("DELETE", "/policies/alice%20to%20wiki")
    await world.rest("POST", f"/devices/{device.id}/approve")
    conditions = {"device_approved": True}
    await world.rest("PUT", "/policies/wiki", policy | {"conditions": conditions})
    await world.rest("POST", f"/devices/{device.id}/unapprove")
    await world.rest("DELETE", "/groups/writers")
    lines = (await log(world))[:-begin][::-1]
    assert [(line["action"], line["actor"], line["reason"]) for line in lines] == [
        ("group.create", "admin-token", None),
        ("group.remove", "admin-token", None),
        ("group.add", "admin-token", None),
        ("policy.create", "admin-token", None),
        ("policy.delete", "admin-token", None),
        ("device.approve", "admin-token", None),
        ("policy.replace", "admin-token", None),
        ("device.unapprove", "admin-token", None),
        ("tunnel.close", "controller", "DEVICE_NOT_APPROVED"),
        ("group.delete", "admin-token", None),
    ]
    assert lines[6]["details"] == {
        "name": "wiki",
        "enabled": "yes",
        "for": "group/writers",
        "resources": "wiki",
        "conditions": json.dumps(conditions),
        "changed": "conditions",
    }
    assert lines[8]["object"] == f"tunnel/{tunnel}"


@slow
async def test_changes_of_zones_are_logged(world: World) -> None:
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "corp"}
    begin = len(await log(world))
    await world.rest("POST", "/dns/zones", zone)
    assert (await world.admin.post("/api/v1/dns/zones", json=zone)).status_code == 409
    await world.rest("PUT", "/dns/zones/corp", {"server": "192.0.2.54", "key": "corp"})
    await world.rest("POST", "/dns/zones/corp/check")
    await world.rest("DELETE", "/dns/zones/corp")
    lines = (await log(world))[:-begin][::-1]
    assert [line["action"] for line in lines] == ["zone.create", "zone.replace", "zone.check", "zone.delete"]
    assert {line["object"] for line in lines} == {"zone/corp"}
    assert (lines[1]["details"]["server"], lines[3]["details"]) == ("192.0.2.54", {"records": "withdrawn"})


@slow
async def test_a_refused_enrolment_and_a_wrong_code_are_told(world: World) -> None:
    body = {"token": "guess", "device_name": "laptop", "csr_pem": "nonsense"}
    await world.anyone.post("/api/v1/enrolments", json=body)
    (line,) = await log(world, action="device.enrol")
    assert (line["outcome"], line["reason"], line["source"]) == ("denied", "CSR_INVALID", "127.0.0.1")
    device = await world.enrol()
    await refused(device.prove("000000x"))
    (line,) = await log(world, action="device.prove")
    assert (line["outcome"], line["reason"], line["details"]) == ("denied", "CODE_WRONG", {"user": "alice"})


@slow
async def test_an_audit_line_commits_with_its_change(world: World) -> None:
    before = len(await log(world))
    line = Line("user.create", "user/nobody")
    async with begin_uncommitted(world.database, CONTROLLER) as transaction:
        transaction.audit(line)
    with suppress(ZeroDivisionError):
        async with begin(world.database, CONTROLLER) as transaction:
            transaction.audit(line)
            raise ZeroDivisionError
    answer = await world.admin.post("/api/v1/users", json={"name": "alice", "email": "a@corp.example"})
    assert answer.status_code == 409
    assert len(await log(world)) == before


@slow
async def test_shortened_audit_values_are_marked(world: World) -> None:
    many, name = " ".join(f"resource-{number}" for number in range(2000)), "x" * 300
    async with begin(world.database, CONTROLLER) as transaction:
        told: dict[str, Detail] = {"resources": many, "huge": "y" * 70_000}
        transaction.audit(Line("policy.create", f"policy/{name}", told))
    (line,) = await log(world, action="policy.create")
    assert line["details"]["resources"] == many
    for shown, said, most in (
        (line["object"], f"policy/{name}", 253),
        (line["details"]["huge"], "y" * 70_000, 65536),
    ):
        kept, _, rest = shown.partition("…")
        assert len(shown) == most
        assert said.startswith(kept)
        assert rest == f" {len(said)} characters, SHA-256 {hashlib.sha256(said.encode()).hexdigest()}"


@slow
async def test_pages_hold_every_line_once_in_order(world: World) -> None:
    for number in range(12):
        await world.rest("POST", "/users", {"name": f"u{number}", "email": "u@corp.example"})
    whole, url, seen = await log(world), "/api/v1/audit?limit=5&action=user.create", list[Any]()
    while url:
        answer = await world.admin.get(url)
        assert len(answer.json()) <= 5
        seen += answer.json()
        url = answer.links.get("next", {}).get("url", "")
    assert seen == whole
    assert len(seen) == 13
    for bad in ("limit=501", "limit=0", "cursor=nonsense", "cursor=WzFd", "cursor=WyJ4IiwxLDFd", "since=now"):
        answer = await world.admin.get(f"/api/v1/audit?{bad}")
        assert (answer.status_code, answer.json()["reason"]) == (422, "REQUEST_INVALID"), bad


async def test_a_part_of_a_name_finds_the_lines_that_mention_it(world: World, switch: Switch) -> None:
    await world.rest("PUT", "/users/alice", {"email": "a@corp.example", "display_name": "Alice Winterbottom"})
    device = await world.enrol()
    await device.prove()
    await device.open()
    await world.rest("POST", "/users", {"name": "bob_x", "email": "b@corp.example"})

    async def acts(q: str) -> set[tuple[str, str]]:
        found = await world.rest("GET", f"/audit?limit=500&q={quote(q)}")
        return {(line["action"], line["object"].partition("/")[0]) for line in found}

    opened = ("tunnel.open", "tunnel")
    # The person's name, the device's and the resource's, each by a part and in any case.
    for part in ("interbott", "LIC", "apto", "iki.cor"):
        assert opened in await acts(part), part
    assert ("user.create", "user") in await acts("INTERBOTT")
    assert ("resource.create", "resource") in await acts("iki.cor")
    assert await acts("ob_") == {("user.create", "user")}
    # Neither an id nor a detail's name is a name that a person searches for.
    assert device.id not in {line["object"] for line in await world.rest("GET", "/audit?q=o%25b")}
    assert await acts(device.id[:8]) == set()
    assert await acts("gateway_") == set()


def check_chains(lines: Sequence[dict[str, Any]]) -> None:
    """Check an export without filters, as docs/audit.md describes."""
    ends: dict[int, tuple[int, bytes]] = {}
    for line in lines:
        seq, before = ends.get(line["chain"], (0, bytes(32)))
        fields = [
            str(line["chain"]),
            str(line["seq"]),
            line["at"],
            *(line[name] for name in ("actor_kind", "actor", "source", "action", "object", "outcome")),
            *(line[name] for name in ("reason", "why")),
            canonical(line["details"]),
        ]
        netstrings = (
            b"-" if field is None else f"{len(field.encode())}:{field},".encode() for field in fields
        )
        assert line["seq"] == seq + 1
        assert line["hash"] == hashlib.sha256(before + b"".join(netstrings)).hexdigest()
        ends[line["chain"]] = (line["seq"], bytes.fromhex(line["hash"]))


async def test_requests_during_a_verification_share_its_result(world: World) -> None:
    shared = verifier.Verifier(world.database, cut_key(world.settings))
    first, *others = await asyncio.gather(*(shared.result() for _ in range(8)))
    assert all(one is first for one in others)


async def old_lines(world: World) -> datetime.datetime:
    """Fill the log with 40 lines in each chain, all a hundred days old. Returns a time after them."""
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=40)
    await long_log.clear(world.database)
    await long_log.fill(world.database, 40, since=before - datetime.timedelta(days=60))
    return before


async def test_a_cut_during_a_verification_is_not_taken_for_a_fault(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, key = await old_lines(world), cut_key(world.settings)
    async with world.database() as session:
        ends = await repository.ends_before(session, before)
    chained = repository.read_chains

    async def cut_meanwhile(*arguments: Any) -> AsyncGenerator[Sequence[Written]]:
        monkeypatch.setattr(repository, "read_chains", chained)
        await retention.cut(
            world.database, CONTROLLER, key, before, datetime.datetime.now(datetime.UTC), None
        )
        async for lines in chained(*arguments):
            yield lines

    monkeypatch.setattr(repository, "read_chains", cut_meanwhile)
    assert (await verifier.verify(world.database, key, ends)).broken is None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "culvert-test", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


async def test_an_export_on_a_full_disk_leaves_no_file_and_cuts_nothing(
    world: World, small_disk: Path
) -> None:
    before = await old_lines(world)
    with pytest.raises(ConfigurationError, match="nothing was cut") as refusal:
        await cut(world.settings, before, small_disk / "old.jsonl")
    assert "No space left" in str(refusal.value)
    assert not await asyncio.to_thread(lambda: list(small_disk.iterdir()))
    assert (await world.rest("GET", "/audit/retention"))["removed"] == 0


@slow
async def test_concurrent_lines_make_whole_chains_and_the_export_proves_it(world: World) -> None:
    async def append(number: int) -> None:
        async with begin(world.database, CONTROLLER) as transaction:
            odd = Line("user.create", f"user/{number}:ü,-", {"email": 'a"\\\n\u2028', "n": number})
            transaction.audit(odd)
            transaction.audit(Line("user.invite", "", actor=Actor(ActorKind.SYSTEM, "x\0y")))

    await asyncio.gather(*(append(number) for number in range(60)))
    lines = await exported(world)
    assert len(lines) >= 120
    check_chains(lines)


@slow
@pytest.mark.parametrize(
    "change", ["UPDATE audit_lines SET actor = 'x'", "DELETE FROM audit_lines", "TRUNCATE audit_lines"]
)
async def test_the_database_refuses_a_change(world: World, change: str) -> None:
    with pytest.raises(DBAPIError, match="append-only"):
        async with world.database.begin() as session:
            await session.execute(text(change))


@slow
async def test_verify_finds_what_was_done_behind_the_triggers(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    async with begin(world.database, CONTROLLER) as transaction:
        for number in range(3):
            transaction.audit(Line("user.create", f"user/{number}"))
    assert await verify(world.settings)
    assert "lines are as they were written" in capsys.readouterr().out
    async with world.database.begin() as session:
        await session.execute(text("ALTER TABLE audit_lines DISABLE TRIGGER USER"))
        place = (
            await session.execute(
                text("UPDATE audit_lines SET why = 'x' WHERE object = 'user/1' RETURNING chain, seq")
            )
        ).one()
    assert not await verify(world.settings)
    assert f"chain {place.chain}, line {place.seq}: its hash" in capsys.readouterr().out
    async with world.database.begin() as session:
        await session.execute(text("DELETE FROM audit_lines WHERE object = 'user/1'"))
    assert (await verifier.verify(world.database, cut_key(world.settings))).broken == Broken(
        place.chain, place.seq, "it is not there"
    )


@slow
async def test_the_log_is_verified_over_rest_and_says_where_it_is_broken(world: World) -> None:
    found = await world.rest("GET", "/audit/verification")
    assert found["broken"] is None
    assert found["lines"] == sum(it["seq"] for it in found["ends"]) > 0
    async with world.database.begin() as session:
        # As its owner may, who could take the trigger away as well.
        await session.execute(text("ALTER TABLE audit_lines DISABLE TRIGGER ALL"))
        await session.execute(text("UPDATE audit_lines SET actor = 'mallory' WHERE seq = 1"))
        await session.execute(text("ALTER TABLE audit_lines ENABLE TRIGGER ALL"))
    broken = (await world.rest("GET", "/audit/verification"))["broken"]
    assert broken["seq"] == 1
    assert "does not match" in broken["why"]


@slow
async def test_lines_name_devices_and_lists_say_what_was_refused_last(world: World) -> None:
    device = await world.enrol()
    assert (await world.rest("GET", "/devices"))[0]["last_denied"] is None
    await refused(device.open("nothing.corp.example"))
    await refused(device.open("wiki.corp.example"))
    lines = await world.rest("GET", f"/audit?actor={device.id}&outcome=denied")
    assert {line["names"][device.id] for line in lines} == {"laptop of alice"}
    [shown], [person] = await world.rest("GET", "/devices"), await world.rest("GET", "/users")
    assert shown["last_denied"] == person["last_denied"]
    assert shown["last_denied"]["object"] == "name/wiki.corp.example"
    assert (shown["last_denied"]["why"], shown["last_denied"]["at"]) == (lines[0]["why"], lines[0]["at"])
    await world.rest("POST", "/users", {"name": "aaron", "email": "aaron@corp.example"})
    await world.enrol("aaron")
    for kind, name in (("devices", "user"), ("users", "name")):
        for sort, names in (("last_denied", ["aaron", "alice"]), ("-last_denied", ["alice", "aaron"])):
            assert [row[name] for row in await world.rest("GET", f"/{kind}?sort={sort}")] == names
