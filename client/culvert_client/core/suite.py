"""The suites of an SA by name, and which of them need the person's own permission."""

from __future__ import annotations

import enum


class Suite(enum.Enum):
    """As culvert_ipsec calls them."""

    AES_GCM_256 = "aes-gcm-256"
    AES_GCM_128 = "aes-gcm-128"
    CHACHA20_POLY1305 = "chacha20-poly1305"
    NULL_HMAC_SHA_256_128 = "null-hmac-sha256-128"
    AES_CTR_128_HMAC_MD5_96 = "aes-ctr-hmac-md5-96"
    AES_CBC_128_HMAC_SHA1_96 = "aes-cbc-hmac-sha1-96"
    AES_CBC_256_HMAC_SHA_256_128 = "aes-cbc-hmac-sha256-128"


# Weaker than what is recommended (RFC 8221); refused unless the configuration allows them.
LEGACY = frozenset(
    {
        Suite.NULL_HMAC_SHA_256_128,
        Suite.AES_CTR_128_HMAC_MD5_96,
        Suite.AES_CBC_128_HMAC_SHA1_96,
        Suite.AES_CBC_256_HMAC_SHA_256_128,
    }
)
