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
control LearnPeer(in metadata_t meta) {
    ip_addr_t peer;
    ip_addr_t local;
    bit<48> tag_port;

    apply {
        bit<48> now = meta.peer_tag ++ meta.sport;
        peer_address.read(peer, meta.peer_endpoint);
        local_address.read(local, meta.peer_endpoint);
        peer_tag_port.read(tag_port, meta.peer_endpoint);
        if (peer != meta.src || local != meta.dst || tag_port != now) {
            peer_address.write(meta.peer_endpoint, meta.src);
            local_address.write(meta.peer_endpoint, meta.dst);
            peer_tag_port.write(meta.peer_endpoint, now);
            peer_told.write(meta.peer_endpoint, 0);
        }
    }
}

// A packet to be sent: replaces where its entry says it goes.
control PeerEndpoint(inout metadata_t meta) {
    ip_addr_t peer;
    ip_addr_t local;
    bit<48> tag_port;
    bit<8> told;
    bit<1> allowed = 1;
    RateLimit(ENDPOINTS, 1000000, 3000000) moves; // four at once, then one a second, by endpoint

    apply {
        peer_tag_port.read(tag_port, meta.peer_endpoint);
        if (meta.peer_tag != 0 && tag_port[47:16] == meta.peer_tag) {
            peer_address.read(peer, meta.peer_endpoint);
            local_address.read(local, meta.peer_endpoint);
            if (peer != meta.dst || local != meta.src || tag_port[15:0] != meta.dport) {
                meta.src = local;
                meta.dst = peer;
                meta.dport = tag_port[15:0];
                if (meta.dport == 0) {
                    meta.sport = 0;
                } else if (meta.sport == 0) {
                    meta.sport = PORT_ESP_IN_UDP;
                }
                peer_told.read(told, meta.peer_endpoint);
                if (told == 0) {
                    moves.apply(meta.now, meta.peer_endpoint, allowed);
                    if (allowed == 1) {
                        digest<moved_t>(1, { meta.sa_id, peer, tag_port[15:0], local });
                    }
                }
                if (allowed == 1) {
                    peer_told.write(meta.peer_endpoint, told + 1);
                }
            }
        }
    }
}
