"""Faults of a request stand where the caller wrote the value, without pydantic's names of a union's alternatives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from culvert_db import bind_database
from culvert_service.config import Settings
from culvert_service.controller.lifecycle import Controller
from culvert_service.database import connect
from culvert_service.decision.conditions import Conditions
from culvert_service.gateways.schemas import GatewayIn, WanPort
from culvert_service.policies.schemas import AssertionIn, PolicyIn
from culvert_service.resources.schemas import ResourceIn
from culvert_service.rest import problem
from culvert_service.rest.faults import InputFault, explain
from culvert_service.site_tunnels.schemas import SiteTunnelIn
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

MAC = "02:00:00:00:01:01"
WAN = {"port": 1, "mac": MAC, "next_hop_mac": MAC}
LAN = {"port": 2, "mac": MAC, "address": "10.20.0.1", "prefix": "10.20.0.0/24"}
GATEWAY = {
    "name": "berlin", "address": "198.51.100.1", "p4runtime": "127.0.0.1:9559", "pool": "10.99.0.0/24",
    "wan": WAN, "lan": LAN,
}  # fmt: skip
END = {"gateway": "gw-a", "resources": ["wiki"]}
SITES = {"name": "a-b", "owner": "bob@corp.example"}
RESOURCE = {
    "name": "wiki", "fqdn": "wiki.corp.example", "targets": [{"prefix": "10.20.0.10"}],
    "gateways": ["gw-a"], "owner": "bob@corp.example",
}  # fmt: skip
NOT_A_MAC = "must be a MAC address such as 02:00:00:00:01:01"
# The only faults of a field that the body does not have.
OF_ABSENT = ("must be given", "an end has targets", "name either a group", "next_hop for a router")
NO_NETWORK = "must be a prefix such as 203.0.113.0/24 or 2001:db8::/32"

NOT_TEXT = "must be a network such as 10.0.0.0/8"
WRONG: tuple[Any, ...] = (
    "zz",
    "",
    1.5,
    True,
    None,
    {},
    {"str": 1},
    [],
    ["zz"],
    [MAC, "zz"],
    [MAC, 4],
    [["zz"]],
    [{}],
)


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[APIRoute]:
    """The controller's REST routes, without a database behind them."""

    async def build() -> list[APIRoute]:
        engine = connect("postgresql://nobody@localhost/none")
        app = Controller(Settings(state_dir=tmp_path_factory.mktemp("state")), bind_database(engine)).app
        await engine.dispose()
        return [it for it in app.routes if isinstance(it, APIRoute)]

    return asyncio.run(build())


async def refused(model: type[BaseModel], body: object) -> dict[str, Any]:
    """The answer of a REST API that takes the model."""
    app = FastAPI()
    problem.install(app)

    async def take(body: Any) -> None:
        del body

    take.__annotations__["body"] = model
    app.post("/")(take)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = await client.post("/", json=body)
    assert answer.status_code == 422, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("zz", {"": NOT_A_MAC}),
        (5, {"": "must be a text or list"}),
        ([], {"": "must have at least 1 entry"}),
        ([MAC, "zz"], {"/1": NOT_A_MAC}),
        (["zz", 4], {"/0": NOT_A_MAC, "/1": "must be a text"}),
    ],
)
async def test_a_wrong_mac_of_a_router_is_told_as_such(value: object, errors: dict[str, str]) -> None:
    told = await refused(GatewayIn, GATEWAY | {"wan": WAN | {"next_hop_mac": value}})
    place = "/wan/next_hop_mac"
    assert {it["pointer"]: it["detail"] for it in told["errors"]} == {place + k: v for k, v in errors.items()}
    assert told["fields"]["why"] == "; ".join(
        f"{(place + k)[1:].replace('/', '.')}: {v}" for k, v in errors.items()
    )


LAN6 = {"address6": "2001:db8:20::1"}
ROUTE = {"neighbours": {"10.20.0.10": None}, "routes": {"10.99.0.0/25": "10.20.0.10"}}


