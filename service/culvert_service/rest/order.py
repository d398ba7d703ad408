"""The order of a list: a column, and a row's place in it. A leading `-` turns the order around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from culvert_service.rest.page import Key

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Order(Generic[_Row]):
    """`column` is never null, and `of` gives its value, which is a `kind`."""

    column: Any
    kind: type[Key]
    of: Callable[[_Row], Key]


def chosen(orders: dict[str, Order[_Row]], asked: str) -> tuple[Order[_Row], bool]:
    """And whether it falls."""
    return orders[asked.removeprefix("-")], asked.startswith("-")
