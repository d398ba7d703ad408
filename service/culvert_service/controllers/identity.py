"""This controller's identity among the controllers of one database."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from culvert_db import newest_revision


@dataclass(frozen=True, slots=True)
class ControllerId:
    """`holder` identifies this process: a restarted controller has a new one, and waits for its old leases to end.
    `revision`: the newest migration that its release knows.
    """

    name: str
    holder: str = field(default_factory=lambda: secrets.token_hex(8))
    revision: str = field(default_factory=newest_revision)
