// Culvert's IPsec gateway, v1model.
//
//  WIRE ────► parse ──► admit ─► local ─┬─ ARP, ND, ping ──► answered out of the same port
//                                       ├─ ESP for us ─► sad_in: open ────────────────────► again, as OPENED
//                                       └─ others ─► spd_out ─┬─ protect ─► hop ──────────► again, as TO_SEAL
//                                                             ├─ bypass ──► route ─► hop ─► out
//                                                             └─ discard
//  OPENED ──► parse inner ─► spd_in ─► ECN ─► route, inside only ─► hop ─────────────────► out
//  TO_SEAL ─► (bytes) ─────► sad_out: seal, outer headers ─► route ──────────────────────► out
//
//  too big, or its life is over: dropped, counted, and the packet as it came ────────────► again, as ERROR
//  ERROR ───► (bytes) ─────► quote cut, ICMP before it ─┬─ about a packet from a wire ───► out of the same port
//                                                       └─ out of a tunnel ─► spd_out ───► again, as TO_SEAL
//
// The ESP engine is a detour (docs/architecture.md): it sees a packet's bytes alone, never its headers.
// Every drop has a cause, is counted under it, and ends the pipeline.

#include <core.p4>
#include <v1model.p4>

#include "gateway/headers.p4"
#include "gateway/metadata.p4"
#include "gateway/esp_engine.p4"
#include "gateway/payload_tail.p4"
#include "gateway/parser.p4"
#include "gateway/rate_limit.p4"
#include "gateway/ip_check.p4"
#include "gateway/admit.p4"
#include "gateway/local.p4"
#include "gateway/roaming.p4"
#include "gateway/ecn.p4"
#include "gateway/fragments.p4"
#include "gateway/inbound.p4"
#include "gateway/outbound.p4"
#include "gateway/crypto_port.p4"
#include "gateway/routing.p4"
#include "gateway/mss.p4"
#include "gateway/rewrite.p4"
#include "gateway/icmp_errors.p4"
#include "gateway/checksums.p4"

control GatewayIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Admit() admit;
    AnswerLocal() local;
    Decrypt() open;
    Opened() after_open;
    AfterDecrypt() opened;
    OutboundPolicy() policy;
    Encrypt() seal;
    Sealed() after_seal;
    AskHost() ask;
    TakeAnswer() answer;
    Route() routing;
    NextHop() hop;
    WriteLinkHeader() frame;
    IcmpDeserved() icmp_deserved;
    IcmpError() icmp_error;
    @name("drops") counter(DROP_CAUSES, CounterType.packets_and_bytes) drops;

    apply {
        if (meta.stage == Stage.WIRE) {
            admit.apply(hdr, meta, std);
            if (meta.role == Role.CRYPTO && meta.drop_cause == Drop.NONE) {
                answer.apply(hdr, meta, std);
            } else {
                if (meta.drop_cause == Drop.NONE) {
                    local.apply(hdr, meta, std);
                }
                if (meta.drop_cause == Drop.NONE && meta.to_open == 1) {
                    open.apply(hdr, meta, std);
                }
            }
        } else if (meta.stage == Stage.OPENED) {
            opened.apply(hdr, meta, std);
        } else if (meta.stage == Stage.TO_SEAL) {
            seal.apply(hdr, meta, std);
        } else {
            icmp_error.apply(hdr, meta, std);
        }
        if (meta.drop_cause != Drop.NONE) {
            // Ends here.
        } else if (meta.to_host == 1) {
            ask.apply(hdr, meta, std);
        } else if (meta.to_open == 1) {
            after_open.apply(hdr, meta);
        } else if (meta.stage == Stage.TO_SEAL) {
            after_seal.apply(hdr, meta);
        }
        // Each digest has one place in the program: bmv2 configures only the last of several.
        if (meta.soft_limit == 1) {
            digest<soft_limit_t>(1, { meta.sa_id, meta.outbound });
        }

        if (meta.drop_cause == Drop.NONE && meta.to_open == 0 && meta.to_host == 0 && meta.answered == 0) {
            if (meta.stage == Stage.WIRE || (meta.stage == Stage.ERROR && meta.error_from_tunnel == 1)) {
                policy.apply(hdr, meta, std);
            }
            if (meta.drop_cause == Drop.NONE && meta.detour == 0 && meta.stage != Stage.ERROR) {
                routing.apply(hdr, meta, std);
            }
            if (meta.drop_cause == Drop.NONE) {
                if (meta.stage == Stage.WIRE || meta.stage == Stage.OPENED) {
                    hop.apply(hdr, meta);
                }
                frame.apply(hdr, meta);
            }
        }

        if (meta.drop_cause != Drop.NONE) {
            drops.count((bit<32>) meta.drop_cause);
            icmp_deserved.apply(hdr, meta, std);
        }
    }
}

control GatewayEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (meta.drop_cause != Drop.NONE) {
            recirculate_preserving_field_list(ERROR_FIELDS);
        } else if (meta.detour == 1) {
            recirculate_preserving_field_list(DETOUR_FIELDS);
        }
    }
}

V1Switch(GatewayParser(), VerifyChecksums(), GatewayIngress(), GatewayEgress(), UpdateChecksums(), GatewayDeparser()) main;
