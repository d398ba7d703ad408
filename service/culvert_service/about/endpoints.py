"""REST: the controller that answers."""

from __future__ import annotations

from fastapi import APIRouter

from culvert_service.about.schemas import ControllerOut
from culvert_service.about.service import About
from culvert_service.rest.api import Api


def router(api: Api, about: About) -> APIRouter:
    routes = api.router("/controller", tag="health")

    @routes.get("", summary="Show the controller that answers: version, settings, CAs and certificates")
    async def show() -> ControllerOut:
        return about.now()

    _ = show
    return routes
