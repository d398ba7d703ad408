"""Resources as REST says them."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_LABEL = re.compile(r"^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?$")
_NAME_MAX = 253


def _fqdn(value: str) -> str:
    name = value.strip().rstrip(".").lower()
    labels = name.split(".")
    if len(name) > _NAME_MAX or len(labels) < 2 or not all(_LABEL.match(label) for label in labels):
        raise ValueError("must be a full DNS name such as wiki.corp.example")
    return name


def _ipv4(value: str) -> str:
    return str(ipaddress.IPv4Address(value))


class Rekey(BaseModel):
    """Soft limits of an SA: when one comes near, keys are renewed. 0 means none of that kind."""

    model_config = ConfigDict(extra="forbid")

    soft_packets: Annotated[int, Field(ge=0, le=2**62)] = 0
    soft_bytes: Annotated[int, Field(ge=0, le=2**62)] = 2**36
    soft_seconds: Annotated[int, Field(ge=0, le=2**30)] = 3600


class ResourceIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    fqdn: Annotated[str, AfterValidator(_fqdn)]
    address: Annotated[str, AfterValidator(_ipv4)]
    # In the order in which they are tried.
    gateways: Annotated[list[str], Field(min_length=1)]
    # Each gets a policy of their own, without conditions: "alice to wiki". Shown are those who have one of their own.
    users: list[str] = []
    # Whom people ask who may not reach it.
    owner: Annotated[str, Field(min_length=1, max_length=254)]
    # A tunnel without packets for this long is closed.
    idle_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    rekey: Rekey = Rekey()


class ResourceOut(ResourceIn):
    created_at: datetime


class DeletedOut(BaseModel):
    tunnels_closed: int
