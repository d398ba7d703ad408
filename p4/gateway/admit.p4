// What may enter from a wire: a port with a role, a well-formed packet.

control Admit(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_wan() { meta.role = Role.WAN; }
    action set_lan() { meta.role = Role.LAN; }
    action no_role() { meta.drop_cause = Drop.NO_ROLE; }

    @name("port_role")
    table port_role {
        key = { std.ingress_port : exact @name("port"); }
        actions = { set_wan; set_lan; @defaultonly no_role; }
        const default_action = no_role();
        size = 512;
    }

    apply {
        port_role.apply();
        if (meta.drop_cause == Drop.NONE) {
            if (std.parser_error != error.NoError) {
                meta.drop_cause = Drop.MALFORMED;
            } else if (hdr.ipv4.isValid()) {
                if (hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5 || hdr.ipv4.total_len < 20 || std.checksum_error == 1
                    || (bit<32>) hdr.ipv4.total_len + 14 > std.packet_length) {
                    meta.drop_cause = Drop.MALFORMED;
                }
            } else if (!hdr.arp.isValid()) {
                meta.drop_cause = Drop.NOT_IP;
            }
        }
    }
}
