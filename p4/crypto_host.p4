// A crypto host, v1model: opens and seals for the gateway behind each of its ports (docs/crypto-port.md).
//
//  request ─► front: whose port? ─► host_in, host_out: which SA? ─► engine ─► the answer, out of the same port
//
// It knows neither addresses nor policies: its answer has the request's fields, a verdict, and what the engine has made.

#include <core.p4>
#include <v1model.p4>

#include "gateway/headers.p4"
#include "gateway/esp_engine.p4"
#include "gateway/payload_tail.p4"

const bit<32> HOST_SAS = 65536;

// Index into the counter array `drops`.
enum bit<8> HostDrop {
    NONE    = 0,
    FRONT   = 1, // no gateway is served at this port, or the frame is for another
    REQUEST = 2  // no whole request
}
const bit<32> HOST_DROP_CAUSES = 8;

struct host_headers_t {
    ethernet_t ethernet;
    crypto_t   crypto;
}

struct host_metadata_t {
    bit<8>  drop_cause;
    mac_t   our_mac;
    bit<8>  verdict;
    bit<1>  newest;
    bit<16> length;
}

parser HostParser(packet_in packet, out host_headers_t hdr, inout host_metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_CRYPTO: crypto;
            default:          accept;
        }
    }

    state crypto {
        packet.extract(hdr.crypto);
        transition accept;
    }
}

control HostVerifyChecksums(inout host_headers_t hdr, inout host_metadata_t meta) {
    apply { }
}

control HostIngress(inout host_headers_t hdr, inout host_metadata_t meta, inout standard_metadata_t std) {
    EspEngine(HOST_SAS) opener;
    EspEngine(HOST_SAS) sealer;
    PayloadTail() tail;
    direct_counter(CounterType.packets_and_bytes) host_in_counter;
    direct_counter(CounterType.packets_and_bytes) host_out_counter;
    @name("drops") counter(HOST_DROP_CAUSES, CounterType.packets_and_bytes) drops;

    action no_front() { meta.drop_cause = HostDrop.FRONT; }
    action serve(@format(MAC_ADDRESS) mac_t mac) { meta.our_mac = mac; }

    @name("front")
    table front {
        key = { std.ingress_port : exact @name("port"); }
        actions = { serve; @defaultonly no_front; }
        const default_action = no_front();
        size = 512;
    }

    action open(bit<8> suite, wrapped_key_t wrapped_key, bit<32> spi, bit<1> esn, bit<16> replay_window,
                bit<64> soft_packets, bit<64> soft_bytes, bit<32> soft_seconds,
                bit<64> hard_packets, bit<64> hard_bytes, bit<32> hard_seconds) {
        host_in_counter.count();
        opener.open(hdr.crypto.slot, suite, wrapped_key, spi, esn, replay_window, soft_packets, soft_bytes, soft_seconds,
                    hard_packets, hard_bytes, hard_seconds, hdr.crypto.length, meta.newest, meta.verdict);
    }
    action not_opened() { host_in_counter.count(); }

    // RFC 4303 section 2.1: SPIs up to 255 are reserved.
    @name("host_in")
    table host_in {
        key = {
            std.ingress_port      : exact @name("port");
            hdr.crypto.slot       : exact @name("slot");
            hdr.crypto.generation : exact @name("generation");
        }
        actions = { open; @defaultonly not_opened; }
        const default_action = not_opened();
        counters = host_in_counter;
        size = HOST_SAS;
    }

    action seal(bit<8> suite, wrapped_key_t wrapped_key, bit<32> spi, bit<1> esn,
                bit<64> soft_packets, bit<64> soft_bytes, bit<32> soft_seconds,
                bit<64> hard_packets, bit<64> hard_bytes, bit<32> hard_seconds) {
        host_out_counter.count();
        sealer.seal(hdr.crypto.slot, suite, wrapped_key, spi, esn, soft_packets, soft_bytes, soft_seconds,
                    hard_packets, hard_bytes, hard_seconds, meta.length, meta.verdict);
    }
    action not_sealed() { host_out_counter.count(); }

    @name("host_out")
    table host_out {
        key = {
            std.ingress_port      : exact @name("port");
            hdr.crypto.slot       : exact @name("slot");
            hdr.crypto.generation : exact @name("generation");
        }
        actions = { seal; @defaultonly not_sealed; }
        const default_action = not_sealed();
        counters = host_out_counter;
        size = HOST_SAS;
    }

    apply {
        // An SA that is not here is answered so, and its packet is not sent back.
        meta.verdict = Verdict.KEY;
        bool known = false;
        front.apply();
        if (meta.drop_cause == HostDrop.NONE && hdr.ethernet.dst != meta.our_mac) {
            meta.drop_cause = HostDrop.FRONT;
        }
        if (meta.drop_cause != HostDrop.NONE) {
            // Not for us.
        } else if (std.parser_error != error.NoError || !hdr.crypto.isValid() || hdr.crypto.version != CRYPTO_VERSION) {
            meta.drop_cause = HostDrop.REQUEST;
        } else if (hdr.crypto.kind == CryptoKind.OPEN) {
            known = host_in.apply().hit;
            hdr.crypto.kind = CryptoKind.OPENED;
        } else if (hdr.crypto.kind == CryptoKind.SEAL) {
            known = host_out.apply().hit;
            hdr.crypto.kind = CryptoKind.SEALED;
        } else {
            meta.drop_cause = HostDrop.REQUEST;
        }
        if (meta.drop_cause == HostDrop.NONE) {
            if (!known) {
                tail.cut(0);
            }
            hdr.crypto.verdict = meta.verdict;
            hdr.crypto.newest = meta.newest;
            hdr.crypto.length = meta.length;
            hdr.ethernet.dst = hdr.ethernet.src;
            hdr.ethernet.src = meta.our_mac;
            std.egress_spec = std.ingress_port;
        } else {
            drops.count((bit<32>) meta.drop_cause);
            mark_to_drop(std);
        }
    }
}

control HostEgress(inout host_headers_t hdr, inout host_metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control HostUpdateChecksums(inout host_headers_t hdr, inout host_metadata_t meta) {
    apply { }
}

control HostDeparser(packet_out packet, in host_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.crypto);
    }
}

V1Switch(HostParser(), HostVerifyChecksums(), HostIngress(), HostEgress(), HostUpdateChecksums(), HostDeparser()) main;
