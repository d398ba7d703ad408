"""A port of loopback for a program that starts soon."""

import secrets
import socket

# Below the ports that the kernel gives to connections: a port that is only probed is still free a moment later.
_LOWEST, _EPHEMERAL = 10_000, 32_768


def free_port() -> int:
    """A random port, free for UDP and TCP."""
    while True:
        port = _LOWEST + secrets.randbelow(_EPHEMERAL - _LOWEST)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            try:
                udp.bind(("127.0.0.1", port))
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
