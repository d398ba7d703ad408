// Ethernet, ARP, IPv4, and UDP when it can be ESP-in-UDP or has ports. ESP itself stays in the payload, for the engine.

parser GatewayParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(meta.stage) {
            Stage.TO_SEAL: accept;
            Stage.OPENED:  ipv4;
            default:       ethernet;
        }
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_ARP:  arp;
            default:        accept;
        }
    }

    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.protocol = hdr.ipv4.protocol;
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTO_ESP): esp;
            (5, 0, PROTO_UDP): udp;
            (5, 0, PROTO_TCP): tcp;
            default:           accept;
        }
    }

    state tcp {
        bit<32> ports = packet.lookahead<bit<32>>();
        meta.sport = ports[31:16];
        meta.dport = ports[15:0];
        transition accept;
    }

    state udp {
        bit<64> ahead = packet.lookahead<bit<64>>();
        meta.sport = ahead[63:48];
        meta.dport = ahead[47:32];
        transition select(meta.stage, ahead[47:32]) {
            (Stage.WIRE, PORT_ESP_IN_UDP): nat_t;
            default:                       accept;
        }
    }

    // A keepalive is one byte long (RFC 3948 section 2.3); nothing under 12 bytes of UDP can hold an SPI.
    state nat_t {
        packet.extract(hdr.udp);
        transition select(hdr.udp.length) {
            0 .. 11: accept;
            default: esp_in_udp;
        }
    }

    state esp_in_udp {
        meta.spi = packet.lookahead<bit<32>>();
        meta.is_esp = 1;
        meta.esp_len = hdr.ipv4.total_len - 28;
        transition accept;
    }

    state esp {
        meta.spi = packet.lookahead<bit<32>>();
        meta.is_esp = 1;
        meta.esp_len = hdr.ipv4.total_len - 20;
        transition accept;
    }
}

control GatewayDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}
