"""Builds the site of documentation into build/docs/site: see README.md.

make_site.py            the site; exits with 1 and the fault's place if a link, an anchor, a command or a page is wrong
make_site.py --whole    likewise, and every screen has to be there
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import cast

import code_blocks
from command_pages import write_commands
from page_policy import compress, finish
from reason_pages import write_reasons
from rest_pages import read_document, write_rest
from settings_pages import write_settings
from site_contents import ROOT, Page, Section, SiteError, read_contents
from site_sources import Sources

_BUILD = ROOT / "build/docs"
_ZENSICAL = _BUILD / "tool/bin/zensical"
# The makers of screens are tests; each page names the screens that it shows.
_SCREENS = ROOT / "build/screens"
_FRONT = "docs/index.md"
# It names commands that are still to be made.
_PLAN = "docs/shipping.md"


def main(arguments: Sequence[str]) -> None:
    try:
        missing = build()
    except SiteError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    if missing:
        print(f"without the screens {', '.join(sorted(missing))}: make screens makes them")
        if "--whole" in arguments:
            sys.exit(1)
    print(f"{(_BUILD / 'site').relative_to(ROOT)}")


def build() -> set[str]:
    """The names of screens that no test has made yet."""
    sections = read_contents()
    pages = [page for section in sections for page in section.pages]
    places = {page.source: page.path for page in pages if not page.generated}
    sources = Sources(_BUILD / "pages", {_FRONT: "index.md", **places}, _SCREENS)
    for source in (_FRONT, *places):
        sources.add(source)
    for path, text in _generated():
        sources.write(path, text)
    shutil.copyfile(ROOT / "docs/site/style.css", _BUILD / "pages/style.css")
    code_blocks.check([it for it in (_FRONT, *places) if it != _PLAN])
    _run_zensical(sections)
    site = _BUILD / "new"
    finish(site)
    compress(site)
    shutil.rmtree(_BUILD / "site", ignore_errors=True)
    site.rename(_BUILD / "site")
    return sources.missing_screens


def _generated() -> Iterator[tuple[str, str]]:
    yield from write_reasons()
    yield from write_settings()
    yield from write_commands()
    yield from write_rest(read_document())


def _run_zensical(sections: Sequence[Section]) -> None:
    nav = [{"Culvert": "index.md"}, *({it.title: [_entry(page) for page in it.pages]} for it in sections)]
    base = (ROOT / "docs/site/zensical.toml").read_text()
    head, sign, rest = base.partition("\n[project.theme]")
    ours = f'\ndocs_dir = "pages"\nsite_dir = "new"\nnav = {_toml(nav)}\n'
    (_BUILD / "zensical.toml").write_text(head + ours + sign + rest)
    shutil.rmtree(_BUILD / "new", ignore_errors=True)
    command = [_ZENSICAL, "build", "--strict", "--clean", "-f", "zensical.toml"]
    done = subprocess.run(
        command, cwd=_BUILD, capture_output=True, text=True, env={"NO_COLOR": "1"}, check=False
    )
    if done.returncode:
        raise SiteError(f"{done.stdout}{done.stderr}")


def _entry(page: Page) -> dict[str, object]:
    if not page.generated:
        return {page.title: page.path}
    folder = _BUILD / "pages" / page.source
    # Reasons are too many for a menu: their list is the way to them.
    others = (
        [] if page.source == "reasons/" else sorted(it for it in folder.glob("*.md") if it.name != "index.md")
    )
    return (
        {page.title: [page.path, *(f"{page.source}{it.name}" for it in others)]}
        if others
        else {page.title: page.path}
    )


def _toml(value: object) -> str:
    """Lists, tables and texts in TOML's inline form."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return f"{{ {', '.join(f'{json.dumps(name)} = {_toml(it)}' for name, it in table.items())} }}"
    return json.dumps(value)


if __name__ == "__main__":
    main(sys.argv[1:])
