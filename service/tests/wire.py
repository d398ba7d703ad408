"""Two wires to a gateway, and what is sent along them: Ethernet, IPv4 and UDP by hand."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from culvert_service.tunnels.roaming import Peer


async def ip(*arguments: str) -> None:
    await _run("ip", *arguments)


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0, command


@dataclass
class Wires:
    """`names`: the gateway's two ports, WAN and LAN; the sockets are on their `far` ends."""

    names: tuple[str, str]
    far: tuple[str, str]
    wan: socket.socket
    lan: socket.socket

    async def send(self, end: socket.socket, frame: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(end, frame)


@asynccontextmanager
async def laid() -> AsyncGenerator[Wires]:
    number = os.getpid() % 10**6
    near, far = (f"cvw{number}", f"cvl{number}"), (f"cvx{number}", f"cvy{number}")
    for one, other in zip(near, far, strict=True):
        await ip("link", "add", one, "type", "veth", "peer", "name", other)
        # The gateway sends datagrams of equal length in one frame. Let the kernel split it: a far end reads single ones.
        await _run("ethtool", "-K", one, "tx-udp-segmentation", "off")
        await ip("link", "set", one, "up")
        await ip("link", "set", other, "up")
    ends: list[socket.socket] = []
    for name in far:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        end.bind((name, 0))
        end.setblocking(False)
        ends.append(end)
    yield Wires(near, far, *ends)
    for end in ends:
        end.close()
    for name in near:
        # The other end may have been deleted with a namespace.
        await (await asyncio.create_subprocess_exec("ip", "link", "delete", name, stderr=DEVNULL)).wait()


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def udp(src: Peer, dst: Peer, payload: bytes) -> bytes:
    """An IPv4 packet; the UDP checksum is left out (RFC 768)."""
    body = struct.pack("!HHHH", src.port, dst.port, 8 + len(payload), 0) + payload
    addresses = socket.inet_aton(src.address) + socket.inet_aton(dst.address)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 17, 0) + addresses
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body


def frame(mac: str, packet: bytes) -> bytes:
    ethertype = {4: "0800", 6: "86dd"}[packet[0] >> 4]
    return bytes.fromhex(mac.replace(":", "") + "02000000ffff" + ethertype) + packet


async def next_udp(end: socket.socket) -> tuple[Peer, bytes]:
    """The destination and the payload of the next UDP packet."""
    async with asyncio.timeout(20):
        while True:
            packet = (await asyncio.get_running_loop().sock_recv(end, 4096))[14:]
            if packet[9] == 17:
                port = int.from_bytes(packet[22:24])
                return Peer(socket.inet_ntoa(packet[16:20]), port), packet[28:]
