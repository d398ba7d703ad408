"""Why the gateway's program drops packets, by their places in its counter array `drops` (p4/gateway/metadata.p4)."""

from __future__ import annotations

CAUSES = {
    1: "malformed",
    2: "no_role",
    3: "fragment",
    4: "not_esp",
    5: "bad_spi",
    6: "esp_malformed",
    7: "replay",
    8: "icv",
    9: "dummy",
    10: "hard_limit",
    11: "key",
    12: "selector",
    13: "policy",
    14: "no_sa",
    15: "ttl",
    16: "no_route",
    17: "no_nexthop",
    18: "not_ip",
    19: "arp_not_ours",
    20: "not_our_mac",
    21: "martian",
    22: "ip_options",
    23: "not_offered",
    24: "too_big",
    25: "ecn",
    26: "leak",
}
