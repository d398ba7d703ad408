"""culvertd's configuration: a TOML file, then flags over it, parsed once.

state_dir    = "/var/lib/culvert"            keys (0600), profile, what a crash must not forget (the default on Linux)
socket       = "/run/culvert/culvertd.sock"  the local API (the default on Linux)
dns_listen   = "127.0.0.1:53"                where the stub answers DNS queries
dns_mode     = "stub"                        "watch" leaves the name service alone and looks on; what comes first then fails
dns_upstream = "192.0.2.53"                  the name server to forward to; ":port" may follow. Left out, the system's name
                                             service is pointed at the stub, and its name servers are forwarded to
denial_page  = "127.67.85.76:80"             where the page for a denied name is shown, in zones that allow it
tun_name     = "culvert0"                    the interface of Culvert's own datapath
udp_port     = 4500                          from which ESP is sent (RFC 3948)
datapath     = "auto"                        "kernel" or "userspace"; auto is the kernel's IPsec where it can
portal_probe = true                          while the controller is out of reach, ask its port 80 in clear whether the
                                             network wants a sign-in first; false sends nothing in clear
public_prefixes = []                         public networks that each organisation may carry without asking the person;
                                             as a flag: PREFIX,PREFIX
legacy_suites = []                           weaker suites that a gateway may use all the same; as a flag: NAME,NAME
"""

from __future__ import annotations

import argparse
import enum
import socket
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TypeVar, cast

from culvert_proto.contract import NAT_T_PORT, Suite

from culvert_client.core.grant import Network

DNS_PORT = 53

Choice = TypeVar("Choice", bound=enum.Enum)


class ConfigError(Exception):
    """The fault of a setting; the text names the setting."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An IP address and a port."""

    host: str
    port: int


# Host and port; of IPv6 also the flow label and the interface's number (socket(3) of Python).
SocketAddress = tuple[str, int] | tuple[str, int, int, int]


def sockaddr(host: str, port: int) -> SocketAddress:
    """An address for the socket module, with the interface's number if it has a zone (RFC 4007).

    Raises OSError if there is no such interface.
    """
    if ":" not in host:
        return host, port
    address, _, zone = host.partition("%")
    return address, port, 0, _interface_number(zone) if zone else 0


def _interface_number(zone: str) -> int:
    return int(zone) if zone.isdecimal() else socket.if_nametoindex(zone)


class DnsMode(enum.Enum):
    """The daemon's source of queried names."""

    STUB = "stub"
    WATCH = "watch"


class DatapathChoice(enum.Enum):
    """The datapath that carries the packets."""

    AUTO = "auto"
    KERNEL = "kernel"
    USERSPACE = "userspace"


@dataclass(frozen=True, slots=True)
class DefaultPaths:
    """The operating system's default values of these settings."""

    state_dir: Path
    socket: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    dns_upstream: Endpoint | None = None
    dns_mode: DnsMode = DnsMode.STUB
    state_dir: Path
    socket: Path
    dns_listen: Endpoint = Endpoint("127.0.0.1", DNS_PORT)
    denial_page: Endpoint = Endpoint("127.67.85.76", 80)
    tun_name: str = "culvert0"
    udp_port: int = NAT_T_PORT
    datapath: DatapathChoice = DatapathChoice.AUTO
    portal_probe: bool = True
    public_prefixes: tuple[Network, ...] = ()
    legacy_suites: frozenset[Suite] = frozenset()


def load(paths: DefaultPaths, arguments: Sequence[str] | None = None) -> Config:
    """The settings of `command_line`."""
    return command_line(paths, arguments)[0]


def command_line(paths: DefaultPaths, arguments: Sequence[str] | None = None) -> tuple[Config, bool]:
    """The settings, and whether to clean up only. Raises ConfigError; exits with 2 on unknown flags, as argparse does."""
    flags = argparse.ArgumentParser(
        prog="culvertd", description="Culvert's daemon: on-demand IPsec tunnels for DNS names."
    )
    flags.add_argument("--config", type=Path, metavar="FILE", help="TOML file; flags go before it")
    flags.add_argument(
        "--cleanup", action="store_true", help="undo what a daemon that is gone has left, and end"
    )
    flags.add_argument("--version", action="version", version=f"%(prog)s {version('culvert-client')}")
    for field in fields(Config):
        # The usage does not break a flag from its value, which the manual page describes.
        flags.add_argument(f"--{field.name.replace('_', '-')}", metavar="VALUE")
    given = vars(flags.parse_args(arguments))
    path: Path | None = given.pop("config")
    cleanup: bool = given.pop("cleanup")
    values: dict[str, object] = asdict(paths) | (_read(path) if path is not None else {})
    values |= {name: value for name, value in given.items() if value is not None}
    return _parse(values), cleanup


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _parse(values: dict[str, object]) -> Config:
    unknown = values.keys() - {field.name for field in fields(Config)}
    if unknown:
        raise ConfigError(f"unknown setting: {', '.join(sorted(unknown))}")
    texts = {name: ",".join(map(str, _list(value))) for name, value in values.items()}
    parsed: dict[str, object] = {}
    for name, text in texts.items():
        match name:
            case "state_dir" | "socket":
                parsed[name] = Path(text).absolute()
            case "dns_listen" | "dns_upstream" | "denial_page":
                parsed[name] = _endpoint(name, text)
            case "udp_port":
                parsed[name] = _port(name, text)
            case "datapath":
                parsed[name] = _choice(name, DatapathChoice, text)
            case "dns_mode":
                parsed[name] = _choice(name, DnsMode, text)
            case "public_prefixes":
                parsed[name] = tuple(_network(name, it.strip()) for it in text.split(",") if it.strip())
            case "portal_probe":
                parsed[name] = _truth(name, text)
            case "legacy_suites":
                parsed[name] = frozenset(map(_legacy_suite, filter(None, text.split(","))))
            case _:
                parsed[name] = _interface(name, text)
    return Config(**parsed)  # pyright: ignore[reportArgumentType]


def _endpoint(name: str, text: str) -> Endpoint:
    host, port = text, str(DNS_PORT)
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":") or port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        return Endpoint(str(ip_address(host)), _port(name, port))
    except ValueError:
        raise ConfigError(f"{name} must be an IP address, perhaps with a port, not {text!r}") from None


def _port(name: str, text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise ConfigError(f"{name} must have a port between 1 and 65535, not {text!r}")
    return int(text)


def _network(name: str, text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigError(f"{name} must name networks, as 203.0.113.0/24: {error}") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, not {text!r}")
    return text.lower() == "true"


def _choice(name: str, choices: type[Choice], text: str) -> Choice:
    try:
        return choices(text)
    except ValueError:
        known = ", ".join(it.value for it in choices)
        raise ConfigError(f"{name} must be one of {known}, not {text!r}") from None


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _legacy_suite(text: str) -> Suite:
    legacy = {suite.value: suite for suite in Suite if suite.legacy}
    found = legacy.get(text.strip())
    if found is None:
        known = ", ".join(sorted(legacy))
        raise ConfigError(f"legacy_suites must name legacy suites ({known}), not {text!r}")
    return found


def _interface(name: str, text: str) -> str:
    # IFNAMSIZ of linux/if.h is 16 with the final zero.
    if not 0 < len(text) < 16 or not text.isascii() or any(c.isspace() or c == "/" for c in text):
        raise ConfigError(f"{name} must be an interface name of at most 15 characters, not {text!r}")
    return text
