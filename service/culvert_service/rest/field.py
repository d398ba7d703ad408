"""Refusals for what stands in one field of a request's body, for a form to show there."""

from __future__ import annotations

from culvert_proto import CulvertError, Reason


class FieldError(CulvertError):
    """`pointer` is the place in the body (RFC 6901); empty: in none."""

    def __init__(self, pointer: str, reason: Reason, **fields: object) -> None:
        self.pointer = pointer
        super().__init__(reason, **fields)
