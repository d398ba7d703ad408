"""`culvert-controller setup`: questions, examination, plan, changes.

answers ─► examined: a fault? ─► nothing changed
                └► keys, database, settings, units ─► healthy ─► the first administrator's link
                             └─ a failure, or Ctrl-C: all of it is taken back
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar
from urllib.parse import urlsplit

import typer
from culvert_db import installation

from culvert_service import config
from culvert_service.config import ConfigurationError, Settings, split_listen
from culvert_service.controller.database import make_engine
from culvert_service.operation import doctor
from culvert_service.operation.commands import explain_warning
from culvert_service.operation.doctor import Finding
from culvert_service.operation.rest_client import CallRefusedError, call, readiness
from culvert_service.setup import answers, examination, host_changes
from culvert_service.setup.acme import AcmeFlags, wait_for_certificate
from culvert_service.setup.acme import examine as examine_server
from culvert_service.setup.answers import EMBEDDED, NONE, Acme, AnswerError, Answers
from culvert_service.setup.host_changes import CONTROLLER, DNS_UPDATER, Changes, Places

_Answer = TypeVar("_Answer")

_LINK = re.compile(r"https://\S+/console/setup#token=\S+")
_HEALTHY_SECONDS = 90.0
_LOOK_SECONDS = 0.5
# Lines of the output of a step that failed.
_SHOWN_LINES = 15
_DROP_IN = "# Written by `culvert-controller setup`.\n[Service]\n"
# Settings that an answer may take away again.
_OPTIONAL = (
    "protected_prefixes",
    "database_url",
    "trusted_proxies",
    "public_certificate_file",
    "public_key_file",
    "acme_directory",
    "acme_terms_agreed",
    "acme_contact",
    "acme_profile",
    "acme_eab_key_id",
    "acme_eab_key_file",
    "acme_ca_file",
)
_LOW_PORT = "AmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n"


@dataclass(frozen=True, slots=True)
class Flags:
    """As they were given. `database` may come from the environment: then `database_is_visible` is false."""

    name: str | None = None
    zones: Sequence[str] = ()
    protected: Sequence[str] = ()
    database: str | None = None
    database_is_visible: bool = True
    port: int | None = None
    agent_port: int | None = None
    trusted_proxies: Sequence[str] = ()
    certificate: Path | None = None
    key: Path | None = None
    acme: AcmeFlags = field(default_factory=AcmeFlags)
    elsewhere: bool = False
    yes: bool = False
    change: bool = False
    start: bool = True
    root: Path = field(default_factory=lambda: Path("/"))


class NotSetUpError(ConfigurationError):
    """Nothing was changed, or all of it was taken back; the text says why."""


def set_up(flags: Flags) -> None:
    """Raises ConfigurationError; the host is then as it was before."""
    places = Places(flags.root.resolve())
    if not places.is_trial and not examination.is_root():
        raise NotSetUpError("this needs root. Remedy: sudo culvert-controller setup")
    asks = not flags.yes
    if asks and not sys.stdin.isatty():
        raise NotSetUpError(
            "there is no terminal to ask on. Remedy: --yes, with --public-name, --zone, --protect and --database as flags"
        )
    owner = places.service_user
    with _alone(places), _signals_raise():
        if places.settings.exists():
            _set_up_again(flags, places, owner)
        else:
            _set_up_first(flags, places, owner, asks=asks)


def _set_up_first(flags: Flags, places: Places, owner: tuple[int, int] | None, *, asks: bool) -> None:
    found = _answers(flags, Answers("", ()), asks=asks)
    found = _agreed(found, places.service_user, asks=asks)
    wanted = found.settings(places.state, any_host=_any_host())
    database = _examine(found, places, elsewhere=_is_elsewhere(flags))
    if not found.protected:
        print("\nNo prefix is protected: laptops send packets in clear that no tunnel carries.")
    print(f"\nIt is going to write {places.settings}, make keys in {places.state}")
    print(f"and {'prepare the database' if found.database else 'make a database there'}", end="")
    print(
        f", and start {CONTROLLER} and {DNS_UPDATER}." if _starts(flags, places) else ". It starts nothing."
    )
    if asks and not typer.confirm("Go on?", default=True):
        raise NotSetUpError("nothing was changed")
    try:
        with Changes() as changes:
            changes.make_directory(places.state, 0o700, owner)
            changes.keep_content(places.state)
            if found.database is not None and database is not None and not database.used:
                url, made_role = found.database, not database.has_dns_role
                changes.undo_by(lambda: asyncio.run(_empty(url, with_dns_role=made_role)))
            print("Making keys and tables …", flush=True)
            link = _init(found, places, owner, str(wanted["public_rest_url"]))
            _write(changes, found, places, owner, answers.render(wanted))
            if _starts(flags, places):
                changes.start()
                print("Waiting for the controller …", flush=True)
                _wait_until_healthy(config.load(places.settings))
    except (ConfigurationError, OSError) as error:
        why = config.system_words(error) if isinstance(error, OSError) else str(error)
        raise NotSetUpError(f"{why}\nEverything is as it was before.") from None
    if found.acme is not None and _starts(flags, places):
        wait_for_certificate(config.load(places.settings))
    if not _starts(flags, places):
        print(f"It is set up. Start it: systemctl enable --now {CONTROLLER} {DNS_UPDATER}")
    if link is None:
        print(f"The database has an owner's account already: {wanted['public_rest_url']}/console/")
        return
    print(explain_warning(config.load(places.settings)), end="")
    print("Open this link within a day to make the first administrator's account. It works once:")
    print(f"\n  {link}\n")
    print("It is lost? culvert-controller init prints another.")


def _set_up_again(flags: Flags, places: Places, owner: tuple[int, int] | None) -> None:
    text = places.settings.read_text()
    try:
        present = tomllib.loads(text)
        before = _present(present, places)
    except (tomllib.TOMLDecodeError, KeyError, ValueError, AnswerError):
        raise NotSetUpError(
            f"{places.settings} was not written by this command, or changed since. Nothing was changed. Remedy: edit it by "
            "hand, or move it away and set up again"
        ) from None
    found = _answers(flags, before, asks=False)
    if found.acme != before.acme:
        found = _agreed(found, places.service_user, asks=not flags.yes and flags.change)
    host = split_listen(str(present["rest_listen"]))[0]
    any_host = f"[{host}]" if ":" in host else host
    wanted: dict[str, Any] = dict.fromkeys(_OPTIONAL)
    wanted |= found.settings(places.state, any_host=any_host)
    differing = answers.difference(present, wanted)
    secret = found.database_is_secret and found.database != before.database
    if secret:
        differing.append("the database's URL, which has a password")
    if not differing:
        print(f"It is set up already, for {wanted['public_rest_url']}. Nothing differs, nothing was changed.")
        return
    print(f"It is set up already, for {present['public_rest_url']}. These differ:")
    for line in differing:
        print(f"  {line}")
    if not flags.change:
        raise NotSetUpError(
            "nothing was changed. Remedy: --change makes these changes and restarts the controller"
        )
    moved = (found.port, found.agent_port) != (before.port, before.agent_port)
    database = _examine(
        found, places, elsewhere=_is_elsewhere(flags) or found.name == before.name, serves=not moved
    )
    if found.database != before.database and (database is None or not database.owner):
        raise NotSetUpError(
            "nothing was changed: the other database is not a copy of this Culvert's. Remedy: culvert-controller backup, "
            "then restore into the other database"
        )
    if found.protected != before.protected and _starts(flags, places):
        _refuse_unreachable_gateways(config.load(places.settings), found.protected)
    try:
        with Changes() as changes:
            if _starts(flags, places):
                changes.restart_when_taken_back()
            _write(changes, found, places, owner, answers.change(text, wanted))
            if _starts(flags, places):
                host_changes.systemctl("daemon-reload")
                host_changes.start_anew()
                _wait_until_healthy(config.load(places.settings))
    except (ConfigurationError, OSError) as error:
        why = config.system_words(error) if isinstance(error, OSError) else str(error)
        raise NotSetUpError(f"{why}\nEverything is as it was before.") from None
    print("Changed.")
    if found.acme not in {None, before.acme} and _starts(flags, places):
        wait_for_certificate(config.load(places.settings))


def _answers(flags: Flags, before: Answers, *, asks: bool) -> Answers:
    """The flags, then the person, then what was before. Raises NotSetUpError."""
    name, public_port = before.name, None
    try:
        if flags.database_is_visible:
            answers.refuse_password(
                None if flags.database is None else answers.parse_database(flags.database)
            )
        if flags.name is not None:
            name, public_port = answers.parse_name(flags.name)
        elif asks:
            name, public_port = _ask(
                "Public name of this controller, as vpn.corp.example", answers.parse_name
            )
        elif not name:
            raise AnswerError("the public name is missing: --public-name vpn.corp.example")
        zones = before.zones
        if flags.zones:
            zones = answers.parse_zones(flags.zones)
        elif asks:
            zones = _ask(
                "Zones whose names open tunnels, as corp.example", lambda it: answers.parse_zones([it])
            )
        elif not zones:
            raise AnswerError("the zones are missing: --zone corp.example")
        protected = before.protected
        if flags.protected:
            protected = answers.parse_protected(flags.protected)
        elif asks:
            protected = _ask(
                f"Prefixes of the intranet, which laptops reach through tunnels alone, as 10.20.0.0/16; or {NONE}",
                lambda it: answers.parse_protected([it]),
            )
        elif not before.name:
            raise AnswerError(
                f"the prefixes of the intranet are missing: --protect 10.20.0.0/16, or --protect {NONE}"
            )
        database = before.database
        if flags.database is not None:
            database = answers.parse_database(flags.database)
        elif asks:
            question = f"Database: {EMBEDDED}, or the URL of a Postgres from 14 on"
            database = _ask(question, answers.parse_database, default=EMBEDDED)
        if (flags.certificate is None) != (flags.key is None):
            raise AnswerError("--certificate and --key go together")
        certificate, acme = before.certificate, flags.acme.answer(before.acme)
        if flags.certificate is not None and acme is not None and acme != before.acme:
            raise AnswerError("--certificate and --acme exclude each other")
        if flags.certificate is not None:
            acme = None
        elif acme is not None:
            certificate = None
        if flags.certificate is not None and flags.key is not None:
            certificate = str(flags.certificate.absolute()), str(flags.key.absolute())
        # An ACME server validates the name at this port.
        port = flags.port or (443 if acme is not None and not before.name else before.port)
        proxies = (
            answers.parse_prefixes(flags.trusted_proxies) if flags.trusted_proxies else before.trusted_proxies
        )
    except AnswerError as error:
        raise NotSetUpError(str(error)) from None
    public_port = public_port or (before.public_port if flags.name is None and before.name else port)
    if flags.port is not None and flags.name is None and before.public_port == before.port:
        public_port = port
    agent_port = flags.agent_port or before.agent_port
    found = Answers(
        name, zones, protected, database, port, public_port, agent_port, proxies, certificate, acme
    )
    try:
        answers.refuse_unreachable(found)
    except AnswerError as error:
        raise NotSetUpError(str(error)) from None
    return found


def _agreed(found: Answers, user: tuple[int, int] | None, *, asks: bool) -> Answers:
    """With the agreement to the ACME server's terms, if there is one. Raises NotSetUpError."""
    if found.acme is None:
        return found
    finding, terms = examine_server(found.acme, user)
    if _show(finding):
        raise NotSetUpError("nothing was changed, because of the above")
    if not terms or found.acme.agrees:
        return found
    if not asks:
        raise NotSetUpError(
            f"the authority wants its terms of service agreed to: {terms}. Remedy: read them, and add --agree-to-terms"
        )
    if not typer.confirm(f"Do you agree to the authority's terms of service, {terms}?"):
        raise NotSetUpError("nothing was changed")
    return replace(found, acme=replace(found.acme, agrees=True))


