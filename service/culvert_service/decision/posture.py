"""A policy's requirements on a computer, checked against the computer's report (agent API, WatchRequest). Pure.

A fact that the device does not report, or a malformed version, does not meet a requirement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Self

from culvert_proto.contract import POSTURE_VALUE_MAX
from culvert_proto.phrases import Phrase
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

_VERSION = r"[0-9]{1,9}(\.[0-9]{1,9}){0,5}"
_FIRST_VERSION = re.compile(_VERSION)
_FACT = r"[a-z][a-z0-9_]{0,63}"
# As in the API document; the validators below say their own words.
FACT, VERSION = f"^{_FACT}$", f"^{_VERSION}$"


def _is_fact(text: str) -> str:
    if re.fullmatch(_FACT, text) is None:
        raise ValueError(Phrase("must be a fact's name, such as disk_encryption"))
    return text


def _is_version(text: str) -> str:
    if re.fullmatch(_VERSION, text) is None:
        raise ValueError(Phrase("must be a version, such as 12 or 6.1"))
    return text


Fact = Annotated[str, AfterValidator(_is_fact), Field(json_schema_extra={"pattern": FACT})]
Version = Annotated[str, AfterValidator(_is_version), Field(json_schema_extra={"pattern": VERSION})]
Value = Annotated[str, Field(min_length=1, max_length=POSTURE_VALUE_MAX, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Requirement(BaseModel):
    """A requirement on one fact: its allowed values, or its least version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fact: Fact
    one_of: Annotated[tuple[Value, ...], Field(max_length=32)] = ()
    at_least: Version | None = None

    @model_validator(mode="after")
    def _asks_for_one_thing(self) -> Self:
        if bool(self.one_of) == (self.at_least is not None):
            raise ValueError(Phrase("give either one_of or at_least"))
        return self

    def is_met(self, found: str | None) -> bool:
        if found is None:
            return False
        if self.at_least is None:
            return found in self.one_of
        version = _FIRST_VERSION.search(found)
        return version is not None and _not_before(version[0], self.at_least)

    def __str__(self) -> str:
        if self.at_least is not None:
            return Phrase("{fact} {version} or later", fact=self.fact, version=self.at_least)
        return f"{self.fact} {' or '.join(self.one_of)}"


def find_unmet(requirements: Sequence[Requirement], posture: Mapping[str, str]) -> tuple[Requirement, ...]:
    return tuple(one for one in requirements if not one.is_met(posture.get(one.fact)))


def describe_requirements(requirements: Sequence[Requirement]) -> str:
    """The requirements as text; there must be at least one."""
    text = str(requirements[0])
    for one in requirements[1:]:
        text = Phrase("{asked}, {more}", asked=text, more=one)
    return text


def describe_report(requirements: Sequence[Requirement], posture: Mapping[str, str]) -> str:
    """The device's report on the required facts, as text."""
    facts = dict.fromkeys(one.fact for one in requirements)
    return ", ".join(f"{fact} {posture.get(fact, '(unknown)')}" for fact in facts)


def _not_before(version: str, least: str) -> bool:
    for one, other in zip_longest(version.split("."), least.split("."), fillvalue="0"):
        if int(one) != int(other):
            return int(one) > int(other)
    return True
