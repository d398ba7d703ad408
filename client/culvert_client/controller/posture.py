"""What this computer says of itself when it begins to watch, for the administrator's list of devices."""

from __future__ import annotations

import os
import platform

# Longer values than the contract's are refused (proto/culvert/agent/v1).
_VALUE_MAX = 256


def posture() -> dict[str, str]:
    """What is not known is left out."""
    kernel = os.uname()
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        system = kernel.sysname
    found = {"os": system, "kernel": kernel.release, "architecture": kernel.machine}
    return {name: value[:_VALUE_MAX] for name, value in found.items() if value and value.isprintable()}
