"""The built front end: a few files of fixed names, from memory, compressed where the browser takes it."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
}
_COMPRESSED = frozenset({"html", "js", "css", "svg"})
INDEX = "index.html"


class _File(NamedTuple):
    content: bytes
    compressed: bytes | None
    media_type: str
    etag: str


class StaticFiles:
    """All of the package's `static` folder, read once."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        folder = files("tidelog.console").joinpath("static")
        for each in folder.iterdir() if folder.is_dir() else ():
            kind = each.name.rpartition(".")[2]
            if kind in _TYPES and each.is_file():
                content = each.read_bytes()
                compressed = gzip.compress(content, 9, mtime=0) if kind in _COMPRESSED else None
                etag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
                self._files[each.name] = _File(content, compressed, _TYPES[kind], etag)

    async def answer(self, request: Request) -> Response:
        name = request.path_params.get("name") or INDEX
        file = self._files.get(name)
        if file is None:
            return Response(f"the console has no page {name!r:.60}\n", 404, media_type="text/plain")
        headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        if file.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(file.compressed, headers=headers, media_type=file.media_type)
        return Response(file.content, headers=headers, media_type=file.media_type)
