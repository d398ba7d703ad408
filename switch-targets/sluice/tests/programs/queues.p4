// Two ports as one wire. The frame's payload is overwritten with what waits at the port that it leaves by.
#include <v1model.p4>

header report_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<32> deq_timedelta;
}

struct headers_t {
    report_t report;
}

struct metadata_t {}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.report);
        transition accept;
    }
}

control check(inout headers_t hdr, inout metadata_t meta) { apply {} }

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 3 - std.ingress_port; }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.report.enq_qdepth = (bit<32>) std.enq_qdepth;
        hdr.report.deq_qdepth = (bit<32>) std.deq_qdepth;
        hdr.report.deq_timedelta = std.deq_timedelta;
    }
}

control compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.report); } }

V1Switch(parse(), check(), ingress(), egress(), compute(), deparse()) main;
