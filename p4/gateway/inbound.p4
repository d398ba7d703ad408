// From the WAN: ESP for this gateway is opened; what comes out must match its SA (RFC 4301 section 5.2).

control Inbound(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    EspEngine(65536) opener;
    bit<8> verdict = Verdict.OK;
    direct_counter(CounterType.packets_and_bytes) sad_in_counter;
    direct_counter(CounterType.packets_and_bytes) spd_in_counter;

    action bad_spi() {
        digest<bad_spi_t>(1, { hdr.ipv4.dst, meta.spi, hdr.ipv4.src });
        meta.drop_cause = Drop.BAD_SPI;
        sad_in_counter.count();
    }

    action open(bit<32> sa_id, bit<32> slot, bit<8> suite, bit<384> wrapped_key, bit<1> esn, bit<16> replay_window,
                bit<64> soft_packets, bit<64> soft_bytes, bit<64> hard_packets, bit<64> hard_bytes) {
        sad_in_counter.count();
        meta.sa_id = sa_id;
        opener.open(slot, suite, wrapped_key, meta.spi, esn, replay_window,
                    soft_packets, soft_bytes, hard_packets, hard_bytes, meta.esp_len, verdict);
    }

    @name("sad_in")
    table sad_in {
        key = {
            hdr.ipv4.dst : exact @name("dst");
            meta.spi     : exact @name("spi");
        }
        actions = { open; @defaultonly bad_spi; }
        const default_action = bad_spi();
        counters = sad_in_counter;
        size = 65536;
    }

    action permit() { spd_in_counter.count(); }
    action selector_mismatch() { meta.drop_cause = Drop.SELECTOR; spd_in_counter.count(); }

    @name("spd_in")
    table spd_in {
        key = {
            meta.sa_id    : exact   @name("sa_id");
            hdr.ipv4.src  : ternary @name("src");
            hdr.ipv4.dst  : ternary @name("dst");
            meta.protocol : ternary @name("protocol");
            meta.sport    : range   @name("sport");
            meta.dport    : range   @name("dport");
        }
        actions = { permit; @defaultonly selector_mismatch; }
        const default_action = selector_mismatch();
        counters = spd_in_counter;
        size = 65536;
    }

    apply {
        if (meta.stage == Stage.WIRE && meta.role == Role.WAN && (meta.is_esp == 1 || hdr.udp.isValid())) {
            if (hdr.ipv4.more_fragments == 1) {
                meta.drop_cause = Drop.FRAGMENT;
            } else if (meta.is_esp == 0 || meta.spi == 0) {
                meta.drop_cause = Drop.NOT_ESP;
            } else if (sad_in.apply().hit) {
                if (verdict == Verdict.SOFT_LIMIT) {
                    digest<soft_limit_t>(1, { meta.sa_id, 8w0 });
                    verdict = Verdict.OK;
                }
                if (verdict == Verdict.OK) {
                    hdr.ethernet.setInvalid();
                    hdr.ipv4.setInvalid();
                    hdr.udp.setInvalid();
                    meta.stage = Stage.OPENED;
                    meta.detour = 1;
                } else if (verdict == Verdict.REPLAY) {
                    meta.drop_cause = Drop.REPLAY;
                } else if (verdict == Verdict.ICV) {
                    meta.drop_cause = Drop.ICV;
                } else if (verdict == Verdict.DUMMY) {
                    meta.drop_cause = Drop.DUMMY;
                } else if (verdict == Verdict.HARD_LIMIT) {
                    meta.drop_cause = Drop.HARD_LIMIT;
                } else if (verdict == Verdict.KEY) {
                    meta.drop_cause = Drop.KEY;
                } else {
                    meta.drop_cause = Drop.ESP_MALFORMED;
                }
            }
        } else if (meta.stage == Stage.OPENED) {
            if (std.parser_error != error.NoError || !hdr.ipv4.isValid() || hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5
                || std.checksum_error == 1) {
                meta.drop_cause = Drop.ESP_MALFORMED;
            } else {
                spd_in.apply();
            }
        }
    }
}
