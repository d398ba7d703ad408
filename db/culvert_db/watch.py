"""Events for devices, whichever controller holds their stream, and for devices that are offline."""

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
    """Written in the transaction that it tells of. `id` is the version that each controller compares with what it knows;
    `holder` is the controller that has told its own streams already.
    """

    __tablename__ = "pushes"

    id: Mapped[Number]
    # No foreign key: a device that was deleted has to hear of it.
    device_id: Mapped[uuid.UUID] = mapped_column(index=True)
    holder: Mapped[str]
    kind: Mapped[PushKind] = mapped_column(state_column(PushKind))
    body: Mapped[bytes]
    at: Mapped[datetime.datetime] = mapped_column(server_default=func.clock_timestamp(), index=True)
