"""The administrators' list of assertions about access: list, add, delete. decision/assertions.py keeps them true."""

from __future__ import annotations

from culvert_db import Assertion, Database
from culvert_proto import CulvertError, Reason, dns_name
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import begin
from culvert_service.decision.assertions import AssertionOut, assertions
from culvert_service.policies import repository
from culvert_service.policies.schemas import AssertionIn
from culvert_service.rest.field import FieldError

# Each change of access checks all of them.
ASSERTIONS_MAX = 1000


class Assertions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[AssertionOut]:
        """By name."""
        async with self._database() as session:
            return await assertions(session)

    async def create(self, by: Actor, asked: AssertionIn) -> AssertionOut:
        """It need not hold yet. Raises CulvertError NOT_FOUND, ALREADY_EXISTS or REQUEST_INVALID."""
        try:
            name = dns_name.parse(asked.name)
        except dns_name.NameInvalidError as error:
            raise FieldError("/name", Reason.REQUEST_INVALID, why=Phrase("name: {why}", why=error)) from None
        row = Assertion(
            user_name=asked.user,
            group_name=asked.group,
            fqdn=name,
            names=list(dns_name.candidates(name)),
            reaches=asked.reaches,
        )
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                if asked.user is not None and await repository.user(session, asked.user) is None:
                    what = Phrase("The user {name}", name=asked.user)
                    raise FieldError("/user", Reason.NOT_FOUND, what=what)
                if asked.group is not None and await repository.group_alone(session, asked.group) is None:
                    what = Phrase("The group {name}", name=asked.group)
                    raise FieldError("/group", Reason.NOT_FOUND, what=what)
                if len(before := await assertions(session)) >= ASSERTIONS_MAX:
                    why = Phrase("there are {number} assertions already", number=len(before))
                    raise CulvertError(Reason.REQUEST_INVALID, why=why)
                session.add(row)
                await session.flush()
                transaction.audit(_line("assertion.create", row))
                made = next(it for it in await assertions(session) if it.id == row.id)
        except IntegrityError:
            what = Phrase("An assertion about the same people and this name")
            raise FieldError("/name", Reason.ALREADY_EXISTS, what=what) from None
        return made

    async def delete(self, by: Actor, number: int) -> None:
        """Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            row = await transaction.session.get(Assertion, number, with_for_update=True)
            if row is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The assertion {number}", number=number))
            await transaction.session.delete(row)
            transaction.audit(_line("assertion.delete", row))


def _line(action: str, row: Assertion) -> Line:
    told: dict[str, Detail] = {
        "for": f"user/{row.user_name}" if row.user_name is not None else f"group/{row.group_name}",
        "reaches": "yes" if row.reaches else "no",
    }
    return Line(action, f"assertion/{row.fqdn}", told)
