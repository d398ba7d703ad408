"""SQL about gateways, their leases and health. Leases end by the database's clock: controllers' clocks may differ."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from culvert_db import (
    GATEWAYS_CHANNEL,
    ControllerName,
    CryptoHost,
    Gateway,
    GatewayHealth,
    GatewayLease,
    GatewayNeighbour,
    GatewaySample,
    Resource,
    ResourceGateway,
    SecurityAssociation,
    SiteTunnel,
    Tunnel,
    notify,
)
from culvert_db.text import by_code_point
from culvert_proto.phrases import Phrase
from sqlalchemy import delete, exists, func, or_, select, text, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from culvert_service.controllers.identity import ControllerId
from culvert_service.gateways.health import NOT_CONNECTED_YET, Report, not_connected
from culvert_service.gateways.neighbours import Neighbour, resolved, servers_to_find
from culvert_service.gateways.schemas import NEIGHBOURS_MAX
from culvert_service.gateways.site import UNKNOWN_MAC
from culvert_service.rest.page import Cut

# The most samples that are shown of a gateway, and the seconds that one of them may stand for.
_POINTS = 240
_PARTS = (1, 15, 30, 60, 120, 180, 360, 720)

_RENEW_CONTROLLER = text("""
INSERT INTO controllers (holder, name, ends_at, revision)
VALUES (:holder, :name, now() + make_interval(secs => :seconds), :revision)
ON CONFLICT (holder) DO UPDATE SET ends_at = excluded.ends_at
""")
_DELETE_ENDED_CONTROLLERS = text("""
DELETE FROM controllers WHERE holder IN
    (SELECT holder FROM controllers WHERE ends_at <= now() FOR UPDATE SKIP LOCKED)
""")
# Renew own leases, and claim free gateways up to this controller's share. A gateway that connects itself must be connected
# to this controller. Beyond the share, such a gateway is claimed if no other controller is connected to it, or if none has
# claimed it for the time of a lease.
_CLAIM = text("""
INSERT INTO gateway_leases AS lease (gateway_id, holder, holder_name, epoch, ends_at)
SELECT id, :holder, :name, 1, now() + make_interval(secs => :seconds) FROM gateways
WHERE id IN (SELECT gateway_id FROM gateway_leases WHERE holder = :holder)
    AND (p4runtime_address IS NOT NULL OR name <> ALL (CAST(:lost AS text[])))
OR CAST(:free AS boolean) AND id IN (
    SELECT gateways.id FROM gateways LEFT JOIN gateway_leases AS held ON held.gateway_id = gateways.id
    WHERE (held.holder IS NULL OR held.holder <> :holder AND held.ends_at <= now())
        AND (p4runtime_address IS NOT NULL OR gateways.name = ANY (CAST(:connected AS text[])))
    ORDER BY gateways.id
    LIMIT greatest(0, ceil((SELECT count(*) FROM gateways)
        / (SELECT count(*) FROM controllers WHERE ends_at > now())::numeric)::bigint
        - (SELECT count(*) FROM gateway_leases WHERE holder = :holder)))
OR CAST(:free AS boolean) AND id IN (
    SELECT gateways.id FROM gateways LEFT JOIN gateway_leases AS held ON held.gateway_id = gateways.id
    WHERE (held.holder IS NULL OR held.ends_at <= now())
        AND p4runtime_address IS NULL AND gateways.name = ANY (CAST(:connected AS text[]))
        AND (coalesce(held.ends_at, created_at) <= now() - make_interval(secs => :seconds)
            OR NOT EXISTS (SELECT FROM gateway_connections AS other JOIN controllers ON controllers.holder = other.holder
                WHERE other.gateway_id = gateways.id AND other.holder <> :holder AND controllers.ends_at > now())))
ORDER BY id
ON CONFLICT (gateway_id) DO UPDATE SET holder = excluded.holder, holder_name = excluded.holder_name,
    ends_at = excluded.ends_at,
    epoch = lease.epoch + CASE WHEN lease.holder = excluded.holder THEN 0 ELSE 1 END
