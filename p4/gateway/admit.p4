// Admission from a wire: a port and VLAN with a role, a frame for us, a well-formed packet with possible addresses.

control Admit(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    IpCheck() check;

    action set_wan(bit<16> interface_id, @format(MAC_ADDRESS) mac_t mac) {
        meta.role = Role.WAN;
        meta.interface_id = interface_id;
        meta.our_mac = mac;
    }
    action set_lan(bit<16> interface_id, @format(MAC_ADDRESS) mac_t mac) {
        meta.role = Role.LAN;
        meta.interface_id = interface_id;
        meta.our_mac = mac;
    }
    action set_crypto(@format(MAC_ADDRESS) mac_t mac) {
        meta.role = Role.CRYPTO;
        meta.our_mac = mac;
    }
    action no_role() { meta.drop_cause = Drop.NO_ROLE; }

    @name("port_role")
    table port_role {
        key = {
            std.ingress_port : exact @name("port");
            meta.vlan_id     : exact @name("vlan");
        }
        actions = { set_wan; set_lan; set_crypto; @defaultonly no_role; }
        const default_action = no_role();
        size = 4096;
    }

    apply {
        port_role.apply();
        bit<32> l2_len = 14;
        if (hdr.vlan.isValid()) {
            l2_len = 18;
        }
        // Broadcast is for ARP; the solicited-node group (RFC 4291 section 2.7.1) for Neighbor Solicitations.
        bool to_us = hdr.ethernet.dst == meta.our_mac
            || (hdr.arp.isValid() && hdr.ethernet.dst == 0xffffffffffff)
            || (hdr.nd.isValid() && hdr.ethernet.dst[47:24] == 0x3333ff);
        if (meta.drop_cause != Drop.NONE) {
            // No role.
        } else if (std.parser_error != error.NoError) {
            meta.drop_cause = Drop.MALFORMED;
        } else if (!to_us || hdr.ethernet.src[40:40] == 1) {
            meta.drop_cause = Drop.NOT_OUR_MAC;
        } else if (meta.role == Role.CRYPTO) {
            // Checked where it is taken.
        } else if (hdr.arp.isValid()) {
            // Checked where it is answered.
        } else if (!hdr.ipv4.isValid() && !hdr.ipv6.isValid()) {
            meta.drop_cause = Drop.NOT_IP;
        } else if (meta.ip_len + l2_len > std.packet_length) {
            meta.drop_cause = Drop.MALFORMED;
        } else {
            check.apply(hdr, meta, std);
        }
    }
}
