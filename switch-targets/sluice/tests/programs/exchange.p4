/* What a controller and a switch exchange: packets in and out, copies, digests, and tables of two roles.
 *
 *   port ─► ingress: forward ─┬─ hit: port | group | clone | punt ─► egress: packet_in in front of what goes to the CPU
 *   CPU  ─► packet_out ───────┴─ straight to its port, or through the tables
 */
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<1> is_clone;
    bit<6> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<1> submit_to_ingress;
    @padding
    bit<6> unused;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    packet_in_t packet_in_header;
    packet_out_t packet_out_header;
    ethernet_t ethernet;
}

struct metadata_t {
    @field_list(1)
    bit<9> from;
}

struct seen_t {
    bit<48> src;
    bit<9> port;
}

parser Reader(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        transition select(s.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }
    state from_controller {
        packet.extract(h.packet_out_header);
        transition ethernet;
    }
    state ethernet {
        packet.extract(h.ethernet);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Forward(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    counter(8, CounterType.packets_and_bytes) received;
    register<bit<32>>(4) last;
    direct_counter(CounterType.packets_and_bytes) forwarded;

    action drop() {
        mark_to_drop(s);
        forwarded.count();
    }
    action to_port(bit<9> port) {
        s.egress_spec = port;
        forwarded.count();
    }
    action to_group(bit<16> group) {
        s.mcast_grp = group;
        forwarded.count();
    }
    action mirror(bit<9> port, bit<32> session) {
        s.egress_spec = port;
        clone_preserving_field_list(CloneType.I2E, session, 1);
        forwarded.count();
    }
    action punt() {
        s.egress_spec = CPU_PORT;
        forwarded.count();
    }
    action learn(bit<9> port) {
        s.egress_spec = port;
        digest<seen_t>(1, { h.ethernet.src, s.ingress_port });
        forwarded.count();
    }
    table forward {
        key = { h.ethernet.dst: exact; }
        actions = { drop; to_port; to_group; mirror; punt; learn; }
        counters = forwarded;
        default_action = drop();
        size = 64;
    }

    action deny() {
        mark_to_drop(s);
        exit;
    }
    action permit() { }
    @p4runtime_role("guard")
    table admission {
        key = {
            s.ingress_port: ternary @name("port");
            h.ethernet.type: ternary @name("type");
        }
        actions = { permit; deny; }
        default_action = permit();
        size = 16;
    }

    apply {
        m.from = s.ingress_port;
        received.count((bit<32>) s.ingress_port & 7);
        last.write(0, (bit<32>) h.ethernet.type);
        if (h.packet_out_header.isValid() && h.packet_out_header.submit_to_ingress == 0) {
            s.egress_spec = h.packet_out_header.egress_port;
            h.packet_out_header.setInvalid();
        } else {
            h.packet_out_header.setInvalid();
            admission.apply();
            forward.apply();
        }
    }
}

control Punt(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (s.egress_port == CPU_PORT) {
            h.packet_in_header.setValid();
            h.packet_in_header.ingress_port = m.from;
            h.packet_in_header.is_clone = s.instance_type == 1 ? 1w1 : 0;
            h.packet_in_header.reason = (bit<6>) s.egress_rid;
        }
    }
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Writer(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.packet_in_header);
        packet.emit(h.ethernet);
    }
}

V1Switch(Reader(), Verify(), Forward(), Punt(), Compute(), Writer()) main;
