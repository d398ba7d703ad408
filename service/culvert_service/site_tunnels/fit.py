"""Checks that a site tunnel's packets fit its gateways and resources, and do not overlap other site tunnels'."""

from __future__ import annotations

import ipaddress
from itertools import product

from culvert_db import Gateway, SiteTunnel
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import SELECTORS_MAX, Suite
from culvert_proto.phrases import Phrase
from culvert_proto.sa import check_allowed
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.gateways.record import site_of
from culvert_service.rest.field import FieldError
from culvert_service.site_tunnels import repository
from culvert_service.site_tunnels.flow import overlap
from culvert_service.site_tunnels.record import flows_at, place_of, wanted_suite


async def check(session: AsyncSession, row: SiteTunnel) -> None:
    """Check a tunnel whose gateways are locked. Raises CulvertError REQUEST_INVALID, SUITE_LEGACY or ALREADY_EXISTS."""
    await _check_served(session, row)
    _check_suite(row)
    _check_amount(row)
    for near, far in ((row.a, row.b), (row.b, row.a)):
        _check_place(row, near, far)
    await _check_alone(session, row)


async def check_gateway(session: AsyncSession, gateway: Gateway) -> None:
    """Check a locked gateway's site tunnels in the transaction of its change. Raises CulvertError GATEWAY_IN_USE."""
    for row in await repository.rows_at(session, gateway.id):
        try:
            await check(session, row)
        except CulvertError as error:
            why = Phrase("{name} ends at it, and {why}", name=row.name, why=why_unfit(error))
            raise CulvertError(Reason.GATEWAY_IN_USE, gateway=gateway.name, why=why) from None


def why_unfit(error: CulvertError) -> str:
    """The cause of a refusal by `check`, for use inside a sentence."""
    return error.fields.get("why") or error.message.rstrip(".")


async def _check_served(session: AsyncSession, row: SiteTunnel) -> None:
    serving = await repository.find_serving(session, [one.resource.id for one in row.carried])
    names = {row.a.id: row.a.name, row.b.id: row.b.name}
    for one in row.carried:
        if (one.resource.id, one.gateway_id) not in serving:
            raise FieldError(
                f"/ends/{_end(row, one.gateway_id)}/resources",
                Reason.REQUEST_INVALID,
                why=Phrase(
                    "{gateway} does not serve the resource {name}",
                    gateway=names[one.gateway_id],
                    name=one.resource.name,
                ),
            )


def _check_suite(row: SiteTunnel) -> None:
    try:
        suite = wanted_suite(row)
    except ValueError as error:
        raise FieldError("/suite", Reason.REQUEST_INVALID, why=str(error)) from None
    for gateway in (row.a, row.b):
        permitted = [Suite(name) for name in gateway.legacy_suites]
        check_allowed(suite, permitted, Phrase("the gateway {gateway}", gateway=gateway.name))


def _check_amount(row: SiteTunnel) -> None:
    carried = len(flows_at(row, row.a))
    if not carried:
        raise _invalid(Phrase("no packet can fit targets of both ends: their families or protocols differ"))
    if carried > SELECTORS_MAX:
        raise _invalid(
            Phrase(
                "{carried} pairs of targets and ranges of ports; at most {most}",
                carried=carried,
                most=SELECTORS_MAX,
            )
        )


def _check_place(row: SiteTunnel, near: Gateway, far: Gateway) -> None:
    """Check that the near targets are behind the near gateway, and the far ones are not."""
    site = site_of(near)
    if strange := [it for it in place_of(row, near).prefixes() if not site.reaches(it)]:
        raise FieldError(
            f"/ends/{_end(row, near.id)}/targets",
            Reason.REQUEST_INVALID,
            why=Phrase(
                "{name} has no neighbour in {prefix} on its LAN, and no router to it",
                name=near.name,
                prefix=strange[0],
            ),
        )
    networks = map(ipaddress.ip_network, place_of(row, far).prefixes())
    for network, inside in product(networks, site.inside()):
        if inside.version == network.version and inside.overlaps(network):
            raise FieldError(
                f"/ends/{_end(row, far.id)}/targets",
                Reason.REQUEST_INVALID,
                why=Phrase(
                    "{network} is behind {far}, but {inside} is {near}'s own",
                    network=network,
                    far=far.name,
                    inside=inside,
                    near=near.name,
                ),
            )


async def _check_alone(session: AsyncSession, row: SiteTunnel) -> None:
    """Check that no other site tunnel of the gateways carries the same packets."""
    with session.no_autoflush:
        others = await repository.neighbours(session, row)
    for other in others:
        for gateway in {row.a, row.b} & {other.a, other.b}:
            if any(overlap(*pair) for pair in product(flows_at(row, gateway), flows_at(other, gateway))):
                what = Phrase(
                    "{tunnel}, which carries some of the same packets at {gateway},",
                    tunnel=describe(other.name),
                    gateway=gateway.name,
                )
                raise CulvertError(Reason.ALREADY_EXISTS, what=what)


def _end(row: SiteTunnel, gateway_id: int) -> int:
    """The gateway's place in the request's `ends`."""
    return 0 if gateway_id == row.a.id else 1


def describe(name: str) -> str:
    return Phrase("The tunnel between gateways {name}", name=name)


def _invalid(why: str) -> CulvertError:
    return CulvertError(Reason.REQUEST_INVALID, why=why)
