"""A port of loopback for a program that starts soon."""

import socket
from collections.abc import Iterator
from functools import cache

# Below the ports that the kernel gives to connections: a port that is only probed is still free a moment later.
# Above the last port that browsers refuse (10080, https://fetch.spec.whatwg.org/#port-blocking).
_LOWEST, _EPHEMERAL = 10_240, 32_768
_BLOCK = 512


def free_port() -> int:
    """A port, free for UDP and TCP, that no other process of this namespace is given and this process not again soon.

    Raises `OSError` if each of its block's ports is taken, or each block.
    """
    block = _own_block()
    for _ in range(_BLOCK):
        port = next(block)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            try:
                udp.bind(("127.0.0.1", port))
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    message = "each port of this process's block is taken: end the programs that it started"
    raise OSError(message)


@cache
def _own_block() -> Iterator[int]:
    for first in range(_LOWEST, _EPHEMERAL - _BLOCK, _BLOCK):
        # The name of an abstract socket has one owner, and is free when that process ends.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0culvert-ports-{first}")
        except OSError:
            claim.close()
            continue
        return _around(first, claim)
    message = "each block of ports has an owner: end the test processes that still run"
    raise OSError(message)


def _around(first: int, claim: socket.socket) -> Iterator[int]:
    with claim:
        while True:
            yield from range(first, first + _BLOCK)
