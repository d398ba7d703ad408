"""The faults of a request's fields are said in words for people, not in those of the validator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, cast, get_args

import pytest
from culvert_service.admins.schemas import PasswordIn
from culvert_service.decision import posture
from culvert_service.decision.conditions import Conditions
from culvert_service.gateways.schemas import GatewayIn
from culvert_service.identity.schemas import UserIn
from culvert_service.operation.commands import openapi
from culvert_service.resources.schemas import ResourceIn
from culvert_service.resources.target import Target
from culvert_service.rest.fault_words import say
from culvert_service.rest.faults import explain
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

_PYTHON = re.compile(r"[Ii]nput|String|Value|[\^\\]|validation|Octet|Expected|tuple|NoneType")


@pytest.mark.parametrize(
    ("model", "body", "place", "words"),
    [
        (Target, {"prefix": "10.20.0.300"}, "prefix", "must be an address or a prefix such as"),
        (Target, {"prefix": "10.20.0.1/16"}, "prefix", "must begin with the network's first address"),
        (Target, {"prefix": "10.20.0.10:443"}, "prefix", "such as 192.0.2.7 or 192.0.2.0/24; protocol"),
        (Target, {"prefix": "http://10.20.0.10:80/x"}, "prefix", "and ports have their own fields"),
        (Target, {"prefix": "2001:db8::1/32"}, "prefix", "must begin with the network's first address"),
        (Target, {"prefix": "::g"}, "prefix", "such as 2001:db8::7 or 2001:db8::/64"),
        (Target, {"prefix": "10.20.0.1", "protocol": "sctp"}, "protocol", "must be one of 'any', "),
        (Target, {"prefix": 7}, "prefix", "must be a text"),
        (Target, {}, "prefix", "must be given"),
        (Conditions, {"sources": ["10.0.0.0/33"]}, "sources.0", "must be a prefix such as 203.0.113.0/24"),
        (Conditions, {"code_max_age_seconds": 1}, "code_max_age_seconds", "must be at least 60"),
        (Conditions, {"other": 1}, "other", "is not a known field"),
        (
            Conditions,
            {"hours": {"zone": "UTC", "windows": []}},
            "hours.windows",
            "must have at least 1 entry",
        ),
        (PasswordIn, {"new_password": "short"}, "new_password", "must have at least 12 characters"),
        (
            UserIn,
            {"name": "No Name"},
            "name",
            "must have 1 to 63 lower-case letters from a to z, digits, dots",
        ),
        (ResourceIn, {"name": "No Name"}, "name", "must have 1 to 63 lower-case letters, digits and hyphens"),
        (GatewayIn, {"wan": {"next_hop_mac": "zz"}}, "wan.next_hop_mac", "must be a MAC address such as"),
        (GatewayIn, {"p4runtime": "nowhere"}, "p4runtime", "must be an address and a port"),
        (GatewayIn, {"address": "1.2"}, "address", "must be an IPv4 address such as 192.0.2.7"),
    ],
)
def test_a_fault_is_said_once_and_in_plain_words(
    model: type[BaseModel], body: dict[str, object], place: str, words: str
) -> None:
    with pytest.raises(ValidationError) as error:
        model.model_validate(body)
    said = [(".".join(map(str, it.place[1:])), it.why) for it in explain(_in_body(error.value), body)]
    found = [what for where, what in said if where == place]
    assert len(found) == 1, said
    assert words in found[0]
    assert not [what for _, what in said if _PYTHON.search(what)]


def _in_body(error: ValidationError) -> list[dict[str, Any]]:
    """As FastAPI reports them."""
    return [{**it, "loc": ("body", *it["loc"])} for it in error.errors()]


@pytest.mark.slow
async def test_each_pattern_of_the_api_has_words_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    await openapi()
    patterns = set(_patterns(json.loads(capsys.readouterr().out))) - {posture.FACT, posture.VERSION}
    assert len(patterns) > 10
    said: dict[str, str] = {}
    for pattern in patterns:
        with pytest.raises(ValidationError) as error:
            TypeAdapter[str](Annotated[str, Field(pattern=pattern)]).validate_python("\0")
        said[pattern] = say(error.value.errors()[0])
    assert not [pattern for pattern, words in said.items() if not words.startswith("must ")]


@pytest.mark.parametrize("kind", get_args(ErrorType))
def test_no_error_of_the_validator_is_said_in_its_own_words(kind: str) -> None:
    bounds = dict.fromkeys(("ge", "gt", "le", "lt", "min_length", "max_length"), 2)
    context = {"error": ValueError("must be so"), "pattern": "x", "expected": "'a'", "field_type": "Value"}
    said = say({"type": kind, "msg": "Input should be", "ctx": context | bounds})
    assert not _PYTHON.search(said), said


def _patterns(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        fields = cast("dict[str, object]", part)
        if isinstance(pattern := fields.get("pattern"), str):
            yield pattern
        part = list(fields.values())
    if isinstance(part, list):
        for one in cast("list[object]", part):
            yield from _patterns(one)
