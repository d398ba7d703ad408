// Ethernet, one VLAN tag, ARP, IPv4, IPv6, and of the transport what a decision needs. ESP itself stays in the payload, for the engine.
//
//  ethernet ─► vlan ─┬─► arp
//                    ├─► ipv4 ─────────────────┬─► udp ─► SPI
//  OPENED ───────────┴─► ipv6 ─► fragment ─────┼─► ESP ─► SPI
//  TO_SEAL, ERROR: all payload                 ├─► icmp ─► nd ─► its options
//                                              └─► tcp ports ─► a SYN's options up to the MSS
//
// Every branch looks at the lengths first: what is read past a packet's own end would be link padding.

parser GatewayParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(meta.stage) {
            Stage.TO_SEAL: accept;
            Stage.ERROR:   accept;
            Stage.OPENED:  opened;
            default:       ethernet;
        }
    }

    state opened {
        transition select(packet.lookahead<bit<4>>()) {
            4:       ipv4;
            6:       ipv6;
            default: accept;
        }
    }

    state ethernet {
        meta.now = std.ingress_global_timestamp;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_VLAN: vlan;
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            ETHERTYPE_ARP:  arp;
            ETHERTYPE_CRYPTO: crypto;
            default:        accept;
        }
    }

    state crypto {
        packet.extract(hdr.crypto);
        transition select(hdr.crypto.kind, hdr.crypto.verdict) {
            (CryptoKind.SEALED, Verdict.OK):         sealed;
            (CryptoKind.SEALED, Verdict.SOFT_LIMIT): sealed;
            default:                                 accept;
        }
    }

    state sealed {
        meta.spi = packet.lookahead<bit<32>>();
        transition accept;
    }

    state vlan {
        packet.extract(hdr.vlan);
        meta.vlan_id = hdr.vlan.id;
        transition select(hdr.vlan.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            ETHERTYPE_ARP:  arp;
            default:        accept;
        }
    }

    state arp {
        packet.extract(hdr.arp);
        meta.dst = MAPPED ++ hdr.arp.target_ip;
        transition accept;
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.src = MAPPED ++ hdr.ipv4.src;
        meta.dst = MAPPED ++ hdr.ipv4.dst;
        meta.protocol = hdr.ipv4.protocol;
        meta.tos = hdr.ipv4.tos;
        meta.ttl = hdr.ipv4.ttl;
        meta.ip_len = (bit<32>) hdr.ipv4.total_len;
        meta.l4_len = hdr.ipv4.total_len - IPV4_LEN;
        transition select(hdr.ipv4.ihl, hdr.ipv4.total_len, hdr.ipv4.fragment_offset, hdr.ipv4.more_fragments) {
            (0 .. 4, _, _, _):  accept;
            (6 .. 15, _, _, _): accept;
            (_, 0 .. 19, _, _): accept;
            (_, _, 0, 0):       transport;
            (_, _, 0, 1):       first_fragment;
            default:            later_fragment;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        meta.is_ipv6 = 1;
        meta.src = hdr.ipv6.src;
        meta.dst = hdr.ipv6.dst;
        meta.protocol = hdr.ipv6.next_header;
        meta.tos = hdr.ipv6.traffic_class;
        meta.ttl = hdr.ipv6.hop_limit;
        meta.ip_len = (bit<32>) hdr.ipv6.payload_len + (bit<32>) IPV6_LEN;
        meta.l4_len = hdr.ipv6.payload_len;
        transition select(hdr.ipv6.next_header, hdr.ipv6.payload_len) {
            (PROTO_FRAGMENT, 0 .. 7): short_transport;
            (PROTO_FRAGMENT, _):      ipv6_fragment;
            default:                  transport;
        }
    }

    state ipv6_fragment {
        packet.extract(hdr.fragment);
        meta.protocol = hdr.fragment.next_header;
        meta.l4_len = hdr.ipv6.payload_len - 8;
        transition select(hdr.fragment.offset) {
            0:       first_fragment;
            default: later_fragment;
        }
    }

    state first_fragment {
        meta.is_fragment = 1;
        transition transport;
    }

    state later_fragment {
        meta.is_fragment = 1;
        meta.later_fragment = 1;
        transition accept;
    }

    state transport {
        transition select(meta.is_ipv6, meta.protocol, meta.l4_len) {
            (_, PROTO_ESP, 0 .. 3):          short_transport;
            (_, PROTO_ESP, _):               esp;
            (_, PROTO_UDP, 0 .. 7):          short_transport;
            (_, PROTO_UDP, _):               udp;
            (_, PROTO_TCP, 0 .. 3):          short_transport;
            (_, PROTO_TCP, 4 .. 19):         ports;
            (_, PROTO_TCP, _):               tcp;
            (0, PROTO_ICMP, 0 .. 7):     short_transport;
            (0, PROTO_ICMP, _):          icmp;
            (1, PROTO_ICMPV6, 0 .. 7):    short_transport;
            (1, PROTO_ICMPV6, _):         icmpv6;
            default:                         accept;
        }
    }

    state short_transport {
        meta.short_transport = 1;
        transition accept;
    }

    state esp {
        meta.spi = packet.lookahead<bit<32>>();
        meta.is_esp = 1;
        meta.esp_len = meta.l4_len;
        transition accept;
    }

    // A keepalive is one byte long (RFC 3948 section 2.3); nothing under 12 bytes of UDP can hold an SPI.
    state udp {
        packet.extract(hdr.udp);
        meta.sport = hdr.udp.sport;
        meta.dport = hdr.udp.dport;
        meta.holds = (bit<1>) (hdr.udp.length >= 12 && hdr.udp.length <= meta.l4_len);
        transition select(meta.stage, hdr.udp.dport, meta.holds) {
            (Stage.WIRE, PORT_ESP_IN_UDP, 1): esp_in_udp;
            default:                          accept;
        }
    }

    state esp_in_udp {
        meta.spi = packet.lookahead<bit<32>>();
        meta.is_esp = 1;
        meta.esp_len = hdr.udp.length - UDP_LEN;
        transition accept;
    }

    state icmp {
        packet.extract(hdr.icmp);
        transition select(hdr.icmp.type) {
            3 .. 5:   icmp_error; // unreachable, source quench, redirect
            11 .. 12: icmp_error; // time exceeded, parameter problem
            default:  accept;
        }
    }

    state icmpv6 {
        packet.extract(hdr.icmp);
        transition select(hdr.icmp.type, meta.is_fragment, meta.stage, meta.l4_len) {
            (0 .. 127, _, _, _):                                       icmp_error; // RFC 4443 section 2.1
            (137, _, _, _):                                            icmp_error; // redirect, section 2.4 (e.2)
            (ICMPV6_SOLICITATION, 0, Stage.WIRE, 0 .. 23):             short_transport;
            (ICMPV6_SOLICITATION, 0, Stage.WIRE, _):                   solicitation;
            default:                                                   accept;
        }
    }

    state icmp_error {
        meta.is_icmp_error = 1;
        transition accept;
    }

    state solicitation {
        packet.extract(hdr.nd);
        meta.l4_len = meta.l4_len - 24;
        transition nd_options;
    }

    // Four options of eight bytes each: more than any stack sends.
    state nd_options {
        transition select(meta.l4_len, meta.options) {
            (0 .. 7, _): accept;
            (_, 4):      accept;
            default:     nd_option;
        }
    }

    state nd_option {
        packet.extract(hdr.nd_options.next);
        meta.options = meta.options + 1;
        meta.l4_len = meta.l4_len - 8;
        transition select(hdr.nd_options.last.length) {
            1:       nd_options;
            default: accept;
        }
    }

    state ports {
        bit<32> ahead = packet.lookahead<bit<32>>();
        meta.sport = ahead[31:16];
        meta.dport = ahead[15:0];
        transition accept;
    }

    // Only a SYN is taken apart.
    state tcp {
        bit<112> ahead = packet.lookahead<bit<112>>();
        meta.sport = ahead[111:96];
        meta.dport = ahead[95:80];
        transition select(ahead[1:1], ahead[15:12]) {
            (1, 6 .. 15): syn;
            default:      accept;
        }
    }

    state syn {
        packet.extract(hdr.tcp);
        bit<8> options = ((bit<8>) hdr.tcp.data_offset << 2) - 20;
        meta.left = options;
        meta.holds = (bit<1>) (meta.l4_len - TCP_LEN >= (bit<16>) options);
        transition select(meta.holds) {
            1:       tcp_options;
            default: accept;
        }
    }

    // The MSS, and what is before it: at most eight options. Behind more, or behind nonsense, it is not looked for.
    state tcp_options {
        transition select(meta.left, meta.options) {
            (0 .. 3, _): accept; // no room for an MSS
            (_, 8):      last_option;
            default:     tcp_option;
        }
    }

    state last_option {
        transition select(packet.lookahead<bit<16>>()) {
            0x0204:  mss;
            default: accept;
        }
    }

    state tcp_option {
        bit<16> ahead = packet.lookahead<bit<16>>();
        bit<8> length = ahead[7:0];
        meta.holds = (bit<1>) (length <= meta.left);
        transition select(ahead[15:8], ahead[7:0], meta.holds) {
            (0, _, _):           accept; // end of options
            (1, _, _):           no_operation;
            (2, 4, _):           mss;
            (2, _, _):           accept;
            (_, 2 .. 38, 1):     other_option;
            default:             accept;
        }
    }

    state no_operation {
        packet.extract(hdr.tcp_options.next, 8);
        meta.options = meta.options + 1;
        meta.left = meta.left - 1;
        meta.mss_at_odd = meta.mss_at_odd ^ 1;
        transition tcp_options;
    }

    state other_option {
        bit<16> ahead = packet.lookahead<bit<16>>();
        packet.extract(hdr.tcp_options.next, (bit<32>) ahead[7:0] << 3);
        meta.options = meta.options + 1;
        meta.left = meta.left - ahead[7:0];
        meta.mss_at_odd = meta.mss_at_odd ^ ahead[0:0];
        transition tcp_options;
    }

    state mss {
        packet.extract(hdr.mss);
        transition accept;
    }
}

control GatewayDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.crypto);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.fragment);
        packet.emit(hdr.udp);
        packet.emit(hdr.icmp);
        packet.emit(hdr.nd);
        packet.emit(hdr.nd_options);
        packet.emit(hdr.tcp);
        packet.emit(hdr.tcp_options);
        packet.emit(hdr.mss);
    }
}
