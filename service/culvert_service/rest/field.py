"""Refusals about one field of a request, which a form can show at that field."""

from __future__ import annotations

from collections.abc import Mapping

from culvert_proto import CulvertError, Reason
from sqlalchemy.exc import IntegrityError


class FieldError(CulvertError):
    """`pointer`: the field in the body (RFC 6901), or "/" and the query's parameter; empty: none."""

    def __init__(self, pointer: str, reason: Reason, **fields: object) -> None:
        self.pointer = pointer
        # Beside its field, the reason of REQUEST_INVALID says all.
        self.why = fields["why"] if reason is Reason.REQUEST_INVALID else None
        super().__init__(reason, **fields)


def to_field_error(
    error: IntegrityError, unique: Mapping[str, tuple[str, str]], otherwise: str
) -> FieldError:
    """ALREADY_EXISTS for a violated constraint. `unique`: by the constraint's name, its field and the existing object;
    `otherwise`: the object for other constraints.
    """
    constraint = str(getattr(error.orig and error.orig.__cause__, "constraint_name", ""))
    pointer, what = unique.get(constraint, ("", otherwise))
    return FieldError(pointer, Reason.ALREADY_EXISTS, what=what)