WHERE lease.holder = excluded.holder OR lease.ends_at <= now()
RETURNING gateway_id, epoch
""")
# Move a gateway from this controller to one that has at least two fewer, in one statement: it always has an owner. A
# gateway that connects itself goes only to a controller that it is connected to.
_GIVE = text("""
WITH load AS (
    SELECT live.holder, live.name, count(lease.gateway_id) AS held
    FROM controllers AS live LEFT JOIN gateway_leases AS lease
        ON lease.holder = live.holder AND lease.ends_at > now()
    WHERE live.ends_at > now() GROUP BY live.holder, live.name),
least AS (SELECT * FROM load ORDER BY held, holder LIMIT 1)
UPDATE gateway_leases AS lease SET holder = least.holder, holder_name = least.name,
    epoch = lease.epoch + 1, ends_at = now() + make_interval(secs => :seconds)
FROM least
WHERE lease.gateway_id = (
        SELECT max(gateway_id) FROM gateway_leases JOIN gateways ON gateways.id = gateway_id
        WHERE gateway_leases.holder = :holder AND (p4runtime_address IS NOT NULL OR EXISTS (
            SELECT FROM gateway_connections AS own WHERE own.gateway_id = gateways.id AND own.holder = least.holder)))
    AND lease.holder = :holder AND (SELECT held FROM load WHERE holder = :holder) > least.held + 1
RETURNING lease.gateway_id
""")
# Only one controller gives a gateway away at a time. The number identifies this lock in the database.
_ONE_GIVES = text("SELECT pg_try_advisory_xact_lock(7242316)")
_RAISE = text("""
UPDATE gateway_leases SET epoch = :highest + 1
WHERE gateway_id = :gateway AND holder = :holder AND epoch <= :highest
""")
_RELEASE = text("UPDATE gateway_leases SET ends_at = now() WHERE holder = :holder AND ends_at > now()")
_RELEASE_LOST = text("""
UPDATE gateway_leases SET ends_at = now() FROM gateways
WHERE gateways.id = gateway_id AND holder = :holder AND ends_at > now()
    AND p4runtime_address IS NULL AND name = ANY (CAST(:lost AS text[]))
RETURNING gateway_id
""")
_ADD_CONNECTIONS = text("""
INSERT INTO gateway_connections (gateway_id, holder)
SELECT id, :holder FROM gateways WHERE p4runtime_address IS NULL AND name = ANY (CAST(:connected AS text[]))
ON CONFLICT DO NOTHING
""")
_DELETE_CONNECTIONS = text("""
DELETE FROM gateway_connections USING gateways WHERE gateways.id = gateway_id AND holder = :holder
    AND (p4runtime_address IS NOT NULL OR name <> ALL (CAST(:connected AS text[])))
""")
_DELETE_CONTROLLER = text("DELETE FROM controllers WHERE holder = :holder")
# Only the lease's present epoch may write; the counters continue across owners.
_RECORD = text("""
INSERT INTO gateway_health AS health
    (gateway_id, epoch, online, reason, since, reconciled_at, drifts, drifted_at, missing, "foreign", changed, software)
SELECT :gateway, :epoch, :online, :reason, now(), CASE WHEN :reconciled THEN now() END,
    CAST(:drifts AS bigint), CASE WHEN CAST(:drifts AS bigint) > 0 THEN now() END, :missing, :foreign, :changed,
    :software
FROM gateway_leases WHERE gateway_id = :gateway AND epoch = :epoch
ON CONFLICT (gateway_id) DO UPDATE SET epoch = excluded.epoch, online = excluded.online, reason = excluded.reason,
    since = CASE WHEN health.online = excluded.online THEN health.since ELSE now() END,
    reconciled_at = coalesce(excluded.reconciled_at, health.reconciled_at),
    drifts = health.drifts + excluded.drifts, drifted_at = coalesce(excluded.drifted_at, health.drifted_at),
    missing = CASE WHEN excluded.drifts > 0 THEN excluded.missing ELSE health.missing END,
    "foreign" = CASE WHEN excluded.drifts > 0 THEN excluded."foreign" ELSE health."foreign" END,
    changed = CASE WHEN excluded.drifts > 0 THEN excluded.changed ELSE health.changed END,
    software = CASE WHEN excluded.online THEN excluded.software
        ELSE coalesce(excluded.software, health.software) END
