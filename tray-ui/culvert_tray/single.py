"""One tray for each person: a second start tells the first one what it was started for, and ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PyQt6.QtCore import QObject, QStandardPaths, pyqtSignal
from PyQt6.QtNetwork import QLocalServer, QLocalSocket

from culvert_tray.signals import connect

SHOW = "show"
"""Show the window."""

# Our tunables.
_PATIENCE = 1_000  # milliseconds; the first one runs on this computer
_LONGEST = 4096  # bytes


def _address() -> str:
    """In a directory that is this person's alone, and of this session."""
    return str(
        Path(QStandardPaths.writableLocation(QStandardPaths.StandardLocation.RuntimeLocation))
        / "culvert-tray"
    )


def tell_first(word: str) -> bool:
    """Whether a tray runs already; then it has been told."""
    socket = QLocalSocket()
    socket.connectToServer(_address())
    if not socket.waitForConnected(_PATIENCE):
        return False
    socket.write(f"{word}\n".encode())  # pyright: ignore[reportUnknownMemberType]
    socket.waitForBytesWritten(_PATIENCE)
    socket.disconnectFromServer()
    return True


class First(QObject):
    """Hears what later starts were started for."""

    told = pyqtSignal(str)

    def __init__(self) -> None:
        super().__init__()
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        connect(self._server.newConnection, self._connected)
        # Nobody answers there: it is what a killed one left.
        QLocalServer.removeServer(_address())
        self._server.listen(_address())

    def _connected(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            connect(socket.readyRead, partial(self._read, socket))
            connect(socket.disconnected, socket.deleteLater)

    def _read(self, socket: QLocalSocket) -> None:
        if socket.canReadLine():
            self.told.emit(socket.readLine().data().decode(errors="replace").strip())
        elif socket.bytesAvailable() > _LONGEST:
            socket.abort()
