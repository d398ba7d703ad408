"""Groups and policies. A change keeps the assertions, and closes tunnels that are no longer permitted before it returns."""

from __future__ import annotations

import json
from collections.abc import Sequence

from culvert_db import Database, Group, Policy, Resource, User
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.repository import display_names
from culvert_service.audit.transaction import begin
from culvert_service.decision.assertions import kept
from culvert_service.decision.conditions import Conditions
from culvert_service.identity.schemas import SHOWN, SomePeopleOut
from culvert_service.policies import repository
from culvert_service.policies.effect import Effects
from culvert_service.policies.repository import Sought
from culvert_service.policies.schemas import (
    ClosedOut,
    EffectOut,
    GroupIn,
    GroupOut,
    GroupSummaryOut,
    GroupUseOut,
    PolicyIn,
    PolicyOut,
    UsageOut,
)
from culvert_service.resources.repository import users_named
from culvert_service.rest.field import FieldError
from culvert_service.rest.page import Page, Sort
from culvert_service.rest.version import MayMatch
from culvert_service.tunnels.enforcement import Enforcement
from culvert_service.tunnels.repository import list_open


class Groups:
    def __init__(self, database: Database, enforcement: Enforcement, effects: Effects) -> None:
        self._database = database
        self._enforcement = enforcement
        self._effects = effects

    async def create(self, by: Actor, asked: GroupIn) -> tuple[GroupOut, int]:
        """With its version. Raises CulvertError NOT_FOUND or ALREADY_EXISTS."""
        async with begin(self._database, by) as transaction:
            await _write_group(transaction.session, None, asked)
            transaction.audit(Line("group.create", f"group/{asked.name}", _members(asked.members)))
        return await self.get(asked.name)

    async def replace(self, by: Actor, name: str, asked: GroupIn, seen: MayMatch) -> tuple[GroupOut, int]:
        """Raises the same, VERSION_NEEDED, VERSION_STALE or ASSERTION_BROKEN."""
        async with begin(self._database, by) as transaction:
            await _check_group_version(transaction.session, name, seen)
            async with kept(transaction.session):
                await _write_group(transaction.session, name, asked)
            told = {"name": asked.name} | _members(asked.members)
            transaction.audit(Line("group.replace", f"group/{name}", told))
        await self._enforcement.enforce()
        return await self.get(asked.name)

    async def preview(self, name: str | None, asked: GroupIn) -> EffectOut:
        """The effect of creating the group, or replacing the group `name`. Raises as these."""
        return await self._effects.of(
            lambda session: _resources_of(session, name), lambda session: _write_group(session, name, asked)
        )

    async def use(self, name: str) -> GroupUseOut:
        """Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            policies = [policy.name for policy in await repository.of_group(session, name)]

        async def change(session: AsyncSession) -> None:
            await session.delete(await _group(session, name))

        effect = await self._effects.of(lambda session: _resources_of(session, name), change)
        return GroupUseOut(**dict(effect), policies_deleted=policies)

    async def list(self, page: Page, q: str | None, sort: str) -> list[GroupSummaryOut]:
        order = Sort(page, repository.GROUP_ORDERS, sort, repository.BY_GROUP_NAME)
        async with self._database() as session:
            return await _summaries(session, await repository.groups(session, order, q))

    async def get(self, name: str) -> tuple[GroupOut, int]:
        """With its version. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            group = await _group(session, name)
        return _group_out(group), group.version

    async def replace_members(
        self, by: Actor, name: str, names: Sequence[str], seen: MayMatch
    ) -> tuple[GroupOut, int]:
        """Raises CulvertError NOT_FOUND, VERSION_NEEDED, VERSION_STALE or ASSERTION_BROKEN."""
        async with begin(self._database, by) as transaction:
            await _check_group_version(transaction.session, name, seen)
            async with kept(transaction.session):
                await _write_group(transaction.session, name, GroupIn(name=name, members=list(names)))
            transaction.audit(Line("group.members", f"group/{name}", _members(names)))
        await self._enforcement.enforce()
        return await self.get(name)

    async def add(self, by: Actor, name: str, member: str, seen: MayMatch) -> tuple[GroupSummaryOut, int]:
        """With its version. Raises CulvertError NOT_FOUND, VERSION_NEEDED, VERSION_STALE or ASSERTION_BROKEN."""
        async with begin(self._database, by) as transaction:
            session = transaction.session
            await _check_group_version(session, name, seen)
            group, user = await _group_alone(session, name), await _user(session, member)
            async with kept(session):
                await repository.add_member(session, group.id, user.id)
            transaction.audit(Line("group.add", f"group/{name}", {"user": member}))
        await self._enforcement.enforce()
        async with self._database() as session:
            group = await _group_alone(session, name)
            (summary,) = await _summaries(session, [group])
        return summary, group.version

    async def remove(self, by: Actor, name: str, member: str, seen: MayMatch) -> ClosedOut:
        """Removes a member. A person who is not a member is no error."""
        async with begin(self._database, by) as transaction:
            session = transaction.session
            await _check_group_version(session, name, seen)
            group, user = await _group_alone(session, name), await _user(session, member)
            tunnels = await list_open(session)
            async with kept(session):
                await repository.remove_member(session, group.id, user.id)
            transaction.audit(Line("group.remove", f"group/{name}", {"user": member}))
        return ClosedOut(tunnels_closed=await self._enforcement.enforce_on(tunnels))

    async def delete(self, by: Actor, name: str, seen: MayMatch) -> ClosedOut:
        async with begin(self._database, by) as transaction:
            await _check_group_version(transaction.session, name, seen)
            tunnels = await list_open(transaction.session)
            async with kept(transaction.session):
                await transaction.session.delete(await _group(transaction.session, name))
            transaction.audit(Line("group.delete", f"group/{name}"))
        return ClosedOut(tunnels_closed=await self._enforcement.enforce_on(tunnels))


