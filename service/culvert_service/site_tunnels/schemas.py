"""Tunnels between gateways as REST says them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from culvert_service.gateways.schemas import Name
from culvert_service.gateways.suite import Suite
from culvert_service.resources.schemas import Rekey
from culvert_service.resources.target import Target, selectors
from culvert_service.site_tunnels.record import flows

_FLOWS_MAX = 64


class EndIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    gateway: Name
    # What is on the gateway's LAN or behind one of its routers, as a resource's targets.
    targets: Annotated[list[Target], Field(min_length=1, max_length=_FLOWS_MAX)]


class SiteTunnelChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # What is carried fits a target of either end, in whichever direction it goes.
    ends: Annotated[list[EndIn], Field(min_length=2, max_length=2)]
    # Whom people ask about it.
    owner: Annotated[str, Field(min_length=1, max_length=254)]
    rekey: Rekey = Rekey()

    @model_validator(mode="after")
    def _joins_two(self) -> Self:
        one, other = self.ends
        if one.gateway == other.gateway:
            raise ValueError("the two ends are two gateways")
        near, far = (selectors([target.row() for target in end.targets]) for end in self.ends)
        if not (carried := len(flows(near, far))):
            raise ValueError("no packet can fit targets of both ends: their families or protocols differ")
        if carried > _FLOWS_MAX:
            raise ValueError(f"{carried} pairs of targets and ranges of ports; at most {_FLOWS_MAX}")
        return self


class SiteTunnelIn(SiteTunnelChange):
    name: Name
    # A legacy one needs the permission of both gateways.
    suite: Suite = Suite.AES_GCM_256


class EndOut(EndIn):
    # The gateway's outer address.
    address: str
    online: bool


class SiteTunnelOut(BaseModel):
    name: str
    ends: list[EndOut]
    owner: str
    suite: Suite
    # True when `suite` is weaker than what is recommended.
    legacy: bool
    rekey: Rekey
    # Down: a gateway lacks the keys. Switching: both have the newest, and one may still seal with those before. Whether a
    # gateway can be reached now its end tells.
    state: Literal["down", "switching", "up"]
    # Why it is not up, or why its keys could not be renewed.
    reason: str
    # Of its keys; 0 before the first.
    generation: int
    keyed_at: datetime | None
    created_at: datetime
