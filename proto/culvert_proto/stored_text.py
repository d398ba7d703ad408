"""English texts of ours that were stored, in a reader's language: the catalogue's templates find their fields again.

What travels has its structure with it (`phrases.py`, `CulvertError`). A column, a line of the audit log and a text of an
earlier version have the text alone.
"""

from __future__ import annotations

import functools
import itertools
import re
import string
from dataclasses import dataclass

from culvert_proto.language import LANGUAGES, SOURCE, words

# A shorter text around the fields would be found in texts of other programs.
_LETTERS_MIN = 5
# Texts of ours are shorter. The search in a long text that others have made costs time.
_LENGTH_MAX, _SENTENCES_MAX = 1000, 6
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=\S)")
_LIST = "; "
# An address or a code before a text.
_LABELLED = re.compile(r"(\S+): (.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Template:
    text: str
    pattern: re.Pattern[str]
    head: str
    tail: str


def localise_text(text: str, language: str) -> str:
    """A text in this language: a sentence, several, or a list with "; ". What the catalogue has not stays as it is."""
    return text if language == SOURCE or not 0 < len(text) <= _LENGTH_MAX else _localise(text, language)


def read_catalogues() -> None:
    """Read all catalogues now: 80 ms, which a text would wait for otherwise."""
    for language in LANGUAGES:
        _templates(language)


@functools.lru_cache(maxsize=4096)
def _localise(text: str, language: str) -> str:
    if (found := _sentences(text, language)) is not None:
        return found
    if _LIST in text:
        return _LIST.join(_localise(part, language) for part in text.split(_LIST))
    if labelled := _LABELLED.fullmatch(text):
        return f"{labelled[1]}: {_localise(labelled[2], language)}"
    return text


def _sentences(text: str, language: str) -> str | None:
    """A text of the catalogue, or a message and its remedy: the last field of a message alone would take in the remedy."""
    if (exact := words(text, language)) != text:
        return exact
    for cut in itertools.islice(_SENTENCE_END.finditer(text), _SENTENCES_MAX):
        first = _translate(text[: cut.start()], language)
        if first is not None and (second := _translate(text[cut.end() :], language)) is not None:
            return f"{first} {second}"
    return _translate(text, language)


def _translate(text: str, language: str) -> str | None:
    """The translation of a whole text of the catalogue; None if it is none."""
    if (exact := words(text, language)) != text:
        return exact
    for template in _templates(language):
        if not (text.startswith(template.head) and text.endswith(template.tail)):
            continue
        if found := template.pattern.fullmatch(text):
            fields = {name: _localise(it, language) for name, it in found.groupdict().items()}
            return words(template.text, language).format(**fields)
    return None


@functools.cache
def _templates(language: str) -> tuple[_Template, ...]:
    """Those with fields; the longest text around the fields first, because it says most."""
    found: list[tuple[int, _Template]] = []
    for text in words.texts(language):
        try:
            parts = [(literal, name) for literal, name, _, _ in string.Formatter().parse(text)]
        except ValueError:
            continue
        letters = sum(map(str.isalpha, "".join(literal for literal, _ in parts)))
        names = {name for _, name in parts if name is not None}
        if letters < _LETTERS_MIN or not names or not all(map(str.isidentifier, names)):
            continue
        tail = parts[-1][0] if parts[-1][1] is None else ""
        found.append((letters, _Template(text, _pattern(parts), parts[0][0], tail)))
    return tuple(template for _, template in sorted(found, key=lambda it: -it[0]))


def _pattern(parts: list[tuple[str, str | None]]) -> re.Pattern[str]:
    seen, pattern = set[str](), ""
    for literal, name in parts:
        pattern += re.escape(literal)
        if name is not None:
            pattern += f"(?P={name})" if name in seen else f"(?P<{name}>.+?)"
            seen.add(name)
    return re.compile(pattern, re.DOTALL)
