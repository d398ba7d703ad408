// Answers every packet with its digests in front of it: one of them is not zero. The ingress port says which hash.
//
//   [ dst | src | type | … ]  ─►  [ verdict | digests | dst | src | type | … ]

#include <core.p4>
#include <v1model.p4>
#include <packet_hash.p4>

header answer_t {
    bit<8> verdict;
    bit<20> digest20;
    bit<4> reserved;
    bit<64> digest64;
    bit<256> digest256;
    bit<512> digest512;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    answer_t answer;
    ethernet_t ethernet;
}

struct metadata_t {
    bit<8> verdict;
    bit<20> digest20;
    bit<64> digest64;
    bit<256> digest256;
    bit<512> digest512;
}

parser Packets(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Hash(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    PacketHash() hasher;

    action idle() {}
    action siphash_2_4(siphash_key_t key) {
        hasher.siphash_2_4(key, meta.digest64, meta.verdict);
    }
    action hmac_sha256(hmac_sha256_key_t key) {
        hasher.hmac_sha256(key, meta.digest256, meta.verdict);
    }
    action hmac_sha512(hmac_sha512_key_t key) {
        hasher.hmac_sha512(key, meta.digest512, meta.verdict);
    }
    action blake2b() {
        hasher.blake2b(meta.digest512);
    }
    action sha3_512() {
        hasher.sha3_512(meta.digest512);
    }
    // The first 20 bits, of the packet with another source.
    action cut(bit<48> src) {
        hdr.ethernet.src = src;
        hasher.blake2b(meta.digest20);
    }

    // The first 48 bits take the destination's place.
    action stamp() {
        hasher.blake2b(hdr.ethernet.dst);
    }

    table job {
        key = { standard.ingress_port : exact; }
        actions = { idle; siphash_2_4; hmac_sha256; hmac_sha512; blake2b; sha3_512; cut; stamp; }
        default_action = idle();
    }

    apply {
        standard.egress_spec = standard.ingress_port;
        job.apply();
        // From other ports a packet comes back without an answer.
        if (standard.ingress_port < 256) {
            hdr.answer = { meta.verdict, meta.digest20, 0, meta.digest64, meta.digest256, meta.digest512 };
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.answer);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(Packets(), Verify(), Hash(), Out(), Update(), Deparse()) main;
