"""What a person may type as a code: an authenticator's six digits, or a recovery code. Nothing else is sent."""

from __future__ import annotations

import re

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

_CODE = re.compile(r"[0-9]{6}|[A-Za-z2-7]{4}(-?[A-Za-z2-7]{4}){3}")


def check_code(text: str) -> None:
    """Raises CulvertError REQUEST_INVALID."""
    if not _CODE.fullmatch(text):
        raise CulvertError(
            Reason.REQUEST_INVALID, why=Phrase("a code has six digits, a recovery code 16 characters")
        )