@pytest.mark.parametrize(
    ("changed", "pointer", "why"),
    [
        ({"wan": {"next_hop_mac": [MAC, MAC]}}, "/wan/next_hop_mac", "has an address twice"),
        (
            {"wan": {"next_hop_mac": None, "next_hop": ["198.51.100.1", "198.51.100.1"]}},
            "/wan/next_hop",
            "has an address twice",
        ),
        ({"lan": {"port": 1}}, "/lan/port", "must be another port"),
        ({"lan": {"address": "10.21.0.1"}}, "/lan/address", "10.21.0.1: not in the LAN's prefix"),
        ({"lan": {"neighbours": {"10.21.0.9": None}}}, "/lan/neighbours", "10.21.0.9: not in the LAN's"),
        ({"lan": LAN6}, "/lan/prefix6", "must be given"),
        ({"lan": {"prefix6": "2001:db8:20::/64"}}, "/lan/address6", "must be given"),
        ({"lan": {"routes": {"10.30.0.0/16": "10.20.0.254"}}}, "/lan/routes", "10.20.0.254: no neighbour"),
        (
            {"lan": {"routes": {"10.20.0.128/25": "10.20.0.10"}}},
            "/lan/routes",
            "10.20.0.128/25: a route leads",
        ),
        ({"lan": ROUTE}, "/lan/routes", "10.99.0.0/25 overlaps"),
        ({"public_address6": "2001:db8::2"}, "/address6", "must be given"),
    ],
)
async def test_a_fault_between_a_gateways_fields_stands_at_one_of_them(
    changed: dict[str, Any], pointer: str, why: str
) -> None:
    body = {
        it: cast("dict[str, Any]", GATEWAY[it]) | value
        for it, value in changed.items()
        if it in ("wan", "lan")
    }
    told = await refused(GatewayIn, GATEWAY | changed | body)
    [fault] = told["errors"]
    assert (fault["pointer"], fault["detail"].startswith(why)) == (pointer, True), fault


@pytest.mark.parametrize(
    ("model", "body", "pointer"),
    [
        (PolicyIn, {"name": "wikis", "resources": ["wiki"]}, "/group"),
        (AssertionIn, {"name": "wiki.corp.example", "reaches": True}, "/group"),
        (SiteTunnelIn, SITES | {"ends": [END, END]}, "/ends/1/gateway"),
        (SiteTunnelIn, SITES | {"ends": [END, END | {"gateway": "gw-b"}]}, "/ends/1/resources"),
        (SiteTunnelIn, SITES | {"ends": [{"gateway": "gw-a"}, END]}, "/ends/0/resources"),
        (ResourceIn, RESOURCE | {"weights": {"gw-b": 1}}, "/weights"),
        (
            ResourceIn,
            RESOURCE | {"targets": [{"prefix": "10.20.0.10", "ports": ["443"]}]},
            "/targets/0/ports",
        ),
    ],
)
async def test_a_fault_between_fields_stands_at_one_of_them(
    model: type[BaseModel], body: dict[str, Any], pointer: str
) -> None:
    assert [it["pointer"] for it in (await refused(model, body))["errors"]] == [pointer]


@pytest.mark.parametrize("mac", ["02-00-00-00-AB-01", "0200.0000.ab01", "02:00:00:00:AB:01", "02000000ab01 "])
def test_a_mac_is_taken_in_its_usual_spellings(mac: str) -> None:
    assert GatewayIn.model_validate(GATEWAY | {"wan": WAN | {"mac": mac}}).wan.mac == "02:00:00:00:ab:01"


@pytest.mark.parametrize(
    ("value", "why"), [("zz", NO_NETWORK), (5, NOT_TEXT), (True, NOT_TEXT), ({}, NO_NETWORK)]
)
async def test_a_network_of_neither_family_has_one_fault(value: object, why: str) -> None:
    told = await refused(Conditions, {"sources": ["10.0.0.0/8", value]})
    assert told["errors"] == [{"pointer": "/sources/1", "detail": why}]


async def test_a_fault_of_a_key_stands_at_its_member() -> None:
    lan = LAN | {"routes": {"10.30.0.0/99": "10.20.0.254"}, "neighbours": {"zz": "zz"}}
    told = await refused(GatewayIn, GATEWAY | {"lan": lan})
    assert [it["pointer"] for it in told["errors"]] == [
        "/lan/neighbours/zz",
        "/lan/neighbours/zz",
        "/lan/routes/10.30.0.0~199",
    ]
    assert "[key]" not in told["detail"]


