"""How long a pause lasts."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

# Who says tomorrow late in the evening does not mean midnight.
_MORNING = 6


class PauseLength(Enum):
    QUARTER = "15 min"
    HOUR = "1 h"
    TOMORROW = "Until tomorrow"

    def end(self, now: datetime) -> datetime:
        match self:
            case PauseLength.QUARTER:
                return now + timedelta(minutes=15)
            case PauseLength.HOUR:
                return now + timedelta(hours=1)
            case PauseLength.TOMORROW:
                return (now + timedelta(days=1)).replace(hour=_MORNING, minute=0, second=0, microsecond=0)
