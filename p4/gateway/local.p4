// The gateway's own addresses: ARP (RFC 826), Neighbor Solicitation (RFC 4861), ping (RFC 792, 4443) and ESP. Nothing else is offered.

control AnswerLocal(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    PayloadTail() tail;
    bit<1> is_ours = 0;

    action ours() { is_ours = 1; }
    action not_ours() { }

    @name("own_address")
    table own_address {
        key = {
            meta.interface_id : exact @name("interface_id");
            meta.dst          : exact @name("address");
        }
        actions = { ours; @defaultonly not_ours; }
        const default_action = not_ours();
        size = 4096;
    }

    action back_to_sender() {
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = meta.our_mac;
        std.egress_spec = std.ingress_port;
        meta.answered = 1;
    }

    action arp_reply() {
        back_to_sender();
        ipv4_addr_t asked = hdr.arp.target_ip;
        hdr.arp.operation = 2;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = meta.our_mac;
        hdr.arp.sender_ip = asked;
    }

    // One option: our MAC. What the solicitation had behind its target goes.
    action advertise() {
        back_to_sender();
        hdr.ipv6.dst = hdr.ipv6.src;
        hdr.ipv6.src = hdr.nd.target;
        hdr.ipv6.traffic_class = 0;
        hdr.ipv6.flow_label = 0;
        hdr.ipv6.payload_len = 32;
        hdr.icmp.type = ICMPV6_ADVERTISEMENT;
        hdr.icmp.rest = 0xe0000000; // router, solicited, override
        hdr.nd_options[0].setValid();
        hdr.nd_options[0].type = 2;
        hdr.nd_options[0].length = 1;
        hdr.nd_options[0].value = meta.our_mac;
        hdr.nd_options[1].setInvalid();
        hdr.nd_options[2].setInvalid();
        hdr.nd_options[3].setInvalid();
        meta.made_icmp = 1;
        tail.cut(0);
    }

    // The answer to duplicate address detection goes to all nodes and is not solicited (RFC 4861 section 7.2.4).
    action advertise_to_all() {
        hdr.ethernet.dst = 0x333300000001;
        hdr.ipv6.dst = 0xff020000000000000000000000000001;
        hdr.icmp.rest = 0xa0000000;
    }

    // The sum does not change when source and destination are swapped; the type changes it (RFC 1624).
    action echo_reply(bit<8> type, bit<16> plus) {
        back_to_sender();
        hdr.icmp.type = type;
        bit<32> sum = (bit<32>) (~hdr.icmp.checksum) + (bit<32>) plus;
        sum = (sum & 0xffff) + (sum >> 16);
        hdr.icmp.checksum = ~sum[15:0];
    }

    action echo_reply_ipv4() {
        echo_reply(ICMP_ECHO_REPLY, ~16w0x0800);
        ipv4_addr_t pinged = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = pinged;
        hdr.ipv4.ttl = 64;
        tail.cut(hdr.ipv4.total_len - IPV4_LEN - ICMP_LEN);
    }

    action echo_reply_ipv6() {
        echo_reply(ICMPV6_ECHO_REPLY, 0x0100);
        ip_addr_t pinged = hdr.ipv6.dst;
        hdr.ipv6.dst = hdr.ipv6.src;
        hdr.ipv6.src = pinged;
        hdr.ipv6.hop_limit = 64;
        tail.cut(hdr.ipv6.payload_len - ICMP_LEN);
    }

    apply {
        if (hdr.nd.isValid()) {
            meta.dst = hdr.nd.target;
        }
        own_address.apply();
        if (hdr.arp.isValid()) {
            if (hdr.arp.hardware != 1 || hdr.arp.protocol != ETHERTYPE_IPV4 || hdr.arp.hardware_len != 6
                || hdr.arp.protocol_len != 4 || hdr.arp.sender_mac[40:40] == 1) {
                meta.drop_cause = Drop.MALFORMED;
            } else if (hdr.arp.operation != 1 || is_ours == 0) {
                meta.drop_cause = Drop.ARP_NOT_OURS;
            } else {
                arp_reply();
            }
        } else if (hdr.nd.isValid()) {
            // RFC 4861 section 7.1.1. Options of our four slots; the first of other length ends them.
            bool unspecified = hdr.ipv6.src == 0;
            bool to_group = hdr.ipv6.dst[127:24] == 0xff0200000000000000000001ff;
            bool empty_option = (hdr.nd_options[0].isValid() && hdr.nd_options[0].length == 0)
                || (hdr.nd_options[1].isValid() && hdr.nd_options[1].length == 0)
                || (hdr.nd_options[2].isValid() && hdr.nd_options[2].length == 0)
                || (hdr.nd_options[3].isValid() && hdr.nd_options[3].length == 0);
            bool source_option = (hdr.nd_options[0].isValid() && hdr.nd_options[0].type == 1)
                || (hdr.nd_options[1].isValid() && hdr.nd_options[1].type == 1)
                || (hdr.nd_options[2].isValid() && hdr.nd_options[2].type == 1)
                || (hdr.nd_options[3].isValid() && hdr.nd_options[3].type == 1);
            if (hdr.ipv6.hop_limit != 255 || hdr.icmp.code != 0 || hdr.nd.target[127:120] == 0xff || empty_option
                || (unspecified && (!to_group || source_option))) {
                meta.drop_cause = Drop.MALFORMED;
            } else if (is_ours == 0 || (hdr.ipv6.dst != hdr.nd.target && !to_group)) {
                meta.drop_cause = Drop.ARP_NOT_OURS;
            } else if (hdr.ipv6.src[127:48] == 0 && !unspecified || hdr.ipv6.src[127:120] == 0xff) {
                meta.drop_cause = Drop.MARTIAN;
            } else {
                advertise();
                if (unspecified) {
                    advertise_to_all();
                }
            }
        } else if (is_ours == 1) {
            if (meta.is_fragment == 1) {
                meta.drop_cause = Drop.FRAGMENT;
            } else if (meta.role == Role.WAN && (meta.protocol == PROTO_ESP || (hdr.udp.isValid() && meta.dport == PORT_ESP_IN_UDP))) {
                if (meta.is_esp == 0 || meta.spi == 0) {
                    meta.drop_cause = Drop.NOT_ESP;
                } else {
                    meta.to_open = 1;
                }
            } else if (hdr.ipv4.isValid() && hdr.icmp.isValid() && hdr.icmp.type == ICMP_ECHO && hdr.icmp.code == 0) {
                echo_reply_ipv4();
            } else if (hdr.ipv6.isValid() && hdr.icmp.isValid() && hdr.icmp.type == ICMPV6_ECHO && hdr.icmp.code == 0) {
                echo_reply_ipv6();
            } else {
                meta.drop_cause = Drop.NOT_OFFERED;
            }
        } else if (hdr.ipv6.isValid() && (hdr.ipv6.src[127:118] == LINK_LOCAL || hdr.ipv6.dst[127:118] == LINK_LOCAL)) {
            meta.drop_cause = Drop.MARTIAN; // never forwarded (RFC 4291 section 2.5.6)
        }
    }
}
