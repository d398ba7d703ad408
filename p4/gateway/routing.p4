// Where a packet leaves: longest prefix to a next hop, next hop to a port and two MAC addresses.

control Routing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action no_route() { meta.drop_cause = Drop.NO_ROUTE; }
    action via(bit<16> nexthop_id) { meta.nexthop_id = nexthop_id; }

    @name("route")
    table route {
        key = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { via; @defaultonly no_route; }
        const default_action = no_route();
        size = 16384;
    }

    action no_nexthop() { meta.drop_cause = Drop.NO_NEXTHOP; }
    action set_nexthop(bit<9> port, mac_t src_mac, mac_t dst_mac) {
        hdr.ethernet.setValid();
        hdr.ethernet = { dst_mac, src_mac, ETHERTYPE_IPV4 };
        std.egress_spec = port;
    }

    @name("nexthop")
    table nexthop {
        key = { meta.nexthop_id : exact @name("id"); }
        actions = { set_nexthop; @defaultonly no_nexthop; }
        const default_action = no_nexthop();
        size = 4096;
    }

    apply {
        if (meta.drop_cause == Drop.NONE && meta.detour == 0 && hdr.ipv4.isValid()) {
            // A sealed packet starts here with its own TTL; the others pass one router.
            if (meta.stage != Stage.TO_SEAL) {
                if (hdr.ipv4.ttl <= 1) {
                    meta.drop_cause = Drop.TTL;
                } else {
                    hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                }
            }
            if (meta.drop_cause == Drop.NONE) {
                if (route.apply().hit) {
                    nexthop.apply();
                }
            }
        }
    }
}
