// Culvert's IPsec gateway, v1model.
//
//  wire ──► parse ──► admit ──┬─► to me, ESP ──► sad_in: open ──────► recirculate as OPENED
//                             ├─► to me, ARP ──► answer ────────────► out of the same port
//                             └─► anything   ──► spd_out ─┬─ protect ► recirculate as TO_SEAL
//                                                         ├─ bypass ─► route
//                                                         └─ discard
//  OPENED  ──► parse inner ──► spd_in ──► route ──► out
//  TO_SEAL ──► (bytes)     ──► sad_out: seal, outer headers ──► route ──► out
//
// The ESP engine is a detour (docs/architecture.md): it sees a packet's bytes alone, never its headers.
// Every drop has a cause, is counted under it, and ends the pipeline.

#include <core.p4>
#include <v1model.p4>

#include "gateway/headers.p4"
#include "gateway/metadata.p4"
#include "gateway/esp_engine.p4"
#include "gateway/parser.p4"
#include "gateway/admit.p4"
#include "gateway/arp.p4"
#include "gateway/inbound.p4"
#include "gateway/outbound.p4"
#include "gateway/routing.p4"
#include "gateway/checksums.p4"

control GatewayIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Admit() admit;
    ArpResponder() arp;
    Inbound() inbound;
    Outbound() outbound;
    Routing() routing;
    @name("drops") counter(DROP_CAUSES, CounterType.packets_and_bytes) drops;

    apply {
        if (meta.stage == Stage.WIRE) {
            admit.apply(hdr, meta, std);
        }
        if (meta.drop_cause == Drop.NONE) {
            if (hdr.arp.isValid()) {
                arp.apply(hdr, meta, std);
            } else {
                inbound.apply(hdr, meta, std);
                outbound.apply(hdr, meta, std);
                routing.apply(hdr, meta, std);
            }
        }
        if (meta.drop_cause != Drop.NONE) {
            drops.count((bit<32>) meta.drop_cause);
            mark_to_drop(std);
        }
    }
}

control GatewayEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (meta.detour == 1) {
            recirculate_preserving_field_list(DETOUR_FIELDS);
        }
    }
}

V1Switch(GatewayParser(), VerifyChecksums(), GatewayIngress(), GatewayEgress(), UpdateChecksums(), GatewayDeparser()) main;
