"""The answers to set-up's four questions, from flags or a person, and the settings that follow from them. Pure."""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from culvert_db import parse_url
from culvert_proto import dns_name

from culvert_service.config import ConfigurationError, protected

EMBEDDED = "embedded"
NONE = "none"
LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"
# The port that an ACME server connects to (RFC 8737, section 3).
_VALIDATED = 443
_PORT_MAX = 65535
# The first port that a program may listen on without a privilege (ip(7), ip_unprivileged_port_start).
_UNPRIVILEGED = 1024
_HEAD = """\
# Written by `culvert-controller setup`. Restart culvert-controller after a change.
"""


class AnswerError(ValueError):
    """An answer that cannot be used; the text says why and what to answer instead."""


@dataclass(frozen=True, slots=True)
class Acme:
    """The ACME server that issues the certificate of the public name. Files are absolute paths."""

    directory: str = LETS_ENCRYPT
    agrees: bool = False
    contact: str | None = None
    profile: str | None = None
    eab_key_id: str | None = None
    eab_key_file: str | None = None
    ca_file: str | None = None

    def settings(self) -> dict[str, Any]:
        found = {
            "acme_directory": self.directory,
            "acme_terms_agreed": self.agrees or None,
            "acme_contact": self.contact,
            "acme_profile": self.profile,
            "acme_eab_key_id": self.eab_key_id,
            "acme_eab_key_file": self.eab_key_file,
            "acme_ca_file": self.ca_file,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Acme | None:
        if "acme_directory" not in settings:
            return None
        return cls(
            settings["acme_directory"],
            settings.get("acme_terms_agreed", False),
            settings.get("acme_contact"),
            settings.get("acme_profile"),
            settings.get("acme_eab_key_id"),
            settings.get("acme_eab_key_file"),
            settings.get("acme_ca_file"),
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """`public_port`: the port that browsers use; `port`: the one to listen on. No `database`: embedded."""

    name: str
    zones: tuple[str, ...]
    # Prefixes that laptops reach through tunnels alone.
    protected: tuple[str, ...] = ()
    database: str | None = None
    port: int = 8443
    public_port: int = 8443
    agent_port: int = 8444
    trusted_proxies: tuple[str, ...] = ()
    # Certificate and key of the public name for browsers, absolute paths; none: of the controller's own CA.
    certificate: tuple[str, str] | None = None
    # Excludes `certificate`.
    acme: Acme | None = None

    @property
    def database_is_secret(self) -> bool:
        return self.database is not None and _holds_password(self.database)

    @property
    def needs_low_port(self) -> bool:
        return min(self.port, self.agent_port) < _UNPRIVILEGED

    def settings(self, state_dir: Path, *, any_host: str) -> dict[str, Any]:
        """The settings for the TOML file, without a database URL that has a password."""
        public = self.name if self.public_port == 443 else f"{self.name}:{self.public_port}"
        found: dict[str, Any] = {
            "state_dir": str(state_dir),
            "public_rest_url": f"https://{public}",
            "public_agent_address": f"{self.name}:{self.agent_port}",
            "rest_listen": f"{any_host}:{self.port}",
            "agent_listen": f"{any_host}:{self.agent_port}",
            "managed_zones": list(self.zones),
        }
        if self.protected:
            found["protected_prefixes"] = list(self.protected)
        if self.trusted_proxies:
            found["trusted_proxies"] = list(self.trusted_proxies)
        if self.certificate is not None:
            found["public_certificate_file"], found["public_key_file"] = self.certificate
        if self.acme is not None:
            found |= self.acme.settings()
        if self.database is not None and not self.database_is_secret:
            found["database_url"] = self.database
        return found


def parse_name(text: str) -> tuple[str, int | None]:
    """Name and port of `NAME` or `NAME:PORT`. Raises AnswerError."""
    asked = text.strip()
    if "//" in asked:
        asked = urlsplit(asked).netloc
    host, colon, port = asked.partition(":")
    if _is_address(asked.strip("[]")) or _is_address(host):
        raise AnswerError(
            "the public name must be a name and not an address, which may change: give this host a name in the DNS"
        )
    name = _name(host)
    if "." not in name:
        raise AnswerError(
            f"{name} is no whole name: write it with its domain, as vpn.corp.example; other computers have to find it"
        )
    if not colon:
        return name, None
    if not re.fullmatch(r"\d{1,5}", port) or not 0 < int(port) <= _PORT_MAX:
        raise AnswerError(f"{port or 'nothing'} is no port: write NAME or NAME:PORT")
    return name, int(port)


def parse_contact(text: str) -> str:
    """A URL of an address for e-mail. Raises AnswerError."""
    address = text.strip().removeprefix("mailto:")
    if not re.fullmatch(r"[^\s@,?]+@[^\s@,?]+", address):
        raise AnswerError(f"{text!r} is no address: write one, as admin@corp.example")
    return f"mailto:{address}"


def refuse_unreachable(answers: Answers) -> None:
    """For an ACME server, which validates the name by TLS at its port 443. Raises AnswerError."""
    if answers.acme is None:
        return
    if answers.trusted_proxies:
        raise AnswerError(
            "behind a reverse proxy, which ends TLS, browsers get the proxy's certificate: get that one there, and leave "
            "--acme out"
        )
    if answers.public_port != _VALIDATED:
        raise AnswerError(
            f"browsers use port {answers.public_port}, and an ACME server validates the name at port {_VALIDATED}: "
            f"--port {_VALIDATED}, or --public-name {answers.name}:{_VALIDATED} if that port is forwarded to "
            f"{answers.port} here"
        )


def parse_zones(words: Sequence[str]) -> tuple[str, ...]:
    """Each zone once, in its canonical spelling, from words that may have commas between them. Raises AnswerError."""
    found: dict[str, None] = {}
    for word in " ".join(words).replace(",", " ").split():
        if word.startswith("*"):
            raise AnswerError(f"{word}: a zone contains all names below it; write it without the *")
        zone = _name(word)
        if "." not in zone and not word.endswith("."):
            raise AnswerError(
                f"{word} is no absolute name: write the whole zone, as {zone}.example, or {zone}. with a dot at its end "
                "if it really is a top-level domain"
            )
        found[zone] = None
    if not found:
        raise AnswerError("name at least one zone, as corp.example: names in it open tunnels")
    return tuple(found)


def parse_protected(words: Sequence[str]) -> tuple[str, ...]:
    """Each prefix once, from words that may have commas between them; `none`: no prefix. Raises AnswerError."""
    asked = " ".join(words).replace(",", " ").split()
    if not asked:
        raise AnswerError(f"name the prefixes of the intranet, as 10.20.0.0/16, or {NONE}")
    if NONE in asked:
        if len(asked) > 1:
            raise AnswerError(f"name prefixes, or {NONE} alone")
        return ()
    return tuple(dict.fromkeys(map(_protected, asked)))


def _protected(word: str) -> str:
    try:
        return protected(word)
    except ValueError as error:
        raise AnswerError(f"{error}; write a prefix{_suggest(word)}") from None


def _suggest(word: str) -> str:
    try:
        return f" as {protected(str(ipaddress.ip_network(word, strict=False)))}"
    except ValueError:
        return " as 10.20.0.0/16"


def parse_database(text: str) -> str | None:
    """The URL, or None for `embedded`. Raises AnswerError, whose text never has the URL."""
    asked = text.strip()
    if asked in {"", EMBEDDED}:
        return None
    try:
        url = parse_url(asked)
    except Exception:
        raise AnswerError(
            f"write {EMBEDDED}, or a URL as postgresql://culvert@db.corp.example/culvert"
        ) from None
    if not url.database or not (url.host or url.query.get("host")):
        raise AnswerError(
            "the URL needs a server and a database: postgresql://culvert@db.corp.example/culvert"
        )
    return asked


def refuse_password(database: str | None) -> None:
    """For a URL from the command line, which every user of this host can read. Raises AnswerError."""
    if database is not None and _holds_password(database):
        raise AnswerError(
            "a password on the command line can be read by every user of this host: write the URL into a file that only "
            "root can read, and name it with --database-file; change this password"
        )


def parse_prefixes(words: Sequence[str]) -> tuple[str, ...]:
    """Raises AnswerError."""
    try:
        return tuple(dict.fromkeys(str(ipaddress.ip_network(word)) for word in words))
    except ValueError as error:
        raise AnswerError(
            f"--trusted-proxy: {error}; write an address or a prefix, as 192.0.2.0/24"
        ) from None


def render(settings: Mapping[str, Any]) -> str:
    """A TOML file."""
    return _HEAD + "".join(f"{name} = {_value(value)}\n" for name, value in settings.items())


def difference(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The settings with another value, as `name: old -> new`."""
    return [
        f"{name}: {_value(present.get(name))} -> {_value(value)}"
        for name, value in wanted.items()
        if present.get(name) != value
    ]


def change(text: str, wanted: Mapping[str, Any]) -> str:
    """The TOML file with these values; comments and other settings stay. None removes a setting.

    Raises ConfigurationError for a file whose lines cannot be replaced one by one.
    """
    lines = text.splitlines(keepends=True)
    for name, value in wanted.items():
        pattern = re.compile(rf"\s*{re.escape(name)}\s*=")
        fresh = [] if value is None else [f"{name} = {_value(value)}\n"]
        found = [number for number, line in enumerate(lines) if pattern.match(line)]
        if found:
            lines[found[0] : found[0] + 1] = fresh
        else:
            lines[:0] = fresh
    made = "".join(lines)
    expected = {
        name: value for name, value in (tomllib.loads(text) | dict(wanted)).items() if value is not None
    }
    try:
        same = tomllib.loads(made) == expected
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise ConfigurationError(
            f"{', '.join(wanted)} cannot be replaced in a file that is laid out by hand: change the file yourself, and "
            "restart culvert-controller"
        )
    return made


def _value(value: object) -> str:
    if value is None:
        return "none"
    # JSON's strings and lists are TOML's as well, for text without control characters.
    return json.dumps(value, ensure_ascii=False)


def _name(text: str) -> str:
    try:
        return dns_name.parse(text)
    except dns_name.NameInvalidError as error:
        raise AnswerError(f"{text!r} is no name: {error}") from None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _holds_password(database: str) -> bool:
    url = parse_url(database)
    return bool(url.password or url.query.get("password"))
