"""Applies the union of all organisations' desired states to the datapath.

Organisation ─► Apply ─► queue ─► union ─► without this computer's own networks ─► NAT64 ─► Datapath.apply
                                    └─► refused: the previous union, so that the others keep their tunnels
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from culvert_proto import CulvertError, Reason

from culvert_client.core.claims import LocalNetwork
from culvert_client.core.client_events import Applied, Apply, Desired, Measured
from culvert_client.core.grant import Address, Network, Sas, Source, TunnelId
from culvert_client.core.local_networks import Shared, share
from culvert_client.core.tunnel.events import ClosedByController
from culvert_client.core.tunnel.machines import tunnels_up
from culvert_client.daemon.organisation import Organisation
from culvert_client.daemon.router import Router, owner_of, shared_id
from culvert_client.nat64_reach import Nat64Reach
from culvert_client.platform.interfaces import Networks
from culvert_client.reopening import Datapath
from culvert_client.tasks import Changes, Tasks

log = logging.getLogger("culvertd")

# Our tunables, in seconds.
MEASURE_EVERY = 0.5
# The longest interval without packets; it is shorter before an idle tunnel's deadline.
MEASURE_IDLE_EVERY = 2.0
LOOK_AGAIN = 5.0

Value = TypeVar("Value")


def until_measured(rest: float, passed: bool, due_in: float) -> float:
    """The next reading interval. `rest`: the last one; `passed`: it had packets; `due_in`: until the deadline."""
    return max(MEASURE_EVERY, 0.0 if passed else min(2 * rest, MEASURE_IDLE_EVERY, due_in / 2))


class DatapathOwner:
    """`own_devices`: interfaces of this daemon. Raises nothing: faults are part of the status, and are retried."""

    def __init__(
        self,
        datapath: Datapath,
        nat64: Nat64Reach,
        router: Router,
        changes: Changes,
        system: Networks,
        own_devices: set[str],
    ) -> None:
        self._datapath, self._nat64, self._router = datapath, nat64, router
        self._changes, self._system, self._own_devices = changes, system, own_devices
        self.blocked_by: CulvertError | None = None
        self._requests: asyncio.Queue[tuple[Organisation, Apply]] = asyncio.Queue()
        self._applying = asyncio.Lock()
        self._tasks = Tasks()
        self._look, self._behind = asyncio.Event(), False
        self._union = DatapathUnion()
        self._networks: frozenset[LocalNetwork] = frozenset()
        self._shared = Shared()

    @property
    def name(self) -> str:
        """The name of the datapath in use; empty without one."""
        return self._datapath.name

    @property
    def warnings(self) -> Sequence[CulvertError]:
        """Warnings about this computer's own networks."""
        return self._shared.warnings

    def start(self) -> None:
        """Start to handle requests, and to pass the datapath's events to the organisations."""
        # Block the prefixes of all organisations from the start, before each has sent its first request.
        self._union = DatapathUnion(
            {
                number: Desired(frozenset(it.protected_prefixes))
                for number, it in self._router.profiles().items()
            }
        )
        self._datapath.on_soft_limit(self._router.post_soft_limit)
        self._datapath.on_trapped(self._router.post_trapped)
        self._datapath.on_lost(self._on_loss)
        self._tasks.start(self._apply_forever())

    def keep_up(self) -> None:
        """Start to watch the counters and the network."""
        self._tasks.start(self._look_around_forever())
        self._tasks.start(self._measure_forever())

    async def close(self) -> None:
        await self._tasks.cancel()

    def request_apply(self, organisation: Organisation, apply: Apply) -> None:
        self._requests.put_nowait((organisation, apply))

    async def wait_handled(self) -> None:
        """Wait until all present requests are handled."""
        await self._requests.join()

    def forget(self, number: int) -> None:
        """Remove everything of that organisation from the datapath."""
        self._union = self._union.without(number)
        self._fall_behind()

    def look_again(self) -> None:
        """Look for a NAT64 again, because the network may have changed."""
        self._look.set()

    async def on_roam(self) -> None:
        await self._datapath.on_roam()

    async def note_change(self) -> None:
        await self.look_at_networks()
        await self._datapath.repair()

    async def look_at_networks(self) -> None:
        """Read this computer's own networks, which may then stay reachable. Until the first call they are blocked."""
        self._networks = await asyncio.to_thread(self._system.local_networks, self._own_devices)
        await self._share_anew()

    async def _share_anew(self) -> None:
        async with self._applying:
            # The kernel removes routes with their interface, so routes may have to be written again.
            anew = self._shared.desired.on_link or not self._share(self._union).is_as(self._shared)
            if anew and await self._apply(self._union) is not None:
                self._fall_behind()

    async def _measure_forever(self) -> None:
        rest, known = MEASURE_EVERY, Measured({}, {}, {})
        while True:
            await asyncio.sleep(rest)
            if not any(machine.is_up for it in self._router.all() for machine in it.client.machines.values()):
                rest = MEASURE_EVERY
                continue
            measured = await self.measure()
            if measured is None:
                continue
            deadlines = [at for it in self._router.all() if (at := it.client.deadline()) is not None]
            due_in = min(deadlines, default=math.inf) - asyncio.get_running_loop().time()
            rest, known = until_measured(rest, measured != known, due_in), measured

    async def measure(self) -> Measured | None:
        """Read the counters and pass them to the organisations. None if the datapath gives none."""
        try:
            measured = await self._datapath.measure()
        except CulvertError as error:
            log.error("%s", error)
            return None
        for number, part in split_by_organisation(measured).items():
            self._router.post_to(number, part)
        return measured

    async def probe(self, organisation: Organisation, targets: Mapping[TunnelId, Address]) -> None:
        """As Datapath.probe, for one organisation's tunnels."""
        try:
            await self._datapath.probe({shared_id(organisation.number, it): to for it, to in targets.items()})
        except CulvertError as error:
            log.error("%s", error)

    async def _look_around_forever(self) -> None:
        while True:
            if await self._nat64.look():
                self._behind = True
                self._router.reconnect()
                self._router.on_roam()
            if self._behind:
                async with self._applying:
                    self._behind = await self._apply(self._union) is not None
                with suppress(CulvertError):
                    await self._datapath.on_roam()
            cut_off = self._nat64.is_without_ipv4 and self._nat64.translator is None
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN if self._behind or cut_off else None):
                    await self._look.wait()
            self._look.clear()

    async def _apply_forever(self) -> None:
        while True:
            organisation, request = await self._requests.get()
            if self._router.has(organisation):
                async with self._applying:
                    error = await self._grant(organisation, request)
                # The organisation may have been removed meanwhile.
                if self._router.has(organisation):
                    try:
                        organisation.post(Applied(request.number, error))
                    except Exception:
                        # Go on with the other organisations' requests.
                        log.exception("%s failed", organisation.name)
            self._requests.task_done()

    async def _grant(self, organisation: Organisation, request: Apply) -> CulvertError | None:
        number, before = organisation.number, self._union
        union = before.with_desired(number, request.desired)
        error = await self._apply(union)
        if error is None:
            # An organisation may have been removed meanwhile.
            if self._router.has(organisation):
                self._union = self._union.with_desired(number, request.desired)
        elif before.without(number).parts:
            # A refused request must not affect the other organisations.
            await self._apply(before)
        return error

    def _fall_behind(self) -> None:
        """Schedule another apply, because the datapath differs from the union."""
        self._behind = True
        self._look.set()

    async def _apply(self, union: DatapathUnion) -> CulvertError | None:
        try:
            shared = self._share(union)
            await self._datapath.apply(self._nat64.over(shared.desired))
        except CulvertError as error:
            self._on_refusal(error)
            return error
        except Exception:
            # Callers wait for an answer, and the loop must go on.
            log.exception("the datapath failed")
            return CulvertError(Reason.INTERNAL)
        self._tell_of_networks(shared)
        if self.blocked_by is not None:
            log.info("tunnels can be opened now")
            self.blocked_by = None
            self._changes.tell()
        return None

    def _on_refusal(self, error: CulvertError) -> None:
        # Log a repeated error only once.
        if self.blocked_by is None or str(self.blocked_by) != str(error):
            log.error("%s", error)
        self.blocked_by = None if self._datapath.name else error
        self._changes.tell()

    def _on_loss(self, error: CulvertError) -> None:
        for it in self._router.all():
            for tunnel_id in tunnels_up(it.client.machines):
                it.post(ClosedByController(tunnel_id, error))
        self._tasks.start(self._apply_anew())

    async def _apply_anew(self) -> None:
        async with self._applying:
            if await self._apply(self._union) is not None:
                self._fall_behind()

    def _share(self, union: DatapathUnion) -> Shared:
        resources = (it for profile in self._router.profiles().values() for it in profile.resources)
        return share(union.whole, (prefix for it in resources for prefix in it.prefixes), self._networks)

    def _tell_of_networks(self, shared: Shared) -> None:
        before, self._shared = self._shared, shared
        for text in shared.texts:
            if text not in before.texts:
                log.warning("%s", text)
        if before.texts != shared.texts:
            self._changes.tell()

    def claims_changed(self, organisation: Organisation) -> None:
        """Compute the sharing again: resources may lie in this computer's networks, and refused claims may be free now."""
        self._tasks.start(self._share_anew())
        for other in self._router.others(organisation):
            agent, error = other.connection.agent, other.client.controller_error
            if agent is not None and error is not None and error.reason is Reason.ORGANISATIONS_COLLIDE:
                agent.reconnect()


