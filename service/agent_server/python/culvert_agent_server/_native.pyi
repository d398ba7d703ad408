"""TLS and HTTP/2 without Python: src/python.rs."""

from typing import final

@final
class Server:
    """Listens, in a thread of its own, from here to `close`. Raises OSError; ValueError for what cannot be shown."""

    def __new__(
        cls, host: str, port: int, handshake_seconds: float, chain: bytes, key: bytes, devices: bytes
    ) -> Server: ...
    @property
    def port(self) -> int: ...
    def fileno(self) -> int:
        """Readable while there is something to take."""

    def take(self) -> list[tuple[int, Call | bool | None]]:
        """A call's number, and what there is of it: itself; that its next message may come; that nobody waits for it.

        None: the server has ended, and all connections with it.
        """

    def show(self, chain: bytes, key: bytes, devices: bytes) -> None:
        """In handshakes from now on. Raises ValueError: what was shown before stays."""

    def end(self) -> None:
        """Nobody new comes; connections end with their calls."""

    def close(self) -> None:
        """Waits for the thread; connections that are left are cut."""

@final
class Call:
    @property
    def path(self) -> str: ...
    @property
    def message(self) -> bytes: ...
    @property
    def address(self) -> str: ...
    @property
    def fingerprint(self) -> bytes: ...
    def send(self, message: bytes) -> None: ...
    def end(self, code: int, said: str, details: bytes) -> None:
        """`details`: a google.rpc.Status, or nothing."""
