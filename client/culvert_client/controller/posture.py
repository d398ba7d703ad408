"""What this computer says of itself when it begins to watch, for the administrator's list of devices."""

from __future__ import annotations

import platform

# Longer values than the contract's are refused (proto/culvert/agent/v1).
_VALUE_MAX = 256


def posture() -> dict[str, str]:
    """What is not known is left out."""
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        system = platform.system()
    found = {"os": system, "kernel": platform.release(), "architecture": platform.machine()}
    return {name: value[:_VALUE_MAX] for name, value in found.items() if value and value.isprintable()}
