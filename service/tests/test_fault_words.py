"""The faults of a request's fields are said in words for people, not in those of the validator."""

from __future__ import annotations

import re
from typing import Any

import pytest
from culvert_service.admins.schemas import PasswordIn
from culvert_service.decision.conditions import Conditions
from culvert_service.gateways.schemas import GatewayIn
from culvert_service.identity.schemas import UserIn
from culvert_service.resources.schemas import ResourceIn
from culvert_service.resources.target import Target
from culvert_service.rest.faults import explain
from pydantic import BaseModel, ValidationError

_PYTHON = re.compile(r"[Ii]nput|String|Value|[\^\\]|validation|Octet|Expected|tuple|NoneType")


@pytest.mark.parametrize(
    ("model", "body", "place", "words"),
    [
        (Target, {"prefix": "10.20.0.300"}, "prefix", "must be an address or a prefix such as"),
        (Target, {"prefix": "10.20.0.1/16"}, "prefix", "must begin with the network's first address"),
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
        (UserIn, {"name": "No Name"}, "name", "must have 1 to 63 lower-case letters, digits, dots"),
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
