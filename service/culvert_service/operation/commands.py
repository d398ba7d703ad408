"""`culvert-controller backup` and `restore`."""

from __future__ import annotations

from pathlib import Path

from culvert_service.config import Settings
from culvert_service.operation import backup


async def back_up(settings: Settings, target: Path) -> None:
    manifest = await backup.backup(settings, target)
    print(
        f"{target} holds the database at revision {manifest.revision}, and the keys of {settings.state_dir}."
    )
    print("Whoever has it is the controller: keep it as you keep those.")


async def restore(settings: Settings, source: Path) -> None:
    manifest = await backup.restore(settings, source)
    print(f"The controller is as it was at {manifest.made_at}.")
    print("What was revoked after that is not: look through the devices and administrators before you serve.")
