"""Traces of one process, from its start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from culvert_agent_server import Around
from culvert_db import Database
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine

from culvert_service.config import Settings
from culvert_service.tracing import span, statements
from culvert_service.tracing.agent_calls import traced_agent_call
from culvert_service.tracing.rest_calls import TracedRestCalls


class Tracing:
    """Does nothing at all unless the settings name a collector."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._engine = cast(AsyncEngine, database.kw["bind"]).sync_engine
        self._endpoint = settings.otlp_endpoint

    def add_to(self, app: FastAPI) -> None:
        if self._endpoint is not None:
            app.add_middleware(TracedRestCalls)

    def around_agent_calls(self) -> list[Around]:
        return [] if self._endpoint is None else [traced_agent_call]

    @asynccontextmanager
    async def exporting(self) -> AsyncGenerator[None]:
        if self._endpoint is None:
            yield
            return
        # Megabytes that most controllers never need.
        from culvert_service.tracing.exporter import provider

        made = provider(self._endpoint, self._settings.trace_ratio, self._settings.controller_name)
        statements.trace(self._engine)
        span.use(made.get_tracer("culvert_service"))
        try:
            yield
        finally:
            span.use(None)
            statements.leave(self._engine)
            # It sends what is left.
            await asyncio.to_thread(made.shutdown)
