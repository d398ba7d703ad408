"""Published vectors, as whole ESP packets where the source has them.

Those of a cipher without integrity (RFC 3602, RFC 3686, SP 800-38A) get a packet around them, and the ICV from another
implementation of HMAC than the crate's.
"""

from typing import Any

from .reference_esp import SUITES, icv

# draft-mcgrew-gcm-test-01: key and salt, sequence number, its length in bits, packet, plain payload.
MCGREW = [
    (
        "aes-gcm-128", "4c80cdefbb5d10da906ac73c3613a634 2e443b68", 0x8765432100000000, 64,
        "00004321000000004956ed7e3b244cfefecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34cfa2436f"
        "14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce61bc17d768fd9732459018148f6cbe722fd04796562dfdb4",
        "45000048699a000080114db7c0a80102c0a801010a9bf15638d301000001000000000000045f736970045f756470037369700963"
        "796265726369747902646b000021000101020201",
    ),
    (
        "aes-gcm-128", "feffe9928665731c6d6a8f9467308308 cafebabe", 10, 32,
        "0000a5f80000000afacedbaddecaf888deb22cd9b07c72c16e3a65beeb8df304a5a5897d33ae530f1ba76d5d114d2a5c3de81827"
        "c10e9a4f51330d0eec416642cfbb85a5b47e48a4ec3b9ba95d918bd183b70d3aa8bc6ee4c309e9d85a41ad4a",
        "4500003e698f000080114dccc0a80102c0a801010a980035002a2343b2d0010000010000000000000373697009637962657263"
        "69747902646b00000100010001",
    ),
    (
        "aes-gcm-128", "7d773d00c144c525ac619d18c84a3f47 d9664267", 0xFFFFFFFF, 32,
        "335467aeffffffff43457e9182443bc6437f866bcb3f699fe9b0822bac961c4504bef270",
        "01020201",
    ),
    (
        "aes-gcm-256", "abbccddef00112233445566778899aababbccddef00112233445566778899aab 11223344", 2, 32,
        "4a2cbfe3000000020102030405060708ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763748a6379"
        "85771d347f0545659f14e99def842d8eb335f4eecfdbf831824b4c4915956c96",
        "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee0000000007002400020bf0000020405b40101040201020201",
    ),
    (
        "aes-gcm-256", "abbccddef00112233445566778899aababbccddef00112233445566778899aab 73616c74",
        0x156F3126DD0DB99B, 64,
        "17405e67dd0db99b616e640169766563f2d69ecdbd5a0d5b8d5ef38bad4da58d1f278fde98ef67549d524a3018d9a57ff4d3a31c"
        "e673119e451626c2415771e3b7eebca614c89b35",
        "45080028732c00004006e9f90a0106120a01038f06b88023dd6bafbecb71260250101f646d540001",
    ),
    (
        "aes-gcm-256", "6c6567616c697a656d6172696a75616e61616e64646f69746265666f72656961 7475726e",
        0xFFFFFFFFFFFFFFFF, 64,
        "796b6963ffffffff333021696765746df97ab2aa356d8edce17644ac8c78e25dd24dedbb29ebf1b64a274b39b49c3a864cd3d78c"
        "a4ae68a32b42458fb57dbe821dcc63b9d0937ba2945f669368661a329fb4c053",
        "45000030da3a00008001df3bc0a80005c0a800010800c6cd020007006162636465666768696a6b6c6d6e6f707172737401020201",
    ),
]  # fmt: skip

# RFC 7634 appendix A: a whole packet in tunnel mode.
RFC7634_KEY = "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f a0a1a2a3"
RFC7634_INNER = (
    "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec100007362708090a0b0c0d0e0f101112131415161718"
    "191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"
)
RFC7634_PACKET = (
    "0102030400000005101112131415161724039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c614ee8099d5"
    "2844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3cbec163fac469b502773f6fb94e664da9165b82829f641e0"
    "76aaa8266b7fb0f7b11b369907e1ad43"
)

# RFC 3602 section 4: case 5 in transport mode, case 7 in tunnel mode. SPI to ciphertext; no ICV.
RFC3602_CASE_5 = (
    "90d382b410eeba7ad938c46cec1a82bf",
    "0000432100000001e96e8c08ab465763fd098d45dd3ff893f663c25d325c18c6a9453e194e120849a4870b66cc6b9965330013b4898d"
    "c856a4699e523a55db080b59ec3a8e4b7e52775b07d1db34ed9c538ab50c551b874aa269add047ad2d5913ac19b7cfbad4a6",
    "08000ebda70a00008e9c083db95b070008090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d"
    "2e2f30313233343536370102030405060708090a0b0c0d0e0e01",
)
RFC3602_CASE_7 = (
    "0123456789abcdef0123456789abcdef",
    "0000876500000002f4e765244f6407adf13dc1380f673f37773b5241a4c449225e4f3ce5ed611b0c237ca96cf74a93013c1b0ea1a0cf"
    "70f8e4ecaec78ac53aad7a0f022b859243c647752e94a859352b8a4d4d2decd136e5c177f132ad3fbfb2201ac9904c74ee0a109e0ca1"
    "e4dfe9d5a100b842f1c22f0d",
    "4500005409040000 4001f988c0a87b03c0a87bc808009f76a90a0100b49c083d02a2040008090a0b0c0d0e0f101112131415161718"
    "191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
)

