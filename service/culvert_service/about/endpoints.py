"""REST: the controller that answers."""

from __future__ import annotations

from fastapi import APIRouter

from culvert_service.about.schemas import ControllerOut
from culvert_service.about.service import About


def router(about: About) -> APIRouter:
    routes = APIRouter(prefix="/controller", tags=["health"])

    @routes.get("", summary="Show the controller that answers: version, settings, CAs and certificates")
    async def show() -> ControllerOut:
        return about.now()

    _ = show
    return routes
