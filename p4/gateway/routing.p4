// Routes: longest prefix to a next hop or to a group of them (RFC 2992), next hop to a port and two MAC addresses.

control Route(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    bit<1> grouped = 0;

    action no_route() { meta.drop_cause = Drop.NO_ROUTE; }
    action no_nexthop() { meta.drop_cause = Drop.NO_NEXTHOP; }
    action via(@refers_to("nexthop", "id") bit<16> nexthop_id) {
        meta.nexthop_id = nexthop_id;
    }
    action via_group(@refers_to("ecmp_member", "group_id") bit<16> group_id, bit<16> members) {
        grouped = 1;
        meta.group_id = group_id;
        meta.members = members;
    }

    @name("route")
    table route {
        key = { meta.dst : lpm @name("dst"); }
        actions = { via; via_group; @defaultonly no_route; }
        const default_action = no_route();
        size = 16384;
    }

    @name("ecmp_member")
    table ecmp_member {
        key = {
            meta.group_id : exact @name("group_id");
            meta.member   : exact @name("member");
        }
        actions = { via; @defaultonly no_nexthop; }
        const default_action = no_nexthop();
        size = 4096;
    }

    action set_nexthop(bit<8> role, bit<9> port, bit<12> vlan,
                       @format(MAC_ADDRESS) mac_t src_mac, @format(MAC_ADDRESS) mac_t dst_mac, bit<16> mtu) {
        meta.nexthop_role = role;
        meta.nexthop_mtu = mtu;
        meta.next_vlan = vlan;
        meta.next_src_mac = src_mac;
        meta.next_dst_mac = dst_mac;
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
        route.apply();
        // A flow keeps its next hop; an ESP packet's flow is its SA.
        if (grouped == 1 && meta.members == 0) {
            meta.drop_cause = Drop.NO_NEXTHOP;
        } else if (grouped == 1) {
            hash(meta.member, HashAlgorithm.crc16, 16w0,
                 { meta.src, meta.dst, meta.protocol, meta.sport, meta.dport, meta.spi }, meta.members);
            ecmp_member.apply();
        }
        if (meta.drop_cause == Drop.NONE) {
            nexthop.apply();
        }
        if (meta.drop_cause != Drop.NONE) {
            // Nowhere to go.
        } else if (meta.stage == Stage.OPENED && meta.nexthop_role != Role.LAN) {
            meta.drop_cause = Drop.LEAK;
        } else if (meta.stage != Stage.TO_SEAL && meta.ttl <= 1) {
            meta.drop_cause = Drop.TTL;
        } else if (meta.nexthop_mtu != 0 && meta.ip_len > (bit<32>) meta.nexthop_mtu) {
            meta.drop_cause = Drop.TOO_BIG;
            meta.error_mtu = meta.nexthop_mtu;
        }
    }
}
