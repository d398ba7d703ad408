// Each peer's endpoint: the outer addresses of its newest authenticated packet (as RFC 4555 section 3.5 and WireGuard have it).
//
//  open: newest ──► LearnPeer ──► registers[endpoint] = tag, peer, port, local ──► PeerEndpoint ◄── seal
//
// Both generations of a tunnel share an endpoint; the tag tells an endpoint's next tenant from its last.
// An endpoint's fields are written together: in v1model a packet has the ingress for itself.

const bit<32> ENDPOINTS = SAS; // one for each tunnel

register<bit<128>>(ENDPOINTS) peer_address;
register<bit<128>>(ENDPOINTS) local_address;
register<bit<48>>(ENDPOINTS)  peer_tag_port; // 32 bits of tag, 16 of UDP port; port 0: ESP without UDP
register<bit<8>>(ENDPOINTS)   peer_told;     // packets sealed since the controller was told, modulo 256

// An authenticated newest packet.
control LearnPeer(in headers_t hdr, in metadata_t meta, in bit<32> endpoint, in bit<32> tag) {
    ip_addr_t peer;
    ip_addr_t local;
    bit<48> tag_port;

    apply {
        bit<48> now = tag ++ meta.sport;
        peer_address.read(peer, endpoint);
        local_address.read(local, endpoint);
        peer_tag_port.read(tag_port, endpoint);
        if (peer != meta.src || local != meta.dst || tag_port != now) {
            peer_address.write(endpoint, meta.src);
            local_address.write(endpoint, meta.dst);
            peer_tag_port.write(endpoint, now);
            peer_told.write(endpoint, 0);
        }
    }
}

// A packet to be sent: replaces where its entry says it goes.
control PeerEndpoint(in metadata_t meta, in bit<32> endpoint, in bit<32> tag,
                inout ip_addr_t src, inout ip_addr_t dst, inout bit<16> sport, inout bit<16> dport) {
    ip_addr_t peer;
    ip_addr_t local;
    bit<48> tag_port;
    bit<8> told;
    bit<1> allowed = 1;
    RateLimit(ENDPOINTS, 1000000, 3000000) moves; // four at once, then one a second, by endpoint

    apply {
        peer_tag_port.read(tag_port, endpoint);
        if (tag != 0 && tag_port[47:16] == tag) {
            peer_address.read(peer, endpoint);
            local_address.read(local, endpoint);
            if (peer != dst || local != src || tag_port[15:0] != dport) {
                src = local;
                dst = peer;
                dport = tag_port[15:0];
                if (dport == 0) {
                    sport = 0;
                } else if (sport == 0) {
                    sport = PORT_ESP_IN_UDP;
                }
                peer_told.read(told, endpoint);
                if (told == 0) {
                    moves.apply(meta.now, endpoint, allowed);
                    if (allowed == 1) {
                        digest<moved_t>(1, { meta.sa_id, peer, tag_port[15:0], local });
                    }
                }
                if (allowed == 1) {
                    peer_told.write(endpoint, told + 1);
                }
            }
        }
    }
}
