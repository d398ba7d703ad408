"""The canonical spelling of DNS names, to store, compare, sign and send, and the one that people read (decision 35).

The canonical spelling is the one in the DNS: lower-case A-labels (RFC 5890) without the final dot. `bücher.corp.example`,
`BÜCHER.Corp.Example.` and `xn--bcher-kva.corp.example` are one name. The mapping is that of UTS #46, as in browsers; the
rules for labels are those of IDNA 2008, so `ß` and `ς` are letters of their own. Pure.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

from culvert_proto.contract import DNS_LABEL_MAX, DNS_NAME_MAX
from culvert_proto.phrases import Phrase

if TYPE_CHECKING:
    import idna

WILDCARD = "*."
"""Before a suffix: every name below it (RFC 4592)."""

_A_LABEL = "xn--"
_ASCII_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9])?")
_STRANGE = re.compile(r"[^a-z0-9_-]")
_WITH_A_LABELS = re.compile(r"(?<![\w.*-])(?:[a-z0-9_*-]+\.)*xn--[a-z0-9-]+(?:\.[a-z0-9_-]+)*")
# Letters that have a form of their own in the Latin script, without a mark that could be taken off.
_LATIN = frozenset("ßæœøðþđħŋ")
_JAPANESE = frozenset({"CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"})
_KOREAN = frozenset({"HANGUL", "CJK"})

TOO_LONG = Phrase("a name has at most 253 characters as DNS writes it, and each part between dots at most 63")
EMPTY = Phrase("the name is empty")
EMPTY_PART = Phrase("a part between dots is empty")
ENDS = Phrase("each part of a name begins and ends with a letter or a digit")
DIRECTION = Phrase("a part of a name mixes letters that are written from the right with others")
ENCODING = Phrase("a part that begins with xn-- is not the encoding of a valid name")


class NameInvalidError(ValueError):
    """The text is no DNS name. `str(error)` says why, as a part of a sentence."""


def parse(text: str, *, wildcard: bool = False) -> str:
    """The canonical spelling of what a person, a file or a program gave as a name. Raises NameInvalidError.

    Labels may have underscores (RFC 8552). With `wildcard` the first one may be `*`.
    """
    name = _map(text.strip()).removesuffix(".")
    if not name:
        raise NameInvalidError(EMPTY)
    star = WILDCARD if wildcard and name.startswith(WILDCARD) else ""
    encoded = star + ".".join(map(_label, name.removeprefix(star).split(".")))
    if len(encoded) > DNS_NAME_MAX:
        raise NameInvalidError(TOO_LONG)
    return encoded


def canonical(text: str) -> str:
    """As `parse`, of any text: a text that is no name is only lower-cased."""
    if text.isascii():
        # Names from the DNS are ASCII already; this fast path serves every query.
        return text.strip().removesuffix(".").lower()
    try:
        return parse(text, wildcard=True)
    except NameInvalidError:
        return normalise_search(text)


def candidates(asked: str) -> list[str]:
    """The names of resources that match a canonical name, best first: the name itself, then wildcards from the nearest."""
    if len(asked) > DNS_NAME_MAX:
        return []
    labels = asked.split(".")
    above = (WILDCARD + ".".join(labels[start:]) for start in range(1, len(labels)))
    return list(dict.fromkeys([asked, *above]))


def is_wildcard(name: str) -> bool:
    """Whether a resource's canonical name stands for every name below a suffix, and so for no page of its own."""
    return name.startswith(WILDCARD)


def normalise_search(text: str) -> str:
    """A search text in the spelling of `unicode`."""
    return unicodedata.normalize("NFKC", text).strip().lower().removesuffix(".")


def unicode(name: str) -> str:
    """A canonical name with U-labels. An A-label that encodes nothing valid stays."""
    return ".".join(map(_u_label, name.split("."))) if _A_LABEL in name else name


