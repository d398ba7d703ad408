"""Set-up examines host and database before it changes anything. Each fault has a remedy."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from culvert_db import (
    UnfitDatabaseError,
    UntrustedDatabaseError,
    check,
    installation,
    refusal,
    remedy,
    why_away,
)
from sqlalchemy.exc import SQLAlchemyError

from culvert_service.config import ConfigurationError
from culvert_service.controller.database import make_engine
from culvert_service.operation.doctor import Finding
from culvert_service.pki.master_key import MasterKey
from culvert_service.pki.public_certificate import CertificateFaultError
from culvert_service.pki.public_certificate import check as check_certificate
from culvert_service.setup.answers import Answers

# Needed by an embedded Postgres with its write-ahead log and a year's audit log; by keys and logs without one.
_EMBEDDED_BYTES, _KEYS_BYTES = 2 << 30, 64 << 20
_KEYS = "master.key"


def host(answers: Answers, state_dir: Path, *, elsewhere: bool, serves: bool = False) -> Iterator[Finding]:
    """`elsewhere`: the name may lead to a proxy, load balancer or NAT. `serves`: the ports are the controller's own."""
    name = _name(answers.name)
    yield Finding(f"{name.what}: {name.wrong}, as you say") if elsewhere and name.wrong else name
    for port in () if serves else (answers.port, answers.agent_port):
        yield _port(port)
    wanted = _EMBEDDED_BYTES if answers.database is None else _KEYS_BYTES
    there = next(it for it in (state_dir, *state_dir.parents) if it.is_dir())
    free = shutil.disk_usage(there).free
    few = f"{free >> 20} MiB are free at {there}, and {wanted >> 20} MiB are needed"
    yield Finding("disk", few if free < wanted else "", f"Make room at {there}, or mount a disk there.")


def certificate(answers: Answers, user: tuple[int, int] | None) -> Finding | None:
    """`user`: the controller's user and group, who must be able to read both files."""
    if answers.certificate is None:
        return None
    what = "certificate"
    files = [Path(file) for file in answers.certificate]
    try:
        chain, key = (file.read_bytes() for file in files)
        found = check_certificate(chain, key, answers.name, datetime.datetime.now(datetime.UTC))
    except OSError as error:
        return Finding(what, f"{error.filename}: {error.strerror}", "Name files that are there.")
    except CertificateFaultError as error:
        return Finding(what, *_split(str(error)))
    for file in files:
        if user is not None and not may_read(file, *user):
            remedy = f"Copy it to a place of its own: install -o root -g culvert-controller -m 640 {file} /etc/culvert/"
            return Finding(what, f"the user culvert-controller cannot read {file}", remedy)
    return Finding(f"{what}, until {found.expires_at:%Y-%m-%d}")


def may_read(file: Path, user: int, group: int) -> bool:
    done = subprocess.run(["test", "-r", file], user=user, group=group, extra_groups=[], check=False)
    return done.returncode == 0


async def database(url: str, state_dir: Path) -> tuple[Finding, installation.Content | None]:
    """The finding names the release. Without a fault, the content is there."""
    try:
        engine = make_engine(url, "database", pooled=True)
    except ConfigurationError as error:
        return Finding("database", str(error), "Mend the URL."), None
    try:
        await check(engine)
        found = await installation.content(engine)
    except UnfitDatabaseError as error:
        return Finding("database", *_split(str(error))), None
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        known = remedy(error)
        what_to_do = (
            f"{known[0].upper()}{known[1:]}."
            if known
            else "Check the URL, pg_hba.conf, and that Postgres runs."
        )
        return Finding("database", _why(error), what_to_do), None
    finally:
        await engine.dispose()
    wrong = _unfit(found, state_dir)
    return Finding(f"database, Postgres {found.release}", *wrong), found


def _unfit(found: installation.Content, state_dir: Path) -> tuple[str, str]:
    """Fault and remedy."""
    if not found.may_create:
        return (
            "its user may not make tables",
            "GRANT CREATE ON SCHEMA public to this user, or make it the owner.",
        )
    if not found.may_make_roles:
        return "its user may not make dns-updater's role", "ALTER ROLE this user CREATEROLE."
    if not found.used:
        return "", ""
    if not found.migrated:
        return "it holds another program's tables", "Make a database for Culvert alone, and name that."
    key = state_dir / _KEYS
    mine = MasterKey(key.read_bytes()).installation if key.is_file() else ""
    if found.owner and found.owner == mine:
        return "", ""
    if mine and not found.owner:
        return "", ""
    return (
        f"it belongs to another Culvert ({found.owner or 'of an older release'})",
        f"Name an empty database, or put that Culvert's keys into {state_dir} (culvert-controller restore).",
    )


def _split(text: str) -> tuple[str, str]:
    wrong, _, remedy = text.partition(" Remedy: ")
    return wrong, remedy


def _why(error: BaseException | None) -> str:
    told: list[str] = []
    while error is not None:
        if isinstance(error, UntrustedDatabaseError):
            return str(error)
        if (words := why_away(error) or refusal(error)) and words not in told:
            told.append(words)
        elif isinstance(error, OSError):
            told.append(error.strerror or str(error))
        error = error.__cause__ or getattr(error, "orig", None)
    return told[-1] if told else "it does not answer"


def _name(name: str) -> Finding:
    what = f"public name {name}"
    try:
        found = sorted({str(it[4][0]) for it in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})
    except OSError:
        wrong = "it does not resolve on this host"
        remedy = "Add it to the DNS with an address of this host, and wait until it is there"
    else:
        own = [it for it in found if _is_own(it)]
        if any(not _is_loopback(it) for it in own):
            return Finding(what)
        wrong = f"it resolves to {', '.join(found)}"
        wrong += (
            ", which other computers cannot reach" if own else ", and no address of this host is among them"
        )
        remedy = "Point it here in the DNS" + (", and take it out of /etc/hosts" if own else "")
    remedy += "; or, if a proxy, load balancer or NAT stands before this host, say so: --elsewhere."
    return Finding(what, wrong, remedy)


def _is_own(address: str) -> bool:
    """Only a local address can be bound to (bind(2)), unless ip_nonlocal_bind is set."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind((address.partition("%")[0], 0))
        except OSError:
            return False
    return True


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _port(port: int) -> Finding:
    remedy = f"See who listens there: ss -ltnp 'sport = :{port}'. Or take another port: --port, --agent-port."
    with contextlib.closing(socket.socket(family(), socket.SOCK_STREAM)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
            trial.listen(1)
        except OSError as error:
            return Finding(f"port {port}", f"cannot listen on it: {error.strerror}", remedy)
    return Finding(f"port {port}")


def family() -> socket.AddressFamily:
    """IPv6, whose wildcard takes IPv4 as well, where this host has it."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            trial.bind(("::", 0))
    except OSError:
        return socket.AF_INET
    return socket.AF_INET6


def is_root() -> bool:
    return os.geteuid() == 0
