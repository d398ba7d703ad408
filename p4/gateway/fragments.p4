// The ports of datagrams that come in fragments: only the first fragment has them (RFC 4301 section 7.4).
//
//  first fragment ─► policy ─► permitted: KeepPorts ─► registers[hash of the datagram] = check, time, ports
//  later fragment ─► RecallPorts ─► policy
//
// A later fragment whose first was not permitted, or not within the last two seconds, keeps port 0. Datagrams of one cell displace
// each other.

const bit<32> DATAGRAMS = 4096;
const bit<48> PORTS_KEPT = 2000000; // microseconds

register<bit<32>>(DATAGRAMS) datagram_check;
register<bit<48>>(DATAGRAMS) datagram_time;
register<bit<32>>(DATAGRAMS) datagram_ports;

control RecallPorts(in headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.is_fragment == 1) {
            bit<32> id = 0;
            if (hdr.fragment.isValid()) {
                id = hdr.fragment.id;
            } else if (hdr.ipv4.isValid()) {
                id = (bit<32>) hdr.ipv4.id;
            }
            hash(meta.datagram_cell, HashAlgorithm.crc16, 32w0,
                 { meta.sa_id, meta.src, meta.dst, meta.protocol, id }, DATAGRAMS);
            hash(meta.datagram_check, HashAlgorithm.crc32, 32w0,
                 { meta.sa_id, meta.src, meta.dst, meta.protocol, id }, 32w0xffffffff);
            if (meta.later_fragment == 1) {
                bit<32> check;
                bit<48> time;
                datagram_check.read(check, meta.datagram_cell);
                datagram_time.read(time, meta.datagram_cell);
                if (check == meta.datagram_check && meta.now - time <= PORTS_KEPT) {
                    bit<32> ports;
                    datagram_ports.read(ports, meta.datagram_cell);
                    meta.sport = ports[31:16];
                    meta.dport = ports[15:0];
                }
            }
        }
    }
}

// A permitted packet.
control KeepPorts(in metadata_t meta) {
    apply {
        if (meta.is_fragment == 1 && meta.later_fragment == 0) {
            datagram_check.write(meta.datagram_cell, meta.datagram_check);
            datagram_time.write(meta.datagram_cell, meta.now);
            datagram_ports.write(meta.datagram_cell, meta.sport ++ meta.dport);
        }
    }
}
