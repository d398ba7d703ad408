// Two ports as one wire: what comes in at port 1 leaves at port 2, and the other way round.
#include <v1model.p4>

struct headers_t {}
struct metadata_t {}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { transition accept; }
}

control check(inout headers_t hdr, inout metadata_t meta) { apply {} }

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 3 - std.ingress_port; }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }

control compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control deparse(packet_out packet, in headers_t hdr) { apply {} }

V1Switch(parse(), check(), ingress(), egress(), compute(), deparse()) main;