@dataclass(frozen=True, slots=True)
class DatapathUnion:
    """The union of several organisations' desired states, with distinct tunnel ids. Pure.

    `parts`: by the organisations' numbers.
    """

    parts: Mapping[int, Desired] = field(default_factory=dict[int, Desired])

    def with_desired(self, number: int, desired: Desired) -> DatapathUnion:
        own = replace(desired, tunnels=tuple(_rename(number, sas) for sas in desired.tunnels))
        return DatapathUnion({**self.parts, number: own})

    def without(self, number: int) -> DatapathUnion:
        return DatapathUnion({other: desired for other, desired in self.parts.items() if other != number})

    @property
    def whole(self) -> Desired:
        blocked = frozenset[Network]().union(*(it.blocked for it in self.parts.values()))
        return Desired(
            blocked,
            tuple(sas for it in self.parts.values() for sas in it.tunnels),
            tuple(tunnel for it in self.parts.values() for tunnel in it.closed),
            sources=tuple(it for number in self.parts for it in self._sources(number)),
        )

    def _sources(self, number: int) -> Iterator[Source]:
        """The sources, without addresses in other organisations' blocked prefixes: these would hide hosts there."""
        others = [prefix for it in self.without(number).parts.values() for prefix in it.blocked]
        for source in self.parts[number].sources:
            free = tuple(it for it in source.addresses if not any(it in other for other in others))
            yield replace(source, addresses=free)


def split_by_organisation(measured: Measured) -> dict[int, Measured]:
    """The counters by organisation."""
    usage, drops = _by_owner(measured.usage), _by_owner(measured.drops)
    return {number: Measured(usage[number], drops.get(number, {}), measured.all_drops) for number in usage}


def _rename(number: int, sas: Sas) -> Sas:
    return replace(sas, tunnel=replace(sas.tunnel, tunnel_id=shared_id(number, sas.tunnel.tunnel_id)))


def _by_owner(values: Mapping[TunnelId, Value]) -> dict[int, dict[TunnelId, Value]]:
    found: dict[int, dict[TunnelId, Value]] = {}
    for shared, value in values.items():
        number, own = owner_of(shared)
        found.setdefault(number, {})[own] = value
    return found
