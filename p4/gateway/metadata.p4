// The pipeline's knowledge about a packet, and the cause of its drop.

enum bit<8> Stage {
    WIRE    = 0, // came in at a port
    TO_SEAL = 1, // a whole inner IP packet that sa_id protects
    OPENED  = 2, // a whole inner IP packet that sa_id has authenticated
    ERROR   = 3  // a whole IP packet that an ICMP error is about
}

enum bit<8> Role {
    NONE = 0,
    WAN  = 1,
    LAN  = 2,
    CRYPTO = 3 // a crypto host is behind this port
}

// Index into the counter array `drops`. Numbers are stable: operators' dashboards use them.
enum bit<8> Drop {
    NONE            = 0,
    MALFORMED       = 1,  // truncated, bad version, lengths or checksum
    NO_ROLE         = 2,  // port or VLAN without a role
    FRAGMENT        = 3,  // to us; RFC 4303 section 3.4.1
    NOT_ESP         = 4,  // non-ESP marker or keepalive on the NAT-T port, RFC 3948
    BAD_SPI         = 5,  // no inbound SA, RFC 4303 section 3.4.2
    ESP_MALFORMED   = 6,
    REPLAY          = 7,  // RFC 4303 section 3.4.3
    ICV             = 8,  // RFC 4303 section 3.4.4
    DUMMY           = 9,  // RFC 4303 section 2.6
    HARD_LIMIT      = 10, // RFC 4301 section 4.4.2.1
    KEY             = 11, // wrapped key does not unwrap, or names no usable slot or suite
    SELECTOR        = 12, // inner packet does not match its SA, RFC 4301 section 5.2
    POLICY          = 13, // spd_out says discard
    NO_SA           = 14, // policy says protect, no outbound SA
    TTL             = 15,
    NO_ROUTE        = 16,
    NO_NEXTHOP      = 17,
    NOT_IP          = 18,
    ARP_NOT_OURS    = 19, // ARP or ND for another, or no request
    NOT_OUR_MAC     = 20,
    MARTIAN         = 21, // RFC 1812 section 5.3.7, RFC 4291
    IP_OPTIONS      = 22, // RFC 7126
    NOT_OFFERED     = 23, // to us, but not ESP, ARP, ND or ping
    TOO_BIG         = 24,
    ECN             = 25, // RFC 6040 section 4.2
    LEAK            = 26, // an opened packet whose next hop is not inside
    CRYPTO_FRAME    = 27, // from a crypto port, and no whole answer
    CRYPTO_ANSWER   = 28, // an answer for no SA of its port
    NO_HOST         = 29  // an SA's port has no crypto host
}
const bit<32> DROP_CAUSES = 32;

// SAs of one direction: slots of an engine, and entries of sad_in and of sad_out. proto/contract.toml has the same number.
const bit<32> SAS = 65536;
// Entries of spd_in and of spd_out.
const bit<32> POLICIES = 65536;

// Fields that a recirculated packet keeps: DETOUR_FIELDS about itself, ERROR_FIELDS for the error about it.
const bit<8> DETOUR_FIELDS = 1;
const bit<8> ERROR_FIELDS  = 2;

// The ICMP error that a dropped packet deserves.
enum bit<8> Error {
    NONE          = 0,
    TIME_EXCEEDED = 1,
    TOO_BIG       = 2
}

struct metadata_t {
    // Preserved.
    @field_list(DETOUR_FIELDS, ERROR_FIELDS) bit<8>  stage;
    @field_list(DETOUR_FIELDS, ERROR_FIELDS) bit<48> now; // microseconds; a recirculated packet has no time of its own
    @field_list(DETOUR_FIELDS) bit<32> sa_id;
    @field_list(DETOUR_FIELDS) bit<8>  outer_tos;         // TO_SEAL: to be sent; OPENED: as received
    @field_list(ERROR_FIELDS)  bit<8>    error_kind;
    @field_list(ERROR_FIELDS)  bit<16>   error_mtu;
    @field_list(ERROR_FIELDS)  bit<1>    error_from_tunnel;
    @field_list(ERROR_FIELDS)  bit<9>    error_port;
    @field_list(ERROR_FIELDS)  bit<12>   error_vlan;
    @field_list(ERROR_FIELDS)  mac_t     error_mac;
    @field_list(ERROR_FIELDS)  mac_t     error_peer_mac;
    @field_list(ERROR_FIELDS)  bit<16>   error_len;       // bytes of the packet that the error is about
    @field_list(ERROR_FIELDS)  ip_addr_t error_src;
    @field_list(ERROR_FIELDS)  ip_addr_t error_dst;

    // This pass: the packet's port and role, and its fate.
    bit<8>    drop_cause;
    bit<8>    role;
    bit<16>   interface_id;
    bit<12>   vlan_id;
    mac_t     our_mac;
    bit<1>    detour;    // recirculate with DETOUR_FIELDS
    bit<1>    soft_limit; // sa_id's life nears its end
    bit<8>    outbound;   // and that is an outbound SA
    bit<1>    to_open;   // ESP for us
    bit<1>    answered;  // by us, out of the same port
    bit<1>    to_host;   // a crypto host opens or seals it
    bit<32>   slot;      // the host's
    bit<32>   generation;
    bit<8>    verdict;   // the engine's, here or at the host
    bit<1>    newest;
    bit<32>   peer_endpoint;
    bit<32>   peer_tag;

    // The parser's results, the same for both families.
    bit<1>    is_ipv6;
    ip_addr_t src;
    ip_addr_t dst;
    bit<8>    protocol;  // IPv6: of the transport behind a fragment header, or the first extension header's own
    bit<16>   sport;
    bit<16>   dport;
    bit<8>    tos;
    bit<8>    ttl;
    bit<32>   ip_len;    // bytes, headers included
    bit<16>   l4_len;    // bytes behind the IP header and a fragment header
    bit<1>    is_fragment;
    bit<1>    later_fragment; // has no transport header
    bit<32>   datagram_cell;  // of a fragment
    bit<32>   datagram_check;
    bit<1>    short_transport; // too short for the header that its protocol says
    bit<1>    is_icmp_error;
    bit<1>    is_esp;
    bit<32>   spi;
    bit<16>   esp_len;   // bytes
    bit<8>    left;      // bytes of options not yet parsed
    bit<1>    mss_at_odd;
    bit<8>    options;   // how many are parsed
    bit<1>    holds;     // what the parser is about to read is inside the packet

    // Decisions.
    bit<16>   inner_mtu;
    bit<16>   nexthop_id;
    bit<16>   group_id;
    bit<16>   members;
    bit<16>   member;
    bit<8>    nexthop_role;
    bit<16>   nexthop_mtu;
    bit<12>   next_vlan;
    mac_t     next_src_mac;
    mac_t     next_dst_mac;
    bit<1>    made_icmp; // checksums to make
    bit<1>    made_udp;
}

// To the controller: an ESP packet named an SPI that is not here.
struct bad_spi_t {
    ip_addr_t dst;
    bit<32>   spi;
    ip_addr_t src;
}

// To the controller: a policy names an SA that is not here.
struct acquire_t {
    bit<32> sa_id;
}

// To the controller: an SA has passed its soft limit. Repeated until the SA is replaced.
struct soft_limit_t {
    bit<32> sa_id;
    bit<8>  outbound;
}

// To the controller: the data plane sends this outbound SA's packets elsewhere than its entry says. Repeated until it says the same.
struct moved_t {
    bit<32>   sa_id;
    ip_addr_t peer;
    bit<16>   port; // 0: ESP without UDP
    ip_addr_t local;
}
