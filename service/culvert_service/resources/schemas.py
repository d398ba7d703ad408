"""REST schemas of resources."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self, cast

from culvert_proto import dns_name
from culvert_proto.contract import EMAIL_MAX, IDLE_MAX, NAME_PATTERN, SELECTORS_MAX, Suite
from culvert_proto.dns_name import WILDCARD, make_readable
from culvert_proto.phrases import Phrase
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    computed_field,
    field_validator,
    model_validator,
)

from culvert_service.decision.assertions import AssertionOut
from culvert_service.identity.schemas import SomePeopleOut
from culvert_service.resources.target import Target
from culvert_service.rest.faults import PartError


def parse_name(text: str) -> str:
    """The one spelling of a resource's name: exact, or `*.` and a suffix for every name below it (RFC 4592).

    Raises ValueError.
    """
    name = dns_name.parse(text, wildcard=True)
    if "." not in name.removeprefix(WILDCARD):
        raise ValueError(
            Phrase("must be a full DNS name such as wiki.corp.example, or *.corp.example for all below")
        )
    return name


class Rekey(BaseModel):
    """Soft limits of an SA: near a limit the keys are renewed. 0: no limit of that kind."""

    model_config = ConfigDict(extra="forbid")

    soft_packets: Annotated[int, Field(ge=0, le=2**62)] = 0
    soft_bytes: Annotated[int, Field(ge=0, le=2**62)] = 2**36
    soft_seconds: Annotated[int, Field(ge=0, le=2**30)] = 3600


class ResourceIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    fqdn: Annotated[str, AfterValidator(parse_name)]
    # `"address": "10.20.0.10"` is short for one target with this host.
    targets: Annotated[list[Target], Field(min_length=1, max_length=SELECTORS_MAX)]
    # In the order of trying.
    gateways: Annotated[list[str], Field(fail_fast=True, min_length=1, max_length=1_000)]
    # Weights instead of the order: devices in one place spread over the gateways by weight. A much nearer gateway still
    # comes first. 0: only if no other is usable.
    weights: Annotated[dict[str, Annotated[int, Field(ge=0, le=1000)]], Field(max_length=1_000)] = {}
    # Each person gets an own policy without conditions: "alice to wiki". Answers list the people with such a policy.
    users: Annotated[list[str], Field(fail_fast=True, max_length=10_000)] = []
    # The contact for people without access.
    owner: Annotated[str, Field(min_length=1, max_length=EMAIL_MAX)]
    # A tunnel without packets for this long is closed.
    idle_seconds: Annotated[int, Field(ge=1, le=IDLE_MAX)] = 300
    rekey: Rekey = Rekey()
    # Unset: each gateway's suite. A legacy suite needs the permission of all of the resource's gateways.
    suite: Suite | None = None

    @field_validator("targets")
    @classmethod
    def _few_selectors(cls, value: list[Target]) -> list[Target]:
        """Limit the selectors: each takes two entries per tunnel at the gateway."""
        if sum(max(1, len(target.ports)) for target in value) > SELECTORS_MAX:
            raise ValueError(f"more than {SELECTORS_MAX} prefixes and ranges of ports")
        return value

    @model_validator(mode="after")
    def _all_have_weights(self) -> Self:
        if self.weights and self.weights.keys() != set(self.gateways):
            raise PartError(Phrase("must name all of the gateways, or none"), "weights")
        if self.weights and not any(self.weights.values()):
            raise PartError(Phrase("must have one that is more than 0"), "weights")
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_address(cls, value: object) -> object:
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if "address" not in fields or "targets" in fields:
            return cast("object", value)
        rest = {name: it for name, it in fields.items() if name != "address"}
        return rest | {"targets": [{"prefix": fields["address"]}]}


class ResourceOut(ResourceIn):
    # Policies of further people may have been made one by one.
    users: list[str] = []
    created_at: datetime

    @computed_field
    @property
    def display_name(self) -> str:
        """`fqdn` as people read it."""
        return make_readable(self.fqdn)


class DeletedOut(BaseModel):
    tunnels_closed: int


class PublishedOut(BaseModel):
    """The record types under the resource's name, in a zone or view. `display_name`: that name as people read it."""

    zone: str
    origin: str
    types: list[str]
    display_name: str


class PreviewOut(BaseModel):
    """The effect of a publication or a change: records that would be written (`records`) or removed (`withdrawn`),
    people whom an enabled policy would permit from then on (`gain`) or no longer (`lose`), whatever its conditions;
    tunnels that would close or move to another gateway; and assertions for which it would be refused (`breaks`).
    """

    records: list[PublishedOut]
    withdrawn: list[PublishedOut]
    gain: SomePeopleOut
    lose: SomePeopleOut
    tunnels_closed: int
    tunnels_moved: int
    breaks: list[AssertionOut]


class UseOut(BaseModel):
    """A resource's dependents: open tunnels, people whom an enabled policy permits, policies that would be deleted with
    it; site tunnels that carry it, and assertions that would break (`breaks`), which prevent its deletion.
    """

    tunnels: int
    people: int
    policies_deleted: list[str]
    site_tunnels: list[str]
    breaks: list[AssertionOut]
