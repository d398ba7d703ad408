/* Action profiles: one without a selector, and one with a selector that two tables share. */

#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<16> table_key;
    bit<32> flow;
    bit<8>  member;
    bit<8>  after;
}

struct headers_t {
    probe_t probe;
}

struct metadata_t {
}

parser ProbeParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control SelectorIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action_profile(16) profile;
    @max_group_size(8)
    action_selector(HashAlgorithm.crc32, 32w16, 32w32) balancer;

    action to(bit<9> port, bit<8> member) {
        std.egress_spec = port;
        hdr.probe.member = member;
    }
    action drop() {
        mark_to_drop(std);
    }
    action again() {
        hdr.probe.after = 0xff;
    }

    table by_member {
        key = { hdr.probe.table_key: exact; }
        actions = { to; drop; NoAction; }
        implementation = profile;
        size = 64;
    }
    table by_group {
        key = { hdr.probe.table_key: exact; hdr.probe.flow: selector; }
        actions = { to; drop; again; NoAction; }
        implementation = balancer;
        size = 64;
    }
    table by_prefix {
        key = { hdr.probe.table_key: lpm; hdr.probe.flow: selector; }
        actions = { to; drop; again; NoAction; }
        implementation = balancer;
        size = 64;
    }
    table rest {
        key = { hdr.probe.after: exact; }
        actions = { to; NoAction; }
        default_action = NoAction();
        size = 4;
    }

    apply {
        hdr.probe.after = 0;
        mark_to_drop(std);
        if (!by_member.apply().hit) {
            switch (by_group.apply().action_run) {
                again: { by_prefix.apply(); }
                NoAction: { rest.apply(); }
            }
        }
    }
}

control SelectorEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ProbeDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
    }
}

V1Switch(ProbeParser(), Verify(), SelectorIngress(), SelectorEgress(), Compute(), ProbeDeparser()) main;