class Policies:
    def __init__(self, database: Database, enforcement: Enforcement, effects: Effects) -> None:
        self._database = database
        self._enforcement = enforcement
        self._effects = effects

    async def create(self, by: Actor, asked: PolicyIn) -> tuple[PolicyOut, int]:
        """With its version. Raises CulvertError NOT_FOUND or ALREADY_EXISTS."""
        return await self._write(by, None, asked, MayMatch())

    async def replace(self, by: Actor, name: str, asked: PolicyIn, seen: MayMatch) -> tuple[PolicyOut, int]:
        """Raises the same, VERSION_NEEDED, VERSION_STALE or ASSERTION_BROKEN."""
        return await self._write(by, name, asked, seen)

    async def preview(self, name: str | None, asked: PolicyIn) -> EffectOut:
        """The effect of creating the policy, or replacing the policy `name`. Raises as these."""

        async def concerned(session: AsyncSession) -> set[str]:
            before = await _policy(session, name) if name is not None else None
            return {*asked.resources, *(one.name for one in (before.resources if before else ()))}

        return await self._effects.of(concerned, lambda session: _write_policy(session, name, asked))

    async def use(self, name: str) -> EffectOut:
        """The effect of deleting the policy. Raises CulvertError NOT_FOUND."""

        async def concerned(session: AsyncSession) -> set[str]:
            return {resource.name for resource in (await _policy(session, name)).resources}

        async def change(session: AsyncSession) -> None:
            await session.delete(await _policy(session, name))

        return await self._effects.of(concerned, change)

    async def list(self, page: Page, sought: Sought, sort: str) -> list[PolicyOut]:
        order = Sort(page, repository.POLICY_ORDERS, sort, repository.BY_POLICY_NAME)
        async with self._database() as session:
            found = await repository.policies(session, order, sought)
            unused = await repository.list_unused(session, [policy.id for policy in found])
        return [_policy_out(policy, is_unused=policy.id in unused) for policy in found]

    async def get(self, name: str) -> tuple[PolicyOut, int]:
        """With its version. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            policy = await _policy(session, name)
            unused = await repository.list_unused(session, [policy.id])
        return _policy_out(policy, is_unused=policy.id in unused), policy.version

    async def delete(self, by: Actor, name: str, seen: MayMatch) -> ClosedOut:
        async with begin(self._database, by) as transaction:
            await _check_policy_version(transaction.session, name, seen)
            tunnels = await list_open(transaction.session)
            async with kept(transaction.session):
                await transaction.session.delete(await _policy(transaction.session, name))
            transaction.audit(Line("policy.delete", f"policy/{name}"))
        return ClosedOut(tunnels_closed=await self._enforcement.enforce_on(tunnels))

    async def _write(
        self, by: Actor, name: str | None, asked: PolicyIn, seen: MayMatch
    ) -> tuple[PolicyOut, int]:
        async with begin(self._database, by) as transaction:
            if name is not None:
                await _check_policy_version(transaction.session, name, seen)
            before = None if name is None else _fields(await _policy(transaction.session, name))
            async with kept(transaction.session):
                policy = await _write_policy(transaction.session, name, asked)
            if name is not None:
                await repository.count_uses_again(transaction.session, policy.id)
            transaction.audit(_line(name, before, policy, asked))
        await self._enforcement.enforce()
        return await self.get(asked.name)


async def _write_group(session: AsyncSession, name: str | None, asked: GroupIn) -> None:
    """`name`: the group's present name; None: a new group. Raises CulvertError NOT_FOUND or ALREADY_EXISTS."""
    group = Group() if name is None else await _group(session, name)
    named = list(dict.fromkeys(asked.members))
    found = await users_named(session, named)
    for at, member in enumerate(named):
        if member not in found:
            raise FieldError(f"/members/{at}", Reason.NOT_FOUND, what=Phrase("The user {name}", name=member))
    members = [found[member] for member in named]
    # Only after all queries: each query would flush the changes before it runs.
    group.name, group.members = asked.name, members
    session.add(group)
    try:
        await session.flush()
    except IntegrityError:
        raise FieldError(
            "/name", Reason.ALREADY_EXISTS, what=Phrase("The group {name}", name=asked.name)
        ) from None