# RFC 3686 section 6, vectors 1 to 3: key and nonce, IV, plaintext, ciphertext.
RFC3686 = [
    (
        "ae6852f8121067cc4bf7a5765577f39e 00000030", "0000000000000000",
        "53696e676c6520626c6f636b206d7367", "e4095d4fb7a7b3792d6175a3261311b8",
    ),
    (
        "7e24067817fae0d743d6ce1f32539163 006cb6db", "c0543b59da48d90b",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "5104a106168a72d9790d41ee8edad388eb2e1efc46da57c8fce630df9141be28",
    ),
    (
        "7691be035e5020a8ac6e618529f9a0dc 00e0017b", "27777f3f4a1786f0",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223",
        "c1cf48a89f2ffdd9cf4652e9efdb72d74540a42bde6d7836d59a5ceaaef3105325b2072f",
    ),
]  # fmt: skip

# SP 800-38A appendix F.2.5: CBC with AES-256.
SP800_38A = (
    "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
    "000102030405060708090a0b0c0d0e0f",
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f"
    "9b17ad2b417be66c3710",
    "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d39f23369a9d9bacfa530e26304231461b2eb05e2c39b"
    "e9fcda6c19078c6a9d1b",
)

# RFC 2202 (MD5, SHA-1) and RFC 4231 (SHA-256), cases 1 to 4 and 6. Keys of case 6 are longer than a block.
HMAC_DATA = [
    b"Hi There",
    b"what do ya want for nothing?",
    b"\xdd" * 50,
    b"\xcd" * 50,
    b"Test Using Larger Than Block-Size Key - Hash Key First",
]
HMAC = {
    "md5": (16, 80, [
        "9294727a3638bb1c13f48ef8158bfc9d", "750c783e6ab0b503eaa86e310a5db738", "56be34521d144c88dbb8c733f0e8b3f6",
        "697eaf0aca3a3aea3a75164746ffaa79", "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd",
    ]),
    "sha1": (20, 80, [
        "b617318655057264e28bc0b6fb378c8ef146be00", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        "125d7342b9ac11cd91a39af48aa17b4f63f175d3", "4c9007f4026250c6bc8414f9bf50c86c2d7235da",
        "aa4ae5e15272d00e95705637ce8a3b55ed402112",
    ]),
    "sha256": (20, 131, [
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ]),
}  # fmt: skip


def hmacs() -> list[dict[str, str]]:
    return [
        {"algorithm": algorithm, "key": key.hex(), "data": data.hex(), "tag": tag}
        for algorithm, (short, long, tags) in HMAC.items()
        for key, data, tag in zip(
            (b"\x0b" * short, b"Jefe", b"\xaa" * short, bytes(range(1, 26)), b"\xaa" * long),
            HMAC_DATA,
            tags,
            strict=True,
        )
    ]


def packets() -> list[dict[str, Any]]:
    """Packets with what a cipher makes of them: the payload with its trailer, whatever it is."""
    mcgrew = [
        _packet("draft-mcgrew-gcm-test-01", suite, key, number, bits == 64, _bytes(packet), _bytes(plain))
        for suite, key, number, bits, packet, plain in MCGREW
    ]
    key, packet, plain = RFC3602_CASE_5
    return [
        *mcgrew,
        _with_icv("RFC 3602, case 5", "aes-cbc-hmac-sha1-96", key, 1, packet, plain),
        *(
            _with_icv("RFC 3686", "aes-ctr-hmac-md5-96", key, 7, "00001000" "00000007" + iv + sealed, plain)
            for key, iv, plain, sealed in RFC3686
        ),
        _with_icv(
            "SP 800-38A, F.2.5", "aes-cbc-hmac-sha256-128", SP800_38A[0], 7,
            "00001000" "00000007" + SP800_38A[1] + SP800_38A[3], SP800_38A[2],
        ),
    ]  # fmt: skip


def tunnel_packets() -> list[dict[str, Any]]:
    """Packets that a receiver in tunnel mode takes whole; `plain` is the inner packet."""
    key, packet, inner = RFC3602_CASE_7
    return [
        _packet(
            "RFC 7634, appendix A", "chacha20-poly1305", RFC7634_KEY, 5, False,
            _bytes(RFC7634_PACKET), _bytes(RFC7634_INNER),
        ),
        _with_icv("RFC 3602, case 7", "aes-cbc-hmac-sha1-96", key, 2, packet, inner),
    ]  # fmt: skip


def _with_icv(name: str, suite: str, key: str, sequence: int, packet: str, plain: str) -> dict[str, Any]:
    integrity = bytes(range(SUITES[suite].integrity))
    authenticated = _bytes(packet)
    whole = authenticated + icv(suite, integrity, authenticated)
    return _packet(name, suite, key + integrity.hex(), sequence, False, whole, _bytes(plain))


def _packet(
    name: str, suite: str, key: str, sequence: int, esn: bool, packet: bytes, plain: bytes
) -> dict[str, Any]:
    return {
        "name": name, "suite": suite, "key": _bytes(key).hex(), "spi": int.from_bytes(packet[:4]),
        "sequence": sequence, "esn": esn, "packet": packet.hex(), "plain": plain.hex(),
    }  # fmt: skip


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text)
