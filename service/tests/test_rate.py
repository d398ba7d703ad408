"""Rate limits: the bucket, and what a caller who asks too often is told."""

from __future__ import annotations

import asyncio
import itertools
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_proto.token_bucket import TokenBucket
from culvert_service.audit.repeats import CALLERS_MOST, Repeats
from culvert_service.rest.prefix import limit_keys
from culvert_service.rest.rate import AddressLimiter, Limiter
from hypothesis import given
from hypothesis import strategies as st

from .conftest import World, refused, running, settings_in, until

NOBODYS = "00000000-0000-4000-8000-000000000000"


@given(st.lists(st.floats(0, 3), max_size=60))
def test_no_more_is_served_than_burst_and_rate_allow_and_waiting_helps(pauses: list[float]) -> None:
    limiter, now, served = Limiter(TokenBucket(per_second=2, burst=5)), 1000.0, 0
    for pause in pauses:
        now += pause
        wait = limiter.take("x", now)
        served += not wait
        assert served <= 5 + 2 * (now - 1000) + 0.01
        if wait:
            now += wait
            assert limiter.take("x", now) == 0
            served += 1


def test_each_caller_has_a_bucket_and_full_ones_are_forgotten() -> None:
    limiter = Limiter(TokenBucket(per_second=1, burst=1))
    assert [limiter.take(who, 0) for who in ("x", "x", "y")] == [0, 1, 0]
    for number in range(20_000):
        limiter.take(str(number), number * 0.01)
    assert len(limiter._full_at) < 5000


def test_many_callers_take_bounded_memory_and_busy_ones_stay_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 16_384
    monkeypatch.setattr("culvert_service.rest.rate.MOST", most)
    limiter = Limiter(TokenBucket(per_second=0.001, burst=2))
    assert [limiter.take("busy", 0) for _ in range(2)] == [0, 0]
    for number in range(2 * most):
        limiter.take(str(number), 0)
    assert len(limiter._full_at) <= most
    assert limiter.take("busy", 0)


@pytest.mark.parametrize(
    ("address", "keys"),
    [
        ("203.0.113.7", ("203.0.113.7/32",)),
        ("::ffff:203.0.113.7", ("203.0.113.7/32",)),
        ("64:ff9b::203.0.113.7", ("203.0.113.7/32",)),
        ("2001:db8:1:2:3:4:5:6", ("2001:db8:1:2::/64", "2001:db8:1::/48")),
        ("2001:DB8:1:0002::", ("2001:db8:1:2::/64", "2001:db8:1::/48")),
        ("fe80::1%eth0", ("fe80::/64", "fe80::/48")),
        ("", ("unknown",)),
        (None, ("unknown",)),
        ("not an address", ("unknown",)),
    ],
)
def test_an_address_counts_with_its_prefixes(address: str | None, keys: tuple[str, ...]) -> None:
    assert limit_keys(address) == keys


def test_a_64_has_the_budget_of_one_address_and_a_48_four_times_it() -> None:
    limiter = AddressLimiter(TokenBucket(per_second=1, burst=5))
    of_64 = [limiter.take(f"2001:db8:0:1::{host:x}", 0) for host in range(100)]
    assert of_64.count(0) == 5
    of_48 = [limiter.take(f"2001:db8:0:{site:x}::1", 0) for site in range(2, 100)]
    assert of_48.count(0) == 15
    # Another /48 has its own budget.
    assert limiter.take("2001:db8:1:1::1", 0) == 0
    assert [limiter.take(f"::ffff:192.0.2.{host}", 0) for host in (1, 1, 2)] == [0, 0, 0]


def test_a_call_refused_for_its_64_takes_nothing_from_its_48() -> None:
    limiter = AddressLimiter(TokenBucket(per_second=1, burst=5))
    for _ in range(1000):
        limiter.take("2001:db8::1", 0)
    assert limiter.take("2001:db8:0:1::1", 0) == 0


