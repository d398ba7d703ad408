"""The duration of a pause."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

from culvert_proto.screens.units import tomorrow

from culvert_tray.translation import later


class PauseLength(Enum):
    QUARTER = later("15 min")
    HOUR = later("1 h")
    TOMORROW = later("Until tomorrow")

    def end(self, now: datetime) -> datetime:
        match self:
            case PauseLength.QUARTER:
                return now + timedelta(minutes=15)
            case PauseLength.HOUR:
                return now + timedelta(hours=1)
            case PauseLength.TOMORROW:
                return tomorrow(now)
