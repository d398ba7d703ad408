"""The icon of a view, one of ten. They differ in shape and in colour, so that each alone is sufficient.

off         grey arch, struck through     the daemon does not answer
paused      slate tile, two bars          the person has paused Culvert
denied      brick shield, bar             a name has just been denied
ready       blue open arch                enrolled, nothing up
connecting  violet arch, three dots       a tunnel is being opened
connected   green full arch, check        at least one tunnel carries packets
needs you   orange disc, "!"              enrol, or type a code (now, or within half an hour)
offline     red diamond, cross            there is no connection with the controller
silent      yellow triangle, one dash     tunnels are up, but none receives packets of a useful length
blocked     magenta octagon, padlock      a fault of this computer prevents all tunnels
"""

from __future__ import annotations

from enum import Enum
from importlib import resources
from pathlib import Path

from culvert_proto import local_pb2

from culvert_tray.view import Down, View, code_asked_for, find_denial, is_redacted, is_up


class IconKind(Enum):
    OFF = "off"
    READY = "ready"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    NEEDS_YOU = "needs-you"
    OFFLINE = "offline"
    SILENT = "silent"
    BLOCKED = "blocked"
    PAUSED = "paused"
    DENIED = "denied"

    @property
    def path(self) -> Path:
        """The SVG file, visible on light and dark panels."""
        return Path(str(resources.files("culvert_tray") / "icons" / f"{self.value}.svg"))


def icon_kind(view: View, now: float) -> IconKind:
    """`now` in Unix seconds."""
    if isinstance(view, Down) or view.state == local_pb2.STATE_UNSPECIFIED:
        return IconKind.OFF
    if view.state == local_pb2.STATE_PAUSED:
        return IconKind.PAUSED
    if view.state == local_pb2.STATE_OFFLINE:
        return IconKind.OFFLINE
    if view.state == local_pb2.STATE_BLOCKED:
        return IconKind.BLOCKED
    if view.state == local_pb2.STATE_CONNECTING:
        return IconKind.CONNECTING
    if view.state in (local_pb2.STATE_NOT_ENROLLED, local_pb2.STATE_NEEDS_CODE) or code_asked_for(view, now):
        return IconKind.NEEDS_YOU
    if view.awaiting_prefixes:
        return IconKind.NEEDS_YOU
    if view.state in (local_pb2.STATE_GATEWAY_SILENT, local_pb2.STATE_PATH_NARROW):
        return IconKind.SILENT
    if find_denial(view, now) is not None:
        return IconKind.DENIED
    # Judge by the tunnels; by the daemon's state only if this user may not see the tunnels.
    connected = any(is_up(tunnel) for tunnel in view.tunnels) or (
        is_redacted(view) and view.state == local_pb2.STATE_CONNECTED
    )
    return IconKind.CONNECTED if connected else IconKind.READY
