"""All gateways: links to those that this controller owns, and the standing of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from culvert_service.gateways.config import GatewayConfig
from culvert_service.gateways.dialled import Dialled
from culvert_service.gateways.health import NOT_CONNECTED_YET, RECONNECTING
from culvert_service.gateways.link import GatewayEvents, Link, Owner
from culvert_service.gateways.program import Program
from culvert_service.pki.own_certificates import OwnCertificates


@dataclass(frozen=True, slots=True)
class Standing:
    """A gateway as every controller sees it. `owner` and `holder` may be empty; `reason`: why it is offline."""

    config: GatewayConfig
    owner: str
    holder: str
    epoch: int
    online: bool
    reason: str
    draining: bool = False

    @property
    def coming(self) -> bool:
        """Whether the owner's first attempt to connect, or to connect again, has yet to end."""
        return bool(self.holder) and self.reason in (NOT_CONNECTED_YET, RECONNECTING)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The gateway is online and owned by another controller, in this epoch."""

    gateway: str
    epoch: int


class Fleet:
    """Runs a link for each owned gateway, and stops them together. Each connection uses the newest certificate."""

    def __init__(
        self, program: Program, host_program: Program, own: OwnCertificates, dialled: Dialled
    ) -> None:
        """`host_program`: of the gateways' crypto hosts."""
        self._program = program
        self._host_program = host_program
        self._own = own
        self._dialled = dialled
        self._links: dict[str, Link] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._standings: dict[str, Standing] = {}
        self._news = asyncio.Event()

    async def start(self) -> None:
        """`own` starts the links."""

    def own(self, config: GatewayConfig, epoch: int, events: GatewayEvents, owner: Owner) -> None:
        """A new epoch or changed settings make a new link, which starts when the old link has ended. If only keys, MAC
        addresses of neighbours or crypto hosts change, the present link takes them.
        """
        link = self._links.get(config.name)
        if link is not None and (link.epoch, link.config) == (epoch, config):
            link.take_keys(config)
            link.take_neighbours(config)
            link.take_hosts(config)
            return
        before = self._tasks.get(config.name)
        link = self._links[config.name] = Link(
            config,
            epoch,
            self._program.at(config.kind),
            self._host_program,
            self._own,
            self._dialled,
            events,
            owner,
        )
        self._tasks[config.name] = asyncio.create_task(_after(before, link), name=f"gateway {config.name}")

    async def leave(self, name: str) -> None:
        """End the link. The gateway's entries stay."""
        self._links.pop(name, None)
        if task := self._tasks.pop(name, None):
            await _end(task)

    def set_standings(self, standings: Mapping[str, Standing]) -> None:
        self._standings = dict(standings)
        self.wake_waiting()

    def get(self, name: str) -> Link | None:
        """The link, if this controller owns the gateway."""
        return self._links.get(name)

    def find(self, name: str) -> Link | Elsewhere | None:
        """The link, if this controller owns the gateway. None if the gateway is offline or without an owner."""
        if (link := self._links.get(name)) is not None:
            return link
        standing = self._standings.get(name)
        return Elsewhere(name, standing.epoch) if standing is not None and standing.online else None

    def place(self, name: str) -> int | None:
        """As `Link.place`; at another controller's gateway, the first host that does not drain."""
        if (link := self._links.get(name)) is not None:
            return link.place()
        standing = self._standings.get(name)
        hosts = standing.config.hosts if standing is not None else ()
        return next((host.port for host in hosts if not host.draining), None)

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def find_standing(self, name: str) -> Standing | None:
        """For an owned gateway with the link's present state."""
        standing, link = self._standings.get(name), self._links.get(name)
        if standing is None or link is None:
            return standing
        return replace(standing, online=link.online, reason=link.reason)

    def standings(self) -> Sequence[Standing]:
        """Sorted by name."""
        return [standing for name in sorted(self._standings) if (standing := self.find_standing(name))]

    def is_online(self, name: str) -> bool:
        standing = self.find_standing(name)
        return standing is not None and standing.online

    def is_coming(self, name: str) -> bool:
        """Whether the gateway may be online soon: its owner connects to it, or it connects itself."""
        standing = self.find_standing(name)
        if standing is None:
            return False
        return standing.coming or (not standing.holder and self._dialled.is_expected(name))

    async def wait(self, names: Collection[str], seconds: float) -> None:
        """Wait until one of them is online, or none of them is coming any more, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(map(self.is_coming, names)) and not any(map(self.is_online, names)):
                    await self._news.wait()

    def wake_waiting(self) -> None:
        """Wake `wait`: a gateway's standing has changed."""
        self._news.set()
        self._news = asyncio.Event()

    async def stop(self) -> None:
        """End all links. The gateways' entries stay, so open tunnels keep working."""
        tasks = list(self._tasks.values())
        self._links.clear()
        self._tasks.clear()
        await asyncio.gather(*map(_end, tasks))


async def _after(before: asyncio.Task[None] | None, link: Link) -> None:
    if before is not None:
        await _end(before)
    await link.run()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
