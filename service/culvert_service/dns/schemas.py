"""Zones and published names as REST says them."""

from __future__ import annotations

import ipaddress
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from culvert_db import DnsState
from culvert_proto import dns_name
from culvert_proto.contract import DNS_TTL_MAX, NAME_PATTERN
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field


def _server(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value.strip()))
    except ValueError:
        return dns_name.parse(value)


Slug = Annotated[str, Field(pattern=NAME_PATTERN)]
State = Literal["pending", "live", "refused", "foreign", "occluded", "unreachable"]


class ZoneChange(BaseModel):
    """The fields of a zone that can be changed in place."""

    model_config = ConfigDict(extra="forbid")

    # The primary's name or address.
    server: Annotated[str, AfterValidator(_server)]
    port: Annotated[int, Field(ge=1, le=65535)] = 53
    # The name of a file in dns-updater's key directory, without `.key`.
    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
    # Seconds.
    ttl: Annotated[int, Field(ge=0, le=DNS_TTL_MAX)] = 60
    # Names of resources; all of the zone's when it is not set.
    resources: Annotated[list[str], Field(fail_fast=True, max_length=10_000)] | None = None


class ZoneIn(ZoneChange):
    name: Slug
    origin: Annotated[str, AfterValidator(dns_name.parse)]
    # Tells several zones of one origin apart, which the server does by the key or the port.
    view: Annotated[str, Field(pattern=r"^[a-z0-9-]{0,63}$")] = ""
    # Tells our records from another Culvert's in the same zone.
    instance: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,63}$")] = "default"


# An administrator's view of a refusal.
Told = Annotated[str, AfterValidator(dns_name.with_encoding)]


class ZoneOut(ZoneIn):
    """`state` is that of the worst record, and `reason`, `message` and `remedy` say why it is not live. Of a live zone they
    say what its key may not write, though nothing needs it yet.
    """

    observed: ClassVar = frozenset(
        [
            "state",
            "reason",
            "message",
            "remedy",
            "serial",
            "checked_at",
            "lag_seconds",
            "failures",
            "keeper",
            "records",
        ]
    )

    retiring: bool
    state: State
    reason: str | None
    message: Told | None
    remedy: Told | None
    serial: int | None
    # The last transfer that ended with the zone known.
    checked_at: datetime | None
    # Seconds since the oldest change that the zone does not show yet; 0 when it shows all.
    lag_seconds: float
    # Passes that have failed in a row.
    failures: int
    # Which dns-updater keeps the zone; none when no lease is in force.
    keeper: str | None
    # The number of records in each state.
    records: dict[DnsState, int]

    @computed_field
    @property
    def display_name(self) -> str:
        """`origin` as people read it."""
        return dns_name.shown(self.origin)


class DnsRecordOut(BaseModel):
    """A name and a type. `zone` is a zone's name, empty for a name that none publishes."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    zone: str
    type: str
    state: State
    reason: str | None
    message: Told | None
    remedy: Told | None
    # Until it is live: the values that it should have, and those in the zone; null: not known.
    wanted: list[str] | None
    found: list[str] | None
    attempts: int
    updated_at: datetime

    @computed_field
    @property
    def display_name(self) -> str:
        """`name` as people read it."""
        return dns_name.shown(self.name)
