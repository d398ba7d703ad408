// The ESP engine: RFC 4303 in tunnel mode. Each target brings it: sluice has it built in, bmv2 loads it as a module.
//
// It works on the payload, the bytes behind the last extracted header, which must be the whole packet to work on.
// A key comes wrapped (RFC 5649, AES-KWP) under the gateway's own key-encryption key, right-aligned; the suite tells its length.
// The engine unwraps it once for a slot and keeps the result, with the sequence number and the replay window,
// until that slot is given another key. A limit of 0 is none.

enum bit<8> Suite {
    AES_GCM_256       = 1, // RFC 4106: 32 bytes of key, 4 of salt; 48 wrapped
    AES_GCM_128       = 2, // RFC 4106: 16, 4; 32 wrapped
    CHACHA20_POLY1305 = 3, // RFC 7634: 32, 4; 48 wrapped
    // Legacy: Verdict KEY unless the gateway was started with the suite allowed.
    NULL_HMAC_SHA_256_128        = 129, // RFC 2410, 4868: 32 of integrity key; 40 wrapped
    AES_CTR_128_HMAC_MD5_96      = 130, // RFC 3686, 2403: 16 of key, 4 of nonce, 16 of integrity key; 48 wrapped
    AES_CBC_128_HMAC_SHA1_96     = 131, // RFC 3602, 2404: 16, 20; 48 wrapped
    AES_CBC_256_HMAC_SHA_256_128 = 132  // RFC 3602, 4868: 32, 32; 72 wrapped
}

enum bit<8> Verdict {
    OK         = 0,
    SOFT_LIMIT = 1, // done, and a limit comes near
    MALFORMED  = 2,
    REPLAY     = 3,
    ICV        = 4,
    DUMMY      = 5,
    HARD_LIMIT = 6,
    KEY        = 7
}

typedef bit<576> wrapped_key_t;

extern EspEngine {
    // SAs of one direction: slots 0 to slots-1.
    EspEngine(bit<32> slots);

    // Payload in: the ESP packet, from its SPI, `len` bytes of it (what follows is link padding). Payload out: the inner IP packet.
    // newest: authenticated, and above every sequence number before. Seconds count from the SA's first packet here.
    void open(in bit<32> slot, in bit<8> suite, in wrapped_key_t wrapped_key, in bit<32> spi, in bit<1> esn, in bit<16> replay_window,
              in bit<64> soft_packets, in bit<64> soft_bytes, in bit<32> soft_seconds,
              in bit<64> hard_packets, in bit<64> hard_bytes, in bit<32> hard_seconds,
              in bit<16> len, out bit<1> newest, out bit<8> verdict);

    // Payload in: an inner IP packet (link padding behind it is cut). Payload out: the ESP packet, from its SPI; `len` is its length.
    void seal(in bit<32> slot, in bit<8> suite, in wrapped_key_t wrapped_key, in bit<32> spi, in bit<1> esn,
              in bit<64> soft_packets, in bit<64> soft_bytes, in bit<32> soft_seconds,
              in bit<64> hard_packets, in bit<64> hard_bytes, in bit<32> hard_seconds,
              out bit<16> len, out bit<8> verdict);
}
