"""Rows that a statement shows as JSON, parsed once."""

from __future__ import annotations

import functools
import json

from culvert_db import (
    Gateway,
    Resource,
    as_json,
    from_json,
)

from culvert_service.tunnels.pool import Inner
from culvert_service.tunnels.record import Shape

GATEWAY = as_json(Gateway, without=("kek_ciphertext", "next_kek_ciphertext"))


# Many openings find few resources and gateways: most find them parsed. Nobody changes what is shared so.
@functools.lru_cache(maxsize=4096)
def parse_resource(shown: str) -> Resource:
    return from_json(Resource, shown)


def parse_inner(shown: str) -> Inner:
    found = json.loads(shown)
    return Inner(found["address"], found["address6"])


@functools.lru_cache(maxsize=256)
def parse_gateway(shown: str) -> Gateway:
    return from_json(Gateway, shown)


@functools.lru_cache(maxsize=4096)
def parse_shape(resource: str, gateway: str) -> Shape:
    return Shape.of(parse_resource(resource), parse_gateway(gateway))