def _ask(question: str, parse: Callable[[str], _Answer], default: str | None = None) -> _Answer:
    while True:
        try:
            return parse(typer.prompt(question, default=default))
        except AnswerError as error:
            print(f"  {error}")


def _present(settings: dict[str, Any], places: Places) -> Answers:
    """The answers that the settings came from. Raises KeyError or ValueError for other settings."""
    name, agent_port = split_listen(settings["public_agent_address"])
    url: str | None = settings.get("database_url")
    public: str = settings["public_rest_url"]
    certificate: str | None = settings.get("public_certificate_file")
    if places.database_url.exists():
        url = places.database_url.read_text().strip()
    return Answers(
        name,
        tuple(settings["managed_zones"]),
        tuple(settings.get("protected_prefixes", ())),
        url,
        port=split_listen(settings["rest_listen"])[1],
        public_port=urlsplit(public).port or 443,
        agent_port=agent_port,
        trusted_proxies=tuple(settings.get("trusted_proxies", ())),
        certificate=None if certificate is None else (certificate, settings["public_key_file"]),
        acme=Acme.of(settings),
    )


def _examine(
    found: Answers, places: Places, *, elsewhere: bool, serves: bool = False
) -> installation.Content | None:
    """Print each finding. Returns the content of a database that is not embedded. Raises NotSetUpError for a fault."""
    faults = [_show(it) for it in examination.host(found, places.state, elsewhere=elsewhere, serves=serves)]
    if (finding := examination.certificate(found, places.service_user)) is not None:
        faults.append(_show(finding))
    content = None
    if found.database is not None:
        finding, content = asyncio.run(examination.database(found.database, places.state))
        faults.append(_show(finding))
    if any(faults):
        raise NotSetUpError("nothing was changed, because of the above")
    return content


