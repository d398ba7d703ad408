"""The Linux implementation for the command line."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path

from culvert_client.platform.interfaces import CommandLinePlatform
from culvert_client.platform.linux.paths import PATHS


class _View:
    """Conforms to SystemView."""

    def interfaces(self) -> Iterable[tuple[str, IPv4Interface | IPv6Interface]]:
        from culvert_ipsec.rtnetlink import RouteSocket

        with RouteSocket() as netlink:
            return [(socket.if_indextoname(index), address) for index, address in netlink.addresses()]

    def report_files(self) -> Sequence[Path]:
        return (Path("/etc/resolv.conf"), Path("/etc/os-release"))


PLATFORM = CommandLinePlatform(paths=PATHS, view=_View())
