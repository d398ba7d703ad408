"""`culvert-controller audit verify` and `cut`."""

from __future__ import annotations

import datetime
from pathlib import Path

from culvert_db import ActorKind

from culvert_service import controller
from culvert_service.audit import retention, verifier
from culvert_service.audit.cut import CutKey
from culvert_service.audit.log import Actor, acting
from culvert_service.config import ConfigurationError, Settings
from culvert_service.pki.master_key import MasterKey


async def verify(settings: Settings) -> bool:
    """Says what it found; whether every line is as it was written. The ends tell whether lines are missing after them."""
    key = CutKey(MasterKey.load(settings.state_dir))
    async with controller.reading(settings) as database:
        found = await verifier.verify(database, key)
    if found.broken is not None:
        print(f"chain {found.broken.chain}, line {found.broken.seq}: {found.broken.why}")
        return False
    print(f"{found.lines} lines are as they were written. The chains end at:")
    for chain, (seq, end) in sorted(found.ends.items()):
        print(f"  chain {chain}, line {seq}, hash {end.hex()}")
    return True


async def cut(settings: Settings, before: datetime.datetime, file: Path | None) -> None:
    """Cut old lines, and print what was done. Raises ConfigurationError when nothing was cut."""
    key = CutKey(MasterKey.load(settings.state_dir))
    acting.set(Actor(ActorKind.SYSTEM, "command line"))
    async with controller.reading(settings) as database:
        try:
            done = await retention.cut(database, key, before, controller.now(), file)
        except (retention.LogBrokenError, retention.ExportRefusedError, ValueError) as error:
            raise ConfigurationError(f"nothing was cut: {error}") from None
    print(f"{done.lines} lines that were written before {before:%Y-%m-%d %H:%M %Z} are cut.")
    if file is not None and done.export is not None:
        print(f"{file} holds them; its SHA-256 is {done.export.hex()}.")
    print(f"The cut is signed by the key {key.public.hex()}.")
