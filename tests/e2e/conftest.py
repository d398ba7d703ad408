"""A joined lab for each module; a test starts again the parts that it has stopped."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from culvert_lab import targets
from culvert_lab.office import Office, open_office


@pytest.fixture(scope="session", autouse=True)
def target() -> None:
    """The switch that CULVERT_TARGET chooses."""
    if why := targets.absent():
        pytest.skip(why)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office() -> AsyncGenerator[Office]:
    async with open_office() as office:
        yield office
