/* What makes packets out of packets, and what remembers them.
 *
 *   probe ─► ingress: by_what ─┬─ clone | multicast | resubmit | digest | meter | register ─► egress: then ─┬─ recirculate | clone
 *                              └─ drop                                                                      └─ truncate | drop
 */
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  what;
    bit<8>  then;
    bit<16> cell;
    bit<32> value;
    bit<48> from;
}

struct headers_t {
    probe_t probe;
}

struct metadata_t {
    @field_list(1, 2)
    bit<8> rounds;
    @field_list(2)
    bit<16> kept;
    bit<8> color;
}

struct seen_t {
    bit<48> from;
    bit<8>  rounds;
    bit<9>  port;
}

parser CopiesParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control CopiesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<40>>(16) sums;
    counter(16, CounterType.packets_and_bytes) cells;
    meter(16, MeterType.bytes) marker;
    direct_counter(CounterType.packets) hits;

    action mirror() {
        clone_preserving_field_list(CloneType.I2E, (bit<32>) hdr.probe.cell, 1);
        hits.count();
    }
    action to_group() {
        std.mcast_grp = hdr.probe.cell;
        hits.count();
    }
    action again() {
        meta.rounds = meta.rounds + 1;
        meta.kept = hdr.probe.cell;
        resubmit_preserving_field_list(2);
        hits.count();
    }
    action learn() {
        digest<seen_t>(1, { hdr.probe.from, meta.rounds, std.ingress_port });
        hits.count();
    }
    action mark() {
        marker.execute_meter<bit<8>>((bit<32>) hdr.probe.cell, meta.color);
        hdr.probe.value[7:0] = meta.color;
        hits.count();
    }
    action add() {
        bit<40> sum;
        sums.read(sum, (bit<32>) hdr.probe.cell);
        sum = sum + (bit<40>) hdr.probe.value;
        sums.write((bit<32>) hdr.probe.cell, sum);
        hdr.probe.value = (bit<32>) (sum >> 4);
        hits.count();
    }
    action lot() {
        random(hdr.probe.value, 10, 99);
        hits.count();
    }
    action drop() {
        mark_to_drop(std);
        hits.count();
    }
    table by_what {
        key = {
            hdr.probe.what: exact;
            meta.rounds: ternary;
        }
        actions = { mirror; to_group; again; learn; mark; add; lot; drop; }
        default_action = drop();
        counters = hits;
        const entries = {
            (0, _): mirror();
            (1, _): to_group();
            (2, 0): again();
            (2, 1): again();
            (2, 2): add();
            (3, _): learn();
            (4, _): mark();
            (5, _): add();
            (6, _): lot();
            (7, _): again();
        }
    }

    apply {
        std.egress_spec = (bit<9>) hdr.probe.then & 7;
        cells.count((bit<32>) hdr.probe.cell);
        by_what.apply();
    }
}

control CopiesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action around() {
        hdr.probe.then = hdr.probe.then - 1;
        hdr.probe.what = hdr.probe.what ^ 1;
        meta.rounds = meta.rounds + 1;
        recirculate_preserving_field_list(1);
    }
    action mirror() {
        clone_preserving_field_list(CloneType.E2E, 3, 2);
    }
    action cut(bit<32> length) {
        truncate(length);
    }
    action drop() {
        mark_to_drop(std);
    }
    table then {
        key = {
            hdr.probe.then: ternary;
            std.instance_type: ternary;
        }
        actions = { around; mirror; cut; drop; NoAction; }
        default_action = NoAction();
        const entries = {
            (_, 1): NoAction();
            (_, 2): cut(9);
            (0x10 &&& 0x10, _): around();
            (0x20 &&& 0x20, _): mirror();
            (0x40 &&& 0x40, _): cut(20);
            (0x80 &&& 0x80, _): drop();
        }
    }

    apply {
        hdr.probe.cell = std.egress_rid;
        then.apply();
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control CopiesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
    }
}

V1Switch(CopiesParser(), Verify(), CopiesIngress(), CopiesEgress(), Compute(), CopiesDeparser()) main;
