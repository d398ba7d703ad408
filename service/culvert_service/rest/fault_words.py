"""Words for the causes of faults: pydantic's own quote regular expressions and name types of Python. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from culvert_proto.contract import NAME_PATTERN, PASSKEY_NAME_MAX, POLICY_NAME_MAX
from culvert_proto.phrases import Phrase

_NETWORK = Phrase("must be a prefix such as 203.0.113.0/24 or 2001:db8::/32")
_ADDRESS = Phrase("must be an address such as 203.0.113.7 or 2001:db8::7")
_TEXT = Phrase("must be a text")
_NUMBER = Phrase("must be a whole number")
_LIST = Phrase("must be a list")
_ID = Phrase("must be an id such as 7a0f0e6a-5b7e-4d0c-9a52-2f6c5a3c2d11")
_TIME = Phrase("must be a date and a time with its zone, such as 2026-11-27T14:05:00Z")
_LINE = Phrase("must be one line without control characters")
_WORDS = {
    "missing": Phrase("must be given"),
    "extra_forbidden": Phrase("is not a known field"),
    "string_type": _TEXT,
    "string_unicode": Phrase("has a character that is not valid Unicode"),
    "none_required": Phrase("must be null"),
    "finite_number": Phrase("must be a finite number"),
    "float_type": Phrase("must be a number"),
    "float_parsing": Phrase("must be a number"),
    "uuid_type": _ID,
    "uuid_parsing": _ID,
    "uuid_version": _ID,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "datetime_object_invalid": _TIME,
    "timezone_aware": _TIME,
    "json_invalid": Phrase("is not valid JSON"),
    "int_type": _NUMBER,
    "int_parsing": _NUMBER,
    "int_from_float": _NUMBER,
    "int_parsing_size": Phrase("is too large"),
    "bool_type": Phrase("must be true or false"),
    "bool_parsing": Phrase("must be true or false"),
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": Phrase("must be an object"),
    "model_type": Phrase("must be an object"),
    "model_attributes_type": Phrase("must be an object"),
    "ip_v4_network": _NETWORK,
    "ip_v6_network": _NETWORK,
    "ip_v4_address": _ADDRESS,
    "ip_v6_address": _ADDRESS,
}
_PATTERNS = {
    NAME_PATTERN: Phrase(
        "must have 1 to 63 lower-case letters, digits and hyphens, and neither begin nor end with a hyphen"
    ),
    r"^[a-z0-9][a-z0-9._-]{0,62}$": Phrase(
        "must have 1 to 63 lower-case letters from a to z, digits, dots, hyphens "
        "and underscores, and begin with a letter or a digit"
    ),
    r"^[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+$": Phrase(
        "must be an e-mail address such as alice@example.com"
    ),
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": Phrase("must be a time of day such as 08:30"),
    r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$": Phrase(
        "must have 1 to 63 letters, digits, hyphens and underscores, and begin with a letter or a digit"
    ),
    r"^[A-Za-z0-9-]{1,63}$": Phrase("must have 1 to 63 letters, digits and hyphens"),
    r"^[a-z0-9-]{0,63}$": Phrase("must have at most 63 lower-case letters, digits and hyphens"),
    r"^[^\x00-\x1f\x7f]+$": _LINE,
    rf"^[^\x00-\x1f\x7f]{{1,{PASSKEY_NAME_MAX}}}$": Phrase(
        "must have 1 to {number} characters on one line", number=PASSKEY_NAME_MAX
    ),
    rf"^[^\x00-\x1f\x7f/\s][^\x00-\x1f\x7f/]{{0,{POLICY_NAME_MAX - 1}}}$": Phrase(
        "must have 1 to {number} characters on one line, no slash, and no space at its beginning",
        number=POLICY_NAME_MAX,
    ),
    r"^[^\x00-\x1f\x7f]{1,254}$": Phrase("must be a name such as wiki.corp.example"),
    r"^[^\x00]+$": Phrase("must be a text without a NUL character"),
    r"^\S+:\d{1,5}$": Phrase("must be an address and a port, such as 192.0.2.7:9559"),
}
_OTHER = Phrase("is not a value that this field takes")


def say(error: Mapping[str, Any]) -> str:
    """The cause of one of pydantic's errors. Never the value, which may be a token."""
    kind: str = error["type"]
    context: Mapping[str, Any] = error.get("ctx", {})
    match kind:
        case "value_error":
            return str(context["error"])
        case "string_pattern_mismatch":
            return _PATTERNS.get(context["pattern"], _OTHER)
        case "greater_than_equal":
            return Phrase("must be at least {number}", number=context["ge"])
        case "greater_than":
            return Phrase("must be greater than {number}", number=context["gt"])
        case "less_than_equal":
            return Phrase("must be at most {number}", number=context["le"])
        case "less_than":
            return Phrase("must be less than {number}", number=context["lt"])
        case "literal_error" | "enum":
            return Phrase("must be one of {values}", values=context["expected"])
        case "string_too_short" | "too_short":
            least: int = context["min_length"]
            return Phrase(
                "must have at least {number} {things}", number=least, things=_things(context, least)
            )
        case "string_too_long" | "too_long":
            most: int = context["max_length"]
            return Phrase("must have at most {number} {things}", number=most, things=_things(context, most))
        case _:
            return _WORDS.get(kind, _OTHER)


def _things(context: Mapping[str, Any], number: int) -> Phrase:
    """`field_type` is "Value" for a secret, and absent for a text: their lengths are in characters."""
    if context.get("field_type", "Value") == "Value":
        return Phrase("character") if number == 1 else Phrase("characters")
    return Phrase("entry") if number == 1 else Phrase("entries")
