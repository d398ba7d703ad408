"""Rows that a statement shows as JSON, parsed once."""

from __future__ import annotations

import functools

from culvert_db import (
    Address,
    Gateway,
    Resource,
    as_json,
    from_json,
)

from culvert_service.sessions.pool import Inner

GATEWAY = as_json(Gateway, without="kek_ciphertext")


# Many openings find few resources and gateways: most find them parsed. Nobody changes what is shared so.
@functools.lru_cache(maxsize=4096)
def parse_resource(shown: str) -> Resource:
    return from_json(Resource, shown)


def parse_inner(shown: str) -> Inner:
    found = from_json(Address, shown)
    return Inner(found.address, found.address6)


@functools.lru_cache(maxsize=256)
def parse_gateway(shown: str) -> Gateway:
    return from_json(Gateway, shown)