def test_faults_of_a_query_name_the_parameter_alone(routes: list[APIRoute]) -> None:
    route = next(it for it in routes if it.path.endswith("/access"))
    parameters: dict[str, Any] = {it.name: it.field_info.annotation for it in route.dependant.query_params}
    assert explained(TypeAdapter(parameters["address"]), "zz", "query", "address") == [
        InputFault(("query", "address"), "must be an address such as 203.0.113.7 or 2001:db8::7")
    ]


def test_every_fault_of_every_request_stands_in_its_body(routes: list[APIRoute]) -> None:
    """Each field of each request's body gets values of many types; those with unions are among the fields."""
    swept, with_unions = 0, set[type[BaseModel] | None]()
    for annotation in {it.body_field.field_info.annotation for it in routes if it.body_field}:
        adapter = TypeAdapter(cast("Any", annotation))
        with_unions |= set(enclosing_models_of_unions(adapter.core_schema, None))
        schema = adapter.json_schema()
        for body in wrong_bodies(schema, schema.get("$defs", {})):
            for fault in explained(adapter, body, "body"):
                swept += 1
                assert stands_in(body, fault), (annotation, body, fault)
                assert not any(it in fault.why for it in ("function-", "list[", "valid list or")), fault
    assert swept > 1000
    assert with_unions >= {WanPort, Conditions}


class Card(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: str


class Transfer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    account: int


class Order(BaseModel):
    by: Card | list[Card | Transfer]


@pytest.mark.parametrize(
    ("by", "places"),
    [
        (5, {("by",)}),
        ({"number": 5}, {("by", "number")}),
        ([{"number": 5}], {("by", 0, "number"), ("by", 0, "account")}),
        ([{"number": "1"}, 7], {("by", 1)}),
    ],
)
def test_faults_inside_of_alternatives_stand_in_the_body(by: object, places: set[tuple[object, ...]]) -> None:
    assert {it.place[1:] for it in explained(TypeAdapter(Order), {"by": by}, "body")} == places


def explained(adapter: TypeAdapter[Any], value: object, *place: str) -> list[InputFault]:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        return explain([{**it, "loc": (*place, *it["loc"])} for it in error.errors()], value)
    return []


def stands_in(body: object, fault: InputFault) -> bool:
    value = cast("Any", body)
    for part in fault.place[1:]:
        if isinstance(value, dict) and part not in value:
            return fault.why.startswith(OF_ABSENT) and part == fault.place[-1]
        value = cast("Any", value[part])
    return True


def enclosing_models_of_unions(
    node: object, model: type[BaseModel] | None
) -> Iterator[type[BaseModel] | None]:
    """The model around each union in pydantic's schema."""
    if isinstance(node, dict):
        known = cast("dict[str, Any]", node)
        if known.get("type") in ("union", "tagged-union"):
            yield model
        model = known["cls"] if known.get("type") == "model" else model
        for key, value in known.items():
            if key not in ("metadata", "serialization"):
                yield from enclosing_models_of_unions(value, model)
    elif isinstance(node, list | tuple):
        for value in cast("list[object]", node):
            yield from enclosing_models_of_unions(value, model)


def wrong_bodies(schema: dict[str, Any], named: dict[str, Any]) -> Iterator[object]:
    """Bodies that hold one value of another type, in each place of a JSON schema."""
    yield from WRONG
    if "$ref" in schema:
        yield from wrong_bodies(named[schema["$ref"].rpartition("/")[2]], named)
    for alternative in schema.get("anyOf", []):
        yield from wrong_bodies(alternative, named)
    for name, inner in schema.get("properties", {}).items():
        yield from ({name: it} for it in wrong_bodies(inner, named))
    for inner in filter(None, [schema.get("items")]):
        yield from ([it] for it in wrong_bodies(inner, named))
    if isinstance(inner := schema.get("additionalProperties"), dict):
        yield from ({"zz": it} for it in wrong_bodies(cast("dict[str, Any]", inner), named))
