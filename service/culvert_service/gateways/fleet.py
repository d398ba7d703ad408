"""All gateways' links of this controller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from culvert_service.gateways.link import Credentials, GatewayConfig, Hooks, Link, Program


class Fleet:
    """Starts a link for each gateway that it is given, and stops them together."""

    def __init__(self, program: Program, credentials: Credentials) -> None:
        self._program = program
        self._credentials = credentials
        self._links: dict[str, Link] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._hooks: Hooks | None = None

    def connect(self, hooks: Hooks) -> None:
        """Before the first gateway is added."""
        self._hooks = hooks

    def add(self, config: GatewayConfig) -> Link:
        assert self._hooks is not None
        link = Link(config, self._program, self._credentials, self._hooks)
        self._links[config.name] = link
        self._tasks.append(asyncio.create_task(link.run(), name=f"gateway {config.name}"))
        return link

    def get(self, name: str) -> Link | None:
        return self._links.get(name)

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def is_online(self, name: str) -> bool:
        link = self._links.get(name)
        return link is not None and link.online

    async def stop(self) -> None:
        """Leaves the gateways as they are: running tunnels keep running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
