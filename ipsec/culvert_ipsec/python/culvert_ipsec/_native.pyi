"""Packets without Python: src/python.rs."""

from collections.abc import Sequence
from typing import TypeAlias, final

from culvert_ipsec.desired import TunnelState

_Flow: TypeAlias = tuple[int, int, float | None]
"""Packets, bytes, seconds of the monotonic clock."""

@final
class Datapath:
    """A TUN device, a UDP socket, and the thread between them. Raises OSError, also after `close`."""

    def __new__(
        cls, tun_name: str, udp_port: int, allowed_suites: Sequence[str] = (), *, offloads: bool = True
    ) -> Datapath: ...
    @property
    def udp_port(self) -> int: ...
    def apply(self, tunnels: Sequence[TunnelState]) -> None:
        """Raises ValueError for a state that cannot be; the former one stays."""

    def traffic(self) -> list[tuple[str, _Flow, _Flow, dict[str, int]]]:
        """Inbound, outbound and drops by cause of each tunnel."""

    def totals(self) -> tuple[dict[str, int], int, int, int]:
        """Drops by cause, keepalives in and out, non-ESP."""

    def offloads(self) -> tuple[bool, bool, bool, bool]:
        """The fields of `Offloads`, in their order."""

    def notices_fd(self) -> int: ...
    def take_notices(self) -> list[tuple[str, int, bool]]:
        """Tunnel, SPI, whether inbound."""

    def close(self) -> None: ...

class EspError(Exception):
    cause: str
    """seal: malformed, hard_limit, no_randomness; open: malformed, wrong_spi, replay, icv, dummy, hard_limit."""

@final
class Outbound:
    """An outbound SA without a datapath.

    Its first packet has the number `after` + 1; shorter inner packets look `pad_to` bytes long (RFC 4303 section 2.7).
    Raises ValueError for a key of another length, and for a legacy suite without `allow_legacy`.
    """

    def __new__(
        cls,
        spi: int,
        suite: str,
        key: bytes,
        esn: bool = True,
        allow_legacy: bool = False,
        *,
        after: int = 0,
        pad_to: int = 0,
    ) -> Outbound: ...
    def seal(self, inner: bytes) -> bytes:
        """The ESP packet around an IP packet. Raises EspError."""

    def seal_dummy(self, len: int = 0) -> bytes:
        """RFC 4303 section 2.6: random bytes that the peer drops."""

@final
class Inbound:
    """An inbound SA without a datapath; numbers up to `after` count as received. Raises ValueError as `Outbound`."""

    def __new__(
        cls,
        spi: int,
        suite: str,
        key: bytes,
        esn: bool = True,
        replay_window: int = 1024,
        allow_legacy: bool = False,
        *,
        after: int = 0,
    ) -> Inbound: ...
    def open(self, packet: bytes) -> bytes:
        """The inner packet. Raises EspError with its cause."""
