"""The facts for the decision about an opening, in one statement."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from culvert_db import (
    Address,
    Device,
    Gateway,
    Resource,
    ResourceGateway,
    Statement,
    Statements,
    Tunnel,
    User,
    as_json,
    from_json,
)
from culvert_proto.dns_name import candidates
from sqlalchemy import (
    LargeBinary,
    Text,
    and_,
    bindparam,
    cast,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by, array

from culvert_service.decision.facts import POLICIES, VERSION
from culvert_service.resources.repository import meant_by
from culvert_service.tunnels.json_rows import GATEWAY, parse_gateway, parse_inner, parse_resource
from culvert_service.tunnels.pool import Inner

_IN_ORDER = ResourceGateway.position
_WEIGHT = cast(ResourceGateway.weight, Text)
_SERVING = (
    select(func.array_agg(aggregate_order_by(array([GATEWAY, as_json(Address), _WEIGHT]), _IN_ORDER)))
    .select_from(ResourceGateway)
    .join(Gateway, Gateway.id == ResourceGateway.gateway_id)
    .outerjoin(Address, and_(Address.gateway_id == Gateway.id, Address.device_id == Device.id))
    .where(ResourceGateway.resource_id == Resource.id)
    .correlate(Device, Resource)
    .scalar_subquery()
)
_OPEN_FACTS = Statement(
    select(as_json(Device), User.name, as_json(Resource), POLICIES, VERSION, Tunnel.id, _SERVING)
    .join(User, User.id == Device.user_id)
    .outerjoin(Resource, Resource.id == meant_by(bindparam("names", type_=ARRAY(Text))))
    .outerjoin(Tunnel, and_(Tunnel.device_id == Device.id, Tunnel.resource_id == Resource.id, Tunnel.stays()))
    .where(Device.shows(bindparam("fingerprint", type_=LargeBinary)))
    .with_for_update(read=True, of=Device)
)


@dataclass(frozen=True, slots=True)
class Serving:
    """A gateway of a resource, in order; `inner` is what the device has there."""

    gateway: Gateway
    inner: Inner | None
    weight: int | None


@dataclass(frozen=True, slots=True)
class OpenFacts:
    """The facts for the decision, and the present tunnel. `policies` is for decision.facts to parse."""

    device: Device | None
    resource: Resource | None = None
    policies: str | None = None
    version: int = 0
    tunnel_id: uuid.UUID | None = None
    serving: tuple[Serving, ...] = ()


async def open_facts(transaction: Statements, fingerprint: bytes, fqdn: str) -> OpenFacts:
    """Keeps a revocation of the device waiting until this transaction ends: it then finds the new tunnel."""
    row = await transaction.row(_OPEN_FACTS, fingerprint=fingerprint, names=candidates(fqdn))
    if row is None:
        return OpenFacts(None)
    shown, user, resource, policies, version, tunnel_id, serving = row
    device = from_json(Device, shown)
    device.user = User(name=user)
    return OpenFacts(
        device,
        parse_resource(resource) if resource else None,
        policies,
        version,
        tunnel_id,
        tuple(
            Serving(parse_gateway(gateway), inner and parse_inner(inner), weight and int(weight))
            for gateway, inner, weight in serving or ()
        ),
    )
