"""Faults of a request as a person reads them: where in the request, and why.

pydantic tries each alternative of a union and reports the faults of all, under names of its own: for `Mac | list[Mac]`,

    ("body", "wan", "next_hop_mac", "function-after[_mac(), str]")   must be a MAC address
    ("body", "wan", "next_hop_mac", "list[...]")                     must be a list

The caller wrote one value, so such names leave the place, and an alternative that only wants a value of another type
says nothing as long as another alternative says more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from culvert_proto.phrases import Phrase

from culvert_service.rest.fault_words import say

# pydantic's mark for a fault of an object's key instead of its value.
_KEY = "[key]"


@dataclass(frozen=True, slots=True)
class InputFault:
    """`place` begins with the part of the request ("body", "query"); `why` never has the value, which may be a token."""

    place: tuple[str | int, ...]
    why: str


class PartError(ValueError):
    """A fault of a whole object that a form shows at one of its parts. `place`: the part's place in the object."""

    def __init__(self, why: str, *place: str | int) -> None:
        super().__init__(why)
        self.place = place


@dataclass(frozen=True, slots=True)
class _Alternative:
    """`union`: the place of the union; `name`: pydantic's name of the alternative."""

    union: tuple[str | int, ...]
    name: str


@dataclass(frozen=True, slots=True)
class _Found(InputFault):
    alternative: _Alternative | None
    of_other_type: bool


def explain(errors: Sequence[Mapping[str, Any]], body: object) -> list[InputFault]:
    """The faults of pydantic's `errors` about a request with this parsed `body`: at most one for each place in a union."""
    found = [_locate(error, body) for error in errors]
    useful = {it.alternative for it in found if it.alternative and not it.of_other_type}
    answered = {alternative.union for alternative in useful}
    whys: dict[tuple[object, ...], tuple[_Found, list[str]]] = {}
    for number, it in enumerate(found):
        if it.alternative is None:
            whys[number,] = (it, [it.why])
        elif it.alternative in useful or it.alternative.union not in answered:
            whys.setdefault((it.alternative.union, it.place), (it, []))[1].append(it.why)
    return [InputFault(it.place, _join(list(dict.fromkeys(said)))) for it, said in whys.values()]


def _locate(error: Mapping[str, Any], body: object) -> _Found:
    source, *rest = cast("tuple[str | int, ...]", error["loc"])
    place: tuple[str | int, ...] = (source,)
    # Queries, paths and headers have no value here: only the names of parameters are known.
    value: object = body if source == "body" else {rest[0]: None} if rest else None
    alternative: _Alternative | None = None
    for number, part in enumerate(rest):
        missing = error["type"] == "missing" and number == len(rest) - 1
        if missing or _holds(value, part):
            place = (*place, part)
            value = None if missing else cast("Any", value)[part]
        elif part == _KEY:
            value = None
        else:
            alternative = alternative or _Alternative(place, str(part))
    if isinstance(cause := error.get("ctx", {}).get("error"), PartError):
        place = (*place, *cause.place)
    of_other_type = (
        alternative is not None
        and place == alternative.union
        and error["type"].endswith(("_type", "_parsing"))
    )
    return _Found(place, say(error), alternative, of_other_type)


def _holds(value: object, part: str | int) -> bool:
    if isinstance(value, dict):
        return part in cast("dict[object, object]", value)
    return isinstance(value, list) and isinstance(part, int) and part < len(cast("list[object]", value))


def _join(whys: Sequence[str]) -> str:
    """Join alternatives: "must be a text" and "must be a list" to "must be a text or list"."""
    if len(whys) == 1:
        return whys[0]
    words = [why.split(" ") for why in whys]
    differing = (number for number, column in enumerate(zip(*words, strict=False)) if len(set(column)) > 1)
    shared = next(differing, 0)
    joined = " or ".join([whys[0], *(" ".join(it[shared:]) for it in words[1:])])
    # Other languages repeat the verb.
    other = _join(whys[1:])
    return Phrase("{one}, or {other}", one=whys[0], other=other).spoken(joined)
