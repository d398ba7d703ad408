"""Starts and stops the tracing of one process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from culvert_agent_server import Around
from culvert_db import Database
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine

from culvert_service.config import Settings
from culvert_service.tracing import span, statements
from culvert_service.tracing.agent_calls import traced_agent_call
from culvert_service.tracing.rest_calls import TracedRestCalls

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


class Tracing:
    """Does nothing unless the settings name a collector."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._engine = cast(AsyncEngine, database.kw["bind"]).sync_engine
        self._endpoint = settings.otlp_endpoint
        self._provider: TracerProvider | None = None

    def add_to(self, app: FastAPI) -> None:
        if self._endpoint is not None:
            app.add_middleware(TracedRestCalls)

    def around_agent_calls(self) -> list[Around]:
        return [] if self._endpoint is None else [traced_agent_call]

    async def start(self) -> None:
        if self._endpoint is None:
            return
        # Imported here, because it takes megabytes of memory that most controllers never need.
        from culvert_service.tracing.exporter import provider

        self._provider = provider(self._endpoint, self._settings.trace_ratio, self._settings.controller_name)
        statements.trace(self._engine)
        span.use(self._provider.get_tracer("culvert_service"))

    async def stop(self) -> None:
        if self._provider is None:
            return
        span.use(None)
        statements.leave(self._engine)
        # Shutting down sends the remaining spans.
        await asyncio.to_thread(self._provider.shutdown)