def _refuse_unreachable_gateways(settings: Settings, protected: Sequence[str]) -> None:
    """Raises NotSetUpError if devices could not reach a gateway any more, or if the controller does not answer."""
    try:
        gateways = asyncio.run(call(settings, "GET", "/gateways"))
    except (ConfigurationError, CallRefusedError) as error:
        raise NotSetUpError(
            f"nothing was changed: it is unknown whether a gateway has a protected address: {error}"
        ) from None
    faults = [_show(it) for it in doctor.find_unreachable(gateways, protected)]
    if faults:
        raise NotSetUpError("nothing was changed, because of the above")


def _show(finding: Finding) -> bool:
    print(f"{finding.what:40} {finding.wrong or 'ok'}")
    if finding.wrong:
        print(f"{'':40} {finding.remedy}")
    return bool(finding.wrong)


def _write(
    changes: Changes, found: Answers, places: Places, owner: tuple[int, int] | None, settings: str
) -> None:
    group = None if owner is None else (0, owner[1])
    root = None if owner is None else (0, 0)
    changes.make_directory(places.etc, 0o755)
    drop_in = ""
    if found.database_is_secret and found.database is not None:
        changes.make_directory(places.database_url.parent, 0o700)
        changes.write(places.database_url, found.database + "\n", 0o600, root)
        drop_in += f"LoadCredential={places.database_url.name}:{places.database_url}\n"
    else:
        changes.remove(places.database_url)
    drop_in += _LOW_PORT if found.needs_low_port else ""
    if drop_in:
        changes.reload_units()
        changes.make_directory(places.drop_in.parent, 0o755)
        changes.write(places.drop_in, _DROP_IN + drop_in, 0o644, root)
    else:
        changes.remove(places.drop_in)
    changes.write(places.settings, settings, 0o640, group)


