"""A schema registry for tests: Confluent's REST interface in memory, as far as clients use it.

It judges compatibility of Avro alone, by one rule: a field that is new needs a default. It can ask for a user or a token, speak
TLS, redirect, and fail for a while.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_ROUTES = (
    ("GET", re.compile(r"/schemas/ids/(\d+)"), "by_id"),
    ("GET", re.compile(r"/subjects/([^/]+)/versions/(latest|\d+)"), "version"),
    ("POST", re.compile(r"/subjects/([^/]+)/versions"), "register"),
    ("POST", re.compile(r"/subjects/([^/]+)"), "find"),
    ("POST", re.compile(r"/compatibility/subjects/([^/]+)/versions/latest"), "compatibility"),
)


@dataclass
class RegistryServer:
    """A registry that runs, and what it has been asked."""

    url: str = ""
    authorization: str | None = None
    """What requests have to have in their header of that name."""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    failures: int = 0
    """So many requests more are answered with 503."""
    redirects_to: str | None = None
    answers: bytes | None = None
    """Instead of what it knows."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, subject: str, schema: object, kind: str = "AVRO", references: Any = ()) -> int:
        """The id of a schema, text or JSON, that the subject has from now on."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        status, answer = self.register(body, subject)
        assert status == 200, answer
        found: int = answer["id"]
        return found

    def answer(self, method: str, path: str, body: Any, authorization: str | None) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.asked.append(f"{method} {path}")
            if self.authorization is not None and authorization != self.authorization:
                return 401, {"error_code": 401, "message": "Unauthorized"}
            if self.failures:
                self.failures -= 1
                return 503, {"error_code": 50301, "message": "not now"}
            for verb, route, name in _ROUTES:
                match = route.fullmatch(urlsplit(path).path)
                if verb == method and match is not None:
                    arguments = [unquote(each) for each in match.groups()]
                    found: tuple[int, dict[str, Any]] = getattr(self, name)(body, *arguments)
                    return found
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def by_id(self, _body: Any, schema_id: str) -> tuple[int, dict[str, Any]]:
        found = self.schemas.get(int(schema_id))
        return (404, _error(40403, "Schema not found")) if found is None else (200, found)

    def version(self, _body: Any, subject: str, version: str) -> tuple[int, dict[str, Any]]:
        ids = self.subjects.get(subject)
        if ids is None:
            return 404, _error(40401, f"Subject '{subject}' not found.")
        number = len(ids) if version == "latest" else int(version)
        if not 0 < number <= len(ids):
            return 404, _error(40402, f"Version {number} not found.")
        schema_id = ids[number - 1]
        return 200, {"subject": subject, "version": number, "id": schema_id, **self.schemas[schema_id]}

    def find(self, body: Any, subject: str) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return 404, _error(40401, f"Subject '{subject}' not found.")
        for version, schema_id in enumerate(self.subjects[subject], 1):
            if _is_same(self.schemas[schema_id], _kept(body)):
                return 200, {"subject": subject, "version": version, "id": schema_id, **self.schemas[schema_id]}
        return 404, _error(40403, "Schema not found")

    def register(self, body: Any, subject: str) -> tuple[int, dict[str, Any]]:
        status, found = self.find(body, subject)
        if status == 200:
            return 200, {"id": found["id"]}
        why = self._why_not(body, subject)
        if why:
            return 409, _error(409, f"Schema being registered is incompatible with an earlier schema: {why[0]}")
        kept = _kept(body)
        same = next((number for number, each in self.schemas.items() if _is_same(each, kept)), None)
        schema_id = same or len(self.schemas) + 1
        self.schemas[schema_id] = kept
        self.subjects.setdefault(subject, []).append(schema_id)
        return 200, {"id": schema_id}

    def compatibility(self, body: Any, subject: str) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return 404, _error(40401, f"Subject '{subject}' not found.")
        why = self._why_not(body, subject)
        return 200, {"is_compatible": not why, "messages": why}

    def _why_not(self, body: Any, subject: str) -> list[str]:
        ids = self.subjects.get(subject)
        if not ids or body.get("schemaType", "AVRO") != "AVRO":
            return []
        old, new = json.loads(self.schemas[ids[-1]]["schema"]), json.loads(body["schema"])
        known = {each["name"] for each in old["fields"]}
        added = [each for each in new["fields"] if each["name"] not in known]
        return [f"{each['name']} has no default" for each in added if "default" not in each]


@contextmanager
def schema_registry(
    *, user: str | None = None, token: str | None = None, tls: tuple[Path, Path] | None = None
) -> Iterator[RegistryServer]:
    """One on a port of its own. `user` is with the password, `name:password`; `tls` a certificate and its key."""
    known = RegistryServer()
    if user is not None:
        known.authorization = f"Basic {base64.b64encode(user.encode()).decode()}"
    if token is not None:
        known.authorization = f"Bearer {token}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            if known.redirects_to is not None:
                self.send_response(302)
                self.send_header("Location", known.redirects_to + self.path)
                self.end_headers()
                return
            status, answer = known.answer(self.command, self.path, body, self.headers.get("Authorization"))
            written = json.dumps(answer).encode() if known.answers is None else known.answers
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that goes away in the middle, or does not trust the certificate."""

    with Server(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        known.url = f"{scheme}://127.0.0.1:{server.server_port}"
        try:
            yield known
        finally:
            server.shutdown()
            thread.join()


def _kept(body: Any) -> dict[str, Any]:
    kept = {"schema": body["schema"]}
    if body.get("schemaType", "AVRO") != "AVRO":
        kept["schemaType"] = body["schemaType"]
    if body.get("references"):
        kept["references"] = body["references"]
    return kept


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def normal(each: dict[str, Any]) -> object:
        text = each["schema"]
        return each | {"schema": text if each.get("schemaType") == "PROTOBUF" else json.loads(text)}

    return normal(one) == normal(other)


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}
