"""The policies between a device and a resource, as part of any statement that has both; statements about the past."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection
from typing import Any, TypeVarTuple

from culvert_db import (
    Device,
    GroupMember,
    HistoryBegin,
    PastVersion,
    PolicyResource,
    PolicyVersion,
    Resource,
)
from culvert_db import Policy as PolicyRow
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Select,
    Text,
    any_,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession


def concerns(user_id: ColumnElement[int] | Any) -> ColumnElement[bool]:
    """Whether a policy is for the person, or for a group with the person as a member."""
    member = (
        exists()
        .where(GroupMember.group_id == PolicyRow.group_id, GroupMember.user_id == user_id)
        # The person is the enclosing statement's; without this, a nested FROM would match any person.
        .correlate_except(GroupMember)
    )
    return or_(PolicyRow.user_id == user_id, member)


# A policy as `facts.parse` takes it, in a list.
AS_JSON = func.jsonb_build_object(
    "name", PolicyRow.name, "enabled", PolicyRow.enabled, "conditions", PolicyRow.conditions
)
# For a statement that has Device and Resource: what `facts.parse` takes; null when there is none.
POLICIES = (
    select(cast(func.jsonb_agg(AS_JSON), Text))
    .select_from(PolicyRow)
    .join(PolicyResource, PolicyResource.policy_id == PolicyRow.id)
    .where(PolicyResource.resource_id == Resource.id, concerns(Device.user_id))
    .correlate(Device, Resource)
    .scalar_subquery()
)
# The policy version, read in the same statement: each change of policies increases it.
VERSION = select(PolicyVersion.version).scalar_subquery()


async def list_reachable(session: AsyncSession, people: Collection[int]) -> dict[int, frozenset[int]]:
    """For each of these people the ids of the resources with an enabled policy; conditions are not considered.

    `session` must have one snapshot for all statements. People with equal policies share one set.
    """
    among = cast(list(people), ARRAY(BigInteger))
    # As `concerns`, but joined by indexes: it would compare each person with each policy.
    of_groups = (
        select(GroupMember.user_id, PolicyRow.id)
        .join(PolicyRow, PolicyRow.group_id == GroupMember.group_id)
        .where(GroupMember.user_id == any_(among), PolicyRow.enabled)
    )
    own = select(PolicyRow.user_id, PolicyRow.id).where(PolicyRow.user_id == any_(among), PolicyRow.enabled)
    policies: defaultdict[int, set[int]] = defaultdict(set)
    for person, policy in await session.execute(union_all(of_groups, own)):
        policies[person].add(policy)
    resources: defaultdict[int, set[int]] = defaultdict(set)
    leading = cast(list(set[int]().union(*policies.values())), ARRAY(BigInteger))
    leads = select(PolicyResource.policy_id, PolicyResource.resource_id)
    for policy, resource in await session.execute(leads.where(PolicyResource.policy_id == any_(leading))):
        resources[policy].add(resource)
    shared = {
        of_person: frozenset[int]().union(*(resources[it] for it in of_person))
        for of_person in map(frozenset, policies.values())
    }
    return {
        person: shared[frozenset(policies[person])] if person in policies else frozenset()
        for person in people
    }


# In the order of their rows, so that two controllers wait for each other in one direction alone.
_WRITE_USES = text("""
INSERT INTO policy_uses (policy_id, counted_from, last_used_on)
SELECT id, created_at, :day FROM policies WHERE name = ANY (:names) ORDER BY id
ON CONFLICT (policy_id) DO UPDATE SET last_used_on = excluded.last_used_on
WHERE policy_uses.last_used_on IS NULL OR policy_uses.last_used_on < excluded.last_used_on
""")


async def write_uses(session: AsyncSession, policies: Collection[str], day: datetime.date) -> None:
    """`policies`: names; those that are gone are left out."""
    await session.execute(_WRITE_USES, {"names": list(policies), "day": day})


# The name of the common table hides the table from the statement, so that the same statement reads the past. An update
# closes a version and leaves the next one in the table; of several versions that end later, the first was in force.
_AS_OF = """
SELECT it.* FROM {table} AS it WHERE {present} NOT EXISTS (
    SELECT FROM decision_history AS past
    WHERE past.relation = '{table}' AND past.until > :as_of {of} AND past.key = {key}
)
UNION ALL
SELECT it.* FROM (
    SELECT DISTINCT ON (past.key) past.version FROM decision_history AS past
    WHERE past.relation = '{table}' AND past.until > :as_of {of} ORDER BY past.key, past.id
) AS last CROSS JOIN LATERAL jsonb_populate_record(CAST(NULL AS {table}), last.version) AS it
WHERE {present} last.version IS NOT NULL
"""
_PERSON = "(SELECT id FROM users)"
# Table, key, condition on the rows, condition on the versions.
_PAST = (
    ("users", "CAST(it.id AS text)", "it.name = :past_person AND", ""),
    ("devices", "CAST(it.id AS text)", f"it.user_id = {_PERSON} AND", f"AND past.person = {_PERSON}"),
    (
        "group_members",
        "it.group_id || '/' || it.user_id",
        f"it.user_id = {_PERSON} AND",
        f"AND past.person = {_PERSON}",
    ),
    ("policies", "CAST(it.id AS text)", "", ""),
    ("policy_resources", "it.policy_id || '/' || it.resource_id", "", ""),
    ("resources", "CAST(it.id AS text)", "", ""),
    ("resource_gateways", "it.resource_id || '/' || it.gateway_id", "", ""),
    ("gateways", "CAST(it.id AS text)", "", ""),
    ("gateway_health", "CAST(it.gateway_id AS text)", "", ""),
)
_Row = TypeVarTuple("_Row")


def as_of(query: Select[*_Row], at: datetime.datetime | None, person: str) -> Select[*_Row]:
    """The query over the tables as they were at `at`, with this person and the person's devices and groups alone.

    Columns that no decision reads are null in rows that have changed since. None: the query as it is.
    """
    if at is None:
        return query
    for table, key, present, of in _PAST:
        statement = _AS_OF.format(table=table, key=key, present=present, of=of)
        found = text(statement).bindparams(as_of=at)
        if ":past_person" in statement:
            found = found.bindparams(past_person=person)
        query = query.add_cte(found.columns().cte(table))
    return query


async def history_begin(session: AsyncSession) -> datetime.datetime:
    """The earliest time for `as_of`."""
    begin = await session.scalar(select(HistoryBegin.begins_at))
    assert begin is not None
    return begin


async def forget_history(session: AsyncSession, before: datetime.datetime) -> None:
    """Delete what only times before `before` need."""
    await session.execute(
        update(HistoryBegin).values(begins_at=func.greatest(HistoryBegin.begins_at, before))
    )
    await session.execute(delete(PastVersion).where(PastVersion.until < before))


# The enabled policies to the assertion's resource, as arrays of their groups and people.
_ASSERTIONS = text("""
SELECT it.id, it.user_name, it.group_name, it.fqdn, it.reaches,
    CASE
        WHEN person.id IS NULL AND gathering.id IS NULL THEN false
        WHEN it.user_name IS NOT NULL THEN it.reaches = coalesce(
            person.id = ANY (lead.people) OR EXISTS (
                SELECT FROM group_members AS member
                WHERE member.user_id = person.id AND member.group_id = ANY (lead.groups)
            ), false)
        WHEN it.reaches THEN coalesce(gathering.id = ANY (lead.groups), false)
            OR (members.reaching > 0 AND members.reaching = members.count)
        ELSE NOT coalesce(gathering.id = ANY (lead.groups), false) AND members.reaching = 0
    END AS holds
