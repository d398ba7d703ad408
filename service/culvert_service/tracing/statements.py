"""A span for each statement of an operation. The statement's text has placeholders (`$1`) and no values."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from culvert_db import Driver
from opentelemetry import trace as opentelemetry
from opentelemetry.trace import Span, SpanKind
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext

from culvert_service.tracing.span import fail, span

_UNDER_WAY = "culvert.span"
_TEXT_MAX = 2000


def trace(engine: Engine) -> None:
    for name, hear in _EVENTS.items():
        event.listen(engine, name, hear)


def leave(engine: Engine) -> None:
    for name, hear in _EVENTS.items():
        event.remove(engine, name, hear)


def within_an_operation() -> bool:
    """False for statements of periodic work, which belong to no trace."""
    return opentelemetry.get_current_span().is_recording()


class TracedDriver:
    """The driver's connection with spans, for a `Direct` within an operation."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.is_in_transaction = driver.is_in_transaction
        self.is_closed = driver.is_closed
        self.terminate = driver.terminate

    async def execute(self, query: str, *args: object) -> str:
        with _span(query):
            return await self._driver.execute(query, *args)

    async def fetch(self, query: str, *args: object) -> list[Any]:
        with _span(query):
            return await self._driver.fetch(query, *args)


def _span(text: str) -> AbstractContextManager[Span | None]:
    operation = text.lstrip().partition(" ")[0].upper()[:20]
    return span(operation, SpanKind.CLIENT, db__system__name="postgresql", db__query__text=text[:_TEXT_MAX])


def _before(connection: Connection, _cursor: Any, text: str, *_: Any) -> None:
    if within_an_operation():
        started = _span(text)
        connection.info[_UNDER_WAY] = started, started.__enter__()


def _after(connection: Connection, *_: Any) -> None:
    if under_way := connection.info.pop(_UNDER_WAY, None):
        under_way[0].__exit__(None, None, None)


def _on_failure(context: ExceptionContext) -> None:
    if context.connection is not None and (under_way := context.connection.info.pop(_UNDER_WAY, None)):
        fail(under_way[1], type(context.original_exception).__name__)
        under_way[0].__exit__(None, None, None)


def _commits(_connection: Connection) -> None:
    if within_an_operation():
        opentelemetry.get_current_span().add_event("commit")


_EVENTS = {
    "before_cursor_execute": _before,
    "after_cursor_execute": _after,
    "handle_error": _on_failure,
    "commit": _commits,
}
