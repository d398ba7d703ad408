"""Refusals for what stands in one field of a request's body, for a form to show there."""

from __future__ import annotations

from collections.abc import Mapping

from culvert_proto import CulvertError, Reason
from sqlalchemy.exc import IntegrityError


class FieldError(CulvertError):
    """`pointer` is the place in the body (RFC 6901); empty: in none."""

    def __init__(self, pointer: str, reason: Reason, **fields: object) -> None:
        self.pointer = pointer
        super().__init__(reason, **fields)


def taken(error: IntegrityError, unique: Mapping[str, tuple[str, str]], otherwise: str) -> FieldError:
    """ALREADY_EXISTS, of what another row has. `unique`: a constraint's name to the field that it is about, and to what
    exists; `otherwise`: what does when it is none of them.
    """
    constraint = str(getattr(error.orig and error.orig.__cause__, "constraint_name", ""))
    pointer, what = unique.get(constraint, ("", otherwise))
    return FieldError(pointer, Reason.ALREADY_EXISTS, what=what)