def _init(found: Answers, places: Places, owner: tuple[int, int] | None, rest_url: str) -> str | None:
    """Make keys and tables as the controller's user. The first owner's link, unless there is an owner.

    Raises ConfigurationError.
    """
    environment = {
        name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "TZ"}
    }
    environment |= {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CULVERT_STATE_DIR": str(places.state),
        "CULVERT_PUBLIC_REST_URL": rest_url,
    }
    if found.database is not None:
        # Only this user and root can read a process's environment.
        environment["CULVERT_DATABASE_URL"] = found.database
    user: dict[str, Any] = {} if owner is None else {"user": owner[0], "group": owner[1], "extra_groups": []}
    making = subprocess.Popen(
        [sys.executable, "-c", "from culvert_service.cli import app; app()", "init"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        umask=0o077,
        # A terminal's Ctrl-C comes here alone, and is handed on below.
        start_new_session=True,
        **user,
    )
    try:
        out, errors = making.communicate()
    except BaseException:
        # It stops its Postgres before it ends.
        os.killpg(making.pid, signal.SIGINT)
        try:
            making.communicate(timeout=_HEALTHY_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(making.pid, signal.SIGKILL)
        raise
    if making.returncode != 0:
        said = errors.strip().removeprefix("culvert-controller: ")
        raise ConfigurationError(
            "\n".join(said.splitlines()[-_SHOWN_LINES:]) or "keys and tables could not be made"
        )
    link = _LINK.search(out)
    return None if link is None else link[0]


async def _empty(url: str, *, with_dns_role: bool) -> None:
    engine = make_engine(url, pooled=True)
    try:
        await installation.empty(engine, with_dns_role=with_dns_role)
    finally:
        await engine.dispose()


def _wait_until_healthy(settings: Settings) -> None:
    """Raises ConfigurationError with the log's last lines."""
    deadline = time.monotonic() + _HEALTHY_SECONDS
    while wrong := readiness(settings) or host_changes.inactive():
        for unit in (CONTROLLER, DNS_UPDATER):
            if said := host_changes.ended(unit):
                raise ConfigurationError(f"{unit} does not run: {said}")
        if time.monotonic() > deadline:
            raise ConfigurationError(f"the controller is not ready after {_HEALTHY_SECONDS:.0f} s: {wrong}")
        time.sleep(_LOOK_SECONDS)


def _any_host() -> str:
    return "[::]" if examination.family().name == "AF_INET6" else "0.0.0.0"  # noqa: S104


def _is_elsewhere(flags: Flags) -> bool:
    return flags.elsewhere or bool(flags.trusted_proxies)


def _starts(flags: Flags, places: Places) -> bool:
    return flags.start and not places.is_trial


@contextmanager
def _alone(places: Places) -> Generator[None]:
    """Two set-ups at once would take back each other's files."""
    try:
        directory = os.open(places.root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise NotSetUpError(config.system_words(error)) from None
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotSetUpError("another setup runs on this host. Remedy: wait until it has ended") from None
        yield
    finally:
        os.close(directory)


@contextmanager
def _signals_raise() -> Generator[None]:
    """A signal ends set-up as a failure does; the first one alone, so that another does not interrupt the undoing."""

    def end(number: int, _frame: FrameType | None) -> None:
        for each in watched:
            signal.signal(each, signal.SIG_IGN)
        raise NotSetUpError(f"{signal.Signals(number).name} has ended it")

    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in watched}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
