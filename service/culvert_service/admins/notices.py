"""Notices that an administrator sees in the console: changes by others of who can sign in, and wrong codes."""

from __future__ import annotations

from culvert_db import ActorKind, Admin, AdminNotice, Database
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_service.admins import repository
from culvert_service.admins.guesses import CODE_GUESSES
from culvert_service.admins.schemas import NoticeOut
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import Transaction
from culvert_service.rest.prefix import limit_keys

# The newest notices that one administrator sees; the audit log has all of them.
NOTICES_MAX = 100
_SOURCES_SAID = 5


async def tell_owners(transaction: Transaction, line: Line) -> None:
    """Write the line to the audit log, and as a notice to each owner but the acting one, in the transaction."""
    transaction.audit(line)
    actor = line.actor or transaction.actor
    own = actor.name if actor.kind is ActorKind.ADMIN else None
    for owner in await repository.confirmed_owners(transaction.session):
        if owner.name != own:
            transaction.session.add(_notice(owner.id, line, actor))


async def tell_of_wrong_codes(transaction: Transaction, admin: Admin) -> None:
    """Give the administrator who signs in now a notice of the wrong codes since the last sign-in.

    Fewer than CODE_GUESSES wrong codes from the administrator's own prefix give no notice.
    """
    session = transaction.session
    rows = await repository.take_wrong_codes(session, admin.id)
    if not rows:
        return
    count, here = sum(row.failures for row in rows), limit_keys(transaction.actor.source)[0]
    if count < CODE_GUESSES and all(row.source == here for row in rows):
        return
    rows.sort(key=lambda row: row.failures, reverse=True)
    sources = ", ".join(row.source for row in rows[:_SOURCES_SAID])
    more = f" and {len(rows) - _SOURCES_SAID} more" if len(rows) > _SOURCES_SAID else ""
    details = {"codes": count, "from": sources + more}
    line = Line("admin.wrong-codes", f"admin/{admin.name}", details)
    session.add(_notice(admin.id, line, transaction.actor))


class Notices:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, name: str) -> list[NoticeOut]:
        """Newest first."""
        async with self._database() as session:
            rows = await repository.notices(session, name, NOTICES_MAX)
            return [NoticeOut.model_validate(row, from_attributes=True) for row in rows]

    async def dismiss(self, name: str, until: int) -> None:
        """Dismiss the notice `until` and all older ones. Raises CulvertError NOT_FOUND."""
        async with self._database.begin() as session:
            if not await repository.dismiss(session, name, until):
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The notice {name}", name=until))


def _notice(admin_id: int, line: Line, actor: Actor) -> AdminNotice:
    return AdminNotice(
        admin_id=admin_id,
        actor=actor.name,
        source=actor.source,
        action=line.action,
        object=line.object,
        details=dict(line.details),
    )
