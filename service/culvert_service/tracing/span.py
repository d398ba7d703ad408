"""Spans: the steps of an operation in its trace. Without a tracer they do nothing.

Attributes follow OpenTelemetry's semantic conventions and have numbers and codes, never contents, because spans leave
this computer.
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
    """Set the tracer of the whole process."""
    global _tracer
    _tracer = tracer


def span(name: str, kind: SpanKind, **attributes: AttributeValue) -> AbstractContextManager[Span | None]:
    """A child of the current span, also in tasks that start within it. In attribute names `__` stands for a dot."""
    return _OFF if _tracer is None else _start(_tracer, name, kind, attributes)


@contextmanager
def _start(
    tracer: Tracer, name: str, kind: SpanKind, attributes: dict[str, AttributeValue]
) -> Generator[Span]:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    # An exception's text and stack may contain secrets.
    with tracer.start_as_current_span(
        name, kind=kind, attributes=named, record_exception=False, set_status_on_exception=False
    ) as started:
        try:
            yield started
        except BaseException as error:
            fail(started, type(error).__name__)
            raise


def fail(failed: Span, why: str) -> None:
    """`why`: a reason of the catalogue or an exception's class; the first call wins."""
    if failed.is_recording() and ERROR_TYPE not in (getattr(failed, "attributes", None) or {}):
        failed.set_attribute(ERROR_TYPE, why)
        failed.set_status(StatusCode.ERROR)
