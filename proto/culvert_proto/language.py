"""The person's language: texts are written in English in the code, and in `locale/LANGUAGE.po` of each part in others.

Catalogues are read as translators write them; there is no compiled file that could grow stale. Until `use` is called every
text is English. Daemon and controller never call it: their texts travel, and the program that shows them translates
(`reasons.py`). The controller names the language of each answer for a browser (`choose_accepted`).
"""

from __future__ import annotations

import gettext
import io
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

SOURCE = "en"
LANGUAGES = (SOURCE, "de")

_used = SOURCE


def use(languages: Iterable[str]) -> str:
    """Set the process's language to the first of these ("de_AT.UTF-8") that has a catalogue, else English; returns it."""
    global _used
    known = (re.split(r"[_.@-]", it)[0].lower() for it in languages)
    _used = next((it for it in known if it in LANGUAGES), SOURCE)
    return _used


@contextmanager
def speaking(language: str) -> Generator[None]:
    """The process's language for a block that awaits nothing; for a program that answers several people."""
    global _used
    before, _used = _used, language
    try:
        yield
    finally:
        _used = before


def list_preferred(environment: Mapping[str, str]) -> list[str]:
    """The languages that the environment asks for (gettext manual, "The LANGUAGE variable"), best first."""
    locale = next((it for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (it := environment.get(name))), "C")
    if locale.partition(".")[0] in ("C", "POSIX"):
        return []
    return [*filter(None, environment.get("LANGUAGE", "").split(":")), locale]


def choose_accepted(header: str) -> str:
    """The language of the highest quality in an Accept-Language header (RFC 9110 section 12.5.4), else English."""
    best, language = 0.0, SOURCE
    for part in header.split(","):
        tag, _, parameter = part.partition(";")
        found = re.fullmatch(r"q=([01](?:\.\d{0,3})?)", parameter.strip())
        quality = float(found[1]) if found else float(not parameter)
        known = tag.strip().partition("-")[0].lower()
        if known in LANGUAGES and quality > best:
            best, language = quality, known
    return language


def choose() -> str:
    """The process's language."""
    return _used


def translates() -> bool:
    """Whether the process's language is another than English."""
    return _used != SOURCE


class Words:
    """The texts of one part. `words("…")` translates one; what has no translation stays English.

    The language is the process's, unless the caller names one.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, gettext.NullTranslations] = {SOURCE: gettext.NullTranslations()}
        self._texts: dict[str, tuple[str, ...]] = {}

    def __call__(self, text: str, language: str | None = None) -> str:
        return self._catalogue(language or _used).gettext(text)

    def plural(self, one: str, many: str, number: int) -> str:
        """The form for `number`, which fills the field {n}."""
        return self._catalogue(_used).ngettext(one, many, number).format(n=number)

    def texts(self, language: str) -> tuple[str, ...]:
        """The English texts that have a translation, without plurals. Reads the catalogue, as the first text does."""
        self._catalogue(language)
        return self._texts.get(language, ())

    def _catalogue(self, language: str) -> gettext.NullTranslations:
        if language not in self._read:
            import polib  # the daemon never needs it

            # A fuzzy translation is a tool's guess, perhaps with another text's fields: `to_binary` leaves it out.
            catalogue = polib.pofile(str(self._directory / f"{language}.po"))
            self._texts[language] = tuple(
                entry.msgid for entry in catalogue if entry.translated() and not entry.msgid_plural
            )
            self._read[language] = gettext.GNUTranslations(io.BytesIO(catalogue.to_binary()))
        return self._read[language]


words = Words(Path(__file__).with_name("locale"))
