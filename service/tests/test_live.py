"""Live views: what changes is told, once, to who may see it; a lost connection goes on where it ended."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast

import anyio
import httpx
import pytest
from culvert_db import DnsRecord, DnsState
from culvert_service.gateways.service import Gateways
from culvert_service.live import endpoints, places, sources, view
from culvert_service.live.log_view import parse, spell
from culvert_service.live.timeline import Row, RowTimeline
from culvert_service.rest.api import Api
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from .conftest import Device, World
from .switch import Switch

slow = pytest.mark.slow

ROWS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3)


def replayed(rows: dict[str, Row], events: list[tuple[str, Row]]) -> dict[str, Row]:
    for kind, data in events:
        match kind:
            case "snapshot":
                rows = dict(data["rows"])
            case "changed":
                rows[data["key"]] = data["row"]
            case _:
                del rows[data["key"]]
    return rows


@given(st.lists(st.tuples(ROWS, st.booleans())), st.integers(1, 4))
def test_a_follower_with_gaps_has_the_rows(steps: list[tuple[dict[str, int], bool]], kept: int) -> None:
    timeline, seen, shown = RowTimeline("e", kept=kept), None, dict[str, Row]()
    for rows, looks in [*steps, ({"a": 9}, True)]:
        versions = {key: str(value) for key, value in rows.items()}
        changed = timeline.find_changed(versions)
        timeline.advance(versions, {key: {"value": rows[key]} for key in changed})
        if looks:
            events = list(timeline.since(seen))
            shown = replayed(shown, [(event.kind, event.data) for event in events])
            seen = events[-1].id if events else seen
            assert shown == {key: {"value": value} for key, value in rows.items()}
            assert not timeline.since(seen)


@pytest.mark.parametrize("seen", [None, "", "e", "e-", "e-9", "f-0", "e--1", "e-" + "9" * 40, "e-١", "-"])
def test_an_event_that_is_not_known_is_answered_with_everything(seen: str | None) -> None:
    assert [event.kind for event in RowTimeline("e").since(seen)] == ["snapshot"]


@given(st.dictionaries(st.integers(0, 15), st.integers(1, 2**53), min_size=1))
def test_a_place_in_the_log_is_read_as_it_was_written(position: dict[int, int]) -> None:
    assert parse(spell(position)) == position


@pytest.mark.parametrize("seen", [None, "", "x", "16:1", "1:1,", "1:" + "9" * 19, "-1:1"])
def test_an_invalid_place_in_the_log_is_ignored(seen: str | None) -> None:
    assert parse(seen) is None


@given(st.dictionaries(st.sampled_from(endpoints.Area), st.text("0123456789abcdef-:,", min_size=1)))
def test_places_in_several_views_are_read_as_they_were_written(seen: dict[str, str]) -> None:
    assert places.parse(places.spell(seen)) == seen


@pytest.mark.parametrize("seen", [None, "", ";", "=", "tunnels", "tunnels="])
def test_an_invalid_place_in_any_view_is_ignored(seen: str | None) -> None:
    assert places.parse(seen) == {}


class OneGateway(BaseModel):
    name: str = "gw-berlin"
    state: str


class Changing:
    """A gateway that is another each time it is read, and at last stays."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)

    async def list_all(self) -> list[OneGateway]:
        return [OneGateway(state=self.states.pop(0) if len(self.states) > 1 else self.states[0])]


@pytest.mark.parametrize(
    "before", [["online"], ["online", "reconciled"], ["draining"], ["draining", "online"]]
)
async def test_a_live_row_ends_with_the_current_state(
    before: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "_LOOK_SECONDS", 0.01)
    changing = Changing(*before, "reconciled", "draining", "reconciled")
    shown = dict[str, Row]()
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(0.3),
            aclosing(view.View(sources.GatewaySource(cast(Gateways, changing))).events(None)) as events,
        ):
            async for event in events:
                shown = replayed(shown, [(event.kind, event.data)])
    assert len(changing.states) == 1
    assert shown["gw-berlin"]["state"] == "reconciled"


