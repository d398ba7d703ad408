// Towards the WAN: the policy says protect, bypass or discard; what it protects is sealed or dropped, never sent in clear.

control OutboundPolicy(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    RecallPorts() recall;
    KeepPorts() keep;
    direct_counter(CounterType.packets_and_bytes) spd_out_counter;

    action discard() {
        spd_out_counter.count();
        meta.drop_cause = Drop.POLICY;
    }
    action bypass() { spd_out_counter.count(); }

    action protect(@refers_to("sad_out", "sa_id") bit<32> sa_id, bit<16> inner_mtu) {
        spd_out_counter.count();
        meta.sa_id = sa_id;
        meta.inner_mtu = inner_mtu;
        meta.outer_tos = meta.tos; // RFC 6040 section 4.1
        meta.detour = 1;
    }

    @entry_restriction("protocol::mask == 0 || protocol::mask == 255")
    @name("spd_out")
    table spd_out {
        key = {
            meta.role     : exact   @name("role");
            meta.src      : ternary @name("src");
            meta.dst      : ternary @name("dst");
            meta.protocol : ternary @name("protocol");
            meta.sport    : range   @name("sport");
            meta.dport    : range   @name("dport");
        }
        actions = { protect; bypass; discard; }
        const default_action = discard();
        counters = spd_out_counter;
        size = POLICIES;
    }

    apply {
        recall.apply(hdr, meta);
        spd_out.apply();
        if (meta.drop_cause == Drop.NONE) {
            keep.apply(meta);
            if (meta.detour == 0) {
                if (meta.stage == Stage.ERROR) {
                    meta.drop_cause = Drop.POLICY; // what goes back to a tunnel is sealed or not sent
                }
            } else if (meta.stage != Stage.ERROR && meta.ttl <= 1) {
                meta.drop_cause = Drop.TTL;
            } else if (meta.inner_mtu != 0 && meta.ip_len > (bit<32>) meta.inner_mtu) {
                meta.drop_cause = Drop.TOO_BIG;
                meta.error_mtu = meta.inner_mtu;
            }
        }
    }
}

// The second pass: the payload is the inner packet, and there is no header yet. Sealed here by the engine, or behind a port by
// a crypto host.
control Encrypt(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    EspEngine(SAS) sealer;
    RateLimit(1024, 1000000, 2000000) acquires; // three at once, then one a second, by SA
    direct_counter(CounterType.packets_and_bytes) sad_out_counter;

    action acquire() {
        sad_out_counter.count();
        meta.drop_cause = Drop.NO_SA;
    }

    action seal(bit<32> slot, bit<8> suite, wrapped_key_t wrapped_key, bit<32> spi, bit<1> esn,
                bit<64> soft_packets, bit<64> soft_bytes, bit<32> soft_seconds,
                bit<64> hard_packets, bit<64> hard_bytes, bit<32> hard_seconds,
                ip_addr_t src, ip_addr_t dst, bit<16> sport, bit<16> dport, bit<32> endpoint, bit<32> tag) {
        sad_out_counter.count();
        meta.spi = spi;
        meta.src = src;
        meta.dst = dst;
        meta.sport = sport;
        meta.dport = dport;
        meta.peer_endpoint = endpoint;
        meta.peer_tag = tag;
        sealer.seal(slot, suite, wrapped_key, spi, esn, soft_packets, soft_bytes, soft_seconds,
                    hard_packets, hard_bytes, hard_seconds, meta.esp_len, meta.verdict);
    }

    action seal_at(bit<9> port, bit<32> slot, bit<32> generation) {
        sad_out_counter.count();
        std.egress_spec = port;
        meta.slot = slot;
        meta.generation = generation;
        meta.to_host = 1;
    }

    @name("sad_out")
    table sad_out {
        key = { meta.sa_id : exact @name("sa_id"); }
        actions = { seal; seal_at; @defaultonly acquire; }
        const default_action = acquire();
        counters = sad_out_counter;
        size = SAS;
    }

    apply {
        if (sad_out.apply().miss) {
            bit<32> cell;
            bit<1> allowed;
            hash(cell, HashAlgorithm.crc16, 32w0, { meta.sa_id }, 32w1024);
            acquires.apply(meta.now, cell, allowed);
            if (allowed == 1) {
                digest<acquire_t>(1, { meta.sa_id });
            }
        }
    }
}

// The verdict on an inner packet: its ESP packet gets outer headers, or is dropped under the cause.
control Sealed(inout headers_t hdr, inout metadata_t meta) {
    PeerEndpoint() whereto;

    action outer_udp() {
        hdr.udp.setValid();
        hdr.udp = { meta.sport, meta.dport, meta.esp_len + UDP_LEN, 0 };
        meta.protocol = PROTO_UDP;
        meta.l4_len = meta.esp_len + UDP_LEN;
    }

    // DF: the inner packet was told the MTU already. With DF the id may be 0 (RFC 6864 section 4.1).
    action outer_ipv4() {
        hdr.ipv4.setValid();
        hdr.ipv4 = { 4, 5, meta.outer_tos, meta.l4_len + IPV4_LEN, 0, 0, 1, 0, 0, 64, meta.protocol, 0, meta.src[31:0], meta.dst[31:0] };
        meta.ip_len = (bit<32>) meta.l4_len + (bit<32>) IPV4_LEN;
    }

    action outer_ipv6() {
        hdr.ipv6.setValid();
        hdr.ipv6 = { 6, meta.outer_tos, 0, meta.l4_len, meta.protocol, 64, meta.src, meta.dst };
        meta.ip_len = (bit<32>) meta.l4_len + (bit<32>) IPV6_LEN;
    }

    apply {
        hdr.crypto.setInvalid();
        if (meta.verdict == Verdict.HARD_LIMIT) {
            meta.drop_cause = Drop.HARD_LIMIT;
        } else if (meta.verdict == Verdict.KEY) {
            meta.drop_cause = Drop.KEY;
        } else if (meta.verdict != Verdict.OK && meta.verdict != Verdict.SOFT_LIMIT) {
            meta.drop_cause = Drop.MALFORMED;
        } else {
            meta.soft_limit = (bit<1>) (meta.verdict == Verdict.SOFT_LIMIT);
            meta.outbound = 1;
            whereto.apply(meta);
            meta.protocol = PROTO_ESP;
            meta.l4_len = meta.esp_len;
            if (meta.dport != 0) {
                outer_udp();
            }
            if (meta.dst[127:32] == MAPPED) {
                outer_ipv4();
            } else {
                outer_ipv6();
                meta.made_udp = (bit<1>) (meta.dport != 0); // RFC 8200 section 8.1; on IPv4 it is 0 (RFC 3948 section 2.1)
            }
        }
    }
}
