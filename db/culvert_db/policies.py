"""Groups of people, and policies that permit a group or a person to reach resources, with conditions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, text
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
