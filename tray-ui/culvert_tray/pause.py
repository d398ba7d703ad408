"""How long a pause lasts."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

from culvert_proto.shown import tomorrow


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
                return tomorrow(now)
