"""The licences of the packages of others in an artefact.

notices.py ARTEFACT     printed
notices.py              build/notices/ARTEFACT.txt for each
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from artefacts import ARTEFACTS, find_artefact
from package import ROOT, Package

_REGISTRIES = {"cargo": "crates.io", "npm": "npm", "pypi": "PyPI"}
_RULE = "=" * 100
_STANDARD_LIBRARY = (
    "Rust's standard library, of the Rust Project's contributors: MIT OR Apache-2.0, here the latter"
)


def render_notices(packages: Sequence[Package]) -> str:
    """A line for each package, then each text once, under the names of the packages that it came with."""
    texts: dict[str, list[str]] = {}
    for package in packages:
        for text in package.texts:
            known = next((it for it in texts if it.split() == text.split()), text)
            texts.setdefault(known, []).append(package.name)
    lines: list[str] = []
    for it in packages:
        lines.append(f"{it.name} {it.version} ({_REGISTRIES[it.kind]}): {it.licence}")
        if it.contains:
            lines.append(f"    contains {', '.join(f'{part.name} {part.version}' for part in it.contains)}")
    if any(it.kind == "cargo" for it in packages):
        lines += ["", _STANDARD_LIBRARY]
    blocks = [
        f"{_RULE}\n{', '.join(dict.fromkeys(names))}\n{_RULE}\n\n{text}\n" for text, names in texts.items()
    ]
    return "\n".join([*lines, "", *blocks])


def main() -> None:
    if len(sys.argv) > 1:
        print(render_notices(find_artefact(sys.argv[1]).find_packages()), end="")
        return
    directory = ROOT / "build/notices"
    directory.mkdir(parents=True, exist_ok=True)
    for artefact in ARTEFACTS:
        path = directory / f"{artefact.name}.txt"
        path.write_text(render_notices(artefact.find_packages()))
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
