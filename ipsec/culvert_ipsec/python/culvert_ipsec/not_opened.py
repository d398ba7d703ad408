"""Error texts for a datapath that could not be opened: the cause and a remedy."""

from __future__ import annotations

import errno
import socket

from culvert_ipsec.datapath import NotOpenedError, Obstacle


def not_opened(error: OSError, tun_name: str, udp_port: int) -> NotOpenedError:
    match error.errno:
        case errno.EADDRINUSE:
            return NotOpenedError(
                f"UDP port {udp_port} is taken by another program, perhaps another IPsec daemon. Stop it first.",
                Obstacle.PORT_TAKEN,
            )
        case errno.EBUSY:
            return _name_taken(tun_name)
        case errno.EINVAL if tun_name in (name for _, name in socket.if_nameindex()):
            return _name_taken(tun_name)
        case errno.EPERM | errno.EACCES:
            return NotOpenedError(
                "Opening the tunnel device needs root or CAP_NET_ADMIN.", Obstacle.FORBIDDEN
            )
        case errno.ENOENT | errno.ENODEV | errno.ENXIO:
            return NotOpenedError(
                "The kernel has no /dev/net/tun. Load the module: modprobe tun.", Obstacle.NO_TUN
            )
        case _:
            return NotOpenedError(
                f"The tunnel device {tun_name} could not be opened: {error}.", Obstacle.OTHER
            )


def _name_taken(tun_name: str) -> NotOpenedError:
    return NotOpenedError(
        f"The device {tun_name} belongs to another program. Stop it, or choose another name.",
        Obstacle.NAME_TAKEN,
    )
