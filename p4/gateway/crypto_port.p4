// The crypto port (docs/crypto-port.md): a packet goes to a crypto host behind a port, and its answer comes back to the same.

// Ports, for the two counters below.
const bit<32> CRYPTO_PORTS = 512;

control AskHost(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // A port whose requests grow and whose answers do not leads to no host any more.
    @name("crypto_requests") counter(CRYPTO_PORTS, CounterType.packets) requests;

    action no_host() { meta.drop_cause = Drop.NO_HOST; }
    action to_host(@format(MAC_ADDRESS) mac_t src_mac, @format(MAC_ADDRESS) mac_t dst_mac) {
        meta.next_src_mac = src_mac;
        meta.next_dst_mac = dst_mac;
    }

    @name("crypto_port")
    table crypto_port {
        key = { std.egress_spec : exact @name("port"); }
        actions = { to_host; @defaultonly no_host; }
        const default_action = no_host();
        size = 512;
    }

    apply {
        crypto_port.apply();
        if (meta.drop_cause == Drop.NONE) {
            requests.count((bit<32>) std.egress_spec);
            CryptoKind kind = CryptoKind.OPEN;
            bit<8> tos = meta.tos;
            bit<16> length = meta.esp_len;
            if (meta.stage == Stage.TO_SEAL) {
                kind = CryptoKind.SEAL;
                tos = meta.outer_tos;
                length = (bit<16>) std.packet_length;
            }
            hdr.crypto.setValid();
            hdr.crypto = { CRYPTO_VERSION, kind, 0, 0, 0, tos, length, meta.sport, meta.slot, meta.generation, meta.src, meta.dst };
            hdr.ethernet.setValid();
            hdr.ethernet = { meta.next_dst_mac, meta.next_src_mac, ETHERTYPE_CRYPTO };
            hdr.vlan.setInvalid();
            hdr.ipv4.setInvalid();
            hdr.ipv6.setInvalid();
            hdr.udp.setInvalid();
        }
    }
}

// An answer is taken for an SA of its port alone, and as the answer of its present generation. Then it is where the engine's is.
control TakeAnswer(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @name("crypto_answers") counter(CRYPTO_PORTS, CounterType.packets) answers;
    bit<32> expected_spi = 0;

    action no_sa() { meta.drop_cause = Drop.CRYPTO_ANSWER; }

    action opened(bit<32> sa_id, bit<32> endpoint, bit<32> tag) {
        meta.sa_id = sa_id;
        meta.peer_endpoint = endpoint;
        meta.peer_tag = tag;
        meta.to_open = 1;
    }

    action sealed(bit<32> sa_id, bit<32> spi, ip_addr_t src, ip_addr_t dst, bit<16> sport, bit<16> dport,
                  bit<32> endpoint, bit<32> tag) {
        expected_spi = spi;
        meta.sa_id = sa_id;
        meta.src = src;
        meta.dst = dst;
        meta.sport = sport;
        meta.dport = dport;
        meta.peer_endpoint = endpoint;
        meta.peer_tag = tag;
        meta.stage = Stage.TO_SEAL;
    }

    @name("crypto_in")
    table crypto_in {
        key = {
            std.ingress_port      : exact @name("port");
            hdr.crypto.slot       : exact @name("slot");
            hdr.crypto.generation : exact @name("generation");
        }
        actions = { opened; @defaultonly no_sa; }
        const default_action = no_sa();
        size = SAS;
    }

    @name("crypto_out")
    table crypto_out {
        key = {
            std.ingress_port      : exact @name("port");
            hdr.crypto.slot       : exact @name("slot");
            hdr.crypto.generation : exact @name("generation");
        }
        actions = { sealed; @defaultonly no_sa; }
        const default_action = no_sa();
        size = SAS;
    }

    apply {
        meta.verdict = hdr.crypto.verdict;
        if (!hdr.crypto.isValid() || hdr.crypto.version != CRYPTO_VERSION) {
            meta.drop_cause = Drop.CRYPTO_FRAME;
        } else if (hdr.crypto.kind == CryptoKind.OPENED) {
            answers.count((bit<32>) std.ingress_port);
            meta.newest = hdr.crypto.newest;
            meta.tos = hdr.crypto.tos;
            meta.sport = hdr.crypto.sport;
            meta.src = hdr.crypto.src;
            meta.dst = hdr.crypto.dst;
            crypto_in.apply();
        } else if (hdr.crypto.kind == CryptoKind.SEALED) {
            answers.count((bit<32>) std.ingress_port);
            meta.outer_tos = hdr.crypto.tos;
            meta.esp_len = hdr.crypto.length;
            crypto_out.apply();
            if (meta.drop_cause != Drop.NONE || (meta.verdict != Verdict.OK && meta.verdict != Verdict.SOFT_LIMIT)) {
                // No packet.
            } else if (meta.spi != expected_spi) {
                meta.drop_cause = Drop.CRYPTO_ANSWER;
            } else if ((bit<32>) (meta.esp_len + CRYPTO_LEN + 14) != std.packet_length) {
                meta.drop_cause = Drop.CRYPTO_FRAME;
            }
        } else {
            meta.drop_cause = Drop.CRYPTO_FRAME;
        }
    }
}
