"""TLS and HTTP/2 without Python: src/python.rs."""

from pathlib import Path
from typing import Final, final

REQUEST_MAX: Final[int]
"""Bytes of a device's longest request."""
HEAD_MAX: Final[int]
"""Bytes of an HTTP request's request line and headers together."""
BODY_MAX: Final[int]
"""Bytes of an HTTP request's body that reach Python at most; the application's own limits are lower."""

@final
class Server:
    """Listens, in a thread of its own, from here to `close`. Raises OSError; ValueError for what cannot be shown."""

    def __new__(
        cls,
        host: str,
        port: int,
        handshake_seconds: float,
        files: int,
        calls_per_second: float,
        too_large: tuple[int, str, bytes],
        too_often: tuple[int, str, bytes],
        to_devices: tuple[bytes, bytes, bytes],
        to_gateways: tuple[bytes, bytes, bytes] | None,
        directory: Path,
        balancers: list[str],
    ) -> Server:
        """PEM, to devices and to gateways: the certificate chain shown, its key, and the CAs of the peers."""

    @property
    def port(self) -> int: ...
    def fileno(self) -> int:
        """Readable while there is something to take."""

    def take(self) -> list[tuple[int, Call | bool | Limited | Condition | Gateway | None]]:
        """A call's number, and what there is of it: itself; that its next message may come; that nobody waits for it.

        None: all connections of devices have ended. `Limited`, `Condition` and `Gateway` belong to no call.
        """

    def show(
        self, to_devices: tuple[bytes, bytes, bytes], to_gateways: tuple[bytes, bytes, bytes] | None
    ) -> None:
        """In handshakes from now on. Raises ValueError: what was shown before stays."""

    def register(self, gateways: dict[str, int]) -> None: ...
    def deny(self, fingerprints: list[bytes]) -> None: ...
    def end(self) -> None:
        """Accepts no new connection; devices' connections end with their calls, and gateways' with `close`."""

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

@final
class Limited:
    """Calls of one device that were refused before Python, because they came too often."""

    @property
    def fingerprint(self) -> bytes: ...
    @property
    def address(self) -> str: ...
    @property
    def count(self) -> int: ...

@final
class Gateway:
    """A gateway's connection has begun, and can be taken at this Unix socket; or it has ended."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def connected(self) -> bool: ...

@final
class Condition:
    """An event that deserves a line in the log, and how often it occurred since the last line."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def ended(self) -> bool: ...

@final
class RestServer:
    """Listens, in a thread of its own, from here to `close`. Raises OSError; ValueError for what cannot be used."""

    def __new__(
        cls,
        host: str,
        port: int,
        handshake_seconds: float,
        request_seconds: float,
        files: int,
        strangers_calls_per_second: float,
        trusted_proxies: list[str],
        balancers: list[str],
        problems: tuple[bytes, bytes, bytes, bytes],
        chain: bytes,
        key: bytes,
    ) -> RestServer: ...
    @property
    def port(self) -> int: ...
    def fileno(self) -> int:
        """Readable while there is something to take."""

    def take(self) -> list[tuple[int, str] | Condition | None]:
        """The descriptor of a request's socket, which the caller must close, and the request's source address.

        None: the server and all its connections have ended.
        """

    def show(
        self,
        chain: bytes,
        key: bytes,
        public: tuple[bytes, bytes] | None = None,
        challenge: tuple[bytes, bytes] | None = None,
    ) -> None: ...
    def end(self) -> None: ...
    def close(self) -> None: ...