FROM assertions AS it
LEFT JOIN users AS person ON person.name = it.user_name
LEFT JOIN groups AS gathering ON gathering.name = it.group_name
LEFT JOIN LATERAL (
    SELECT id FROM resources WHERE fqdn = ANY (it.names) ORDER BY array_position(it.names, fqdn) LIMIT 1
) AS asked ON true
CROSS JOIN LATERAL (
    SELECT array_remove(array_agg(policies.group_id), NULL) AS groups,
        array_remove(array_agg(policies.user_id), NULL) AS people
    FROM policy_resources JOIN policies ON policies.id = policy_resources.policy_id
    WHERE policy_resources.resource_id = asked.id AND policies.enabled
) AS lead
CROSS JOIN LATERAL (
    SELECT count(*) AS count, count(*) FILTER (WHERE member.user_id = ANY (lead.people) OR EXISTS (
        SELECT FROM group_members AS other
        WHERE other.user_id = member.user_id AND other.group_id = ANY (lead.groups)
    )) AS reaching
    FROM group_members AS member WHERE member.group_id = gathering.id
) AS members
ORDER BY it.fqdn COLLATE "C", it.id
""")


async def list_assertions(session: AsyncSession) -> list[tuple[int, str | None, str | None, str, bool, bool]]:
    """Id, person, group, name, `reaches`, and whether it holds in the transaction's state, of each assertion."""
    return [(it[0], it[1], it[2], it[3], it[4], it[5]) for it in await session.execute(_ASSERTIONS)]
