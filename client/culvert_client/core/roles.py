"""The roles of local users, and the calls that each role permits."""

from __future__ import annotations

import enum

from culvert_proto.phrases import Phrase

ROOT_UID = 0


class Role(enum.IntEnum):
    """Each role includes the lower roles' permissions."""

    ANYONE = 0
    OWNER = 1
    ROOT = 2


class Act(enum.Enum):
    READ = Phrase("read the status")
    ENROLL = Phrase("enrol this computer again")
    ADD = Phrase("enrol this computer with another organisation")
    LEAVE = Phrase("leave an organisation")
    CODE = Phrase("enter a code")
    OPEN = Phrase("open a tunnel")
    CLOSE = Phrase("close a tunnel")
    GATEWAY = Phrase("choose the gateway")
    PAUSE = Phrase("pause Culvert")
    ACTIVITY = Phrase("read what has happened")
    CLAIMS = Phrase("decide what an organisation may carry")
    EXAMINE = Phrase("examine the way to a resource")


def role_of(uid: int, owner: int | None) -> Role:
    """`owner` is the uid that enrolled this computer; None before that."""
    if uid == ROOT_UID:
        return Role.ROOT
    return Role.OWNER if owner is not None and uid == owner else Role.ANYONE


def may(uid: int, act: Act, owner: int | None) -> bool:
    """Whether the act is permitted. Any user may enrol first, and becomes the owner; later only root may enrol again."""
    match act:
        case Act.READ:
            return True
        case Act.ENROLL:
            return owner is None or role_of(uid, owner) is Role.ROOT
        case Act.LEAVE:
            return role_of(uid, owner) is Role.ROOT
        case _:
            return role_of(uid, owner) >= Role.OWNER
