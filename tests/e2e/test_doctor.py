"""`culvert doctor` on a laptop whose every hop is well."""

from __future__ import annotations

import json

import pytest
from culvert_lab import parts
from culvert_lab.office import Office

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


async def test_every_hop_is_well_with_and_without_a_tunnel(office: Office) -> None:
    await office.add_resource("git")
    assert await _hops(office) == {
        "daemon", "DNS path", "controller", "clock", "certificate", "code", "gateway", "MTU", "addresses", "TXT"
    }  # fmt: skip
    assert (await office.fetch()).code == 0
    assert await _hops(office) >= {"MTU", "TXT"}
    examined = await office.culvert("doctor")
    # The gateway takes a whole Ethernet frame outside, and a whole packet inside comes back from the wiki.
    assert f"{parts.GATEWAY} 1500" in examined.stdout


async def _hops(office: Office) -> set[str]:
    """All of them are well."""
    ended = await office.culvert("doctor", "--json")
    found = json.loads(ended.stdout)
    assert [it for it in found if not it["good"]] == []
    assert ended.code == 0
    return {it["hop"] for it in found}
