// Time exceeded and packet too big (RFC 792, 1191, 4443), about packets that are dropped for it.
//
//  dropped packet ─► IcmpDeserved ─► recirculate as ERROR, as it came ─► IcmpError: quote cut, headers put before it
//                                                 ─┬─ came from a wire ───► out of the same port
//                                                  └─ came out of a tunnel ► spd_out: sealed, or discarded
//
// IPv4 without DF is told too: P4 cannot fragment.

// May there be an error about this packet (RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 (e))? Multicast and impossible
// sources have been dropped as martians before.
control IcmpDeserved(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    RateLimit(1024, 100000, 900000) errors; // ten at once, then ten a second, by source
    ipv4_addr_t ipv4_source = 0;
    ip_addr_t ipv6_source = 0;

    action no_source() { }
    action set_source(ipv4_addr_t ipv4, ip_addr_t ipv6) {
        ipv4_source = ipv4;
        ipv6_source = ipv6;
    }

    @name("icmp_source")
    table icmp_source {
        key = { meta.interface_id : exact @name("interface_id"); } // 0: came out of a tunnel
        actions = { set_source; @defaultonly no_source; }
        const default_action = no_source();
        size = 512;
    }

    apply {
        mark_to_drop(std);
        bit<8> kind = Error.NONE;
        if (meta.drop_cause == Drop.TTL) {
            kind = Error.TIME_EXCEEDED;
        } else if (meta.drop_cause == Drop.TOO_BIG) {
            kind = Error.TOO_BIG;
        }
        if (kind != Error.NONE && (meta.stage == Stage.WIRE || meta.stage == Stage.OPENED)
            && meta.is_icmp_error == 0 && meta.later_fragment == 0) {
            icmp_source.apply();
            if ((hdr.ipv4.isValid() && ipv4_source != 0) || (hdr.ipv6.isValid() && ipv6_source != 0)) {
                bit<32> cell;
                bit<1> allowed;
                hash(cell, HashAlgorithm.crc16, 32w0, { meta.src }, 32w1024);
                errors.apply(meta.now, cell, allowed);
                if (allowed == 1) {
                    meta.error_kind = kind;
                    meta.error_from_tunnel = (bit<1>) (meta.stage == Stage.OPENED);
                    meta.error_port = std.ingress_port;
                    meta.error_vlan = meta.vlan_id;
                    meta.error_mac = meta.our_mac;
                    if (hdr.ethernet.isValid()) {
                        meta.error_peer_mac = hdr.ethernet.src;
                    }
                    meta.error_len = meta.ip_len[15:0];
                    meta.error_dst = meta.src;
                    meta.error_src = ipv6_source;
                    if (hdr.ipv4.isValid()) {
                        meta.error_src = MAPPED ++ ipv4_source;
                    }
                    hdr.ethernet.setInvalid();
                    hdr.vlan.setInvalid();
                    meta.stage = Stage.ERROR;
                    std.egress_spec = 0; // any port: egress sends the packet back here
                }
            }
        }
    }
}

// The second pass: all of the packet is payload.
control IcmpError(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    PayloadTail() tail;

    apply {
        bool is_ipv4 = meta.error_src[127:32] == MAPPED;
        // The whole message: 576 bytes at most on IPv4 (RFC 1812 section 4.3.2.3), 1280 on IPv6 (RFC 4443 section 2.4 (c)).
        bit<16> headers = IPV6_LEN + ICMP_LEN;
        bit<16> quote = 1280 - IPV6_LEN - ICMP_LEN;
        if (is_ipv4) {
            headers = IPV4_LEN + ICMP_LEN;
            quote = 576 - IPV4_LEN - ICMP_LEN;
        }
        if (meta.error_len < quote) {
            quote = meta.error_len;
        }
        tail.cut(quote);

        hdr.icmp.setValid();
        hdr.icmp = { ICMPV6_TIME_EXCEEDED, 0, 0, 0 };
        if (is_ipv4) {
            hdr.ipv4.setValid();
            hdr.ipv4 = { 4, 5, 0xc0, quote + headers, 0, 0, 1, 0, 0, 64, PROTO_ICMP, 0, meta.error_src[31:0], meta.error_dst[31:0] };
            meta.protocol = PROTO_ICMP;
            hdr.icmp.type = ICMP_TIME_EXCEEDED;
            if (meta.error_kind == Error.TOO_BIG) {
                hdr.icmp.type = ICMP_UNREACHABLE;
                hdr.icmp.code = 4; // RFC 1191 section 4
                hdr.icmp.rest = (bit<32>) meta.error_mtu;
            }
        } else {
            hdr.ipv6.setValid();
            hdr.ipv6 = { 6, 0xc0, 0, quote + ICMP_LEN, PROTO_ICMPV6, 64, meta.error_src, meta.error_dst };
            meta.protocol = PROTO_ICMPV6;
            if (meta.error_kind == Error.TOO_BIG) {
                hdr.icmp.type = ICMPV6_TOO_BIG;
                hdr.icmp.rest = (bit<32>) meta.error_mtu;
            }
        }
        meta.made_icmp = 1;
        meta.src = meta.error_src;
        meta.dst = meta.error_dst;
        meta.tos = 0xc0; // internetwork control (RFC 1812 section 4.3.2.5)
        meta.ip_len = (bit<32>) (quote + headers);
        if (meta.error_from_tunnel == 1) {
            meta.role = Role.LAN;
        } else {
            meta.next_vlan = meta.error_vlan;
            meta.next_src_mac = meta.error_mac;
            meta.next_dst_mac = meta.error_peer_mac;
            std.egress_spec = meta.error_port;
        }
    }
}