@pytest.mark.slow
async def test_too_many_calls_are_refused_with_a_retry_time(tmp_path: Path, database_url: str) -> None:
    few = settings_in(
        tmp_path, database_url=database_url, rest_calls_per_second=0.5, rest_strangers_calls_per_second=0.2
    )
    async with running(few) as world:
        guessing = {"Authorization": "Bearer guess"}
        # A caller with a wrong token counts as anonymous, and that bucket is partly used.
        for client, path, burst, headers in (
            (world.admin, "/users", 5, {}),
            (world.anyone, "/ca", 2, {}),
            (world.anyone, "/users", 0, guessing),
        ):
            # Meanwhile a slow machine's bucket has refilled by a few calls.
            calls = (client.get(f"/api/v1{path}", headers=headers) for _ in range(4 * burst + 8))
            answers = await asyncio.gather(*calls)
            limited = [answer for answer in answers if answer.status_code == 429]
            assert limited
            assert len(answers) - len(limited) >= burst
            for answer in limited:
                assert answer.json()["reason"] == "RATE_LIMITED"
                assert 1 <= int(answer.headers["retry-after"]) <= 5
        assert (await world.anyone.get("/healthz")).status_code == 200


def test_refusals_in_a_loop_are_logged_once_a_minute_with_their_count() -> None:
    repeats, what = Repeats(), ("tunnel.open", "name/wiki", "CODE_NEEDED")
    told = [repeats.tell("x", what, at) for at in range(120)]
    assert [at for at, left_out in enumerate(told) if left_out is not None] == [0, 60]
    assert told[60] == 59
    assert repeats.tell("y", what, 120) == 0


def test_differing_refusals_are_logged_at_a_limited_rate() -> None:
    repeats = Repeats()
    told = [repeats.tell("x", ("tunnel.renew", f"tunnel/{at}", "TUNNEL_UNKNOWN"), at) for at in range(600)]
    lines = [left_out for left_out in told if left_out is not None]
    assert 60 <= len(lines) <= 32 + 60
    assert len(lines) + sum(lines) <= 600


def _addresses(kind: str) -> Iterator[str]:
    for number in itertools.count():
        match kind:
            case "one":
                yield "203.0.113.7"
            case "/64":
                yield f"2001:db8:1:2::{number:x}"
            case "/48":
                yield f"2001:db8:1:{number % 65536:x}::7"
            case _:
                yield f"{2 + number // 2**16 % 64}.{number // 256 % 256}.{number % 256}.7"


@pytest.mark.parametrize(("kind", "most"), [("one", 32), ("/64", 32), ("/48", 128), ("everywhere", 256)])
def test_the_log_has_few_refusals_of_strangers_and_counts_the_rest(kind: str, most: int) -> None:
    repeats, count, told, counted = Repeats(), 20_000, 0, 0
    for number, address in zip(range(count), _addresses(kind), strict=False):
        left_out = repeats.tell_stranger(address, ("device.enrol", f"device/{number}", "CSR_INVALID"), 5)
        if left_out is not None:
            told, counted = told + 1, counted + left_out
    assert told == most
    assert repeats.summary(4) is None
    summary = repeats.summary(5)
    assert summary is not None
    assert told + counted + sum(summary.callers.values()) == count
    assert summary.kinds == {"device.enrol CSR_INVALID": count - told - counted}
    assert len(summary.callers) <= CALLERS_MOST + 1
    assert repeats.summary(5) is None


def test_refusals_of_strangers_leave_room_for_those_of_known_callers() -> None:
    repeats = Repeats()
    for number, address in zip(range(1000), _addresses("everywhere"), strict=False):
        repeats.tell_stranger(address, ("device.enrol", f"device/{number}", "CSR_INVALID"), 0)
    assert repeats.tell("certificate/sha256:00", ("tunnel.open", "name/wiki", "CODE_NEEDED"), 0) == 0


