"""`culvert-controller audit verify`."""

from __future__ import annotations

from culvert_service import controller
from culvert_service.audit import verifier
from culvert_service.config import Settings


async def verify(settings: Settings) -> bool:
    """Says what it found; whether every line is as it was written. The ends tell whether lines are missing after them."""
    async with controller.reading(settings) as sessions:
        found = await verifier.verify(sessions)
    if found.broken is not None:
        print(f"chain {found.broken.chain}, line {found.broken.seq}: {found.broken.why}")
        return False
    print(f"{found.lines} lines are as they were written. The chains end at:")
    for chain, (seq, end) in sorted(found.ends.items()):
        print(f"  chain {chain}, line {seq}, hash {end.hex()}")
    return True
