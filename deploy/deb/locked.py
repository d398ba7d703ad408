"""The client's part of requirements.lock: the dependencies of its parts, by the metadata of the installed packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PARTS = ("culvert-proto", "culvert-ipsec", "culvert-client", "culvert-tray")


def lock_of_parts(lock: str) -> str:
    """The entries of the lock, with their hashes, that PARTS depend on. Raises LookupError where one is not in the lock."""
    entries = dict(_entries(lock))
    wanted = sorted(_closure() - set(PARTS))
    if missing := [name for name in wanted if name not in entries]:
        raise LookupError(f"requirements.lock has no {', '.join(missing)}")
    return "".join(entries[name] for name in wanted)


def _entries(lock: str) -> Iterator[tuple[str, str]]:
    name, lines = "", list[str]()
    for line in lock.splitlines(keepends=True):
        if not line[0].isspace():
            if name:
                yield name, "".join(lines)
            name, lines = canonicalize_name(line.partition("==")[0]), []
        lines.append(line)
    yield name, "".join(lines)


def _closure() -> set[str]:
    found: set[str] = set()
    ahead: list[tuple[str, frozenset[str]]] = [(part, frozenset()) for part in PARTS]
    while ahead:
        name, extras = ahead.pop()
        if name in found and not extras:
            continue
        found.add(name)
        for needed in map(Requirement, requires(name) or ()):
            if any(needed.marker is None or needed.marker.evaluate({"extra": it}) for it in extras or {""}):
                ahead.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    return found


def licences() -> str:
    """A line for each of them: name, version, licence as its authors state it."""
    lines: list[str] = []
    for name in sorted(_closure() - set(PARTS)):
        try:
            about = distribution(name).metadata
        except PackageNotFoundError:
            continue
        classified = [it for it in about.get_all("Classifier") or [] if it.startswith("License :: ")]
        stated = [
            *(about.get_all("License-Expression") or []),
            *(it.rpartition(" :: ")[2] for it in classified),
            *(text.partition("\n")[0] for text in about.get_all("License") or []),
        ]
        lines.append(f" {about['Name']} {about['Version']}: {stated[0] if stated else 'see its metadata'}\n")
    return "".join(lines)
