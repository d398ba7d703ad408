"""REST: the controller that answers."""

from __future__ import annotations

from fastapi import APIRouter, Request

from culvert_service.about.schemas import ControllerOut
from culvert_service.about.service import About
from culvert_service.rest.api import Api
from culvert_service.rest.problem import asked_language


def router(api: Api, about: About) -> APIRouter:
    routes = api.router("/controller", tag="health")

    @routes.get("", summary="Show the controller that answers: version, settings, CAs and certificates")
    async def show(request: Request) -> ControllerOut:
        return about.now(asked_language(request))

    _ = show
    return routes
