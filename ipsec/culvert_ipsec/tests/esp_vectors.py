"""The shared ESP vectors: `python -m ipsec.culvert_ipsec.tests.esp_vectors` writes tests/vectors/esp.json.

```
 published_vectors.py ──► cipher, hmac, open ─┐
 reference_esp.py ──────► seal, open ─────────┴─► tests/vectors/esp.json ──► cargo test -p esp
```
"""

import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

from . import published_vectors
from .reference_esp import SUITES, Sa

FILE = Path(__file__).parents[3] / "tests" / "vectors" / "esp.json"

SPI = 0x1000_0001
PING = bytes.fromhex("4500001c000100004001cb2c0a6300020a14000a0800f7fe00010000")
PING6 = bytes.fromhex(
    "6000000000083a40fd000000000000000000000000000002fd00000000000000000000000000000a80007f9600010000"
)
KINDS = [(suite, esn) for suite in SUITES for esn in (True, False)]


def sa(suite: str = "aes-gcm-256", esn: bool = True) -> Sa:
    return Sa(suite, SPI, bytes(range(SUITES[suite].material)), esn)


def _open(
    kind: Sa, name: str, packet: bytes, result: str, inner: bytes = b"", after: int = 0
) -> dict[str, Any]:
    return {
        "name": name, "suite": kind.suite, "esn": kind.esn, "key": kind.key.hex(), "spi": kind.spi,
        "after": after, "packet": packet.hex(), "result": result, "inner": inner.hex(),
    }  # fmt: skip


def _opens(kind: Sa) -> list[dict[str, Any]]:
    def case(name: str, packet: bytes, result: str, inner: bytes = b"") -> dict[str, Any]:
        return _open(kind, name, packet, result, inner)

    shape = SUITES[kind.suite]
    first = kind.seal(PING, 1)
    shortest = shape.iv + 8 + shape.block + shape.icv
    whole = bytes(shape.block - 2)
    return [
        case("ipv4", first, "ok", PING),
        case("ipv6", kind.seal(PING6, 1, next_header=41), "ok", PING6),
        case("an IV that is not the sequence number", kind.seal(PING, 1, iv=b"\xad" * shape.iv), "ok", PING),
        case("traffic flow padding behind the inner packet", kind.seal(PING + bytes(100), 1), "ok", PING),
        case("the longest padding", kind.seal(PING, 1, padding=_longest(shape.block)), "ok", PING),
        case("another SPI", (SPI + 1).to_bytes(4) + first[4:], "wrong_spi"),
        case("sequence number 0", kind.seal(PING, 0), "replay"),
        case("the ICV's last bit", first[:-1] + bytes([first[-1] ^ 1]), "icv"),
        case("dummy", kind.seal(bytes(26), 1, next_header=59), "dummy"),
        case("dummy without a payload", kind.seal(b"", 1, next_header=59), "dummy"),
        case("padding of zeros", kind.seal(PING, 1, padding=bytes(-30 % 16)), "malformed"),
        case("next header IPv6 with IPv4 inside", kind.seal(PING, 1, next_header=41), "malformed"),
        case("next header IPv4 with IPv6 inside", kind.seal(PING6, 1, next_header=4), "malformed"),
        case("next header TCP", kind.seal(PING, 1, next_header=6), "malformed"),
        case(
            "inner packet shorter than it says",
            kind.seal(bytes([0x45, 0, 0, 60]) + PING[4:], 1),
            "malformed",
        ),
        case("inner header of 16 bytes", kind.seal(b"\x44" + PING[1:], 1), "malformed"),
        case("nothing inside", kind.seal(b"", 1), "malformed"),
        case("zeros inside", kind.seal(whole, 1, padding=b""), "malformed"),
        case("one block short", first[: shortest - 1], "malformed"),
        case("not whole blocks", first[:-1], "malformed"),
        case("a header alone", first[:8], "malformed"),
        case("empty", b"", "malformed"),
    ]


def _longest(block: int) -> bytes:
    return bytes(range(1, 256 - (len(PING) + 2 + 255) % block))


def _extended(kind: Sa) -> list[dict[str, Any]]:
    """Vectors that need 64-bit sequence numbers (RFC 4303 appendix A)."""
    last, turned = 2**32 - 1, 2**32
    return [
        _open(kind, "the last before the high half turns", kind.seal(PING, last), "ok", PING, last - 1),
        _open(kind, "the first after the high half turned", kind.seal(PING, turned), "ok", PING, last),
        _open(kind, "a jump over the turn", kind.seal(PING, turned + 5000), "ok", PING, turned - 5000),
        _open(kind, "late, from before the turn", kind.seal(PING, last - 6), "replay", after=turned + 3),
        _open(kind, "a high half that the receiver cannot know", kind.seal(PING, 2**33 + 1), "icv"),
        _open(kind, "behind the window: the next high half", kind.seal(PING, 3976), "icv", after=5000),
    ]


def _short(kind: Sa) -> list[dict[str, Any]]:
    """32-bit sequence numbers end."""
    return [
        _open(kind, "the last number", kind.seal(PING, 2**32 - 1), "ok", PING, after=2**32 - 2),
        _open(kind, "behind the window", kind.seal(PING, 3976), "replay", after=5000),
    ]


def _padding_longer_than_the_packet() -> bytes:
    kind = sa()
    sealed = AESGCM(kind.key[:32]).encrypt(
        kind.key[32:] + (1).to_bytes(8), bytes([1, 2, 200, 4]), SPI.to_bytes(4) + (1).to_bytes(8)
    )
    return kind.seal(b"", 1)[:16] + sealed


def _published() -> list[dict[str, Any]]:
    return [
        _open(
            Sa(it["suite"], it["spi"], bytes.fromhex(it["key"]), it["esn"]),
            it["name"], bytes.fromhex(it["packet"]), "ok", bytes.fromhex(it["plain"]),
        )
        for it in published_vectors.tunnel_packets()
    ]  # fmt: skip


def _seals(kind: Sa) -> list[dict[str, Any]]:
    numbers = (1, 2, 2**32 - 1, 2**32, 2**64 - 1) if kind.esn else (1, 2**32 - 1)
    return [
        {
            "suite": kind.suite, "esn": kind.esn, "key": kind.key.hex(), "spi": SPI, "sequence": number,
            "inner": inner.hex(), "packet": kind.seal(inner, number, next_header=next_header).hex(),
        }
        for number in numbers
        for inner, next_header in [(PING, 4), (PING6, 41)]
    ]  # fmt: skip


def _key_wrap(suite: str) -> dict[str, str]:
    kek, key = bytes(range(100, 132)), sa(suite).key
    wrapped = aes_key_wrap_with_padding(kek, key)
    return {"suite": suite, "kek": kek.hex(), "key": key.hex(), "wrapped": wrapped.hex()}


def vectors() -> dict[str, Any]:
    kinds = [sa(suite, esn) for suite, esn in KINDS]
    opens = [case for kind in kinds for case in _opens(kind) + (_extended if kind.esn else _short)(kind)]
    too_long = _open(sa(), "padding longer than the packet", _padding_longer_than_the_packet(), "malformed")
    return {
        "key_wrap": [_key_wrap(suite) for suite in SUITES],
        # CBC's IVs are random: no two of its packets are the same bytes.
        "seal": [case for kind in kinds if "cbc" not in kind.suite for case in _seals(kind)],
        "open": [*opens, too_long, *_published()],
        "cipher": published_vectors.packets(),
        "hmac": published_vectors.hmacs(),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