@pytest.mark.slow
async def test_a_flood_of_enrolments_and_sign_ins_leaves_few_lines_and_a_count(
    tmp_path: Path, database_url: str
) -> None:
    settings = settings_in(tmp_path, database_url=database_url, rest_strangers_calls_per_second=10_000)
    async with running(settings) as world:
        for number in range(100):
            enrolment = {"token": "guess", "device_name": f"laptop {number}", "csr_pem": "nonsense"}
            answer = await world.anyone.post("/api/v1/enrolments", json=enrolment)
            assert answer.json()["reason"] == "CSR_INVALID"
        for number in range(5):
            guess = {"name": f"owner-{number}", "password": "wrong" * 4, "code": "000000"}
            assert (await world.anyone.post("/api/v1/session", json=guess)).status_code in {401, 429}
        lines = await world.rest("GET", "/audit?outcome=denied")
        assert 32 <= len(lines) <= 40
    # The controller writes the remaining counts when it stops.
    async with running(settings) as world:
        [summary] = await world.rest("GET", "/audit?action=audit.left-out")
        lines = await world.rest("GET", "/audit?outcome=denied")
    told = summary["details"]
    assert (told["callers"], told["busiest"]) == (1, f"127.0.0.1/32: {told['left_out']}")
    kinds = dict(kind.rsplit(": ", 1) for kind in told["refusals"].split(", "))
    assert sum(map(int, kinds.values())) == told["left_out"]
    assert "device.enrol CSR_INVALID" in kinds
    in_lines = sum(line["details"].get("left_out", 0) for line in lines)
    assert len(lines) - 1 + in_lines == 105


@pytest.mark.slow
async def test_a_device_that_loops_refused_calls_fills_neither_log_nor_database(
    tmp_path: Path, database_url: str
) -> None:
    few = settings_in(tmp_path, database_url=database_url, agent_calls_per_second=3)
    async with running(few) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        device, other = await world.enrol(), await world.enrol()
        names = [f"n{number}.corp.example" for number in range(20)]
        at_once = await asyncio.gather(*(refused(device.open(name)) for name in names))
        assert {one.reason for one in at_once} == {Reason.NAME_UNKNOWN}
        ids = [str(uuid.uuid4()), *[NOBODYS] * 100]
        loop = await asyncio.gather(*(refused(device.renew(tunnel, 1)) for tunnel in ids))
        assert {one.reason for one in loop} == {Reason.TUNNEL_UNKNOWN, Reason.RATE_LIMITED}
        limited = next(one for one in loop if one.reason is Reason.RATE_LIMITED)
        assert re.search(r"Wait \d+ s ", limited.remedy)
        # Meanwhile a slow machine's bucket has refilled by a few calls.
        streams = await asyncio.gather(*(anext(device.watch()) for _ in range(40)), return_exceptions=True)
        assert Reason.RATE_LIMITED in {one.reason for one in streams if isinstance(one, CulvertError)}
        assert (await refused(other.renew(NOBODYS, 1))).reason is Reason.TUNNEL_UNKNOWN
        denied = f"/audit?actor={device.id}&outcome=denied&limit=500"
        # The port counts its refusals and reports the count each second.
        told = await until(
            lambda: world.rest("GET", denied),
            lambda lines: any(line["action"] == "device.call" for line in lines),
        )
        by_action = Counter((line["action"], line["reason"]) for line in told)
        assert by_action["tunnel.open", "NAME_UNKNOWN"] == 20
        assert 1 <= by_action["tunnel.renew", "TUNNEL_UNKNOWN"] <= 2
        assert by_action["device.call", "RATE_LIMITED"] == 1
        assert {line["details"]["user"] for line in told} == {"alice"}


@pytest.mark.slow
async def test_each_refused_call_is_told(world: World) -> None:
    device = await world.enrol()
    await refused(device.renew(NOBODYS, 1))
    await refused(device.activate(NOBODYS, 1))
    request = agent_pb2.RenewCertificateRequest(csr_pem="nonsense")
    await refused(device.call(device.stub.RenewCertificate(request)))
    await refused(anext(device.watch({"os": "\0"})))
    await world.rest("POST", f"/devices/{device.id}/revoke")
    await refused(anext(device.watch()))
    told = await world.rest("GET", f"/audit?actor={device.id}&outcome=denied")
    assert [(line["action"], line["object"], line["reason"]) for line in reversed(told)] == [
        ("tunnel.renew", f"tunnel/{NOBODYS}", "TUNNEL_UNKNOWN"),
        ("tunnel.activate", f"tunnel/{NOBODYS}", "TUNNEL_UNKNOWN"),
        ("device.renew", f"device/{device.id}", "CSR_INVALID"),
        ("device.watch", f"device/{device.id}", "REQUEST_INVALID"),
        ("device.watch", f"device/{device.id}", "DEVICE_REVOKED"),
    ]