""")

_ADD_SAMPLE = text("""
INSERT INTO gateway_samples (gateway_id, drops, round_trip_us, received_bytes, sent_bytes, seconds, tunnels)
SELECT :gateway, CAST(:drops AS jsonb), CAST(:round_trip_us AS integer), CAST(:received AS bigint),
    CAST(:sent AS bigint), CAST(:seconds AS double precision),
    (SELECT count(*) FROM tunnels WHERE gateway_id = :gateway AND state <> 'leaving')
FROM gateway_leases WHERE gateway_id = :gateway AND epoch = :epoch
""")
_SPAN = text("""
SELECT extract(epoch FROM now() - min(at)) FROM gateway_samples
WHERE gateway_id = :gateway AND at > now() - make_interval(secs => :seconds)
""")
_SAMPLES = text("""
SELECT max(at), (array_agg(drops ORDER BY at DESC))[1], (array_agg(round_trip_us ORDER BY at DESC))[1],
    round((sum(received_bytes) / nullif(sum(seconds), 0))::numeric, 1),
    round((sum(sent_bytes) / nullif(sum(seconds), 0))::numeric, 1),
    (array_agg(tunnels ORDER BY at DESC))[1]
FROM gateway_samples
WHERE gateway_id = :gateway AND at > now() - make_interval(secs => :seconds)
GROUP BY floor(extract(epoch FROM at) / :part)
ORDER BY 1
""")


@dataclass(frozen=True, slots=True)
class Sample:
    """`drops`: packets dropped so far, by cause. `received`, `sent`: bytes a second; None: not measured."""

    at: datetime.datetime
    drops: Mapping[str, int]
    round_trip_us: int | None
    received: Decimal | None
    sent: Decimal | None
    tunnels: int | None


@dataclass(frozen=True, slots=True)
class Load:
    """A gateway's open tunnels, the resources that only it serves (`alone`), and its site tunnels (`end_of`), which cannot
    move.
    """

    tunnels: int
    alone: tuple[str, ...]
    end_of: tuple[str, ...]

    @property
    def stays(self) -> str:
        """The resources and site tunnels that no other gateway can take, as text; empty if none."""
        return ", ".join([*self.alone, *(f"the tunnel {name}" for name in self.end_of)])


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """A gateway as all controllers see it. Without an owner it counts as offline.

    `health`: the last record of any owner.
    """

    gateway: Gateway
    owner: str
    holder: str
    epoch: int
    online: bool
    reason: str
    health: GatewayHealth | None
    neighbours: Sequence[GatewayNeighbour] = ()
    hosts: Sequence[CryptoHost] = ()


async def by_name(session: AsyncSession, name: str) -> Gateway | None:
    return await session.scalar(select(Gateway).where(Gateway.name == name))


async def lock(session: AsyncSession, name: str) -> Gateway | None:
    """Lock the gateway: until this transaction ends no tunnel opens through it; open tunnels may still be rekeyed."""
    return await session.scalar(select(Gateway).where(Gateway.name == name).with_for_update(key_share=True))


async def controller_names(session: AsyncSession) -> frozenset[str]:
    """The reserved names, spelt as `issuance.canonical` does."""
    return frozenset(await session.scalars(select(ControllerName.name)))


async def reserve(session: AsyncSession, names: Collection[str]) -> None:
    await session.execute(
        insert(ControllerName).values([{"name": name} for name in sorted(names)]).on_conflict_do_nothing()
    )


async def resources_through(session: AsyncSession, gateway_id: int) -> Sequence[Resource]:
    query = select(Resource).join(ResourceGateway, ResourceGateway.resource_id == Resource.id)
    found = await session.scalars(
        query.where(ResourceGateway.gateway_id == gateway_id).order_by(by_code_point(Resource.name))
    )
    return found.all()


async def loads(session: AsyncSession, gateway_ids: Sequence[int]) -> dict[int, Load]:
    """The loads by gateway. A draining gateway does not count as another gateway of a resource."""
    open_ones = Tunnel.gateway_id.in_(gateway_ids), Tunnel.stays()
    counted = select(Tunnel.gateway_id, func.count()).where(*open_ones).group_by(Tunnel.gateway_id)
    tunnels = {row[0]: row[1] for row in await session.execute(counted)}
    mine, other = aliased(ResourceGateway), aliased(ResourceGateway)
    helps = (
        exists()
        .where(other.resource_id == mine.resource_id, other.gateway_id != mine.gateway_id)
        .where(Gateway.id == other.gateway_id, Gateway.draining_since.is_(None))
    )
    query = select(mine.gateway_id, Resource.name).join(Resource, Resource.id == mine.resource_id)
    alone, end_of = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    for gateway_id, name in await session.execute(
        query.where(mine.gateway_id.in_(gateway_ids), ~helps).order_by(by_code_point(Resource.name))
    ):
        alone[gateway_id].append(name)
    ends = select(SiteTunnel.name, SiteTunnel.a_gateway_id, SiteTunnel.b_gateway_id)
    for name, *between in await session.execute(ends.order_by(by_code_point(SiteTunnel.name))):
        for gateway_id in between:
            end_of[gateway_id].append(name)
    return {key: Load(tunnels.get(key, 0), tuple(alone[key]), tuple(end_of[key])) for key in gateway_ids}


async def uses(session: AsyncSession, gateway_id: int) -> str:
    """The gateway's uses as text; empty when nothing uses it."""
    resources = await resources_through(session, gateway_id)
    tunnels = await session.scalar(
        select(func.count()).select_from(Tunnel).where(Tunnel.gateway_id == gateway_id)
    )
    said = [f"it serves {', '.join(resource.name for resource in resources)}"] if resources else []
    if ends := await site_tunnels_of(session, gateway_id):
        said.append(f"it is an end of {', '.join(ends)}")
    return " and ".join(said + ([f"{tunnels} of its tunnels are open"] if tunnels else []))


