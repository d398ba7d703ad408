"""Checks whether a gateway's settings allow tunnels to a resource."""

from __future__ import annotations

from collections.abc import Sequence

from culvert_db import Gateway
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.sa import check_allowed

from culvert_service.gateways.record import site_of


def check_serves(gateway: Gateway, resource: str, prefixes: Sequence[str], suite: Suite | None) -> None:
    """`suite`: the resource's suite. Raises CulvertError SUITE_LEGACY or REQUEST_INVALID."""
    if suite is not None:
        check_allowed(suite, [Suite(name) for name in gateway.legacy_suites], f"the gateway {gateway.name}")
    site = site_of(gateway)
    for prefix in prefixes:
        if not site.serves(prefix):
            why = f"{gateway.name} has no neighbour in {prefix} on its LAN, or no pool of its family"
            raise CulvertError(Reason.REQUEST_INVALID, why=f"{why}, and the resource {resource} needs it")
