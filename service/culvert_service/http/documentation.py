"""Serves the site of documentation from memory. Its pages run and load files of the site alone.

`make docs` builds the site, with each text also compressed, as NAME.gz. That alone is kept: few clients need another form.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

_log = logging.getLogger(__name__)

PREFIX = "/docs/"
_FRONT = "index.html"
_MISSING = "404.html"
_PACKED = ".gz"
# Names of these files contain a hash of their content.
_ASSETS = "assets/"
_FOREVER = "public, max-age=31536000, immutable"
# The hash of the style that the theme's script adds to its list of search results.
_SEARCH_STYLE = "'sha256-NwSx/R2V/U4jnW0Tq5pQ53Y/rzPVJ4dqE7D6UTA/J1k='"
_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_SEARCH_STYLE}; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_NOT_BUILT = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Culvert: documentation</title>
<h1>The documentation is not built</h1>
<p>Run <code>make docs</code> in the checkout that this controller runs from, and start the controller again.
The packages contain it.</p>
<p><a href="/docs/api">The REST API's reference</a> is here.</p>
</html>
"""


@dataclass(frozen=True, slots=True)
class _File:
    """`content` is in gzip form if `packed`."""

    content: bytes
    packed: bool
    media_type: str
    tag: str


def install(app: FastAPI, directory: Path) -> None:
    """Serve the site below PREFIX, or a page that says how to build it if `directory` has none.

    More specific routes below PREFIX have to be installed before.
    """
    files = _read(directory)
    if _FRONT not in files:
        _log.warning("no documentation", extra={"directory": str(directory)})

    @app.get(PREFIX.rstrip("/"), include_in_schema=False)
    async def front() -> Response:
        return RedirectResponse(PREFIX)

    @app.get(f"{PREFIX}{{path:path}}", include_in_schema=False)
    async def answer(request: Request, path: str) -> Response:
        if _FRONT not in files:
            return HTMLResponse(_NOT_BUILT, headers={"Content-Security-Policy": _POLICY})
        path = path or _FRONT
        # The address of a page may be given without its suffix: errors name /docs/reasons/REASON.
        file = files.get(path) or files.get(f"{path}.html")
        page = path.rstrip("/")
        if file is None and page != path and f"{page}.html" in files:
            # Links in the page are relative, so its address has no final slash.
            return RedirectResponse(f"{PREFIX}{page}")
        if file is None or path == _MISSING:
            return _answer(request, files[_MISSING], 404, "no-cache")
        return _answer(request, file, 200, _FOREVER if path.startswith(_ASSETS) else "no-cache")

    _ = (front, answer)


def _answer(request: Request, file: _File, status: int, caching: str) -> Response:
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": caching, "ETag": file.tag}
    if status == 200 and request.headers.get("If-None-Match") == file.tag:
        return Response(status_code=304, headers=headers)
    content = file.content
    if file.packed:
        headers["Vary"] = "Accept-Encoding"
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
        else:
            content = gzip.decompress(content)
    return Response(content, status, headers, file.media_type)


def _read(directory: Path) -> dict[str, _File]:
    """The files by their paths below `directory`."""
    found: dict[str, _File] = {}
    for file in sorted(directory.rglob("*")):
        name = str(file.relative_to(directory))
        packed = file.suffix == _PACKED
        if not file.is_file() or (directory / (name + _PACKED)).exists():
            continue
        content = file.read_bytes()
        name = name.removesuffix(_PACKED) if packed else name
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        found[name] = _File(content, packed, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found
