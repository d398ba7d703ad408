// The ESP engine: RFC 4303 in tunnel mode. Each target brings it: sluice has it built in, bmv2 loads it as a module.
//
// It works on the payload, the bytes behind the last extracted header, which must be the whole packet to work on.
// A key comes wrapped (RFC 5649, AES-KWP) under the gateway's own key-encryption key: 32 bytes of key and 4 of salt in
// 48 bytes. The engine unwraps it once for a slot and keeps the result, with the sequence number and the replay window,
// until that slot is given another key.

enum bit<8> Suite {
    AES_GCM_256 = 1 // RFC 4106
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

extern EspEngine {
    // SAs of one direction: slots 0 to slots-1.
    EspEngine(bit<32> slots);

    // Payload in: the ESP packet, from its SPI, `len` bytes of it (what follows is link padding). Payload out: the inner IP packet.
    void open(in bit<32> slot, in bit<8> suite, in bit<384> wrapped_key, in bit<32> spi, in bit<1> esn, in bit<16> replay_window,
              in bit<64> soft_packets, in bit<64> soft_bytes, in bit<64> hard_packets, in bit<64> hard_bytes,
              in bit<16> len, out bit<8> verdict);

    // Payload in: an inner IP packet (link padding behind it is cut). Payload out: the ESP packet, from its SPI; `len` is its length.
    void seal(in bit<32> slot, in bit<8> suite, in bit<384> wrapped_key, in bit<32> spi, in bit<1> esn,
              in bit<64> soft_packets, in bit<64> soft_bytes, in bit<64> hard_packets, in bit<64> hard_bytes,
              out bit<16> len, out bit<8> verdict);
}
