"""An end of a UDP flow with sequence numbers. It is a program of its own, so that no other work delays it:

  flow.py OWN PEER PACKETS_A_SECOND SECONDS

It prints `ready` when it can receive, and begins when a line comes in. The last line is a JSON object: packets `sent`,
and of the other end's packets `received` (each counted once) and `repeated`.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time

PORT = 5005
SIZE = 1000
# The packets still under way when the last packet has been sent.
DRAIN_SECONDS = 2.0
TICK_SECONDS = 0.001
BUFFER = 16 << 20


def run(own: str, peer: str, rate: float, seconds: float) -> dict[str, int]:
    """Sends evenly and receives until DRAIN_SECONDS after the end. Raises OSError."""
    seen = bytearray(int(rate * seconds * 2) + 1)
    sent = repeated = 0
    padding = bytes(SIZE - 8)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        for option in (
            socket.SO_RCVBUF,
            socket.SO_SNDBUF,
            33,
            32,
        ):  # the last two: SO_RCVBUFFORCE, SO_SNDBUFFORCE
            link.setsockopt(socket.SOL_SOCKET, option, BUFFER)
        link.bind((own, PORT))
        link.connect((peer, PORT))
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds + DRAIN_SECONDS:
            due = int(min(elapsed, seconds) * rate)
            while sent < due:
                link.send(struct.pack("!Q", sent) + padding)
                sent += 1
            try:
                while True:
                    number = struct.unpack_from("!Q", link.recv(2048, socket.MSG_DONTWAIT))[0]
                    repeated += seen[number]
                    seen[number] = 1
            except BlockingIOError:
                time.sleep(TICK_SECONDS)
    return {"sent": sent, "received": sum(seen), "repeated": repeated}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))), flush=True)
