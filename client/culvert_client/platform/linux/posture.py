"""This computer's facts (os-release(5), uname(2), sysfs)."""

from __future__ import annotations

import os
import platform

from culvert_client.platform.linux.disk_encryption import root_is_encrypted

_SAID = {True: "on", False: "off", None: ""}


def posture() -> dict[str, str]:
    """As Posture."""
    kernel = os.uname()
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {"PRETTY_NAME": kernel.sysname}
    return {
        "os": system.get("PRETTY_NAME", ""),
        "os_id": system.get("ID", ""),
        "os_version": system.get("VERSION_ID", ""),
        "kernel": kernel.release,
        "architecture": kernel.machine,
        "disk_encryption": _SAID[root_is_encrypted()],
    }
