"""REST schemas of zones and published names."""

from __future__ import annotations

import ipaddress
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from culvert_db import DnsState
from culvert_proto import dns_name
from culvert_proto.contract import DNS_TTL_MAX, NAME_PATTERN
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field

from culvert_service.rest.stored_text import StoredText


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

    # The name or address of the primary server.
    server: Annotated[str, AfterValidator(_server)]
    port: Annotated[int, Field(ge=1, le=65535)] = 53
    # The name of a file in dns-updater's key directory, without `.key`.
    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
    # Seconds.
    ttl: Annotated[int, Field(ge=0, le=DNS_TTL_MAX)] = 60
    # Names of resources; unset: all resources in the zone.
    resources: Annotated[list[str], Field(fail_fast=True, max_length=10_000)] | None = None


class ZoneIn(ZoneChange):
    name: Slug
    origin: Annotated[str, AfterValidator(dns_name.parse)]
    # Distinguishes several zones of one origin, which the server distinguishes by key or port.
    view: Annotated[str, Field(pattern=r"^[a-z0-9-]{0,63}$")] = ""
    # Distinguishes this Culvert's records from another Culvert's in the same zone.
    instance: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,63}$")] = "default"


# The text of a refusal, with the encoded form of names.
Told = Annotated[StoredText, AfterValidator(dns_name.with_encoding)]


class ZoneOut(ZoneIn):
    """`state`: the worst record's state; `reason`, `message` and `remedy` say why it is not live. For a live zone they name
    what its key may not write, even if no record needs it yet.
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
    # The last successful zone transfer.
    checked_at: datetime | None
    # Seconds since the oldest change that is not in the zone yet; 0 if all are.
    lag_seconds: float
    # The number of consecutive failed passes.
    failures: int
    # The dns-updater that owns the zone; null without a valid lease.
    keeper: str | None
    # The number of records in each state.
    records: dict[DnsState, int]

    @computed_field
    @property
    def display_name(self) -> str:
        """`origin` as people read it."""
        return dns_name.make_readable(self.origin)


class ManagedZoneChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # Whether a denied name shows a page of the device's with the reason, in a browser and over plain HTTP. Programs that
    # ask for a denied name get a loopback address then.
    denial_page: bool


class ManagedZoneOut(ManagedZoneChange):
    """A zone in whose names devices open tunnels: of the controller's settings, or one that Culvert writes."""

    name: str

    @computed_field
    @property
    def display_name(self) -> str:
        """`name` as people read it."""
        return dns_name.make_readable(self.name)


class DnsRecordOut(BaseModel):
    """A name and a type. `zone`: a zone's name, or empty for a name in no zone."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    zone: str
    type: str
    state: State
    reason: str | None
    message: Told | None
    remedy: Told | None
    # Until it is live: the desired values and those in the zone; null: unknown.
    wanted: list[str] | None
    found: list[str] | None
    attempts: int
    updated_at: datetime

    @computed_field
    @property
    def display_name(self) -> str:
        """`name` as people read it."""
        return dns_name.make_readable(self.name)
