"""Alembic's entry point. The connection, with its transaction, comes from culvert_db.migrate."""

from alembic import context
from culvert_db import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
