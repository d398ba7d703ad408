// Wire formats. Sizes and order as in the RFC or standard named at each.

typedef bit<48> mac_t;
typedef bit<32> ipv4_addr_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;

const bit<8> PROTO_TCP  = 6;
const bit<8> PROTO_UDP  = 17;
const bit<8> PROTO_ESP  = 50;

const bit<16> PORT_ESP_IN_UDP = 4500; // RFC 3948

header ethernet_t {
    mac_t   dst;
    mac_t   src;
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

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    arp_t      arp;
    ipv4_t     ipv4;
    udp_t      udp;
}
