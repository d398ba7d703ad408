"""`culvert-controller audit verify`."""

from __future__ import annotations

from culvert_service import controller
from culvert_service.audit import repository
from culvert_service.config import Settings


async def verify(settings: Settings) -> bool:
    """Says what it found; whether every line is as it was written. The ends tell whether lines are missing after them."""
    async with controller.reading(settings) as sessions, sessions() as session:
        verification, broken = await repository.verify(session)
    if broken is not None:
        print(f"chain {broken.chain}, line {broken.seq}: {broken.why}")
        return False
    print(f"{verification.lines} lines are as they were written. The chains end at:")
    for chain, (seq, end) in sorted(verification.ends.items()):
        print(f"  chain {chain}, line {seq}, hash {end.hex()}")
    return True