def make_readable(text: str) -> str:
    """A text for a person: each canonical name in it with U-labels, as far as nobody can be deceived by them.

    A label of Latin letters is shown as it is written. One of another script could pass for Latin ("аррӏе"): the name
    in the DNS stands beside it. A label that mixes scripts is shown as in the DNS alone.
    """
    return _WITH_A_LABELS.sub(lambda found: _make_name_readable(found[0]), text) if _A_LABEL in text else text


def with_encoding(text: str) -> str:
    """As `make_readable`, with the name in the DNS beside each: for an administrator, who looks for it in a zone."""
    return _WITH_A_LABELS.sub(lambda found: _with_encoding(found[0]), text) if _A_LABEL in text else text


def _with_encoding(name: str) -> str:
    seen = _make_name_readable(name)
    return seen if name in seen else f"{seen} ({name})"


@functools.lru_cache(maxsize=1024)
def _make_name_readable(name: str) -> str:
    labels = list(map(_u_label, name.split(".")))
    if any(label.startswith(_A_LABEL) or _mixes_scripts(label) for label in labels):
        return name
    spoken = ".".join(labels)
    return spoken if all(map(_is_plain, spoken)) else f"{spoken} ({name})"


def _is_plain(letter: str) -> bool:
    """ASCII, or a Latin letter that nobody takes for an ASCII one."""
    return letter.isascii() or letter in _LATIN or unicodedata.normalize("NFD", letter)[0].isascii()


def _mixes_scripts(label: str) -> bool:
    """Unicode's names begin with the script; digits of ASCII, hyphens and marks belong to each."""
    letters = (it for it in label if it.isalpha() or (it.isnumeric() and not it.isascii()))
    scripts = {unicodedata.name(it, "?").partition(" ")[0] for it in letters}
    return len(scripts) > 1 and not scripts <= _JAPANESE and not scripts <= _KOREAN


def _map(text: str) -> str:
    if text.isascii():
        return text.lower()
    import idna

    try:
        return idna.uts46_remap(text, std3_rules=False)
    except idna.IDNAError as error:
        raise _invalid(error) from None


def _label(label: str) -> str:
    if label.isascii():
        _check_ascii(label)
        if not label.startswith(_A_LABEL):
            return label
    import idna

    try:
        return idna.alabel(label).decode("ascii")
    except idna.IDNAError as error:
        raise (NameInvalidError(ENCODING) if label.isascii() else _invalid(error)) from None


def _check_ascii(label: str) -> None:
    if not label:
        raise NameInvalidError(EMPTY_PART)
    if len(label) > DNS_LABEL_MAX:
        raise NameInvalidError(TOO_LONG)
    if found := _STRANGE.search(label):
        raise NameInvalidError(_bad_character(found[0]))
    if not _ASCII_LABEL.fullmatch(label):
        raise NameInvalidError(ENDS)


def _invalid(error: idna.IDNAError) -> NameInvalidError:
    code = error.code or ""
    if code.endswith("_too_long"):
        return NameInvalidError(TOO_LONG)
    if code.startswith("bidi_"):
        return NameInvalidError(DIRECTION)
    if error.codepoint is None:
        return NameInvalidError(ENDS)
    character = chr(error.codepoint)
    if code in ("contextj", "contexto", "leading_combiner"):
        named = _name_character(character)
        why = Phrase("the character {character} cannot stand at this place of a name", character=named)
        return NameInvalidError(why)
    return NameInvalidError(_bad_character(character))


def _bad_character(character: str) -> Phrase:
    return Phrase("the character {character} cannot stand in a name", character=_name_character(character))


def _name_character(character: str) -> str:
    number = f"U+{ord(character):04X}"
    return f"“{character}” ({number})" if character.isprintable() and not character.isspace() else number


def _u_label(label: str) -> str:
    if not label.startswith(_A_LABEL):
        return label
    import idna

    try:
        return idna.ulabel(label)
    except idna.IDNAError:
        return label