async def _write_policy(session: AsyncSession, name: str | None, asked: PolicyIn) -> Policy:
    """The same."""
    group = await _group(session, asked.group, "/group") if asked.group else None
    user = await _user(session, asked.user, "/user") if asked.user else None
    resources = await _resources(session, asked.resources)
    policy = Policy() if name is None else await _policy(session, name)
    policy.name, policy.enabled = asked.name, asked.enabled
    policy.group, policy.user, policy.resources = group, user, resources
    policy.conditions = asked.conditions.model_dump(mode="json", exclude_defaults=True)
    session.add(policy)
    try:
        await session.flush()
    except IntegrityError:
        raise FieldError(
            "/name", Reason.ALREADY_EXISTS, what=Phrase("The policy {name}", name=asked.name)
        ) from None
    return policy


async def _resources_of(session: AsyncSession, group: str | None) -> set[str]:
    """The resources in the policies of a group."""
    policies = await repository.of_group(session, group) if group is not None else ()
    return {resource.name for policy in policies for resource in policy.resources}


def _members(names: Sequence[str]) -> dict[str, Detail]:
    return {"members": " ".join(dict.fromkeys(names))}


def _fields(policy: Policy) -> dict[str, object]:
    """The fields that an administrator can change."""
    return {
        "name": policy.name,
        "enabled": policy.enabled,
        "for": (policy.group and policy.group.name, policy.user and policy.user.name),
        "resources": {resource.name for resource in policy.resources},
        "conditions": dict(policy.conditions),
    }


