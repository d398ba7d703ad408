/* One of each object that a controller writes.
 *
 *   value set ─► flow (exact, ages, counted) ─► acl (ternary, range, optional; metered) ─► route (lpm) | spread (groups) | once
 */
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {
    bit<8> color;
    bit<1> special;
}

struct seen_t {
    bit<48> src;
}

parser Reader(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(16) special_types;
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.type) {
            special_types: special;
            default: accept;
        }
    }
    state special {
        m.special = 1;
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Forward(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    counter(256, CounterType.packets_and_bytes) totals;
    register<bit<64>>(256) notes;
    meter(256, MeterType.packets) rates;
    direct_counter(CounterType.packets_and_bytes) flow_counter;
    direct_meter<bit<8>>(MeterType.bytes) acl_meter;
    action_profile(512) bundle;
    @max_group_size(16)
    action_selector(HashAlgorithm.crc32, 512, 32) balancer;
    action_selector(HashAlgorithm.crc32, 512, 32) single;

    action drop() {
        mark_to_drop(s);
    }
    action to_port(bit<9> port) {
        s.egress_spec = port;
    }
    action to_group(bit<16> group) {
        s.mcast_grp = group;
    }
    action mirror(bit<9> port, bit<32> session) {
        s.egress_spec = port;
        clone(CloneType.I2E, session);
    }
    action learn() {
        digest<seen_t>(1, { h.ethernet.src });
    }
    action note(bit<8> cell, bit<64> value) {
        notes.write((bit<32>) cell, value);
        totals.count((bit<32>) cell);
        rates.execute_meter<bit<8>>((bit<32>) cell, m.color);
    }

    action permit() {
        acl_meter.read(m.color);
    }

    table flow {
        key = { h.ethernet.src: exact @name("src"); }
        actions = { learn; note; NoAction; }
        counters = flow_counter;
        support_timeout = true;
        size = 4096;
    }
    table acl {
        key = {
            h.ethernet.src: ternary @name("src");
            h.ethernet.type: range @name("type");
            m.special: optional @name("special");
        }
        actions = { permit; drop; }
        meters = acl_meter;
        size = 1024;
    }
    table route {
        key = { h.ethernet.dst: lpm @name("dst"); }
        actions = { to_port; to_group; mirror; drop; NoAction; }
        size = 4096;
    }
    table member {
        key = { h.ethernet.dst: exact @name("dst"); }
        actions = { to_port; drop; NoAction; }
        implementation = bundle;
        size = 512;
    }
    table spread {
        key = {
            h.ethernet.dst: exact @name("dst");
            h.ethernet.src: selector;
        }
        actions = { to_port; drop; NoAction; }
        implementation = balancer;
        size = 512;
    }
    table once {
        key = {
            h.ethernet.dst: exact @name("dst");
            h.ethernet.src: selector;
        }
        actions = { to_port; drop; NoAction; }
        implementation = single;
        size = 512;
    }

    apply {
        flow.apply();
        acl.apply();
        route.apply();
        member.apply();
        spread.apply();
        once.apply();
    }
}

control Leave(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { }
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Writer(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
    }
}

V1Switch(Reader(), Verify(), Forward(), Leave(), Compute(), Writer()) main;
