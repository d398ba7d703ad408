"""The API's reference: its OpenAPI document, and a page that shows it, with forms to try it, without the internet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import Depends, FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.responses import HTMLResponse, Response

from culvert_service.admins.rates import Rates

PATH = "/docs/api"
_DOCUMENT = "/openapi.json"
_SCRIPT = f"{PATH}/reference.js"
_ASSETS = f"{PATH}/assets"
_FILES = Path(fastapi_offline.__file__).parent / "static"
_PAGE = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Culvert controller: reference</title>
<link rel="stylesheet" href="{_ASSETS}/swagger-ui.css">
<link rel="icon" href="{_ASSETS}/favicon.png">
</head>
<body>
<div id="reference"></div>
<script src="{_ASSETS}/swagger-ui-bundle.js"></script>
<script src="{_SCRIPT}"></script>
</body>
</html>
"""
_START = f"""SwaggerUIBundle({{
  url: "{_DOCUMENT}",
  dom_id: "#reference",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
  layout: "BaseLayout",
}});
"""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def install(app: FastAPI, rates: Rates) -> None:
    app.mount(_ASSETS, StaticFiles(directory=_FILES))
    written: list[bytes] = []

    @app.get(_DOCUMENT, dependencies=[Depends(rates.anyone)], include_in_schema=False)
    async def document() -> Response:
        # The document takes milliseconds to write and is the same for all callers, so it is written once.
        if not written:
            written.append(json.dumps(app.openapi(), separators=(",", ":")).encode())
        return Response(written[0], media_type="application/json")

    @app.get(PATH, include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})

    @app.get(_SCRIPT, include_in_schema=False)
    async def script() -> Response:
        return Response(_START, media_type="text/javascript")

    _: Any = (document, page, script)