class Stream:
    """An EventSource, as far as it is needed."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.last = self.view = ""

    async def next(self) -> tuple[str, Any]:
        """The next event's kind and data. Raises StopAsyncIteration at the stream's end."""
        fields: dict[str, str] = {}
        while line := await asyncio.wait_for(anext(self._lines), 20):
            name, _, value = line.partition(": ")
            fields[name] = value
        if "data" not in fields:
            return await self.next()
        self.last, self.view = fields["id"], fields["event"]
        data = json.loads(fields["data"])
        return data.pop("kind"), data

    async def until(self, kind: str, key: str) -> Any:
        while True:
            found, data = await self.next()
            if (found, data.get("key")) == (kind, key):
                return data.get("row")


@asynccontextmanager
async def watching(
    world: World, area: str, seen: str = "", client: httpx.AsyncClient | None = None
) -> AsyncGenerator[Stream]:
    headers = {"Last-Event-ID": seen} if seen else {}
    url, views = "/api/v1/events", {"view": area.split()}
    async with (client or world.admin).stream(
        "GET", url, headers=headers, params=views, timeout=30
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer)


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


@slow
async def test_a_tunnels_live_row_follows_its_persons_name(world: World, device: Device) -> None:
    """The name stands in another table than the tunnel."""
    tunnel_id = (await device.open()).tunnel.tunnel_id
    async with watching(world, "tunnels") as stream:
        _, data = await stream.next()
        assert data["rows"][tunnel_id]["user_display_name"] is None
        named = {"email": "alice@corp.example", "display_name": "Alice Miller"}
        await world.rest("PUT", "/users/alice", named)
        assert (await stream.until("changed", tunnel_id))["user_display_name"] == "Alice Miller"


@slow
async def test_a_tunnel_is_seen_to_open_and_close(world: World, device: Device) -> None:
    async with watching(world, "tunnels") as stream:
        assert await stream.next() == ("snapshot", {"rows": {}})
        tunnel_id = (await device.open()).tunnel.tunnel_id
        row = await stream.until("changed", tunnel_id)
        assert row == (await world.rest("GET", "/tunnels"))[0]
        left = stream.last
    await device.close(tunnel_id)
    async with watching(world, "tunnels", left) as stream:
        assert await stream.next() == ("gone", {"key": tunnel_id})
    async with watching(world, "tunnels", "0-0") as stream:
        assert await stream.next() == ("snapshot", {"rows": {}})


@slow
async def test_a_live_view_shows_changes_by_other_programs(world: World, switch: Switch) -> None:
    async with watching(world, "dns") as stream:
        await stream.next()
        zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
        await world.rest("POST", "/dns/zones", zone)
        assert (await stream.until("changed", "zone/corp"))["state"] == "pending"
        for state in (DnsState.PENDING, DnsState.LIVE):
            async with world.database.begin() as session:
                await session.merge(DnsRecord(name="a.corp.example", zone="corp", type="A", state=state))
            row = await stream.until("changed", "record/corp/A/a.corp.example")
            assert row["state"] == state.value
    async with watching(world, "gateways") as stream:
        kind, data = await stream.next()
        assert (kind, data["rows"]["gw-berlin"]["state"]) == ("snapshot", "online")
        switch.silent = True
        assert (await stream.until("changed", "gw-berlin"))["state"] == "offline"


@slow
async def test_a_stream_with_several_views_resumes_each_of_them(world: World, device: Device) -> None:
    async with watching(world, "tunnels gateways audit") as stream:
        begun: dict[str, str] = {}
        for _ in range(3):
            kind, _ = await stream.next()
            begun[stream.view] = kind
        assert begun == {"tunnels": "snapshot", "gateways": "snapshot", "audit": "begins"}
        left = stream.last
    tunnel_id = (await device.open()).tunnel.tunnel_id
    async with watching(world, "tunnels dns audit", left) as stream:
        found = set[tuple[str, str]]()
        while not found >= {("tunnels", "changed"), ("dns", "snapshot"), ("audit", "line")}:
            kind, data = await stream.next()
            found.add((stream.view, kind))
            assert kind != "changed" or data["key"] == tunnel_id
        assert ("tunnels", "snapshot") not in found


async def test_a_client_that_goes_away_while_it_is_sent_events_ends_its_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view, "_LOOK_SECONDS", 0.01)
    nothing = cast(Any, None)
    changing = Changing(*(str(number) for number in range(10_000)))
    live = endpoints.Live(nothing, cast(Gateways, changing), nothing, nothing)
    app = FastAPI()

    async def permitted() -> None:
        pass

    app.include_router(endpoints.router(Api(permitted), live, nothing))
    full = asyncio.Event()
    asked: list[dict[str, object]] = [{"type": "http.request"}]

    async def receive() -> dict[str, object]:
        if not asked:
            await full.wait()
        return asked.pop(0) if asked else {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message.get("body"):
            # The client's window is full: what comes next waits in the server.
            asyncio.get_running_loop().call_later(0.1, full.set)
            await asyncio.Event().wait()

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/events",
        "query_string": b"view=gateways",
        "headers": [],
    }
    # The view must be freed by reference counts, without the garbage collector.
    gc.disable()
    try:
        with suppress(ClientDisconnect):
            await asyncio.wait_for(app(scope, receive, send), 10)
        async with asyncio.timeout(5):
            await asyncio.gather(*(it for it in asyncio.all_tasks() if it.get_name() == "live view"))
    finally:
        gc.enable()


async def test_an_answer_that_is_cut_off_closes_each_of_its_streams() -> None:
    begun, closed = asyncio.Queue[str](), asyncio.Queue[str]()

    async def events(area: str) -> AsyncGenerator[endpoints.Told]:
        try:
            yield endpoints.Told("snapshot", {}, area)
            await asyncio.Event().wait()
        finally:
            # As long as a view's look at the database takes.
            await asyncio.sleep(0.01)
            closed.put_nowait(area)

    streams = {area: events(area) for area in endpoints.Area}

    async def answer() -> None:
        async for area, _ in endpoints._merge(streams):
            begun.put_nowait(area)

    async with anyio.create_task_group() as group:
        group.start_soon(answer)
        for _ in streams:
            await begun.get()
        group.cancel_scope.cancel()
    async with asyncio.timeout(10):
        assert {await closed.get() for _ in streams} == set(streams)


@slow
async def test_the_traffic_view_has_tunnels_with_packets(
    world: World, switch: Switch, device: Device
) -> None:
    tunnel_id = (await device.open()).tunnel.tunnel_id
    async with watching(world, "traffic") as stream:
        assert await stream.next() == ("snapshot", {"rows": {}})
        carrying = asyncio.create_task(stream.until("changed", tunnel_id))
        while not carrying.done():
            switch.hit("spd_in")
            await asyncio.sleep(0.2)
        row = await carrying
        assert row["from_device"] > 0 == row["to_device"]
        await stream.until("gone", tunnel_id)


@slow
async def test_each_line_of_the_log_is_told_once_also_over_a_lost_connection(world: World) -> None:
    async def add(*names: str) -> None:
        for name in names:
            await world.rest("POST", "/users", {"name": name, "email": "x@corp.example"})

    async with watching(world, "audit") as stream:
        assert await stream.next() == ("begins", {})
        await add("bob", "carol")
        told = [await stream.next(), await stream.next()]
        assert [data["line"]["object"] for _, data in told] == ["user/bob", "user/carol"]
        assert told[0][1]["line"] | {"names": {}} in await world.rest("GET", "/audit")
        left = stream.last
    await add("dave", "erin")
    async with watching(world, "audit", left) as stream:
        assert {(await stream.next())[1]["line"]["object"] for _ in range(2)} == {"user/dave", "user/erin"}


@slow
async def test_a_live_view_needs_and_keeps_checking_permission(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "_ADMITTED_SECONDS", 0.2)
    made = await world.rest("POST", "/tokens", {"name": "ci", "scopes": ["tunnels:read"]})
    bearer = {"Authorization": f"Bearer {made['token']}"}
    for views in (["audit"], ["gateways"], ["dns"], ["tunnels", "gateways"], []):
        answer = await world.anyone.get("/api/v1/events", headers=bearer, params={"view": views})
        assert (answer.status_code, answer.json()["reason"]) == (403, "NOT_PERMITTED")
    url = "/api/v1/events?view=tunnels&view=traffic"
    assert (await world.anyone.get(url)).status_code == 401
    async with world.anyone.stream("GET", url, headers=bearer, timeout=30) as answer:
        stream = Stream(answer)
        for _ in range(2):
            await stream.next()
        await world.rest("DELETE", f"/tokens/{made['id']}")
        with pytest.raises(StopAsyncIteration):
            await stream.next()
