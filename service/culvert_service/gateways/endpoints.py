"""REST: gateways."""

from __future__ import annotations

import base64
import io
import tarfile
import time
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query, Request, Response, status

from culvert_service.admins.access import fresh_proof
from culvert_service.audit.caller import By
from culvert_service.gateways.changes import Changes
from culvert_service.gateways.host_registry import CryptoHosts
from culvert_service.gateways.schemas import (
    BundleOut,
    CryptoHostIn,
    CryptoHostOut,
    EntriesOut,
    GatewayIn,
    GatewayOut,
    SampleOut,
)
from culvert_service.gateways.service import Gateways
from culvert_service.rest.api import Api
from culvert_service.rest.page import Page
from culvert_service.rest.read_only import AsRead
from culvert_service.rest.request import mark_given_once
from culvert_service.rest.version import IfMatch, MayMatch, tag

_TAR = "application/x-tar"


def router(api: Api, gateways: Gateways, changes: Changes) -> APIRouter:
    routes = api.router("/gateways", tag="gateways")

    @routes.post("", status_code=status.HTTP_201_CREATED, summary="Register a gateway")
    async def create(by: By, asked: GatewayIn) -> GatewayOut:
        return await gateways.create(by, asked)

    @routes.get("", summary="List the gateways")
    async def list_all(page: Annotated[Page, Depends()]) -> list[GatewayOut]:
        return await gateways.list(page)

    @routes.get("/{name}", summary="Show a gateway")
    async def get(name: str, response: Response) -> GatewayOut:
        return tag(response, await gateways.get(name))

    @routes.post(
        "/{name}/bundle",
        summary="Give a gateway's certificate and keys, new ones each time",
        dependencies=[Depends(fresh_proof), Depends(mark_given_once)],
        response_model=BundleOut,
        responses={200: {"content": {_TAR: {}}}},
    )
    async def bundle(by: By, name: str, request: Request) -> BundleOut | Response:
        """With `Accept: application/x-tar`, the answer is an archive of the files that sluice reads."""
        made = await gateways.bundle(by, name)
        if request.headers.get("Accept") != _TAR:
            return made
        return Response(_archive(name, made), media_type=_TAR)

    @routes.get("/{name}/entries", summary="Read a gateway's entries, beside the desired ones")
    async def entries(name: str) -> EntriesOut:
        return await gateways.entries(name)

    @routes.get("/{name}/samples", summary="List samples of a gateway's counters")
    async def samples(name: str, hours: Annotated[int, Query(ge=1, le=24)] = 1) -> list[SampleOut]:
        return await gateways.samples(name, hours)

    @routes.put("/{name}", summary="Change a gateway and close the tunnels that do not fit it any more")
    async def replace(
        by: By,
        name: str,
        body: Annotated[AsRead[GatewayIn, GatewayOut], Body()],
        seen: Annotated[IfMatch, Depends()],
        response: Response,
    ) -> GatewayOut:
        await body.check(lambda: gateways.get(name), seen)
        await changes.replace(by, name, body.asked, seen)
        return tag(response, await gateways.get(name))

    @routes.post(
        "/{name}/drain", summary="Drain a gateway: open no more tunnels through it, and move its tunnels"
    )
    async def drain(
        by: By,
        name: str,
        seen: Annotated[MayMatch, Depends()],
        response: Response,
        anyway: Annotated[bool, Query(description="Even if some resources have no other gateway")] = False,
    ) -> GatewayOut:
        await changes.drain(by, name, seen, anyway=anyway)
        return tag(response, await gateways.get(name))

    @routes.post("/{name}/undrain", summary="Let tunnels be opened through a gateway again")
    async def undrain(
        by: By, name: str, seen: Annotated[MayMatch, Depends()], response: Response
    ) -> GatewayOut:
        await changes.undrain(by, name, seen)
        return tag(response, await gateways.get(name))

    @routes.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT, summary="Delete an unused gateway")
    async def delete(by: By, name: str, seen: Annotated[MayMatch, Depends()]) -> None:
        await changes.delete(by, name, seen)

    _ = (create, list_all, get, bundle, entries, samples, replace, drain, undrain, delete)
    return routes


def hosts_router(api: Api, hosts: CryptoHosts) -> APIRouter:
    routes = api.router("/gateways/{gateway}/crypto-hosts", tag="gateways")

    @routes.post("", status_code=status.HTTP_201_CREATED, summary="Register a crypto host of a gateway")
    async def create(by: By, gateway: str, asked: CryptoHostIn) -> CryptoHostOut:
        return await hosts.create(by, gateway, asked)

    @routes.get("", summary="List the crypto hosts of a gateway")
    async def list_all(gateway: str) -> list[CryptoHostOut]:
        return await hosts.list(gateway)

    @routes.get("/{name}", summary="Show a crypto host")
    async def get(gateway: str, name: str) -> CryptoHostOut:
        return await hosts.get(gateway, name)

    @routes.post(
        "/{name}/bundle",
        summary="Give a crypto host's certificate and keys, a new certificate each time",
        dependencies=[Depends(fresh_proof), Depends(mark_given_once)],
        response_model=BundleOut,
        responses={200: {"content": {_TAR: {}}}},
    )
    async def bundle(by: By, gateway: str, name: str, request: Request) -> BundleOut | Response:
        """With `Accept: application/x-tar`, the answer is an archive of the files that sluice reads."""
        made = await hosts.bundle(by, gateway, name)
        if request.headers.get("Accept") != _TAR:
            return made
        return Response(_archive(name, made), media_type=_TAR)

    @routes.post("/{name}/drain", summary="Drain a crypto host: renew its tunnels at the other ones")
    async def drain(by: By, gateway: str, name: str) -> CryptoHostOut:
        return await hosts.drain(by, gateway, name)

    @routes.post("/{name}/undrain", summary="Let a crypto host serve SAs again")
    async def undrain(by: By, gateway: str, name: str) -> CryptoHostOut:
        return await hosts.undrain(by, gateway, name)

    @routes.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT, summary="Delete an unused crypto host")
    async def delete(by: By, gateway: str, name: str, seen: Annotated[MayMatch, Depends()]) -> None:
        await hosts.delete(by, gateway, name, seen)

    _ = (create, list_all, get, bundle, drain, undrain, delete)
    return routes


def _archive(name: str, bundle: BundleOut) -> bytes:
    """Files in the directory `name`, readable by their owner alone."""
    files = {
        "controller-ca.pem": bundle.ca_pem.encode(),
        "gateway.pem": bundle.certificate_pem.encode(),
        "gateway.key": bundle.key_pem.encode(),
        "kek.bin": base64.b64decode(bundle.kek),
    }
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file, content in files.items():
            member = tarfile.TarInfo(f"{name}/{file}")
            member.size, member.mode, member.mtime = len(content), 0o600, int(time.time())
            archive.addfile(member, io.BytesIO(content))
    return whole.getvalue()
