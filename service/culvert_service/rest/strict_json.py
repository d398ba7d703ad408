"""Parses JSON from callers, with limits on depth, values, names and numbers. Pure.

Refuses input on which RFC 8259 lets parsers differ: a name twice in one object (section 4), numbers out of range
(section 6), encodings other than UTF-8 (section 8.1), and half of a surrogate pair (section 8.2).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, cast

# The deepest body of the API has 6 levels.
DEPTH_MAX = 32
# Names in one object: a gateway has up to 1,024 neighbours. Each unknown name costs time, because it becomes a fault.
NAMES_MAX = 1_100
# 64-bit integers and the precision of a float need fewer characters.
_INTEGER_MAX, _FLOAT_MAX = 20, 64
_TOO_DEEP = f"it is nested more than {DEPTH_MAX} levels deep"


class JsonError(ValueError):
    """The text gives the reason, and repeats nothing of the input."""


def parse(content: bytes, values_max: int) -> object:
    """Raises JsonError for invalid JSON, more than `values_max` values and names, and input beyond the other limits."""
    # Counting commas is cheap, and each value but the first of an array or object follows a comma.
    if content.count(b",") > values_max:
        raise JsonError(_too_many(values_max))
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise JsonError("it is not UTF-8") from None
    try:
        found: object = _DECODER.decode(text)
    except JsonError:
        raise
    except RecursionError:
        raise JsonError(_TOO_DEEP) from None
    except ValueError:
        raise JsonError("it is not JSON") from None
    _check(found, values_max)
    return found


def _check(found: object, values_max: int) -> None:
    """Walks level by level instead of recursively, so that deep nesting cannot exhaust the stack."""
    level, values = [found], 0
    for _ in range(DEPTH_MAX + 1):
        values += len(level)
        if values > values_max:
            raise JsonError(_too_many(values_max))
        inner: list[object] = []
        for one in level:
            if isinstance(one, str):
                _check_text(one)
            elif isinstance(one, list):
                inner += cast("list[object]", one)
            elif isinstance(one, dict):
                fields = cast("dict[str, object]", one)
                inner += (*fields.keys(), *fields.values())
        if not inner and not any(isinstance(one, list | dict) for one in level):
            return
        level = inner
    raise JsonError(_TOO_DEEP)


def _too_many(values_max: int) -> str:
    return f"it has more than {values_max} values"


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise JsonError("a text has half of a surrogate pair") from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > NAMES_MAX:
        raise JsonError(f"an object has more than {NAMES_MAX} names")
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonError("an object has a name twice")
    return found


def _integer(text: str) -> int:
    if len(text) > _INTEGER_MAX:
        raise JsonError(f"a number has more than {_INTEGER_MAX} digits")
    return int(text)


def _float(text: str) -> float:
    if len(text) > _FLOAT_MAX or not math.isfinite(number := float(text)):
        raise JsonError("a number cannot be kept")
    return number


def _constant(_name: str) -> float:
    raise JsonError("NaN and Infinity are no numbers of JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
