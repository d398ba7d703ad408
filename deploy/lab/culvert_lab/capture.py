"""Captures every packet on every Ethernet interface of one namespace: `python -m culvert_lab.capture FILE`, until SIGTERM.

A process of its own, so that it takes no time from the lab.

    all interfaces ─► AF_PACKET ─► super-frames split ─► demo.pcapng ─► (after the end) Classifier ─► Seen
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from culvert_lab import pcapng, segments
from culvert_lab.classify import LAB, Allowed, Classifier, Kind
from culvert_lab.errors import StepError
from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.topology import Site

ETH_P_ALL, ARPHRD_ETHER = 0x0003, 1
SOL_PACKET, PACKET_STATISTICS, PACKET_VNET_HDR = 263, 6, 15
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 128 << 20
LARGEST_FRAME = 65_600
SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Seen:
    """A capture's contents. A frame that crosses the router is on two interfaces; `esp` counts the gateway's alone."""

    frames: int
    lost: int
    kinds: dict[Kind, int]
    esp: int
    esp_bytes: int
    spis: dict[int, int]
    cleartext_samples: tuple[str, ...]

    @property
    def cleartext(self) -> int:
        return self.kinds.get(Kind.CLEARTEXT, 0)


def judge(path: Path, *, lost: int = 0, wire: str = "gateway", allowed: Allowed = LAB) -> Seen:
    """Classify a whole capture file. `wire` is the interface on which ESP is counted."""
    classifier = Classifier(allowed)
    kinds: Counter[Kind] = Counter()
    spis: Counter[int] = Counter()
    samples: dict[str, None] = {}
    esp_bytes = 0
    with path.open("rb") as source:
        for packet in pcapng.read(source):
            verdict = classifier.classify(packet.interface, packet.frame)
            kinds[verdict.kind] += 1
            if verdict.kind is Kind.CLEARTEXT and len(samples) < SAMPLES:
                samples[f"{packet.interface}: {verdict.why}"] = None
            elif verdict.kind is Kind.ESP and packet.interface == wire:
                spis[verdict.spi] += 1
                esp_bytes += len(packet.frame)
    return Seen(kinds.total(), lost, dict(kinds), spis.total(), esp_bytes, dict(spis), tuple(samples))


class Capture:
    """A capture that runs."""

    def __init__(self, program: Running, path: Path) -> None:
        self._program = program
        self.path = path

    async def stop(self, allowed: Allowed = LAB) -> Seen:
        """End it and judge what it held. Raises StepError when it did not end as it should."""
        code = await self._program.stop()
        if code != 0:
            raise StepError(f"The capture ended with status {code}: {self._program.text()[-500:]}")
        counted = json.loads(self._program.text().splitlines()[-1])
        return judge(self.path, lost=counted["lost"], allowed=allowed)


async def start(lab: Lab, path: Path, *, name: str = "capture", site: Site = Site.INTERNET) -> Capture:
    """Start capturing into `path`; returns when the first frame can no longer be missed. Raises ProgramError."""
    program = await lab.start(name, site, [sys.executable, "-m", "culvert_lab.capture", str(path)])
    await program.ready("^ready")
    return Capture(program, path)


def record(path: Path) -> None:
    """Capture until SIGTERM, then print the kernel's own count of frames and of those lost."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopping.append(number))
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as source,
        path.open("wb") as out,
    ):
        source.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        source.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        source.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        source.settimeout(0.05)
        writer = pcapng.Writer(out)
        print("ready", flush=True)
        buffer, control = bytearray(LARGEST_FRAME), socket.CMSG_SPACE(16)
        view = memoryview(buffer)
        while True:
            try:
                size, ancillary, _, address = source.recvmsg_into([view], control)
            except TimeoutError:
                if stopping:
                    break
                continue
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
            at = seconds * 1_000_000_000 + nanoseconds
            if address[3] == ARPHRD_ETHER:
                for frame in segments.packets(bytes(view[:size])):
                    writer.write(pcapng.Packet(address[0], at, frame))
        frames, lost = struct.unpack("=II", source.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    print(json.dumps({"frames": frames, "lost": lost}), flush=True)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
