"""REST schemas of site tunnels."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal, Self

from culvert_proto.contract import EMAIL_MAX, SELECTORS_MAX, Suite
from culvert_proto.phrases import Phrase
from pydantic import BaseModel, ConfigDict, Field, model_validator

from culvert_service.gateways.schemas import Name
from culvert_service.resources.schemas import Rekey
from culvert_service.resources.target import Target
from culvert_service.rest.faults import PartError
from culvert_service.rest.stored_text import StoredText

# The most flows: pairs of prefixes and port ranges.


class EndIn(BaseModel):
    """The targets behind a gateway: on its LAN, or behind a router there."""

    model_config = ConfigDict(extra="forbid")

    gateway: Name
    # In addition to the resources' targets.
    targets: Annotated[list[Target], Field(max_length=SELECTORS_MAX)] = []
    # Resources that the gateway serves; their targets belong to this end too.
    resources: Annotated[list[Name], Field(max_length=SELECTORS_MAX)] = []

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.targets and not self.resources:
            raise PartError(Phrase("an end has targets, resources, or both"), "resources")
        return self


class SiteTunnelChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # A packet is carried, in either direction, if it matches a target of each end. Resources are reached from all targets
    # of the other end.
    ends: Annotated[list[EndIn], Field(min_length=2, max_length=2)]
    # The person to contact about it.
    owner: Annotated[str, Field(min_length=1, max_length=EMAIL_MAX)]
    # Unset: the resources' suite, or else aes-gcm-256. A new suite takes effect with the next keys, which are created at
    # once. A legacy suite needs the permission of both gateways.
    suite: Suite | None = None
    # Unset: the resources' lowest limit of each kind.
    rekey: Rekey | None = None

    @model_validator(mode="after")
    def _joins_two(self) -> Self:
        one, other = self.ends
        if one.gateway == other.gateway:
            raise PartError(Phrase("the two ends are two gateways"), "ends", 1, "gateway")
        if both := set(one.resources) & set(other.resources):
            why = Phrase("{name} is behind one of the two gateways", name=min(both))
            raise PartError(why, "ends", 1, "resources")
        return self


class SiteTunnelIn(SiteTunnelChange):
    name: Name


class EndOut(EndIn):
    observed: ClassVar = frozenset(("profiles", "address", "online"))

    # The resources' present targets.
    profiles: list[Target]
    # The address that the other gateway sends to.
    address: str
    online: bool


class SiteTunnelOut(BaseModel):
    observed: ClassVar = frozenset(
        ("effective_suite", "effective_rekey", "legacy", "state", "reason", "generation", "keyed_at")
    )

    name: str
    ends: list[EndOut]
    owner: str
    # As requested.
    suite: Suite | None
    rekey: Rekey | None
    # As in use: requested, or the resources'.
    effective_suite: Suite
    effective_rekey: Rekey
    # Whether the effective suite is a legacy suite.
    legacy: bool
    # Down: a gateway lacks the keys. Switching: both have the newest keys, but one may still encrypt with the old ones.
    # The ends tell whether their gateways are online.
    state: Literal["down", "switching", "up"]
    # Why it is not up, or why its keys could not be renewed.
    reason: StoredText
    # The generation of its keys; 0 before the first.
    generation: int
    keyed_at: datetime | None
    created_at: datetime
