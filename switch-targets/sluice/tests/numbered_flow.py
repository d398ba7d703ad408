"""Numbered frames through a switch, some thousand a second, each looked for at the other side."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType

from gateway_wires import inside
from sluice_rig import PEERS

BURST, PAUSE = 4, 0.001  # frames, seconds: up to four thousand a second
_SETTLED = 1.0  # seconds until a frame that is still missing is lost
_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_SO_RCVBUFFORCE = 33


class NumberedFlow:
    """Sends `frame(1)`, `frame(2)` … into one wire while it is open; `numbers` are what `number` made of what came out
    of the other. `number` gives `None` for what is not the flow's."""

    def __init__(
        self, source: str, sink: str, frame: Callable[[int], bytes], number: Callable[[bytes], int | None]
    ) -> None:
        self._frame, self._number = frame, number
        self._source, self._sink = open_wire(source), open_wire(sink)
        self._sink.settimeout(_SETTLED)
        self._done = threading.Event()
        self._threads = [threading.Thread(target=it) for it in (self._send, self._receive)]
        self.sent = 0
        self.numbers: list[int] = []

    def __enter__(self) -> NumberedFlow:
        for it in self._threads:
            it.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        for it in self._threads:
            it.join()
        self._source.close()
        self._sink.close()

    @property
    def is_whole(self) -> bool:
        """Whether no packet is lost, none is doubled, none overtook another."""
        return self.numbers == list(range(1, self.sent + 1))

    def fault(self) -> str:
        missing = sorted(set(range(1, self.sent + 1)) - set(self.numbers))
        return f"{self.sent} sent, {len(self.numbers)} received, {len(missing)} lost: {missing[:10]}"

    def _send(self) -> None:
        while not self._done.is_set():
            for _ in range(BURST):
                self._source.send(self._frame(self.sent + 1))
                self.sent += 1
            time.sleep(PAUSE)

    def _receive(self) -> None:
        while True:
            try:
                frame = self._sink.recv(65535)
            except TimeoutError:
                if self._done.is_set():
                    return
                continue
            if (number := self._number(frame)) is not None:
                self.numbers.append(number)


def open_wire(interface: str) -> socket.socket:
    wire = inside(PEERS, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)))
    wire.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    wire.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
    wire.bind((interface, _ETH_P_ALL))
    return wire
