"""This controller's identity among the controllers of one database."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ControllerId:
    """`holder` is this process's alone: one that starts anew is another, and takes its leases as another would."""

    name: str
    holder: str = field(default_factory=lambda: secrets.token_hex(8))
