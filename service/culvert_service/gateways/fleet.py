"""All gateways: links to those that are this controller's, and what is known of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from culvert_service.gateways.config import GatewayConfig
from culvert_service.gateways.health import NOT_CONNECTED_YET
from culvert_service.gateways.link import GatewayEvents, Link, Owner
from culvert_service.gateways.session import Credentials, Program


@dataclass(frozen=True, slots=True)
class Standing:
    """A gateway as every controller sees it. `owner` and `holder` are empty when nobody has it; `reason` says why it is
    offline.
    """

    config: GatewayConfig
    owner: str
    holder: str
    epoch: int
    online: bool
    reason: str
    draining: bool = False

    @property
    def coming(self) -> bool:
        """Whether it has got an owner, or another one, who has yet to reach it."""
        return bool(self.holder) and self.reason == NOT_CONNECTED_YET


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The gateway is online, and another controller's, since that epoch."""

    gateway: str
    epoch: int


class Fleet:
    """Runs a link for each gateway that is owned, and stops them together. Each connection asks for `credentials`."""

    def __init__(self, program: Program, credentials: Callable[[], Credentials]) -> None:
        self._program = program
        self._credentials = credentials
        self._links: dict[str, Link] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._standings: dict[str, Standing] = {}
        self._news = asyncio.Event()

    async def start(self) -> None:
        """A link begins when its gateway is owned."""

    def own(self, config: GatewayConfig, epoch: int, events: GatewayEvents, owner: Owner) -> None:
        """A new epoch or a changed configuration makes a new link, which begins when the old link has ended. Changed keys
        alone are given to the present link.
        """
        link = self._links.get(config.name)
        if link is not None and (link.epoch, link.config) == (epoch, config):
            link.take_keys(config)
            return
        before = self._tasks.get(config.name)
        link = self._links[config.name] = Link(
            config, epoch, self._program.at(config.kind), self._credentials, events, owner
        )
        self._tasks[config.name] = asyncio.create_task(_after(before, link), name=f"gateway {config.name}")

    async def leave(self, name: str) -> None:
        """Leaves the gateway as it is."""
        self._links.pop(name, None)
        if task := self._tasks.pop(name, None):
            await _end(task)

    def tell(self, standings: Mapping[str, Standing]) -> None:
        self._standings = dict(standings)
        self.stir()

    def get(self, name: str) -> Link | None:
        """The link, if the gateway is ours."""
        return self._links.get(name)

    def find(self, name: str) -> Link | Elsewhere | None:
        """The link, if the gateway is ours. None for an offline gateway of another controller or of none."""
        if (link := self._links.get(name)) is not None:
            return link
        standing = self._standings.get(name)
        return Elsewhere(name, standing.epoch) if standing is not None and standing.online else None

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def standing(self, name: str) -> Standing | None:
        """The link's present state, for a gateway of ours."""
        standing, link = self._standings.get(name), self._links.get(name)
        if standing is None or link is None:
            return standing
        return replace(standing, online=link.online, reason=link.reason)

    def standings(self) -> Sequence[Standing]:
        """By name."""
        return [standing for name in sorted(self._standings) if (standing := self.standing(name))]

    def is_online(self, name: str) -> bool:
        standing = self.standing(name)
        return standing is not None and standing.online

    def is_coming(self, name: str) -> bool:
        standing = self.standing(name)
        return standing is not None and standing.coming

    async def wait(self, names: Collection[str], seconds: float) -> None:
        """Until one of them is online, or none is coming any more, or that time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(map(self.is_coming, names)) and not any(map(self.is_online, names)):
                    await self._news.wait()

    def stir(self) -> None:
        """For `wait`: a gateway's standing has changed."""
        self._news.set()
        self._news = asyncio.Event()

    async def stop(self) -> None:
        """Leaves the gateways as they are: running tunnels keep running."""
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
