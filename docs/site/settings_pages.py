"""Pages of settings, from the classes and comments that the programs themselves have."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from culvert_client.config import Config
from site_contents import ROOT, SiteError

_CONTROLLER = Path("service/culvert_service/config.py")
_DNS_UPDATER = Path("dns-updater/culvert_dns_updater/settings.py")
_CLIENT = Path("client/culvert_client/config.py")
_INDEX = """# Settings

| program | settings |
|---|---|
| `culvert-controller` | [controller](controller.md) |
| `culvert-dns-updater` | [DNS updater](dns-updater.md) |
| `culvertd`, on the laptop | [culvertd](culvertd.md) |
| `sluice` | options of its [command](../commands/sluice.md); the unit's are in `/etc/culvert/sluice/NAME.env` |
"""
_OF_CONTROLLER = """\
They stand in `/etc/culvert/controller.toml`, which `culvert-controller setup` writes, under the names below. A variable of
the environment has precedence: the name in capitals, after `CULVERT_`. Lists are separated by commas there. A secret may be
the content of a file in `/etc/culvert/secrets`, called `culvert_` and the name."""
_OF_UPDATER = """\
A TOML file (`--config`) has them under the names below. A variable of the environment has precedence: the name in capitals,
after `CULVERT_DNS_`."""
_OF_CULVERTD = """They stand in `/etc/culvert/culvertd.toml` under the names below. A flag has precedence."""


@dataclass(frozen=True, slots=True)
class Setting:
    """`default`: as in Python, or empty if there is none."""

    name: str
    default: str
    text: str


def write_settings() -> Iterator[tuple[str, str]]:
    """(path in the site, Markdown) of each page. Raises SiteError for a setting without an explanation."""
    yield "settings/index.md", _INDEX
    yield (
        "settings/controller.md",
        _page("Settings of the controller", _OF_CONTROLLER, read(_CONTROLLER), "CULVERT_"),
    )
    yield (
        "settings/dns-updater.md",
        _page("Settings of the DNS updater", _OF_UPDATER, read(_DNS_UPDATER), "CULVERT_DNS_"),
    )
    yield "settings/culvertd.md", _page("Settings of culvertd", _OF_CULVERTD, read_client(), "")


def _page(title: str, opening: str, settings: list[Setting], prefix: str) -> str:
    lines = [f"# {title}", "", opening, ""]
    for it in settings:
        lines += [f"## {it.name}", ""]
        facts = [f"`{prefix}{it.name.upper()}`" if prefix else f"`--{it.name.replace('_', '-')}`"]
        facts += [f"default: `{it.default}`" if it.default else "no default"]
        lines += [" · ".join(facts), "", it.text, ""]
    return "\n".join(lines)


def read(file: Path) -> list[Setting]:
    """The fields of the class Settings, each with the comment before it, which may speak of several fields."""
    source = (ROOT / file).read_text()
    lines = source.splitlines()
    [settings] = [
        it for it in ast.parse(source).body if isinstance(it, ast.ClassDef) and it.name == "Settings"
    ]
    found: list[Setting] = []
    last_line, shared = 0, ""
    for field in settings.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            last_line = field.end_lineno or field.lineno
            continue
        comment = [
            it.strip().removeprefix("#").strip() for it in lines[last_line : field.lineno - 1] if it.strip()
        ]
        shared = " ".join(comment) or shared
        if not shared:
            raise SiteError(f"{file}:{field.lineno}: {field.target.id} has no comment")
        found.append(Setting(field.target.id, _default(field.value), shared))
        last_line = field.end_lineno or field.lineno
    return found


def read_client() -> list[Setting]:
    """The table in the docstring of config.py. Raises SiteError if it is not that of the class."""
    docstring = ast.get_docstring(ast.parse((ROOT / _CLIENT).read_text()))
    assert docstring is not None
    found: list[Setting] = []
    for line in docstring.splitlines()[2:]:
        if begins := re.match(r"(\w+)\s+= (\S+)\s*(.*)", line):
            found.append(Setting(begins[1], begins[2].strip('"'), begins[3]))
        elif line.strip():
            last = found.pop()
            found.append(Setting(last.name, last.default, f"{last.text} {line.strip()}"))
    if {it.name for it in found} != {it.name for it in fields(Config)}:
        raise SiteError(f"{_CLIENT}: the docstring and the class Config do not have the same settings")
    if silent := [it.name for it in found if not it.text]:
        raise SiteError(f"{_CLIENT}: the docstring does not explain {', '.join(silent)}")
    return found


def _default(value: ast.expr | None) -> str:
    """As TOML has it; empty for none, and for what depends on the host or the package."""
    if isinstance(value, ast.Call):
        given = {it.arg: it.value for it in value.keywords}
        # A path's text, or a field's default.
        value = value.args[0] if value.args else given.get("default")
    if not isinstance(value, ast.Constant | ast.Tuple) or (
        isinstance(value, ast.Constant) and value.value is None
    ):
        return ""
    return json.dumps(ast.literal_eval(value))
