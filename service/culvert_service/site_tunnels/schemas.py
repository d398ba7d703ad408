"""Tunnels between gateways as REST says them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal, Self

from culvert_proto.contract import EMAIL_MAX, SELECTORS_MAX, Suite
from pydantic import BaseModel, ConfigDict, Field, model_validator

from culvert_service.gateways.schemas import Name
from culvert_service.resources.schemas import Rekey
from culvert_service.resources.target import Target

# Pairs of prefixes and ranges of ports.


class EndIn(BaseModel):
    """The targets behind a gateway: on its LAN, or on that of a router there."""

    model_config = ConfigDict(extra="forbid")

    gateway: Name
    # Beside what the resources' profiles say.
    targets: Annotated[list[Target], Field(max_length=SELECTORS_MAX)] = []
    # Resources that the gateway serves, and whose profiles define this end's networks.
    resources: Annotated[list[Name], Field(max_length=SELECTORS_MAX)] = []

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.targets and not self.resources:
            raise ValueError("an end has targets, resources, or both")
        return self


class SiteTunnelChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # Targets: what is carried fits one of either end, in whichever direction it goes. Resources are reached from all that
    # is behind the other end.
    ends: Annotated[list[EndIn], Field(min_length=2, max_length=2)]
    # Whom people ask about it.
    owner: Annotated[str, Field(min_length=1, max_length=EMAIL_MAX)]
    # Unset: the resources'; aes-gcm-256 if they have none. Another one takes effect with the next keys, which are made at
    # once. A legacy one needs the permission of both gateways.
    suite: Suite | None = None
    # Unset: of each limit the resources' nearest.
    rekey: Rekey | None = None

    @model_validator(mode="after")
    def _joins_two(self) -> Self:
        one, other = self.ends
        if one.gateway == other.gateway:
            raise ValueError("the two ends are two gateways")
        if both := set(one.resources) & set(other.resources):
            raise ValueError(f"{min(both)} is behind one of the two gateways")
        return self


class SiteTunnelIn(SiteTunnelChange):
    name: Name


class EndOut(EndIn):
    observed: ClassVar = frozenset(("profiles", "address", "online"))

    # The targets of the resources' profiles now.
    profiles: list[Target]
    # The gateway's outer address.
    address: str
    online: bool


class SiteTunnelOut(BaseModel):
    observed: ClassVar = frozenset(
        ("effective_suite", "effective_rekey", "legacy", "state", "reason", "generation", "keyed_at")
    )

    name: str
    ends: list[EndOut]
    owner: str
    # As asked for.
    suite: Suite | None
    rekey: Rekey | None
    # As they are, the resources' where nothing was asked for.
    effective_suite: Suite
    effective_rekey: Rekey
    # True when the effective suite is weaker than what is recommended.
    legacy: bool
    # Down: a gateway lacks the keys. Switching: both have the newest, and one may still seal with those before. Whether a
    # gateway can be reached now its end tells.
    state: Literal["down", "switching", "up"]
    # Why it is not up, or why its keys could not be renewed.
    reason: str
    # The generation of its keys; 0 before the first.
    generation: int
    keyed_at: datetime | None
    created_at: datetime
