// Wire formats. Sizes and order as in the RFC or standard named at each.

typedef bit<48>  mac_t;
typedef bit<32>  ipv4_addr_t;
typedef bit<128> ip_addr_t; // IPv6, or IPv4 as ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2)

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_CRYPTO = 0x88b5; // IEEE 802, local experimental

const bit<8> PROTO_ICMP     = 1;
const bit<8> PROTO_TCP      = 6;
const bit<8> PROTO_UDP      = 17;
const bit<8> PROTO_FRAGMENT = 44;
const bit<8> PROTO_ESP      = 50;
const bit<8> PROTO_ICMPV6   = 58;

const bit<16> PORT_ESP_IN_UDP = 4500; // RFC 3948

const bit<96> MAPPED = 0xffff;        // what is before the IPv4 address in a mapped one
const bit<10> LINK_LOCAL = 0x3fa;     // fe80::/10

const bit<8> ICMP_ECHO_REPLY     = 0;   // RFC 792
const bit<8> ICMP_UNREACHABLE    = 3;
const bit<8> ICMP_ECHO           = 8;
const bit<8> ICMP_TIME_EXCEEDED  = 11;
const bit<8> ICMPV6_TOO_BIG       = 2;   // RFC 4443
const bit<8> ICMPV6_TIME_EXCEEDED = 3;
const bit<8> ICMPV6_ECHO          = 128;
const bit<8> ICMPV6_ECHO_REPLY    = 129;
const bit<8> ICMPV6_SOLICITATION  = 135; // RFC 4861
const bit<8> ICMPV6_ADVERTISEMENT = 136;

const bit<16> IPV4_LEN = 20; // header lengths in bytes
const bit<16> IPV6_LEN = 40;
const bit<16> UDP_LEN  = 8;
const bit<16> ICMP_LEN = 8;
const bit<16> TCP_LEN  = 20;
const bit<16> CRYPTO_LEN = 48;

const bit<4> CRYPTO_VERSION = 1;

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> ethertype;
}

// IEEE 802.1Q.
header vlan_t {
    bit<3>  priority;
    bit<1>  drop_eligible;
    bit<12> id;
    bit<16> ethertype;
}

// RFC 826, for Ethernet and IPv4.
header arp_t {
    bit<16>     hardware;
    bit<16>     protocol;
    bit<8>      hardware_len;
    bit<8>      protocol_len;
    bit<16>     operation;
    mac_t       sender_mac;
    ipv4_addr_t sender_ip;
    mac_t       target_mac;
    ipv4_addr_t target_ip;
}

// RFC 791 section 3.1, without options.
header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      tos;
    bit<16>     total_len;
    bit<16>     id;
    bit<1>      reserved;
    bit<1>      dont_fragment;
    bit<1>      more_fragments;
    bit<13>     fragment_offset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

// RFC 8200 section 3.
header ipv6_t {
    bit<4>    version;
    bit<8>    traffic_class;
    bit<20>   flow_label;
    bit<16>   payload_len;
    bit<8>    next_header;
    bit<8>    hop_limit;
    ip_addr_t src;
    ip_addr_t dst;
}

// RFC 8200 section 4.5.
header ipv6_fragment_t {
    bit<8>  next_header;
    bit<8>  reserved;
    bit<13> offset;
    bit<2>  reserved2;
    bit<1>  more_fragments;
    bit<32> id;
}

// RFC 768.
header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;
    bit<16> checksum;
}

// RFC 792, RFC 4443: echo's identifier and sequence number, or an error's MTU, are `rest`.
header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<32> rest;
}

// RFC 4861 sections 4.3 and 4.4, behind the first eight bytes, where `rest` holds an advertisement's flags.
header nd_t {
    ip_addr_t target;
}

// RFC 4861 section 4.6.1, and every other option of eight bytes.
header nd_option_t {
    bit<8>  type;
    bit<8>  length; // in units of eight bytes
    bit<48> value;
}

// RFC 9293 section 3.1, without options.
header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> sequence;
    bit<32> acknowledgment;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

// One whole TCP option that is not the MSS.
header tcp_option_t {
    varbit<304> bytes;
}

// RFC 9293 section 3.2.
header tcp_mss_t {
    bit<8>  kind;
    bit<8>  length;
    bit<16> value;
}

enum bit<4> CryptoKind {
    OPEN   = 1,
    SEAL   = 2,
    OPENED = 3,
    SEALED = 4
}

// docs/crypto-port.md. An answer has the fields of its request, but for `kind`, `verdict`, `newest` and `length`.
header crypto_t {
    bit<4>     version;
    CryptoKind kind;
    bit<8>     verdict;
    bit<7>     reserved;
    bit<1>     newest;
    bit<8>     tos;
    bit<16>    length;
    bit<16>    sport;
    bit<32>    slot;
    bit<32>    generation;
    ip_addr_t  src;
    ip_addr_t  dst;
}

struct headers_t {
    ethernet_t      ethernet;
    vlan_t          vlan;
    crypto_t        crypto;
    arp_t           arp;
    ipv4_t          ipv4;
    ipv6_t          ipv6;
    ipv6_fragment_t fragment;
    udp_t           udp;
    icmp_t          icmp;
    nd_t            nd;
    nd_option_t[4]  nd_options;
    tcp_t           tcp;
    tcp_option_t[8] tcp_options;
    tcp_mss_t       mss;
}
