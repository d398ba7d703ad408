"""npm packages that the console is built from, by its package-lock.json. Tools and tests are not among them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from package import ROOT, Package, read_licence, read_texts

CONSOLE = ROOT / "service/console"
LOCK = CONSOLE / "package-lock.json"
# A package without a licence file, and a package that its author published with the same licence.
_SAME_AUTHOR = {"react-remove-scroll-bar": "react-remove-scroll"}


def find_packages() -> list[Package]:
    """Raises LookupError."""
    entries: dict[str, Any] = json.loads(LOCK.read_text())["packages"]
    found: list[Package] = []
    for place, about in sorted(entries.items()):
        if not place or about.get("dev") or about.get("optional"):
            continue
        name = place.rpartition("node_modules/")[2]
        licence = read_licence(name, [about.get("license", "")])
        texts = read_texts(_list_files(CONSOLE / place), licence)
        if not texts and name in _SAME_AUTHOR:
            texts = read_texts(_list_files(CONSOLE / "node_modules" / _SAME_AUTHOR[name]), licence)
        algorithm, _, value = about["integrity"].partition("-")
        assert algorithm == "sha512", (name, algorithm)
        digest = ("SHA-512", base64.b64decode(value).hex())
        found.append(Package("npm", name, about["version"], licence, texts, digest))
    return found


def _list_files(directory: Path) -> list[Path]:
    nested = (it for it in directory.rglob("*") if "node_modules" not in it.relative_to(directory).parts)
    return [it for it in nested if it.is_file()]
