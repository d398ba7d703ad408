"""The client's interfaces to the operating system, and a folder for each system that has them.

The entry points of daemon and command line choose the system here; every other part is given what it needs of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culvert_client.platform.interfaces import CommandLinePlatform, DaemonPlatform


# As in `sys.platform`.
SYSTEMS = frozenset({"linux"})


class UnsupportedSystemError(OSError):
    """Culvert's client has no folder for this system."""

    def __init__(self, system: str) -> None:
        super().__init__(f"culvert's client runs on Linux, and not on {system} (docs/platforms.md)")


def daemon_platform(system: str = sys.platform) -> DaemonPlatform:
    """Raises UnsupportedSystemError."""
    if system not in SYSTEMS:
        raise UnsupportedSystemError(system)
    from culvert_client.platform.linux.daemon import PLATFORM

    return PLATFORM


def command_line_platform(system: str = sys.platform) -> CommandLinePlatform:
    """Loads nothing that only the daemon needs. Raises UnsupportedSystemError."""
    if system not in SYSTEMS:
        raise UnsupportedSystemError(system)
    from culvert_client.platform.linux.command_line import PLATFORM

    return PLATFORM
