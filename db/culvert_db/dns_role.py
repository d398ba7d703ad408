"""dns-updater's database role. It has the rights that dns-updater's statements need, and no others."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from culvert_db.engine import parse_url
from culvert_db.outage import sqlstate

# The rights that the statements of culvert_dns_updater.store need. Locking a row requires the right to update.
_RIGHTS = (
    "SELECT (id, fqdn, targets) ON resources",
    "SELECT, DELETE ON dns_zones",
    "SELECT ON dns_zone_resources",
    "SELECT, INSERT, UPDATE (holder, epoch, ends_at) ON dns_leases",
    "SELECT, INSERT, UPDATE, DELETE ON dns_records",
    "SELECT, INSERT, UPDATE ON dns_zone_status",
)
# Several updaters may run, with eight connections each.
_CONNECTIONS = 24
_NAME_MAX = 63
# An arbitrary number, the same at every controller.
_LOCK = 4500_51
_INSUFFICIENT_PRIVILEGE = "42501"
# The parts of the owner's URL that are credentials of the owner.
_OWNERS = ("user", "password", "passfile", "service", "servicefile", "sslcert", "sslkey")
# RFC 5802, RFC 7677.
_ITERATIONS = 4096


# A role of this name that an operator or another program has made may have more rights than needed.
_PRIVILEGED = text("""
SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
    OR EXISTS (SELECT FROM pg_auth_members WHERE member = pg_roles.oid)
FROM pg_roles WHERE rolname = :role
""")


class RoleRefusedError(Exception):
    """The role cannot be created, or has other privileges. The text has the remedy."""


async def prepare(engine: AsyncEngine, database_url: str, password: str) -> str:
    """Make the role, or correct its rights and password. Several controllers may call this at once. Returns the role's URL.

    Raises RoleRefusedError.
    """
    url = parse_url(database_url)
    role = f"{url.database}_dns"
    if len(role.encode()) > _NAME_MAX:
        raise RoleRefusedError(
            f"{role} is too long for a role's name. Remedy: give the database a shorter name"
        )
    try:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            await _make(connection, role, password)
    except ProgrammingError as error:
        if sqlstate(error) != _INSUFFICIENT_PRIVILEGE:
            raise
        raise RoleRefusedError(
            f'the database user may not make the role "{role}". Remedy: ALTER ROLE "{url.username}" CREATEROLE'
        ) from error
    own = url.difference_update_query(_OWNERS).set(username=role, password=password)
    return own.render_as_string(hide_password=False)


async def _make(connection: AsyncConnection, role: str, password: str) -> None:
    quoted = connection.dialect.identifier_preparer.quote_identifier(role)
    privileged = await connection.scalar(_PRIVILEGED, {"role": role})
    if privileged:
        raise RoleRefusedError(
            f'the role "{role}" has privileges or is a member of other roles. Remedy: DROP ROLE {quoted}, '
            "or take those rights from it"
        )
    verb = "CREATE" if privileged is None else "ALTER"
    # The verifier is base64 with "$" and ":", so it needs no escaping.
    options = f"LOGIN NOINHERIT CONNECTION LIMIT {_CONNECTIONS} PASSWORD '{_verifier(password)}'"
    await connection.exec_driver_sql(f"{verb} ROLE {quoted} {options}")
    await connection.exec_driver_sql(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {quoted}")
    await connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA public TO {quoted}")
    for right in _RIGHTS:
        await connection.exec_driver_sql(f"GRANT {right} TO {quoted}")


def _verifier(password: str) -> str:
    """The password's SCRAM verifier (RFC 5803), as Postgres stores it. A server may log the statement, which then does not
    reveal the password.
    """
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    encoded = [base64.b64encode(it).decode() for it in (salt, stored, server)]
    return f"SCRAM-SHA-256${_ITERATIONS}:{encoded[0]}${encoded[1]}:{encoded[2]}"
