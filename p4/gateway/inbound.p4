// From the WAN: ESP for this gateway is opened; what comes out must match its SA (RFC 4301 section 5.2).

// Here by the engine, or behind a port by a crypto host.
control Decrypt(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    EspEngine(SAS) opener;
    RateLimit(256, 1000000, 3000000) strangers; // four at once, then one a second, by source
    direct_counter(CounterType.packets_and_bytes) sad_in_counter;

    action bad_spi() {
        meta.drop_cause = Drop.BAD_SPI;
        sad_in_counter.count();
    }

    action open(bit<32> sa_id, bit<32> slot, bit<8> suite, wrapped_key_t wrapped_key, bit<1> esn, bit<16> replay_window,
                bit<64> soft_packets, bit<64> soft_bytes, bit<32> soft_seconds,
                bit<64> hard_packets, bit<64> hard_bytes, bit<32> hard_seconds, bit<32> endpoint, bit<32> tag) {
        sad_in_counter.count();
        meta.sa_id = sa_id;
        meta.peer_endpoint = endpoint;
        meta.peer_tag = tag;
        opener.open(slot, suite, wrapped_key, meta.spi, esn, replay_window, soft_packets, soft_bytes, soft_seconds,
                    hard_packets, hard_bytes, hard_seconds, meta.esp_len, meta.newest, meta.verdict);
    }

    action open_at(bit<9> port, bit<32> slot, bit<32> generation) {
        sad_in_counter.count();
        std.egress_spec = port;
        meta.slot = slot;
        meta.generation = generation;
        meta.to_host = 1;
    }

    // RFC 4303 section 2.1: SPIs up to 255 are reserved.
    @entry_restriction("spi > 255")
    @name("sad_in")
    table sad_in {
        key = {
            meta.dst : exact @name("dst");
            meta.spi : exact @name("spi");
        }
        actions = { open; open_at; @defaultonly bad_spi; }
        const default_action = bad_spi();
        counters = sad_in_counter;
        size = SAS;
    }

    apply {
        if (sad_in.apply().miss) {
            bit<32> cell;
            bit<1> allowed;
            hash(cell, HashAlgorithm.crc16, 32w0, { meta.src }, 32w256);
            strangers.apply(meta.now, cell, allowed);
            if (allowed == 1) {
                digest<bad_spi_t>(1, { meta.dst, meta.spi, meta.src });
            }
        }
    }
}

// The verdict on an ESP packet: its inner packet goes round again, or it is dropped under the cause.
control Opened(inout headers_t hdr, inout metadata_t meta) {
    LearnPeer() arrived;

    apply {
        if (meta.verdict == Verdict.OK || meta.verdict == Verdict.SOFT_LIMIT) {
            meta.soft_limit = (bit<1>) (meta.verdict == Verdict.SOFT_LIMIT);
            if (meta.newest == 1 && meta.peer_tag != 0) {
                arrived.apply(meta);
            }
            hdr.ethernet.setInvalid();
            hdr.vlan.setInvalid();
            hdr.crypto.setInvalid();
            hdr.ipv4.setInvalid();
            hdr.ipv6.setInvalid();
            hdr.udp.setInvalid();
            meta.outer_tos = meta.tos;
            meta.stage = Stage.OPENED;
            meta.detour = 1;
        } else if (meta.verdict == Verdict.REPLAY) {
            meta.drop_cause = Drop.REPLAY;
        } else if (meta.verdict == Verdict.ICV) {
            meta.drop_cause = Drop.ICV;
        } else if (meta.verdict == Verdict.DUMMY) {
            meta.drop_cause = Drop.DUMMY;
        } else if (meta.verdict == Verdict.HARD_LIMIT) {
            meta.drop_cause = Drop.HARD_LIMIT;
        } else if (meta.verdict == Verdict.KEY) {
            meta.drop_cause = Drop.KEY;
        } else {
            meta.drop_cause = Drop.ESP_MALFORMED;
        }
    }
}

// The second pass: the inner packet.
control AfterDecrypt(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    IpCheck() check;
    RecallPorts() recall;
    KeepPorts() keep;
    EcnOut() ecn;
    direct_counter(CounterType.packets_and_bytes) spd_in_counter;

    action permit(bit<16> inner_mtu) {
        spd_in_counter.count();
        meta.inner_mtu = inner_mtu;
    }
    action selector_mismatch() {
        spd_in_counter.count();
        meta.drop_cause = Drop.SELECTOR;
    }

    @entry_restriction("protocol::mask == 0 || protocol::mask == 255")
    @name("spd_in")
    table spd_in {
        key = {
            meta.sa_id    : exact   @name("sa_id");
            meta.src      : ternary @name("src");
            meta.dst      : ternary @name("dst");
            meta.protocol : ternary @name("protocol");
            meta.sport    : range   @name("sport");
            meta.dport    : range   @name("dport");
        }
        actions = { permit; @defaultonly selector_mismatch; }
        const default_action = selector_mismatch();
        counters = spd_in_counter;
        size = POLICIES;
    }

    apply {
        check.apply(hdr, meta, std);
        if (std.parser_error != error.NoError || (!hdr.ipv4.isValid() && !hdr.ipv6.isValid()) || meta.ip_len > std.packet_length
            || meta.drop_cause == Drop.MALFORMED) {
            meta.drop_cause = Drop.ESP_MALFORMED;
        } else if (meta.drop_cause == Drop.NONE) {
            recall.apply(hdr, meta);
            spd_in.apply();
            if (meta.drop_cause == Drop.NONE) {
                keep.apply(meta);
                ecn.apply(meta);
            }
        }
    }
}
