"""REST: tunnels."""

from __future__ import annotations

import uuid
from typing import Annotated

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from fastapi import APIRouter, Depends, status

from culvert_service.audit.caller import By
from culvert_service.rest.api import Api
from culvert_service.rest.page import Page
from culvert_service.tunnels.schemas import TunnelOut
from culvert_service.tunnels.service import Tunnels


def router(api: Api, tunnels: Tunnels) -> APIRouter:
    routes = api.router("/tunnels", tag="tunnels")

    @routes.get("", summary="List the open tunnels")
    async def list_all(page: Annotated[Page, Depends()]) -> list[TunnelOut]:
        return await tunnels.list_page(page)

    @routes.delete("/{tunnel_id}", status_code=status.HTTP_204_NO_CONTENT, summary="Close a tunnel")
    async def close(by: By, tunnel_id: uuid.UUID) -> None:
        why = CulvertError(Reason.CLOSED_BY_ADMIN, why=Phrase("closed in the console"))
        if not await tunnels.close(by, why, tunnel_id):
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("The tunnel {name}", name=tunnel_id))

    _ = (list_all, close)
    return routes
