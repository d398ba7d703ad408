"""Texts that a person types freely and others read: one line, in any script, in the order in which it is written.

A bidirectional control character (Unicode Standard Annex 9, section 2) can show "exe.gnp" as "png.exe", in a list of
devices as well as in a terminal. A text in Hebrew or Arabic does not need one.
"""

from __future__ import annotations

import unicodedata

from culvert_proto.phrases import Phrase

# UAX 9: embeddings, overrides, isolates; the three marks have the types of letters.
_BIDI_TYPES = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))
_BIDI_MARKS = frozenset("\u061c\u200e\u200f")
# Controls, separators of lines and paragraphs, and halves of UTF-16 pairs.
_NOT_IN_A_LINE = frozenset(("Cc", "Zl", "Zp", "Cs"))


def check(text: str) -> str:
    """The text in Unicode's composed form (NFC), with single spaces. Raises ValueError with words for a form."""
    if any(unicodedata.category(one) in _NOT_IN_A_LINE for one in text):
        raise ValueError(Phrase("must be one line without control characters"))
    if any(map(_turns_text, text)):
        raise ValueError(
            Phrase("has an invisible character that turns the direction of text: type the name again")
        )
    plain = unicodedata.normalize("NFC", " ".join(text.split()))
    if not any(map(_is_seen, plain)):
        raise ValueError(Phrase("must have a character that can be seen"))
    return plain


def strip(text: str) -> str:
    """The text without the characters that `check` refuses, for a name that no person can correct. May be empty."""
    kept = (one for one in text if unicodedata.category(one) not in _NOT_IN_A_LINE and not _turns_text(one))
    plain = unicodedata.normalize("NFC", " ".join("".join(kept).split()))
    return plain if any(map(_is_seen, plain)) else ""


def _turns_text(one: str) -> bool:
    return one in _BIDI_MARKS or unicodedata.bidirectional(one) in _BIDI_TYPES


def _is_seen(one: str) -> bool:
    return not unicodedata.category(one).startswith(("C", "Z"))
