/* Headers of every kind: a stack, a union, a varbit field, fields that are looked at ahead or passed over.
 *
 *   kind ─┬─ 1 ─► label … label (last = 1) ─┬─► options? ─► accept
 *         ├─ 2 ─► options (varbit)          │
 *         ├─ 3 ─► small | large ────────────┘
 *         ├─ 4 ─► so many bytes passed over
 *         └─ a member of `known` ─► options
 */
#include <core.p4>
#include <v1model.p4>

error { BadFlags }

header kind_t {
    bit<4>  depth;
    bit<4>  flags;
    bit<8>  type;
    bit<16> sum;
}

header label_t {
    bit<20> label;
    bit<3>  class;
    bit<1>  last;
    bit<8>  ttl;
}

header options_t {
    bit<8>      length;
    varbit<320> bytes;
}

header small_t {
    bit<16> value;
}

header large_t {
    bit<64> value;
}

header_union either_t {
    small_t small;
    large_t large;
}

header result_t {
    bit<32>  number;
    int<16>  signed;
    bit<100> wide;
    bit<12>  rest;
    bit<16>  hashed;
}

struct headers_t {
    kind_t    kind;
    label_t[4] labels;
    options_t options;
    either_t  either;
    result_t  result;
}

struct metadata_t {
    bit<8>  known;
    bit<64> scratch;
}

parser HeadersParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<8>>(4) known;

    state start {
        packet.extract(hdr.kind);
        verify(hdr.kind.flags != 15, error.BadFlags);
        transition select(hdr.kind.type, hdr.kind.flags) {
            (1, _): labels;
            (2, _): options;
            (3, 0 .. 7): either;
            (4, 0x8 &&& 0x8): skip;
            (4, _): accept;
            default: others;
        }
    }
    state others {
        transition select(hdr.kind.type) {
            known: is_known;
            default: accept;
        }
    }
    state is_known {
        meta.known = 1;
        transition options;
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.last) {
            1: behind_labels;
            default: labels;
        }
    }
    state behind_labels {
        transition select(packet.lookahead<bit<16>>()) {
            0x0400 &&& 0xff00: options;
            0xffff: reject;
            default: accept;
        }
    }
    state options {
        bit<8> length = packet.lookahead<bit<8>>();
        packet.extract(hdr.options, (bit<32>) length << 3);
        transition select(hdr.kind.depth) {
            0: accept;
            default: either;
        }
    }
    state either {
        transition select(packet.lookahead<bit<1>>()) {
            1: large;
            default: small;
        }
    }
    state large {
        packet.extract(hdr.either.large);
        transition accept;
    }
    state small {
        packet.extract(hdr.either.small);
        transition accept;
    }
    state skip {
        packet.advance((bit<32>) hdr.kind.depth << 3);
        packet.extract(hdr.labels.next);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.options.isValid(), { hdr.kind.depth, hdr.kind.flags, hdr.kind.type, hdr.options.length, hdr.options.bytes },
            hdr.kind.sum, HashAlgorithm.csum16);
    }
}

control HeadersIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }
    action push(bit<20> label) {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0].label = label;
        hdr.labels[0].ttl = hdr.labels[1].ttl - 1;
    }
    action pop() {
        hdr.labels.pop_front(1);
    }
    action pop_two() {
        hdr.labels.pop_front(2);
        hdr.labels[0].ttl = hdr.labels[0].ttl |-| 200;
    }
    action become_large() {
        hdr.either.large.setValid();
        hdr.either.large.value = (bit<64>) hdr.either.small.value << hdr.kind.depth;
        hdr.either.small.setInvalid();
    }
    action become_small(bit<16> value) {
        hdr.either.small.setValid();
        hdr.either.small.value = value[7:0] ++ value[15:8];
    }
    table by_kind {
        key = {
            hdr.kind.type: ternary;
            hdr.kind.depth: range;
            hdr.labels[2].isValid(): ternary;
        }
        actions = { push; pop; pop_two; become_large; drop; NoAction; }
        const entries = {
            (1, 0 .. 3, _): push(7);
            (1, 4 .. 9, _): pop();
            (1, _, _): pop_two();
            (3 &&& 3, 2 .. 9, _): become_large();
            (0x40 &&& 0x40, 3, _): drop();
        }
    }

    action number(bit<32> operand) {
        hdr.result.setValid();
        hdr.result.number = (operand * (bit<32>) hdr.labels[0].label) |+| (bit<32>) hdr.labels[1].ttl;
        hdr.result.signed = (int<16>) (bit<16>) hdr.kind.type - (int<16>) hdr.kind.sum;
        hdr.result.wide = ((bit<100>) hdr.kind.sum << hdr.kind.type) | (bit<100>) hdr.either.large.value;
        hdr.result.rest = hdr.result.wide[77:66];
        hash(hdr.result.hashed, HashAlgorithm.crc16, 16w3, { hdr.labels[0].label, hdr.options.bytes, hdr.kind.depth }, 32w1000);
    }
    table by_label {
        key = { hdr.labels[0].label: lpm; }
        actions = { number; drop; NoAction; }
        default_action = number(3);
        const entries = {
            0x10000 &&& 0xf0000: number(0xffffffff);
            0x12000 &&& 0xff000: drop();
        }
    }
    table by_either {
        key = {
            hdr.either.large.isValid(): exact;
            hdr.either.small.value: optional;
        }
        actions = { become_small; become_large; NoAction; }
        const entries = {
            (false, 7): become_small(9);
            (true, 9): become_large();
            (true, _): become_small(1);
        }
    }

    apply {
        std.egress_spec = std.ingress_port ^ 1;
        by_kind.apply();
        switch (by_label.apply().action_run) {
            number: {
                if (hdr.result.signed < 0 || hdr.options.isValid() && hdr.options.length > 5) {
                    by_either.apply();
                }
            }
        }
        if (std.checksum_error == 1) {
            hdr.kind.flags = 14;
        }
        if (std.parser_error == error.StackOutOfBounds) {
            hdr.labels[0].setInvalid();
        } else if (std.parser_error != error.NoError) {
            hdr.kind.flags = 13;
        }
    }
}

control HeadersEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.labels[3].isValid()) {
            hdr.labels[3] = hdr.labels[2];
        }
        if (meta.known == 1) {
            hdr.options.setInvalid();
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(true, { hdr.kind.depth, hdr.kind.flags, hdr.kind.type, hdr.options.length, hdr.options.bytes },
            hdr.kind.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.result.isValid(), { hdr.result.number, hdr.result.signed },
            hdr.result.hashed, HashAlgorithm.csum16);
    }
}

control HeadersDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.kind);
        packet.emit(hdr.result);
        packet.emit(hdr.labels);
        packet.emit(hdr.options);
        packet.emit(hdr.either);
    }
}

V1Switch(HeadersParser(), Verify(), HeadersIngress(), HeadersEgress(), Compute(), HeadersDeparser()) main;
