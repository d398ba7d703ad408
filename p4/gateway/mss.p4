// A SYN's MSS is cut to what fits (RFC 9293 section 3.7.1): the path's MTU less the headers without options.

control MssClamp(inout headers_t hdr, in metadata_t meta) {
    apply {
        bit<16> mtu = meta.inner_mtu;
        if (meta.nexthop_mtu != 0 && (mtu == 0 || meta.nexthop_mtu < mtu)) {
            mtu = meta.nexthop_mtu;
        }
        bit<16> headers = IPV4_LEN + TCP_LEN;
        if (hdr.ipv6.isValid()) {
            headers = IPV6_LEN + TCP_LEN;
        }
        if (hdr.mss.isValid() && mtu > headers && hdr.mss.value > mtu - headers) {
            bit<16> old = hdr.mss.value;
            bit<16> new = mtu - headers;
            hdr.mss.value = new;
            // RFC 1624. At an odd offset the checksum sees the bytes the other way round (RFC 1071 section 2 (B)).
            if (meta.mss_at_odd == 1) {
                old = old[7:0] ++ old[15:8];
                new = new[7:0] ++ new[15:8];
            }
            bit<32> sum = (bit<32>) (~hdr.tcp.checksum) + (bit<32>) (~old) + (bit<32>) new;
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            hdr.tcp.checksum = ~sum[15:0];
        }
    }
}
