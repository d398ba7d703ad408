"""A policy's conditions, beyond person and resource, and their checks. Pure."""

from __future__ import annotations

import datetime
import enum
import ipaddress
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from culvert_proto import CulvertError, Reason
from culvert_proto.contract import CODE_AGE_MAX
from culvert_proto.phrases import DAYS, MONTHS, Phrase
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from culvert_service.decision import posture
from culvert_service.decision.hours import Hours, Open, state
from culvert_service.decision.posture import Requirement

# A code is valid for eight hours (identity/totp.py); a condition can only shorten that.
_NO_DEVICE = uuid.UUID(int=0)


def _refuse_number(value: object) -> object:
    """Refuse 5, which `ipaddress` takes for 0.0.0.5/32."""
    if isinstance(value, int):
        raise ValueError(Phrase("must be a network such as 10.0.0.0/8"))
    return value


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NetworkText = Annotated[Network, BeforeValidator(_refuse_number)]


class Conditions(BaseModel):
    """All given conditions must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # The last code must be at most this old.
    code_max_age_seconds: Annotated[int, Field(ge=60, le=CODE_AGE_MAX)] | None = None
    hours: Hours | None = None
    # The device must be approved by an administrator.
    device_approved: bool = False
    # The device's outer address must be in one of these networks; empty: any address.
    sources: Annotated[tuple[NetworkText, ...], Field(max_length=64)] = ()
    # Requirements on the device's own report.
    posture: Annotated[tuple[Requirement, ...], Field(max_length=32)] = ()


class Check(enum.StrEnum):
    """The subject of a step of the decision."""

    DEVICE = "device"
    NAME = "name"
    POLICY = "policy"
    CODE = "code"
    SOURCE = "source"
    POSTURE = "posture"
    HOURS = "hours"
    APPROVAL = "approval"
    GATEWAY = "gateway"


# The order of denials: first the checks that the person can pass at once, last those that need another person.
EASE = (Check.CODE, Check.SOURCE, Check.POSTURE, Check.HOURS, Check.APPROVAL)


@dataclass(frozen=True, slots=True)
class Denial:
    reason: Reason
    fields: dict[str, object] = field(default_factory=dict[str, object])

    def error(self) -> CulvertError:
        return CulvertError(self.reason, **self.fields)


@dataclass(frozen=True, slots=True)
class Holds:
    """The condition holds until `until`; None: it does not end with time."""

    check: Check
    until: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class Fails:
    """The condition fails. `again`: when it holds again without any action."""

    check: Check
    denial: Denial
    again: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class Asker:
    """Device and person of a call. `source`: the source address of the device's packets, if known."""

    device: str
    user: str
    revoked: bool
    approved: bool
    code_proven_at: datetime.datetime | None
    code_valid_until: datetime.datetime | None
    source: str | None
    posture: Mapping[str, str] = field(default_factory=dict[str, str])
    # Input of the weighted choice, so that different devices choose different gateways.
    device_id: uuid.UUID = _NO_DEVICE


def examine(
    conditions: Conditions, asker: Asker, name: str, owner: str, now: datetime.datetime
) -> Iterator[Holds | Fails]:
    """Check every given condition; a valid code is always required."""
    if conditions.device_approved:
        denial = Denial(Reason.DEVICE_NOT_APPROVED, {"device": asker.device, "name": name})
        yield Holds(Check.APPROVAL) if asker.approved else Fails(Check.APPROVAL, denial)
    if conditions.sources:
        fields: dict[str, object] = {
            "name": name,
            "address": asker.source or Phrase("(unknown)"),
            "owner": owner,
        }
        inside = _inside(asker.source, conditions.sources)
        yield (
            Holds(Check.SOURCE) if inside else Fails(Check.SOURCE, Denial(Reason.SOURCE_NOT_ALLOWED, fields))
        )
    if conditions.posture:
        yield _posture(conditions.posture, asker, name, owner)
    if conditions.hours is not None:
        yield _hours(conditions.hours, name, owner, now)
    yield _code(conditions.code_max_age_seconds, asker, name, now)


def fits_device(conditions: Conditions, asker: Asker) -> bool:
    """Whether the conditions on the device itself hold, which neither a code nor another time or place would meet."""
    is_approved = asker.approved or not conditions.device_approved
    return is_approved and not posture.find_unmet(conditions.posture, asker.posture)


def _inside(source: str | None, networks: tuple[Network, ...]) -> bool:
    if source is None:
        return False
    address = ipaddress.ip_address(source)
    return any(address in network for network in networks)


def _posture(requirements: tuple[Requirement, ...], asker: Asker, name: str, owner: str) -> Holds | Fails:
    unmet = posture.find_unmet(requirements, asker.posture)
    if not unmet:
        return Holds(Check.POSTURE)
    fields: dict[str, object] = {
        "name": name,
        "asked": posture.describe_requirements(unmet),
        "device": asker.device,
        "found": posture.describe_report(unmet, asker.posture),
        "owner": owner,
    }
    return Fails(Check.POSTURE, Denial(Reason.POSTURE_NOT_MET, fields))


def _hours(hours: Hours, name: str, owner: str, now: datetime.datetime) -> Holds | Fails:
    found = state(hours, now)
    if isinstance(found, Open):
        return Holds(Check.HOURS, found.until)
    opens = Phrase(
        "{day}, {number} {month}, {time} ({zone})",
        day=DAYS[found.opens.weekday()],
        number=f"{found.opens:%d}",
        month=MONTHS[found.opens.month - 1],
        time=f"{found.opens:%H:%M}",
        zone=hours.zone,
    )
    denial = Denial(Reason.OUTSIDE_HOURS, {"name": name, "opens": opens, "owner": owner})
    return Fails(Check.HOURS, denial, found.opens)


def _code(max_age: int | None, asker: Asker, name: str, now: datetime.datetime) -> Holds | Fails:
    until = asker.code_valid_until
    if until is None or asker.code_proven_at is None:
        return Fails(Check.CODE, Denial(Reason.CODE_NEEDED))
    if until <= now:
        return Fails(Check.CODE, Denial(Reason.CODE_EXPIRED))
    if max_age is None:
        return Holds(Check.CODE, until)
    fresh_until = asker.code_proven_at + datetime.timedelta(seconds=max_age)
    if fresh_until <= now:
        return Fails(
            Check.CODE, Denial(Reason.CODE_TOO_OLD, {"name": name, "age": _describe_seconds(max_age)})
        )
    return Holds(Check.CODE, min(until, fresh_until))


def _describe_seconds(seconds: int) -> Phrase:
    if seconds % 3600 == 0 and seconds > 3600:
        return Phrase("{number} hours", number=seconds // 3600)
    if seconds % 60 == 0 and seconds > 60:
        return Phrase("{number} minutes", number=seconds // 60)
    return Phrase("{number} seconds", number=seconds)
