"""Cuts: a signed record replaces the removed lines of a chain. Signs a record, and checks a chain's records. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from culvert_db import AuditCut

from culvert_service.audit.line import Broken, netstring, timestamp
from culvert_service.pki.master_key import MasterKey

_CONTEXT = "audit cuts"


class CutKey:
    """An Ed25519 key (RFC 8032), derived from the master key. The database does not hold the master key."""

    def __init__(self, master_key: MasterKey) -> None:
        self._key = master_key.signing_key(_CONTEXT)
        self._public = self._key.public_key()

    @property
    def public(self) -> bytes:
        return self._public.public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, before: bytes, cut: AuditCut) -> bytes:
        """`before` is the signature of the chain's previous cut; empty for the first cut."""
        return self._key.sign(_signed_bytes(before, cut))

    def check(self, cuts: Sequence[AuditCut]) -> Broken | None:
        """Check all cuts of one chain, in the order of their numbers. Returns the first fault."""
        before = b""
        for number, cut in enumerate(cuts, 1):
            if cut.number != number:
                return Broken(cut.chain, cut.seq, f"its cut {number} is not there")
            try:
                self._public.verify(cut.signature, _signed_bytes(before, cut))
            except InvalidSignature:
                return Broken(cut.chain, cut.seq, f"its cut {number} is not signed by this controller's key")
            before = cut.signature
        return None


def _signed_bytes(before: bytes, cut: AuditCut) -> bytes:
    fields = (
        *(str(number) for number in (cut.chain, cut.number, cut.seq)),
        cut.hash.hex(),
        str(cut.lines),
        timestamp(cut.before),
        timestamp(cut.at),
        cut.actor,
        None if cut.export is None else cut.export.hex(),
    )
    return b"culvert audit cut 1\n" + before + b"".join(map(netstring, fields))
