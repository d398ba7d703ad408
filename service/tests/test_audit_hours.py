"""The counts behind the overview's chart."""

from __future__ import annotations

import datetime
import itertools

import pytest

from .conftest import World, refused
from .switch import Switch

pytestmark = pytest.mark.slow


async def test_openings_and_refusals_are_counted_by_hour(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await refused(device.open())
    await device.prove()
    await device.open()
    counted = await world.rest("GET", "/audit/hours?hours=3")
    hours = [datetime.datetime.fromisoformat(one["at"]) for one in counted]
    assert [later - earlier for earlier, later in itertools.pairwise(hours)] == [
        datetime.timedelta(hours=1)
    ] * 2
    # The hour may end in between.
    assert [sum(one[field] for one in counted) for field in ("opened", "denied")] == [1, 1]
    assert counted[0] == {"at": counted[0]["at"], "opened": 0, "denied": 0}
