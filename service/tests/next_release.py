"""The next release as far as it can be known: the modules of this one with one migration more.

As a program: makes it in the given folder, for PYTHONPATH, and prints the folder (`make test-next-schema`).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import culvert_db
from culvert_db import migrate, newest_revision

# Columns of each table whose rows are read whole, and a table.
_NEXT = """
from alembic import op

revision, down_revision = "9001", "{before}"


def upgrade():
    for table in ("gateways", "devices", "resources", "tunnels", "addresses", "security_associations", "users"):
        op.execute(f"ALTER TABLE {{table}} ADD COLUMN of_the_next_release text NOT NULL DEFAULT 'x'")
    op.execute("CREATE TABLE of_the_next_release (id bigint PRIMARY KEY)")
"""


def next_release(directory: Path) -> str:
    """The modules of this release with one migration more."""
    made = directory / "culvert_db"
    shutil.copytree(Path(culvert_db.__file__).parent, made, ignore=shutil.ignore_patterns("__pycache__"))
    before = newest_revision()
    (made / "migrations/versions/9001_next.py").write_text(_NEXT.format(before=before))
    source = (made / "migrate.py").read_text()
    (made / "migrate.py").write_text(source.replace(f'BESIDE = "{migrate.BESIDE}"', f'BESIDE = "{before}"'))
    return str(directory)


if __name__ == "__main__":
    folder = Path(sys.argv[1]).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    print(next_release(folder))