async def site_tunnels_of(session: AsyncSession, gateway_id: int) -> Sequence[str]:
    """The names of the gateway's site tunnels."""
    ends = or_(SiteTunnel.a_gateway_id == gateway_id, SiteTunnel.b_gateway_id == gateway_id)
    return (
        await session.scalars(select(SiteTunnel.name).where(ends).order_by(by_code_point(SiteTunnel.name)))
    ).all()


async def renew_controller(session: AsyncSession, me: ControllerId, seconds: float) -> None:
    """Count this controller among those that share the gateways, for another `seconds`."""
    await session.execute(_DELETE_ENDED_CONTROLLERS)
    own = {"holder": me.holder, "name": me.name, "seconds": seconds, "revision": me.revision}
    await session.execute(_RENEW_CONTROLLER, own)


async def give_gateway(session: AsyncSession, me: ControllerId, seconds: float) -> int | None:
    """Give one gateway to the controller with the fewest, if that evens the numbers. Returns its id."""
    if not await session.scalar(_ONE_GIVES):
        return None
    given = await session.scalar(_GIVE, {"holder": me.holder, "seconds": seconds})
    if given is not None:
        await notify(session, GATEWAYS_CHANNEL)
    return given


async def record_connections(session: AsyncSession, holder: str, connected: Collection[str]) -> None:
    """Record the names of the gateways that are connected to this controller by themselves."""
    asked = {"holder": holder, "connected": sorted(connected)}
    await session.execute(_DELETE_CONNECTIONS, asked)
    await session.execute(_ADD_CONNECTIONS, asked)


async def release_lost(session: AsyncSession, holder: str, lost: Collection[str]) -> None:
    """End the leases of gateways that connect themselves and have these names."""
    if lost and (await session.execute(_RELEASE_LOST, {"holder": holder, "lost": sorted(lost)})).all():
        await notify(session, GATEWAYS_CHANNEL)


async def claim_gateways(
    session: AsyncSession,
    me: ControllerId,
    seconds: float,
    connected: Collection[str] = (),
    lost: Collection[str] = (),
    *,
    free: bool = True,
) -> dict[int, int]:
    """Renew own leases and, with `free`, claim a share of the free gateways, for `seconds`. Returns epochs by gateway id.

    Of gateways that connect themselves, `connected` are those that may be claimed, and `lost` are not renewed.
    """
    asked = {
        "holder": me.holder,
        "name": me.name,
        "seconds": seconds,
        "connected": sorted(connected),
        "lost": sorted(lost),
        "free": free,
    }
    return {row.gateway_id: row.epoch for row in await session.execute(_CLAIM, asked)}


