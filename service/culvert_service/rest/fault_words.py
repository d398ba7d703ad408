"""Words for the causes of faults: pydantic's own quote regular expressions and name types of Python. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from culvert_proto.contract import NAME_PATTERN, PASSKEY_NAME_MAX, POLICY_NAME_MAX

_NETWORK = "must be a prefix such as 203.0.113.0/24 or 2001:db8::/32"
_ADDRESS = "must be an address such as 203.0.113.7 or 2001:db8::7"
_TEXT = "must be a text"
_NUMBER = "must be a whole number"
_LIST = "must be a list"
_ID = "must be an id such as 7a0f0e6a-5b7e-4d0c-9a52-2f6c5a3c2d11"
_TIME = "must be a date and a time with its zone, such as 2026-11-27T14:05:00Z"
_LINE = "must be one line without control characters"
_WORDS = {
    "missing": "must be given",
    "extra_forbidden": "is not a known field",
    "string_type": _TEXT,
    "string_unicode": "has a character that is not valid Unicode",
    "none_required": "must be null",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "uuid_type": _ID,
    "uuid_parsing": _ID,
    "uuid_version": _ID,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "datetime_object_invalid": _TIME,
    "timezone_aware": _TIME,
    "json_invalid": "is not valid JSON",
    "int_type": _NUMBER,
    "int_parsing": _NUMBER,
    "int_from_float": _NUMBER,
    "int_parsing_size": "is too large",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "ip_v4_network": _NETWORK,
    "ip_v6_network": _NETWORK,
    "ip_v4_address": _ADDRESS,
    "ip_v6_address": _ADDRESS,
}
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "string_too_short": "must have at least {min_length} {character}",
    "string_too_long": "must have at most {max_length} {character}",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
}
_PATTERNS = {
    NAME_PATTERN: "must have 1 to 63 lower-case letters, digits and hyphens, and neither begin nor end with a hyphen",
    r"^[a-z0-9][a-z0-9._-]{0,62}$": "must have 1 to 63 lower-case letters from a to z, digits, dots, hyphens "
    "and underscores, and begin with a letter or a digit",
    r"^[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+$": "must be an e-mail address such as alice@example.com",
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": "must be a time of day such as 08:30",
    r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$": "must have 1 to 63 letters, digits, hyphens and underscores, and begin with a "
    "letter or a digit",
    r"^[A-Za-z0-9-]{1,63}$": "must have 1 to 63 letters, digits and hyphens",
    r"^[a-z0-9-]{0,63}$": "must have at most 63 lower-case letters, digits and hyphens",
    r"^[^\x00-\x1f\x7f]+$": _LINE,
    rf"^[^\x00-\x1f\x7f]{{1,{PASSKEY_NAME_MAX}}}$": f"must have 1 to {PASSKEY_NAME_MAX} characters on one line",
    rf"^[^\x00-\x1f\x7f/\s][^\x00-\x1f\x7f/]{{0,{POLICY_NAME_MAX - 1}}}$": f"must have 1 to {POLICY_NAME_MAX} "
    "characters on one line, no slash, and no space at its beginning",
    r"^[^\x00-\x1f\x7f]{1,254}$": "must be a name such as wiki.corp.example",
    r"^[^\x00]+$": "must be a text without a NUL character",
    r"^\S+:\d{1,5}$": "must be an address and a port, such as 192.0.2.7:9559",
}
_OTHER = "is not a value that this field takes"


def say(error: Mapping[str, Any]) -> str:
    """The cause of one of pydantic's errors. Never the value, which may be a token."""
    kind: str = error["type"]
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], _OTHER)
    if kind in ("too_short", "too_long"):
        return _count(kind, context)
    if kind in _BOUNDS:
        most = context.get("min_length", context.get("max_length"))
        return _BOUNDS[kind].format(**context, character=_counted(most, "character"))
    return _WORDS.get(kind, _OTHER)


def _count(kind: str, context: Mapping[str, Any]) -> str:
    """`field_type` is "Value" for a secret, whose length is in characters."""
    noun = "character" if context["field_type"] == "Value" else "entry"
    if kind == "too_short":
        limit = context["min_length"]
        return f"must have at least {limit} {_counted(limit, noun)}"
    limit = context["max_length"]
    return f"must have at most {limit} {_counted(limit, noun)}"


def _counted(number: int | None, noun: str) -> str:
    if number == 1:
        return noun
    return "entries" if noun == "entry" else f"{noun}s"
