"""A browser at the console of a controller that serves: who is signed in, and what is seen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from culvert_lab import console as lab
from culvert_lab.console import BUILT, NARROW, SCREENS, SETTLED, WIDE, chromium_running
from playwright.async_api import Browser, ViewportSize

from .conftest import World
from .test_admins import PASSWORD, Person, browser

__all__ = ["BUILT", "SCREENS", "SETTLED", "Console", "administrator", "chromium_running", "console"]


class Console(lab.Console):
    async def sign_in(self, person: Person) -> None:
        await self.sign_in_as(person.name, person.code())

    async def sign_in_as(self, name: str, code: str, password: str = PASSWORD) -> None:
        await super().sign_in_as(name, code, password)


@asynccontextmanager
async def console(
    world: World,
    running: Browser,
    *,
    narrow: bool = False,
    viewport: ViewportSize = WIDE,
    others: Sequence[str] = (),
    locale: str = "en-GB",
) -> AsyncGenerator[Console]:
    context = await lab.person(running, NARROW if narrow else viewport, locale=locale)
    shown = Console(await context.new_page(), world.settings.rest_url, others)
    try:
        yield shown
    finally:
        await context.close()
    assert not shown.faults, shown.faults


@asynccontextmanager
async def administrator(world: World, name: str, role: str) -> AsyncGenerator[Person]:
    """A person with an account who is not signed in."""
    async with browser(world, name) as person:
        invitation = await world.rest("POST", "/admins/invitations", {"role": role})
        assert (await person.set_up(invitation["token"])).status_code == 201
        yield person
