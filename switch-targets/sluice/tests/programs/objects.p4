// What P4Runtime reaches beside plain tables: registers, a value set, idle timeouts, translated types, counted misses.
//
//   parse: members ─► special ─► flow (by source; times out) ─► vrf_route (by VRF) ─► out, seen[port] and total[0] rewritten

#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("culvert.dev/tests/port", bit<32>)
type bit<9> sdn_port_t;
@p4runtime_translation("culvert.dev/tests/vrf", string)
type bit<10> vrf_t;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {
    bit<1> special;
    vrf_t vrf;
    sdn_port_t port;
}

struct member_t {
    bit<16> type;
    @match(ternary) bit<48> src;
    @match(range) bit<48> dst;
}

struct seen_t {
    bit<48> src;
    vrf_t vrf;
    sdn_port_t port;
}

parser ObjectsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<member_t>(4) members;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type, hdr.ethernet.src, hdr.ethernet.dst) {
            members: special;
            default: accept;
        }
    }
    state special {
        meta.special = 1;
        transition accept;
    }
}

control ObjectsVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ObjectsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<48>>(2000) seen;
    register<bit<128>>(1) total;
    direct_counter(CounterType.packets_and_bytes) flow_counter;

    action set_vrf(vrf_t vrf) {
        meta.vrf = vrf;
    }
    action unknown() { }

    table flow {
        key = { hdr.ethernet.src : exact @name("src"); }
        actions = { set_vrf; unknown; }
        default_action = unknown();
        counters = flow_counter;
        support_timeout = true;
        size = 1024;
    }

    action send(sdn_port_t port) {
        meta.port = port;
        std.egress_spec = (bit<9>) port;
        digest<seen_t>(1, { hdr.ethernet.src, meta.vrf, port });
    }
    action drop() {
        mark_to_drop(std);
    }

    table vrf_route {
        key = {
            meta.vrf : exact @name("vrf");
            meta.special : ternary @name("special");
        }
        actions = { send; drop; }
        default_action = drop();
        size = 64;
    }

    table port_in {
        key = { (sdn_port_t) std.ingress_port : ternary @name("port"); }
        actions = { NoAction; drop; }
        size = 16;
    }

    apply {
        bit<48> count;
        seen.read(count, (bit<32>) std.ingress_port);
        seen.write((bit<32>) std.ingress_port, count + 1);
        bit<128> bytes;
        total.read(bytes, 0);
        total.write(0, bytes + (bit<128>) std.packet_length);
        port_in.apply();
        flow.apply();
        vrf_route.apply();
    }
}

control ObjectsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control ObjectsCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ObjectsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ObjectsParser(), ObjectsVerify(), ObjectsIngress(), ObjectsEgress(), ObjectsCompute(), ObjectsDeparser()) main;
