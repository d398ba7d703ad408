// Towards the WAN: the policy says protect, bypass or discard; what it protects is sealed or dropped, never sent in clear.

control Outbound(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    EspEngine(65536) sealer;
    bit<8> verdict = Verdict.OK;
    bit<16> esp_len = 0;
    direct_counter(CounterType.packets_and_bytes) spd_out_counter;
    direct_counter(CounterType.packets_and_bytes) sad_out_counter;

    action discard() { meta.drop_cause = Drop.POLICY; spd_out_counter.count(); }
    action bypass() { spd_out_counter.count(); }

    action protect(bit<32> sa_id) {
        spd_out_counter.count();
        meta.sa_id = sa_id;
        meta.inner_tos = hdr.ipv4.tos;
        meta.stage = Stage.TO_SEAL;
        meta.detour = 1;
    }

    @name("spd_out")
    table spd_out {
        key = {
            meta.role     : exact   @name("role");
            hdr.ipv4.src  : ternary @name("src");
            hdr.ipv4.dst  : ternary @name("dst");
            meta.protocol : ternary @name("protocol");
            meta.sport    : range   @name("sport");
            meta.dport    : range   @name("dport");
        }
        actions = { protect; bypass; discard; }
        const default_action = discard();
        counters = spd_out_counter;
        size = 65536;
    }

    action acquire() {
        digest<acquire_t>(1, { meta.sa_id });
        meta.drop_cause = Drop.NO_SA;
        sad_out_counter.count();
    }

    action seal(bit<32> slot, bit<8> suite, bit<384> wrapped_key, bit<32> spi, bit<1> esn,
                bit<64> soft_packets, bit<64> soft_bytes, bit<64> hard_packets, bit<64> hard_bytes,
                ipv4_addr_t src, ipv4_addr_t dst, bit<16> sport, bit<16> dport) {
        sad_out_counter.count();
        sealer.seal(slot, suite, wrapped_key, spi, esn, soft_packets, soft_bytes, hard_packets, hard_bytes, esp_len, verdict);
        // RFC 6040 section 4.1: DSCP and ECN are copied. RFC 3948 section 2.1: the UDP checksum is 0.
        hdr.ipv4.setValid();
        hdr.ipv4 = { 4, 5, meta.inner_tos, esp_len + 28, 0, 0, 1, 0, 0, 64, PROTO_UDP, 0, src, dst };
        hdr.udp.setValid();
        hdr.udp = { sport, dport, esp_len + 8, 0 };
    }

    @name("sad_out")
    table sad_out {
        key = { meta.sa_id : exact @name("sa_id"); }
        actions = { seal; @defaultonly acquire; }
        const default_action = acquire();
        counters = sad_out_counter;
        size = 65536;
    }

    apply {
        if (meta.drop_cause == Drop.NONE && meta.stage == Stage.WIRE && hdr.ipv4.isValid()) {
            if (spd_out.apply().hit && meta.detour == 1) {
                if (hdr.ipv4.ttl <= 1) {
                    meta.drop_cause = Drop.TTL;
                } else {
                    hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                    hdr.ethernet.setInvalid();
                }
            }
        } else if (meta.drop_cause == Drop.NONE && meta.stage == Stage.TO_SEAL && meta.detour == 0) {
            if (sad_out.apply().hit) {
                if (verdict == Verdict.SOFT_LIMIT) {
                    digest<soft_limit_t>(1, { meta.sa_id, 8w1 });
                } else if (verdict == Verdict.HARD_LIMIT) {
                    meta.drop_cause = Drop.HARD_LIMIT;
                } else if (verdict == Verdict.KEY) {
                    meta.drop_cause = Drop.KEY;
                } else if (verdict != Verdict.OK) {
                    meta.drop_cause = Drop.MALFORMED;
                }
            }
        }
    }
}
