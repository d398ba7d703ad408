"""REST: the scrape. Prometheus sends an API token with the scope metrics:read."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from culvert_service.metrics.instruments import Instruments
from culvert_service.metrics.state import StateGauges
from culvert_service.rest.api import Api


def router(api: Api, instruments: Instruments, state: StateGauges) -> APIRouter:
    routes = api.router("/metrics", tag="health")

    @routes.get("", summary="Metrics in Prometheus' text format", response_class=Response)
    async def scrape() -> Response:
        read = await state.read()
        text = generate_latest(instruments.registry) + generate_latest(read)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    _ = scrape
    return routes
