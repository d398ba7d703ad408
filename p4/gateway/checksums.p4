// The IPv4 header checksum (RFC 791) checked and made; ICMPv6 of Neighbor Discovery checked; ICMP that we write, and the UDP around
// ESP on IPv6, made over the payload too.

control VerifyChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.id, hdr.ipv4.reserved,
              hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.nd.isValid(),
            { hdr.ipv6.src, hdr.ipv6.dst, 16w0, hdr.ipv6.payload_len, 24w0, PROTO_ICMPV6, hdr.icmp.type, hdr.icmp.code, hdr.icmp.rest,
              hdr.nd.target, hdr.nd_options[0], hdr.nd_options[1], hdr.nd_options[2], hdr.nd_options[3] },
            hdr.icmp.checksum, HashAlgorithm.csum16);
    }
}

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.id, hdr.ipv4.reserved,
              hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.made_icmp == 1 && hdr.ipv4.isValid(),
            { hdr.icmp.type, hdr.icmp.code, hdr.icmp.rest },
            hdr.icmp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.made_icmp == 1 && hdr.ipv6.isValid(),
            { hdr.ipv6.src, hdr.ipv6.dst, 16w0, hdr.ipv6.payload_len, 24w0, PROTO_ICMPV6, hdr.icmp.type, hdr.icmp.code, hdr.icmp.rest,
              hdr.nd.target, hdr.nd_options[0] },
            hdr.icmp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.made_udp == 1,
            { hdr.ipv6.src, hdr.ipv6.dst, 16w0, hdr.udp.length, 24w0, PROTO_UDP, hdr.udp.sport, hdr.udp.dport, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
        // A sum of 0 is sent as all ones (RFC 768): 0 would say that there is none.
        update_checksum(meta.made_udp == 1 && hdr.udp.checksum == 0, { 16w0 }, hdr.udp.checksum, HashAlgorithm.csum16);
    }
}
