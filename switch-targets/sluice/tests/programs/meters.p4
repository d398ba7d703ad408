/* Meters: an array by index, and one for each entry of a table. What they say is written into the packet. */

#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<32> cell;
    bit<16> flow;
    bit<8>  array_color;
    bit<8>  direct_color;
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

control MeterIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(16, MeterType.bytes) array;
    direct_meter<bit<8>>(MeterType.packets) direct;

    action forward(bit<9> port) {
        direct.read(hdr.probe.direct_color);
        std.egress_spec = port;
    }
    action drop() {
        direct.read(hdr.probe.direct_color);
        mark_to_drop(std);
    }
    table metered {
        key = { hdr.probe.flow: exact; }
        actions = { forward; drop; }
        default_action = drop();
        meters = direct;
        size = 64;
    }

    action deny() {
        mark_to_drop(std);
    }
    action allow(bit<9> port) {
        std.egress_spec = port;
    }
    table plain {
        key = { hdr.probe.flow: exact; }
        actions = { allow; deny; }
        default_action = deny();
        size = 64;
    }

    apply {
        array.execute_meter<bit<8>>(hdr.probe.cell, hdr.probe.array_color);
        if (!metered.apply().hit) {
            plain.apply();
        }
    }
}

control MeterEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
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

V1Switch(ProbeParser(), Verify(), MeterIngress(), MeterEgress(), Compute(), ProbeDeparser()) main;
