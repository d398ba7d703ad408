"""The sort order of a list: a column, and a row's value of it. A leading `-` reverses the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from culvert_service.rest.page import Key

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Order(Generic[_Row]):
    """`column` is never null; `of` returns a row's value of it, of type `kind`."""

    column: Any
    kind: type[Key]
    of: Callable[[_Row], Key]


def choose(orders: dict[str, Order[_Row]], asked: str) -> tuple[Order[_Row], bool]:
    """The order, and whether it is descending."""
    return orders[asked.removeprefix("-")], asked.startswith("-")
