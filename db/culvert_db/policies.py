"""Groups of people, policies that permit them to reach resources, and the history that past decisions are made from."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Date, ForeignKey, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from culvert_db.base import Base, CreatedAt, Number, Version
from culvert_db.identity import User
from culvert_db.network import Resource
from culvert_db.text import by_code_point


class Group(Base):
    __tablename__ = "groups"

    id: Mapped[Number]
    name: Mapped[str] = mapped_column(unique=True)
    version: Mapped[Version]
    created_at: Mapped[CreatedAt]

    members: Mapped[list[User]] = relationship(
        secondary="group_members", lazy="raise", order_by=by_code_point(User.name), passive_deletes=True
    )


class GroupMember(Base):
    __tablename__ = "group_members"

    group_id: Mapped[int] = mapped_column(ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True)
    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class Policy(Base):
    """Permits one group or one person to reach resources. `conditions`: as in the REST API; {}: none."""

    __tablename__ = "policies"
    __table_args__ = (
        CheckConstraint("num_nonnulls(group_id, user_id) = 1", name="is_for_a_group_or_a_person"),
    )

    id: Mapped[Number]
    name: Mapped[str] = mapped_column(unique=True)
    enabled: Mapped[bool] = mapped_column(server_default=text("true"))
    group_id: Mapped[int | None] = mapped_column(ForeignKey("groups.id", ondelete="CASCADE"), index=True)
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    conditions: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    version: Mapped[Version]
    created_at: Mapped[CreatedAt]

    group: Mapped[Group | None] = relationship(lazy="raise")
    user: Mapped[User | None] = relationship(lazy="raise")
    resources: Mapped[list[Resource]] = relationship(
        secondary="policy_resources",
        lazy="raise",
        order_by=by_code_point(Resource.name),
        passive_deletes=True,
    )
    use: Mapped[PolicyUse | None] = relationship(lazy="raise", viewonly=True)


class PolicyUse(Base):
    """The last day (UTC) on which a policy permitted a tunnel. `counted_from`: nothing is known about the time before it.

    A policy without a row has not been used since it was created.
    """

    __tablename__ = "policy_uses"

    policy_id: Mapped[int] = mapped_column(ForeignKey("policies.id", ondelete="CASCADE"), primary_key=True)
    counted_from: Mapped[CreatedAt]
    last_used_on: Mapped[datetime.date | None] = mapped_column(Date)


class PolicyResource(Base):
    __tablename__ = "policy_resources"

    policy_id: Mapped[int] = mapped_column(ForeignKey("policies.id", ondelete="CASCADE"), primary_key=True)
    resource_id: Mapped[int] = mapped_column(
        ForeignKey("resources.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class PolicyVersion(Base):
    """A single row. Triggers count each change that can affect a permission; a tunnel stores the count of its decision."""

    __tablename__ = "policy_version"
    __table_args__ = (CheckConstraint("only_row", name="has_one_row"),)

    only_row: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    version: Mapped[int] = mapped_column(BigInteger)


class PastVersion(Base):
    """A version of a row that a decision reads, from the version before it until `until`. Triggers write it.

    `version` has the columns that a decision reads; null: there was no row. The versions of one row are in the order of
    `id`; the row's present version is the row itself. `key`: the row's primary key, joined by "/". `person`: the id of
    the user for rows of `devices` and `group_members`.
    """

    __tablename__ = "decision_history"
    __table_args__ = (Index(None, "relation", "until"), Index(None, "person", "relation"))

    id: Mapped[Number]
    relation: Mapped[str]
    key: Mapped[str]
    person: Mapped[int | None] = mapped_column(BigInteger)
    until: Mapped[datetime.datetime]
    version: Mapped[dict[str, Any] | None] = mapped_column(JSONB)


class HistoryBegin(Base):
    """A single row: the time from which on PastVersion is complete."""

    __tablename__ = "decision_history_begin"
    __table_args__ = (CheckConstraint("only_row", name="has_one_row"),)

    only_row: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    begins_at: Mapped[datetime.datetime]


class Assertion(Base):
    """That a person, or the members of a group, can reach a name, or that they cannot (`reaches`).

    By names, so that it outlives what it is about; a trigger follows a group's new name. `names`: those under which a
    resource may carry `fqdn`, the nearest first (dns_name.candidates).
    """

    __tablename__ = "assertions"
    __table_args__ = (
        CheckConstraint("num_nonnulls(group_name, user_name) = 1", name="is_about_a_group_or_a_person"),
        UniqueConstraint("user_name", "fqdn"),
        UniqueConstraint("group_name", "fqdn"),
    )

    id: Mapped[Number]
    user_name: Mapped[str | None]
    group_name: Mapped[str | None]
    fqdn: Mapped[str]
    names: Mapped[list[str]] = mapped_column(ARRAY(Text))
    reaches: Mapped[bool]
    created_at: Mapped[CreatedAt]
