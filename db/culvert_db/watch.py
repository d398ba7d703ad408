"""Events for devices with streams at other controllers, and for offline devices."""

from __future__ import annotations

import datetime
import enum
import uuid

from sqlalchemy import func
from sqlalchemy.orm import Mapped, mapped_column

from culvert_db.base import Base, Number, state_column


class PushKind(enum.StrEnum):
    """EVENT: `body` is a culvert.agent.v1.WatchResponse. PROFILE: the profile is made when it is sent. END: the device may
    not watch any more; `body` is a culvert.error.v1.Error.
    """

    EVENT = "event"
    PROFILE = "profile"
    END = "end"


class Push(Base):
    """Written in the transaction of the event. `id`: compared by each controller with the last one that it has read;
    `holder`: the writing controller, which has already told its own streams.
    """

    __tablename__ = "pushes"

    id: Mapped[Number]
    # No foreign key: a push may be about the deletion of the device.
    device_id: Mapped[uuid.UUID] = mapped_column(index=True)
    holder: Mapped[str]
    kind: Mapped[PushKind] = mapped_column(state_column(PushKind))
    body: Mapped[bytes]
    at: Mapped[datetime.datetime] = mapped_column(server_default=func.clock_timestamp(), index=True)
