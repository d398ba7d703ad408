"""Why a datapath could not be opened, in words, with what to do."""

from __future__ import annotations

import errno


def why_not_opened(error: OSError, tun_name: str, udp_port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"UDP port {udp_port} is taken by another program, perhaps another IPsec daemon. Stop it first."
        case errno.EBUSY:
            return f"The device {tun_name} belongs to another program. Stop it, or choose another name."
        case errno.EPERM | errno.EACCES:
            return "Opening the tunnel device needs root or CAP_NET_ADMIN."
        case errno.ENOENT | errno.ENODEV:
            return "The kernel has no /dev/net/tun. Load the module: modprobe tun."
        case _:
            return f"The tunnel device {tun_name} could not be opened: {error}."
