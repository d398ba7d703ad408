// Checks of every IP packet, from a wire or out of a tunnel (RFC 1812 sections 5.2.2 and 5.3.7, RFC 4291 section 2.5).

control IpCheck(in headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    apply {
        bool martian = false;
        bool lies = std.checksum_error == 1 || meta.short_transport == 1
            || (hdr.udp.isValid() && (hdr.udp.length < UDP_LEN || (hdr.udp.length > meta.l4_len && meta.is_fragment == 0)));
        if (hdr.ipv4.isValid()) {
            bit<8> src = hdr.ipv4.src[31:24];
            bit<8> dst = hdr.ipv4.dst[31:24];
            lies = lies || hdr.ipv4.version != 4 || hdr.ipv4.ihl < 5 || hdr.ipv4.total_len < IPV4_LEN;
            martian = src == 0 || src == 127 || src >= 224 || dst == 0 || dst == 127 || dst >= 224
                || hdr.ipv4.src[31:16] == 0xa9fe || hdr.ipv4.dst[31:16] == 0xa9fe // link-local, RFC 3927 section 7
                || hdr.ipv4.src == hdr.ipv4.dst;
        } else if (hdr.ipv6.isValid()) {
            lies = lies || hdr.ipv6.version != 6;
            // Unspecified, loopback, compatible and mapped addresses; multicast; a sender that is its own receiver.
            martian = hdr.ipv6.src[127:48] == 0 || hdr.ipv6.dst[127:48] == 0
                || hdr.ipv6.src[127:120] == 0xff || hdr.ipv6.dst[127:120] == 0xff || hdr.ipv6.src == hdr.ipv6.dst
                || (meta.stage == Stage.OPENED && (hdr.ipv6.src[127:118] == LINK_LOCAL || hdr.ipv6.dst[127:118] == LINK_LOCAL));
        }
        if (lies) {
            meta.drop_cause = Drop.MALFORMED;
        } else if (hdr.ipv4.isValid() && hdr.ipv4.ihl > 5) {
            meta.drop_cause = Drop.IP_OPTIONS;
        } else if (martian && !hdr.nd.isValid()) { // a solicitation has its own rules
            meta.drop_cause = Drop.MARTIAN;
        }
    }
}
