"""REST schemas of groups, policies and access traces."""

from __future__ import annotations

import uuid
from datetime import date, datetime
from typing import Annotated, ClassVar, Literal, Self

from culvert_proto import typed_text
from culvert_proto.contract import NAME_PATTERN, POLICY_NAME_MAX
from culvert_proto.dns_name import make_readable
from culvert_proto.phrases import Phrase
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field, model_validator

from culvert_service.decision.assertions import AssertionOut
from culvert_service.decision.conditions import Check, Conditions
from culvert_service.identity.schemas import SomePeopleOut, UserName
from culvert_service.rest.faults import PartError

GroupName = Annotated[str, Field(pattern=NAME_PATTERN)]
ResourceName = GroupName
# Validation stops at the first wrong item: a list of ten thousand faults would be slow to build.
Members = Annotated[list[UserName], Field(fail_fast=True, max_length=10_000)]
# Free text without a slash, because it is part of a path.
PolicyName = Annotated[
    str, Field(pattern=rf"^[^\x00-\x1f\x7f/\s][^\x00-\x1f\x7f/]{{0,{POLICY_NAME_MAX - 1}}}$")
]


def _plain(name: str) -> str:
    """The name as it is: a change of its spaces would be a new name."""
    typed_text.check(name)
    return name


class GroupIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: GroupName
    members: Members = []


class GroupOut(BaseModel):
    """All members, however many they are. `display_names`: of the members that have one, by login name."""

    observed: ClassVar = frozenset(("display_names",))

    name: GroupName
    members: list[UserName]
    display_names: dict[UserName, str]
    created_at: datetime


class GroupSummaryOut(BaseModel):
    name: GroupName
    members: SomePeopleOut
    created_at: datetime


class PolicyIn(BaseModel):
    """Lets the members of `group`, or `user` alone, reach `resources` while all conditions hold."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[PolicyName, AfterValidator(_plain)]
    enabled: bool = True
    group: GroupName | None = None
    user: UserName | None = None
    resources: Annotated[list[ResourceName], Field(fail_fast=True, min_length=1, max_length=10_000)]
    conditions: Conditions = Conditions()

    @model_validator(mode="after")
    def _is_for_one(self) -> Self:
        if (self.group is None) == (self.user is None):
            raise PartError(Phrase("name either a group or a user"), "group")
        return self


class UsageOut(BaseModel):
    """`last_used_on`: the last day (UTC) on which the policy permitted a tunnel; null: none since `counted_from`.

    `is_unused`: nobody has used it for 90 days; a policy that was added or changed within these days is never unused.
    """

    last_used_on: date | None
    counted_from: datetime
    is_unused: bool


class PolicyOut(PolicyIn):
    observed: ClassVar = frozenset(("user_display_name", "usage"))

    # A policy of an earlier release may have any name.
    name: PolicyName
    user_display_name: str | None
    created_at: datetime
    usage: UsageOut


class AssertionIn(BaseModel):
    """That `user`, or the members of `group`, can reach `name` (`reaches`), or that they cannot."""

    model_config = ConfigDict(extra="forbid")

    user: UserName | None = None
    group: GroupName | None = None
    name: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,254}$")]
    reaches: bool

    @model_validator(mode="after")
    def _is_about_one(self) -> Self:
        if (self.group is None) == (self.user is None):
            raise PartError(Phrase("name either a group or a user"), "group")
        return self


class GrantOut(BaseModel):
    """A policy between a person and a resource. `group`: the person's group that it is for; null: the person alone."""

    policy: PolicyName
    enabled: bool
    group: GroupName | None
    conditions: Conditions


class ReachedOut(BaseModel):
    """A resource that policies name for a person, whose conditions may exclude each device at the moment."""

    resource: ResourceName
    fqdn: str
    grants: list[GrantOut]

    @computed_field
    @property
    def display_name(self) -> str:
        """`fqdn` as people read it."""
        return make_readable(self.fqdn)


class PersonWithAccessOut(BaseModel):
    user: UserName
    user_display_name: str | None
    grants: list[GrantOut]


class ClosedOut(BaseModel):
    # Tunnels that a sweep closed before the call's own check are not counted.
    tunnels_closed: int


class EffectOut(ClosedOut):
    """The effect of a change: people who gain or lose access to a resource.

    Conditions on code, address and time are not considered. `waiting`: the people who gain access as soon as a device
    of theirs meets the other conditions, as by its approval.

    `breaks`: the assertions for which the change would be refused.
    """

    gain: SomePeopleOut
    waiting: SomePeopleOut
    lose: SomePeopleOut
    breaks: list[AssertionOut]


class GroupUseOut(EffectOut):
    """The effect of deleting a group with its policies."""

    policies_deleted: list[str]


class StepOut(BaseModel):
    """A step of the decision. `subject` is the device, name, policy or gateway that it belongs to."""

    check: Check
    subject: str
    holds: bool
    # The obstacle, if the step fails.
    reason: str | None
    message: str | None
    # When it ceases to hold; null: time does not end it.
    until: datetime | None
    # The gateway's weight, if the resource uses weights.
    weight: int | None


class HistoryOut(BaseModel):
    """`since`: the earliest time about which GET /access can decide."""

    since: datetime


class TraceOut(BaseModel):
    """The decision that OpenTunnel of this device would get, with all steps."""

    device_id: uuid.UUID
    device: str
    # The device's address in this decision; null: it has not been seen yet.
    address: str | None
    # The resource that carries the name, if any.
    resource: ResourceName | None
    verdict: Literal["permit", "deny"]
    gateways: list[str]
    permitted_until: datetime | None
    reason: str | None
    message: str | None
    # The person's own; the acts of an administrator are the console's.
    remedy: str | None
    steps: list[StepOut]
