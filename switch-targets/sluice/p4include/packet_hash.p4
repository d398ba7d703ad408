// Cryptographic hashes over the whole packet: the headers that are valid now, as they would be deparsed, then the payload.
// sluice has them built in.
//
// A key comes wrapped (RFC 5649, AES-KWP) under the switch's key-encryption key, as the ESP engine's do. What is wrapped is one
// byte, the hash's number below, then the key: so neither an SA key nor another hash's key opens here, and no hash key opens there.
//
// `digest` may be of any width: a narrower one gets the first bits, a wider one the digest behind zeros.

enum bit<8> HashKey {
    SIPHASH_2_4 = 1, // 16 bytes of key
    HMAC_SHA256 = 2, // 32
    HMAC_SHA512 = 3  // 64
}

enum bit<8> HashVerdict {
    OK  = 0,
    KEY = 1 // the key does not open: the digest is 0. A program must look
}

typedef bit<256> siphash_key_t;
typedef bit<384> hmac_sha256_key_t;
typedef bit<640> hmac_sha512_key_t;

extern PacketHash {
    PacketHash();

    void siphash_2_4<D>(in siphash_key_t wrapped_key, out D digest, out bit<8> verdict);     // 64 bits, in the reference's byte order
    void hmac_sha256<D>(in hmac_sha256_key_t wrapped_key, out D digest, out bit<8> verdict); // RFC 2104, FIPS 180-4: 256 bits
    void hmac_sha512<D>(in hmac_sha512_key_t wrapped_key, out D digest, out bit<8> verdict); // 512 bits
    void blake2b<D>(out D digest);                                                           // RFC 7693, without a key: 512 bits
    void sha3_512<D>(out D digest);                                                          // FIPS 202: 512 bits
}
