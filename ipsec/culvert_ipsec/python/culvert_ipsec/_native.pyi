"""Packets without Python: src/python.rs."""

from collections.abc import Sequence
from typing import TypeAlias, final

from culvert_ipsec.desired import TunnelState

_Flow: TypeAlias = tuple[int, int, float | None]
"""Packets, bytes, seconds of the monotonic clock."""

@final
class Datapath:
    """A TUN device, a UDP socket, and the thread between them. Raises OSError, also after `close`."""

    def __new__(cls, tun_name: str, udp_port: int) -> Datapath: ...
    @property
    def udp_port(self) -> int: ...
    def apply(self, tunnels: Sequence[TunnelState]) -> None:
        """Raises ValueError for a state that cannot be; the former one stays."""

    def traffic(self) -> list[tuple[str, _Flow, _Flow, dict[str, int]]]:
        """Of each tunnel: inbound, outbound, drops by cause."""

    def totals(self) -> tuple[dict[str, int], int, int, int]:
        """Drops by cause, keepalives in and out, non-ESP."""

    def notices_fd(self) -> int: ...
    def take_notices(self) -> list[tuple[str, int, bool]]:
        """Tunnel, SPI, whether inbound."""

    def close(self) -> None: ...

@final
class Sealer:
    """One outbound SA (AES-GCM-256, ESN) without a datapath; its first packet has the number `after` + 1."""

    def __new__(cls, spi: int, key: bytes, *, after: int = 0) -> Sealer: ...
    def seal(self, inner: bytes) -> bytes: ...

@final
class Opener:
    """One inbound SA without a datapath; numbers up to `after` count as received."""

    def __new__(cls, spi: int, key: bytes, *, replay_window: int = 1024, after: int = 0) -> Opener: ...
    def open(self, packet: bytes) -> bytes:
        """The inner packet. Raises ValueError with the cause."""