async def raise_epoch(session: AsyncSession, gateway_id: int, holder: str, highest: int) -> None:
    """Raise the epoch above `highest`, which the gateway has seen, if `holder` still has the lease."""
    await session.execute(_RAISE, {"gateway": gateway_id, "holder": holder, "highest": highest})


async def release_gateways(session: AsyncSession, holder: str) -> None:
    await session.execute(_RELEASE, {"holder": holder})
    await session.execute(_DELETE_CONTROLLER, {"holder": holder})
    await notify(session, GATEWAYS_CHANNEL)


async def notify_controllers(session: AsyncSession) -> None:
    """Notify every controller after the commit."""
    await notify(session, GATEWAYS_CHANNEL)


async def record_health(
    session: AsyncSession, gateway_id: int, report: Report, before: Report | None
) -> None:
    """Record the changes since `before`; others are notified when the gateway went online or offline."""
    if before is not None and before.epoch != report.epoch:
        before = None
    values = {
        "gateway": gateway_id,
        "epoch": report.epoch,
        "online": report.online,
        "reason": report.reason,
        "reconciled": report.reconciled != (before.reconciled if before else 0),
        "drifts": report.drifts - (before.drifts if before else 0),
        "missing": report.last.missing,
        "foreign": report.last.foreign,
        "changed": report.last.changed,
        "software": report.software,
    }
    await session.execute(_RECORD, values)
    if before is None or before.online != report.online:
        await notify(session, GATEWAYS_CHANNEL)


async def gateway_rows(
    session: AsyncSession, name: str | None = None, cut: Cut | None = None
) -> list[GatewayRow]:
    """All gateways, the one of that name, or some of them."""
    query = (
        select(Gateway, GatewayLease, GatewayHealth, GatewayLease.ends_at > func.now())
        .outerjoin(GatewayLease, GatewayLease.gateway_id == Gateway.id)
        .outerjoin(GatewayHealth, GatewayHealth.gateway_id == Gateway.id)
        .execution_options(populate_existing=True)
    )
    query = query.order_by(by_code_point(Gateway.name)) if cut is None else cut.of(query, Gateway.name)
    if name is not None:
        query = query.where(Gateway.name == name)
    found = [_gateway_row(*row) for row in await session.execute(query)]
    resolving = [it.gateway.id for it in found if it.gateway.resolves]
    neighbours = await read_neighbours(session, resolving) if resolving else {}
    hosts: dict[int, list[CryptoHost]] = defaultdict(list)
    for host in await session.scalars(select(CryptoHost).order_by(CryptoHost.port)):
        hosts[host.gateway_id].append(host)
    return [
        replace(it, neighbours=neighbours.get(it.gateway.id, ()), hosts=hosts.get(it.gateway.id, ()))
        for it in found
    ]


def _gateway_row(
    gateway: Gateway, lease: GatewayLease | None, health: GatewayHealth | None, held: bool | None
) -> GatewayRow:
    if lease is None or not held:
        reason: str = Phrase("no controller has it")
        if gateway.p4runtime_address is None:
            ended = health.since if health is not None and not health.online else lease and lease.ends_at
            reason = not_connected(gateway.name, ended or gateway.created_at)
        return GatewayRow(gateway, "", "", lease.epoch if lease else 0, False, reason, health)
    if health is None or health.epoch != lease.epoch:
        return GatewayRow(
            gateway, lease.holder_name, lease.holder, lease.epoch, False, NOT_CONNECTED_YET, health
        )
    return GatewayRow(
        gateway, lease.holder_name, lease.holder, lease.epoch, health.online, health.reason, health
    )


async def hosts_of(session: AsyncSession, gateway_id: int) -> Sequence[CryptoHost]:
    """By port."""
    query = select(CryptoHost).where(CryptoHost.gateway_id == gateway_id).order_by(CryptoHost.port)
    return (await session.scalars(query)).all()


async def count_sas_by_host(session: AsyncSession, gateway_id: int) -> dict[int, int]:
    """The SAs of each crypto host, by port."""
    port = SecurityAssociation.crypto_port
    query = select(port, func.count()).where(SecurityAssociation.gateway_id == gateway_id, port.is_not(None))
    return {at: count for at, count in await session.execute(query.group_by(port)) if at is not None}


