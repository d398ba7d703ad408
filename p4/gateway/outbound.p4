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

// The second pass: the payload is the inner packet, and there is no header yet.
control Encrypt(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    EspEngine(SAS) sealer;
    PeerEndpoint() whereto;
    RateLimit(1024, 1000000, 2000000) acquires; // three at once, then one a second, by SA
    bit<8> verdict = Verdict.OK;
    bit<16> esp_len = 0;
    ip_addr_t outer_src = 0;
    ip_addr_t outer_dst = 0;
    bit<16> outer_sport = 0;
    bit<16> outer_dport = 0;
    bit<32> peer_endpoint = 0;
    bit<32> peer_tag = 0;
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
        outer_src = src;
        outer_dst = dst;
        outer_sport = sport;
        outer_dport = dport;
        peer_endpoint = endpoint;
        peer_tag = tag;
        sealer.seal(slot, suite, wrapped_key, spi, esn, soft_packets, soft_bytes, soft_seconds,
                    hard_packets, hard_bytes, hard_seconds, esp_len, verdict);
    }

    @name("sad_out")
    table sad_out {
        key = { meta.sa_id : exact @name("sa_id"); }
        actions = { seal; @defaultonly acquire; }
        const default_action = acquire();
        counters = sad_out_counter;
        size = SAS;
    }

    action outer_udp() {
        hdr.udp.setValid();
        hdr.udp = { outer_sport, outer_dport, esp_len + UDP_LEN, 0 };
        meta.protocol = PROTO_UDP;
        meta.l4_len = esp_len + UDP_LEN;
    }

    // DF: the inner packet was told the MTU already. With DF the id may be 0 (RFC 6864 section 4.1).
    action outer_ipv4() {
        hdr.ipv4.setValid();
        hdr.ipv4 = { 4, 5, meta.outer_tos, meta.l4_len + IPV4_LEN, 0, 0, 1, 0, 0, 64, meta.protocol, 0, outer_src[31:0], outer_dst[31:0] };
        meta.ip_len = (bit<32>) meta.l4_len + (bit<32>) IPV4_LEN;
    }

    action outer_ipv6() {
        hdr.ipv6.setValid();
        hdr.ipv6 = { 6, meta.outer_tos, 0, meta.l4_len, meta.protocol, 64, outer_src, outer_dst };
        meta.ip_len = (bit<32>) meta.l4_len + (bit<32>) IPV6_LEN;
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
        } else if (verdict == Verdict.HARD_LIMIT) {
            meta.drop_cause = Drop.HARD_LIMIT;
        } else if (verdict == Verdict.KEY) {
            meta.drop_cause = Drop.KEY;
        } else if (verdict != Verdict.OK && verdict != Verdict.SOFT_LIMIT) {
            meta.drop_cause = Drop.MALFORMED;
        } else {
            meta.soft_limit = (bit<1>) (verdict == Verdict.SOFT_LIMIT);
            meta.outbound = 1;
            whereto.apply(meta, peer_endpoint, peer_tag, outer_src, outer_dst, outer_sport, outer_dport);
            meta.protocol = PROTO_ESP;
            meta.l4_len = esp_len;
            if (outer_dport != 0) {
                outer_udp();
            }
            if (outer_dst[127:32] == MAPPED) {
                outer_ipv4();
            } else {
                outer_ipv6();
                meta.made_udp = (bit<1>) (outer_dport != 0); // RFC 8200 section 8.1; on IPv4 it is 0 (RFC 3948 section 2.1)
            }
            meta.src = outer_src;
            meta.dst = outer_dst;
            meta.sport = outer_sport;
            meta.dport = outer_dport;
        }
    }
}