def _line(name: str | None, before: dict[str, object] | None, policy: Policy, asked: PolicyIn) -> Line:
    """`name`: the policy's former name; None: a new policy. `before`: its former fields."""
    told: dict[str, Detail] = {
        "name": asked.name,
        "enabled": "yes" if asked.enabled else "no",
        "for": f"group/{asked.group}" if asked.group else f"user/{asked.user}",
        "resources": " ".join(asked.resources),
        "conditions": json.dumps(policy.conditions),
    }
    if before is not None:
        told["changed"] = " ".join(field for field, now in _fields(policy).items() if before[field] != now)
    action = "policy.create" if name is None else "policy.replace"
    return Line(action, f"policy/{name or asked.name}", told)


async def _check_group_version(session: AsyncSession, name: str, seen: MayMatch) -> None:
    """Lock the group and check its version. Raises CulvertError NOT_FOUND, VERSION_NEEDED or VERSION_STALE."""
    version = await repository.lock_group(session, name)
    if version is None:
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The group {name}", name=name))
    seen.check(Phrase("The group {name}", name=name), version)


async def _check_policy_version(session: AsyncSession, name: str, seen: MayMatch) -> None:
    """The same."""
    version = await repository.lock_policy(session, name)
    if version is None:
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The policy {name}", name=name))
    seen.check(Phrase("The policy {name}", name=name), version)


async def _group(session: AsyncSession, name: str, pointer: str = "") -> Group:
    """`pointer`: the field of the request that names the group, if any."""
    found = await repository.group(session, name)
    if found is None:
        raise FieldError(pointer, Reason.NOT_FOUND, what=Phrase("The group {name}", name=name))
    return found


async def _group_alone(session: AsyncSession, name: str) -> Group:
    found = await repository.group_alone(session, name)
    if found is None:
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The group {name}", name=name))
    return found


async def _summaries(session: AsyncSession, groups: Sequence[Group]) -> list[GroupSummaryOut]:
    members = await repository.some_members(session, [group.id for group in groups], SHOWN)
    named = await display_names(session, {name for _, first in members.values() for name in first})
    found: list[GroupSummaryOut] = []
    for group in groups:
        count, first = members.get(group.id, (0, []))
        some = SomePeopleOut.of(count, first, named)
        found.append(GroupSummaryOut(name=group.name, members=some, created_at=group.created_at))
    return found


async def _policy(session: AsyncSession, name: str) -> Policy:
    found = await repository.policy(session, name)
    if found is None:
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The policy {name}", name=name))
    return found


async def _user(session: AsyncSession, name: str, pointer: str = "") -> User:
    user = await repository.user(session, name)
    if user is None:
        raise FieldError(pointer, Reason.NOT_FOUND, what=Phrase("The user {name}", name=name))
    return user


async def _resources(session: AsyncSession, names: Sequence[str]) -> list[Resource]:
    found = await repository.resources_named(session, names)
    for at, name in enumerate(names):
        if name not in found:
            raise FieldError(
                f"/resources/{at}", Reason.NOT_FOUND, what=Phrase("The resource {name}", name=name)
            )
    return list(found.values())


def _group_out(group: Group) -> GroupOut:
    return GroupOut(
        name=group.name,
        members=[user.name for user in group.members],
        display_names={
            user.name: user.display_name for user in group.members if user.display_name is not None
        },
        created_at=group.created_at,
    )


def _policy_out(policy: Policy, *, is_unused: bool) -> PolicyOut:
    use = policy.use
    return PolicyOut(
        name=policy.name,
        enabled=policy.enabled,
        group=policy.group.name if policy.group else None,
        user=policy.user.name if policy.user else None,
        user_display_name=policy.user.display_name if policy.user else None,
        resources=[resource.name for resource in policy.resources],
        conditions=Conditions.model_validate(policy.conditions),
        created_at=policy.created_at,
        usage=UsageOut(
            last_used_on=use.last_used_on if use else None,
            counted_from=use.counted_from if use else policy.created_at,
            is_unused=is_unused,
        ),
    )