async def has_host(session: AsyncSession, name: str) -> bool:
    return await session.scalar(select(exists().where(CryptoHost.name == name))) or False


async def lock_host(session: AsyncSession, gateway: str, name: str) -> CryptoHost | None:
    query = (
        select(CryptoHost)
        .join(Gateway, Gateway.id == CryptoHost.gateway_id)
        .where(Gateway.name == gateway, CryptoHost.name == name)
        .with_for_update(of=CryptoHost)
    )
    return await session.scalar(query)


async def add_samples(session: AsyncSession, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add the samples of gateways whose lease is still of the sample's epoch."""
    await session.execute(_ADD_SAMPLE, rows)


async def delete_samples_before(session: AsyncSession, kept: datetime.timedelta) -> None:
    """Delete the samples that are older than `kept`."""
    await session.execute(delete(GatewaySample).where(GatewaySample.at < func.now() - kept))


async def samples(session: AsyncSession, gateway_id: int, hours: int) -> list[Sample]:
    """Oldest first, thinned to at most 240 samples: the last one of each part of the time, and the part's mean rates."""
    asked = {"gateway": gateway_id, "seconds": hours * 3600}
    span = await session.scalar(_SPAN, asked)
    # Steps, so that the parts' ends stay where they are while time passes.
    asked["part"] = next(it for it in _PARTS if (span or 0) / it <= _POINTS)
    return [Sample(*row) for row in await session.execute(_SAMPLES, asked)]


async def read_neighbours(
    session: AsyncSession, gateway_ids: Iterable[int]
) -> dict[int, list[GatewayNeighbour]]:
    """By gateway, in the order of side and address."""
    which = GatewayNeighbour.gateway_id.in_(list(gateway_ids))
    order = GatewayNeighbour.gateway_id, GatewayNeighbour.side.desc(), GatewayNeighbour.address
    rows = await session.scalars(select(GatewayNeighbour).where(which).order_by(*order))
    found: dict[int, list[GatewayNeighbour]] = {}
    for row in rows:
        found.setdefault(row.gateway_id, []).append(row)
    return found


async def have_servers_found(session: AsyncSession, gateway: Gateway, prefixes: Collection[str]) -> None:
    """Let the gateway find a resource's servers on its LAN, as if an administrator had added them to its neighbours.

    Nothing changes at the end of a site tunnel, whose other end has the LAN in its entries, and beyond NEIGHBOURS_MAX.
    """
    if not servers_to_find(gateway, prefixes) or await site_tunnels_of(session, gateway.id):
        return
    await session.refresh(gateway, with_for_update={"key_share": True})
    servers = servers_to_find(gateway, prefixes)
    neighbours = dict.fromkeys(servers, UNKNOWN_MAC) | gateway.lan["neighbours"]
    if len(neighbours) > NEIGHBOURS_MAX:
        return
    gateway.lan = {**gateway.lan, "neighbours": neighbours}
    gateway.resolves = {**gateway.resolves, "lan": sorted({*gateway.resolves.get("lan", ()), *servers})}
    await session.flush()
    await keep_neighbours(session, gateway, {})
    await notify_controllers(session)


async def keep_neighbours(session: AsyncSession, gateway: Gateway, known: Mapping[Neighbour, str]) -> None:
    """Keep rows of exactly the neighbours that the gateway finds. `known`: MAC addresses that it has just found."""
    wanted = resolved(gateway)
    key = tuple_(GatewayNeighbour.side, GatewayNeighbour.address)
    others = delete(GatewayNeighbour).where(GatewayNeighbour.gateway_id == gateway.id)
    await session.execute(others.where(key.not_in(sorted(wanted))) if wanted else others)
    if not wanted:
        return
    rows = [
        {"gateway_id": gateway.id, "side": it[0], "address": it[1], "mac": known.get(it)}
        for it in sorted(wanted)
    ]
    made = insert(GatewayNeighbour).values(rows)
    fresh = made.on_conflict_do_update(
        index_elements=["gateway_id", "side", "address"],
        set_={"mac": made.excluded.mac, "silent_since": None},
        where=made.excluded.mac.is_not(None),
    )
    await session.execute(fresh)
