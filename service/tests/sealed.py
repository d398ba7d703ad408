"""ESP as the agent API hands it out: an implementation apart from the gateway's."""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from culvert_proto import agent_pb2

# RFC 4303 section 2.6: what is inside, by its IP version.
_NEXT_HEADERS = {4: 4, 6: 41}


def esp(sa: agent_pb2.Sa, number: int, inner: bytes) -> bytes:
    """RFC 4303, 4106 with ESN."""
    pad = bytes(range(1, 1 + -(len(inner) + 2) % 4))
    plain = inner + pad + bytes([len(pad), _NEXT_HEADERS[inner[0] >> 4]])
    sequence = number.to_bytes(8)
    sealed = AESGCM(sa.key[:32]).encrypt(sa.key[32:] + sequence, plain, sa.spi.to_bytes(4) + sequence)
    return sa.spi.to_bytes(4) + sequence[4:] + sequence + sealed


def opened(sa: agent_pb2.Sa, packet: bytes) -> bytes:
    """The inner packet. Raises InvalidTag."""
    sequence = packet[8:16]
    plain = AESGCM(sa.key[:32]).decrypt(sa.key[32:] + sequence, packet[16:], packet[:4] + sequence)
    return plain[: -2 - plain[-2]]
