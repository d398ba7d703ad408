// What the pipeline knows about a packet, and why it drops one.

enum bit<8> Stage {
    WIRE    = 0, // came in at a port
    TO_SEAL = 1, // a whole inner IP packet that sa_id protects
    OPENED  = 2  // a whole inner IP packet that sa_id has authenticated
}

enum bit<8> Role {
    NONE = 0,
    WAN  = 1,
    LAN  = 2
}

// Index into the counter array `drops`. Numbers are stable: operators' dashboards use them.
enum bit<8> Drop {
    NONE            = 0,
    MALFORMED       = 1,  // truncated, bad version, header length or checksum
    NO_ROLE         = 2,  // port without a role
    FRAGMENT        = 3,  // RFC 4303 section 3.4.1
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
    ARP_NOT_OURS    = 19
}
const bit<32> DROP_CAUSES = 32;

const bit<8> DETOUR_FIELDS = 1;

struct metadata_t {
    @field_list(DETOUR_FIELDS) bit<8>  stage;
    @field_list(DETOUR_FIELDS) bit<32> sa_id;
    @field_list(DETOUR_FIELDS) bit<8>  inner_tos;
    bit<8>  drop_cause;
    bit<8>  role;
    bit<1>  detour;
    bit<1>  is_esp;
    bit<32> spi;
    bit<16> esp_len;
    bit<8>  protocol;
    bit<16> sport;
    bit<16> dport;
    bit<16> nexthop_id;
}

// To the controller: an ESP packet named an SPI that is not here.
struct bad_spi_t {
    ipv4_addr_t dst;
    bit<32>     spi;
    ipv4_addr_t src;
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
