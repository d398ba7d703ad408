"""A step of an operation, as its trace shows it; nothing while no traces are taken.

Attributes are names of the field (OpenTelemetry's semantic conventions) and numbers, never contents: a span leaves this
computer.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

ERROR_TYPE = "error.type"

_OFF = nullcontext[Span | None](None)
_tracer: Tracer | None = None


def use(tracer: Tracer | None) -> None:
    """For the whole process."""
    global _tracer
    _tracer = tracer


def span(name: str, kind: SpanKind, **attributes: AttributeValue) -> AbstractContextManager[Span | None]:
    """Part of the span around it, across tasks that begin within. Names of attributes have `__` for a dot."""
    return _OFF if _tracer is None else _started(_tracer, name, kind, attributes)


@contextmanager
def _started(
    tracer: Tracer, name: str, kind: SpanKind, attributes: dict[str, AttributeValue]
) -> Generator[Span]:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    # An exception's text and stack may repeat what nobody else is to see.
    with tracer.start_as_current_span(
        name, kind=kind, attributes=named, record_exception=False, set_status_on_exception=False
    ) as started:
        try:
            yield started
        except BaseException as error:
            fail(started, type(error).__name__)
            raise


def fail(failed: Span, why: str) -> None:
    """`why` is a reason of the catalogue or an exception's class; the first one that is told stays."""
    if failed.is_recording() and ERROR_TYPE not in (getattr(failed, "attributes", None) or {}):
        failed.set_attribute(ERROR_TYPE, why)
        failed.set_status(StatusCode.ERROR)
