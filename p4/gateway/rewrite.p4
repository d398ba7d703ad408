// Changes to a forwarded packet: its hop limit, the MSS of a SYN, ECN out of the tunnel, the link header.
// All of it comes after the last check, so that an ICMP error quotes a packet as it came.

control NextHop(inout headers_t hdr, inout metadata_t meta) {
    MssClamp() clamp;

    apply {
        clamp.apply(hdr, meta);
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.tos = meta.tos;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        } else if (hdr.ipv6.isValid()) {
            hdr.ipv6.traffic_class = meta.tos;
            hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
        }
    }
}

control WriteLinkHeader(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.detour == 1) {
            hdr.ethernet.setInvalid();
            hdr.vlan.setInvalid();
            meta.stage = Stage.TO_SEAL;
            return;
        }
        bit<16> ethertype = ETHERTYPE_IPV4;
        if (hdr.ipv6.isValid()) {
            ethertype = ETHERTYPE_IPV6;
        }
        hdr.ethernet.setValid();
        hdr.ethernet.dst = meta.next_dst_mac;
        hdr.ethernet.src = meta.next_src_mac;
        if (meta.next_vlan == 0) {
            hdr.ethernet.ethertype = ethertype;
            hdr.vlan.setInvalid();
        } else {
            hdr.ethernet.ethertype = ETHERTYPE_VLAN;
            hdr.vlan.setValid();
            hdr.vlan = { 0, 0, meta.next_vlan, ethertype };
        }
    }
}
