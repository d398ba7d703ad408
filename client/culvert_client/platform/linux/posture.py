"""This computer's report on itself: for the administrator's list of devices, and for policies that ask for it."""

from __future__ import annotations

import asyncio
import os
import platform

from culvert_proto.contract import POSTURE_VALUE_MAX

from culvert_client.platform.linux.disk_encryption import root_is_encrypted

# Longer values than the contract's are refused (proto/culvert/agent/v1).
_LOOK_EVERY_SECONDS = 60.0
_SAID = {True: "on", False: "off", None: ""}


def posture() -> dict[str, str]:
    """This computer's facts. Unknown ones are left out."""
    kernel = os.uname()
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {"PRETTY_NAME": kernel.sysname}
    found = {
        "os": system.get("PRETTY_NAME", ""),
        "os_id": system.get("ID", ""),
        "os_version": system.get("VERSION_ID", ""),
        "kernel": kernel.release,
        "architecture": kernel.machine,
        "disk_encryption": _SAID[root_is_encrypted()],
    }
    return {name: value[:POSTURE_VALUE_MAX] for name, value in found.items() if value and value.isprintable()}


async def changed(said: dict[str, str]) -> None:
    """Returns once this computer would say something else."""
    while posture() == said:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
