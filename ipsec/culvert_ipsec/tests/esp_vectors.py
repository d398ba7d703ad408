"""The shared ESP vectors, made with `cryptography`: `python esp_vectors.py` writes tests/vectors/esp.json.

Published ones (draft-mcgrew-gcm-test-01, AES-256 with ESN) stand beside hand-made ones. The drafts' packets carry
next header 1, so a tunnel-mode receiver authenticates them and then finds them malformed.
"""

import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

FILE = Path(__file__).parents[3] / "tests" / "vectors" / "esp.json"

SPI = 0x1000_0001
KEY = bytes(range(36))
PING = bytes.fromhex("4500001c000100004001cb2c0a6300020a14000a0800f7fe00010000")
PING6 = bytes.fromhex(
    "6000000000083a40fd000000000000000000000000000002fd00000000000000000000000000000a80007f9600010000"
)

MCGREW_KEY = "abbccddef00112233445566778899aababbccddef00112233445566778899aab73616c74"
MCGREW = [
    (
        MCGREW_KEY,
        0x17405E67,
        0x156F3126DD0DB99B,
        "17405e67dd0db99b616e640169766563f2d69ecdbd5a0d5b8d5ef38bad4da58d1f278fde98ef67549d524a3018d9a57f"
        "f4d3a31ce673119e451626c2415771e3b7eebca614c89b35",
    ),
    (
        MCGREW_KEY,
        0x17405E67,
        0x156F3126DD0DB99B,
        "17405e67dd0db99b616e640169766563d4b7ed86a1777f2ea13d6973d324c69e7b43f826fb56831226508bebd2dceb18"
        "d0a6df10e5487df074113e14c641024e3e6773d91a62ee429b043a10e3efe6b012a49363412364f8c0cac587f249e56b"
        "11e24f30e44ccc76",
    ),
    (
        "6c6567616c697a656d6172696a75616e61616e64646f69746265666f726569617475726e",
        0x796B6963,
        0xFFFFFFFFFFFFFFFF,
        "796b6963ffffffff333021696765746df97ab2aa356d8edce17644ac8c78e25dd24dedbb29ebf1b64a274b39b49c3a86"
        "4cd3d78ca4ae68a32b42458fb57dbe821dcc63b9d0937ba2945f669368661a329fb4c053",
    ),
]


def seal(
    inner: bytes, sequence: int, *, next_header: int = 4, padding: bytes | None = None, iv: int | None = None
) -> bytes:
    """RFC 4303 with RFC 4106 and ESN, straight from the text; the arguments after `sequence` break its rules."""
    if padding is None:
        padding = bytes(range(1, 1 + -(len(inner) + 2) % 4))
    plain = inner + padding + bytes([len(padding), next_header])
    iv_bytes = (sequence if iv is None else iv).to_bytes(8)
    aad = SPI.to_bytes(4) + sequence.to_bytes(8)
    sealed = AESGCM(KEY[:32]).encrypt(KEY[32:] + iv_bytes, plain, aad)
    return SPI.to_bytes(4) + sequence.to_bytes(8)[4:] + iv_bytes + sealed


def _open(name: str, packet: bytes, result: str, inner: bytes = b"", after: int = 0) -> dict[str, Any]:
    return {
        "name": name, "key": KEY.hex(), "spi": SPI, "after": after,
        "packet": packet.hex(), "result": result, "inner": inner.hex(),
    }  # fmt: skip


def _opens() -> list[dict[str, Any]]:
    first = seal(PING, 1)
    wrong_spi = (SPI + 1).to_bytes(4) + first[4:]
    cut = bytes([0x45, 0, 0, 60]) + PING[4:]
    return [
        _open("ipv4", first, "ok", PING),
        _open("ipv6", seal(PING6, 1, next_header=41), "ok", PING6),
        _open("an IV that is not the sequence number", seal(PING, 1, iv=0xDEADBEEF), "ok", PING),
        _open("traffic flow padding behind the inner packet", seal(PING + bytes(100), 1), "ok", PING),
        _open(
            "the longest padding",
            seal(PING[:-1] + b"\0", 1, padding=bytes(range(1, 255))),
            "ok",
            PING[:-1] + b"\0",
        ),
        _open("the last before the high half turns", seal(PING, 2**32 - 1), "ok", PING, after=2**32 - 2),
        _open("the first after the high half turned", seal(PING, 2**32), "ok", PING, after=2**32 - 1),
        _open("a jump over the turn", seal(PING, 2**32 + 5000), "ok", PING, after=2**32 - 5000),
        _open("late, from before the turn", seal(PING, 2**32 - 7), "replay", after=2**32 + 3),
        _open("a high half that the receiver cannot know", seal(PING, 2**33 + 1), "icv"),
        _open("sequence number 0", seal(PING, 0), "replay"),
        _open("behind the window, so taken for the next high half", seal(PING, 3976), "icv", after=5000),
        _open("another SPI", wrong_spi, "wrong_spi"),
        _open("dummy", seal(bytes(26), 1, next_header=59), "dummy"),
        _open("dummy without a payload", seal(b"", 1, next_header=59), "dummy"),
        _open("padding of zeros", seal(PING, 1, padding=b"\0\0"), "malformed"),
        _open(
            "padding longer than the packet", seal(b"", 1, padding=b"")[:16] + _short_padding(), "malformed"
        ),
        _open("next header IPv6 with IPv4 inside", seal(PING, 1, next_header=41), "malformed"),
        _open("next header IPv4 with IPv6 inside", seal(PING6, 1, next_header=4), "malformed"),
        _open("next header TCP", seal(PING, 1, next_header=6), "malformed"),
        _open("inner packet shorter than it says", seal(cut, 1), "malformed"),
        _open("inner header of 16 bytes", seal(b"\x44" + PING[1:], 1), "malformed"),
        _open("nothing inside", seal(b"", 1), "malformed"),
        _open("not aligned to 4 bytes", seal(PING, 1, padding=b"\1"), "malformed"),
        _open("too short for an ICV", first[:35], "malformed"),
        _open("empty", b"", "malformed"),
    ]


def _short_padding() -> bytes:
    plain = bytes([1, 2, 200, 4])
    return AESGCM(KEY[:32]).encrypt(KEY[32:] + (1).to_bytes(8), plain, SPI.to_bytes(4) + (1).to_bytes(8))


def vectors() -> dict[str, Any]:
    kek = bytes(range(100, 132))
    return {
        "key_wrap": [{"kek": kek.hex(), "key": KEY.hex(), "wrapped": aes_key_wrap_with_padding(kek, KEY).hex()}],
        "seal": [
            {"key": KEY.hex(), "spi": SPI, "sequence": number, "inner": inner.hex(), "packet": packet.hex()}
            for number in (1, 2, 2**32 - 1, 2**32, 2**64 - 1)
            for inner, packet in [
                (PING, seal(PING, number)),
                (PING6, seal(PING6, number, next_header=41)),
            ]
        ],
        "open": _opens()
        + [
            {
                "name": f"draft-mcgrew-gcm-test-01, {index}", "key": key, "spi": spi, "after": number - 1,
                "packet": packet, "result": "malformed", "inner": "",
            }
            for index, (key, spi, number, packet) in enumerate(MCGREW)
        ],
    }  # fmt: skip


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
