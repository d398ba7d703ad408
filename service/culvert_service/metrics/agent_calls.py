"""Counts what devices ask. Who watches is a gauge."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from culvert_agent_server import Around, Context
from culvert_proto.grpc_errors import reason_of

from culvert_service.metrics.instruments import Instruments


def counted_agent_calls(instruments: Instruments) -> Around:
    @contextmanager
    def counted(method: str, context: Context) -> Generator[None]:
        name = method.rpartition("/")[2]
        began, outcome = time.perf_counter(), "OK"
        try:
            yield
        except BaseException:
            reason = reason_of(context.trailing_metadata())
            outcome = reason.name if reason else "FAULT"
            raise
        finally:
            instruments.agent_calls.labels(name, outcome).inc()
            instruments.agent_seconds.labels(name).observe(time.perf_counter() - began)

    return counted
