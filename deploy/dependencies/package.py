"""A package of others that is shipped, as its registry and its own files describe it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from license_expression import ExpressionError, get_spdx_licensing

ROOT = Path(__file__).resolve().parents[2]
_APACHE = ROOT / "LICENSES/Apache-2.0.txt"
_LEGAL = re.compile(r"(un)?(licen[cs]e|copying|copyright|notice)s?([-._].*)?", re.IGNORECASE)
_CODE = (".cjs", ".js", ".json", ".mjs", ".py", ".pyc", ".rs", ".svg", ".ts")
_spdx: Any = get_spdx_licensing()


@dataclass(frozen=True, slots=True)
class Contained:
    """A library inside of a package, as the package's own SBOM names it (PEP 770). `purl` may be empty."""

    name: str
    version: str
    purl: str


@dataclass(frozen=True, slots=True)
class Package:
    """`kind`: the type of a package URL. `licence`: an SPDX expression. `digest`: an algorithm, and its value in hex."""

    kind: Literal["cargo", "npm", "pypi"]
    name: str
    version: str
    licence: str
    texts: tuple[str, ...]
    digest: tuple[str, str] | None = None
    contains: tuple[Contained, ...] = ()


def read_licence(name: str, stated: Iterable[str]) -> str:
    """The first SPDX expression in what a package states about its licence. Raises LookupError."""
    for text in filter(None, stated):
        # The slash is Cargo's older way to write it.
        with suppress(ExpressionError):
            return str(_spdx.parse(text.replace("/", " OR "), validate=True))
    raise LookupError(f"{name} states no licence that SPDX knows: {', '.join(stated)}")


def read_texts(files: Iterable[Path], licence: str) -> tuple[str, ...]:
    """The texts among a package's files. The Apache License has no names in it, so it is the same for every package."""
    legal = [it for it in files if _LEGAL.fullmatch(it.name) and it.suffix not in _CODE]
    found = tuple(it.read_text(errors="replace").strip() for it in sorted(legal))
    if not found and licence == "Apache-2.0":
        return (_APACHE.read_text().strip(),)
    return found
