"""The person's language: texts are written in English in the code, and in `locale/LANGUAGE.po` of each part in others.

Catalogues are read as translators write them; there is no compiled file that could grow stale. Until `use` is called every
text is English. Daemon and controller never call it: their texts travel, and the program that shows them translates
(`reasons.py`).
"""

from __future__ import annotations

import ast
import gettext
import io
import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

SOURCE = "en"
LANGUAGES = (SOURCE, "de")

_LINE = re.compile(r'(?:(msgid_plural|msgid|msgstr)(?:\[\d\])? )?(".*")')
_FUZZY = re.compile(r"^#,.*\bfuzzy\b", re.MULTILINE)
_MO_MAGIC = 0x950412DE
_MO_HEADER = 28  # bytes

_used = SOURCE


def use(languages: Iterable[str]) -> str:
    """Set the process's language to the first of these ("de_AT.UTF-8") that has a catalogue, else English; returns it."""
    global _used
    known = (re.split(r"[_.@-]", it)[0].lower() for it in languages)
    _used = next((it for it in known if it in LANGUAGES), SOURCE)
    return _used


def list_preferred(environment: Mapping[str, str]) -> list[str]:
    """The languages that the environment asks for (gettext manual, "The LANGUAGE variable"), best first."""
    locale = next((it for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (it := environment.get(name))), "C")
    if locale.partition(".")[0] in ("C", "POSIX"):
        return []
    return [*filter(None, environment.get("LANGUAGE", "").split(":")), locale]


def choose() -> str:
    """The process's language."""
    return _used


def translates() -> bool:
    """Whether the process's language is another than English."""
    return _used != SOURCE


class Words:
    """The texts of one part. `words("…")` translates one; what has no translation stays English."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, gettext.NullTranslations] = {SOURCE: gettext.NullTranslations()}

    def __call__(self, text: str) -> str:
        return self._catalogue().gettext(text)

    def plural(self, one: str, many: str, number: int) -> str:
        """The form for `number`, which fills the field {n}."""
        return self._catalogue().ngettext(one, many, number).format(n=number)

    def _catalogue(self) -> gettext.NullTranslations:
        if _used not in self._read:
            translations = entries((self._directory / f"{_used}.po").read_text("utf-8"))
            self._read[_used] = gettext.GNUTranslations(io.BytesIO(_mo(translations)))
        return self._read[_used]


words = Words(Path(__file__).with_name("locale"))


def entries(po: str) -> dict[str, str]:
    """A .po file's texts and their translations; plural forms are separated by NUL, as gettext has them.

    A translation that is marked as fuzzy is a tool's guess, perhaps with another text's fields: it is left out.
    """
    found: dict[str, str] = {}
    for block in re.split(r"\n{2,}", po):
        parts: dict[str, list[str]] = {"msgid": [], "msgid_plural": [], "msgstr": []}
        kind = ""
        for line in block.splitlines():
            if (match := _LINE.fullmatch(line)) is None:
                continue
            keyword, literal = match.groups()
            kind = keyword or kind
            text = str(ast.literal_eval(literal))
            if keyword:
                parts[kind].append(text)
            else:
                parts[kind][-1] += text
        guessed = _FUZZY.search(block) is not None and parts["msgid"] != [""]
        if parts["msgid"] and not guessed:
            found["\0".join((*parts["msgid"], *parts["msgid_plural"]))] = "\0".join(parts["msgstr"])
    return found


def _mo(translations: Mapping[str, str]) -> bytes:
    """A .mo file for `gettext` (gettext manual, "The Format of GNU MO Files")."""
    pairs = [(text.encode(), form.encode()) for text, form in sorted(translations.items()) if form]
    strings = [pair[column] for column in (0, 1) for pair in pairs]
    at = _MO_HEADER + 8 * len(strings)
    places = b""
    for it in strings:
        places += struct.pack("<2I", len(it), at)
        at += len(it) + 1
    header = struct.pack("<7I", _MO_MAGIC, 0, len(pairs), _MO_HEADER, _MO_HEADER + 8 * len(pairs), 0, 0)
    return header + places + b"".join(it + b"\0" for it in strings)
