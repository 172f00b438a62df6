"""One request as an endpoint sees it: who asks, of which cluster, what for; and how its answer or error gets back.

    routes = [get("/topics", list_topics), change("POST", "/topics", create_topic, "create topic")]

An endpoint is `async def list_topics(call) -> Json`, or returns a Response such as a stream. A change is refused where the
console is read-only or the request brings no CSRF token, and is written to the audit log with what the endpoint has noted in
`call.details`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tidelog.client.errors import ClientError
from tidelog.console.cluster.view import ClusterView
from tidelog.console.options import ClusterOptions
from tidelog.console.serving.answers import Event, Json, event_stream, json_answer
from tidelog.console.serving.api_error import ApiError, api_error_of, login_needed, not_there, wrong_question
from tidelog.console.serving.gate import BODY_BYTES_MAX
from tidelog.console.serving.sessions import Session, is_same_secret

if TYPE_CHECKING:
    from tidelog.console.console import Console

log = logging.getLogger(__name__)

CSRF_HEADER = "x-tidelog-console"
PREFIX = "/api/c/{cluster}"


class Call:
    def __init__(self, console: Console, request: Request, cluster: ClusterOptions, view: ClusterView) -> None:
        self.console = console
        self.cluster = cluster
        self.view = view
        self.query: Mapping[str, str] = request.query_params
        self.details: dict[str, Any] = {}
        """What the audit log is to say of a change."""
        self.is_dry_run = False
        self.session = console.session_of(request)
        self._request = request

    def path(self, name: str) -> str:
        return str(self._request.path_params[name])

    async def body(self) -> dict[str, Any]:
        """The JSON object that came. ApiError for anything else."""
        read = bytearray()
        async for piece in self._request.stream():
            read += piece
            if len(read) > BODY_BYTES_MAX:
                raise ApiError(413, "TOO_LARGE", f"a request has at most {BODY_BYTES_MAX} bytes")
        decoded = object_of(bytes(read)) if read else {}
        self.is_dry_run = decoded.get("dry_run") is True
        return decoded

    async def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return await self._request.is_disconnected()


def object_of(data: bytes) -> dict[str, Any]:
    """The JSON object of a body. ApiError for anything else, also for one that is nested without end."""
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise wrong_question("the body of the request is no JSON") from None
    if not isinstance(decoded, dict):
        raise wrong_question("the body of the request is no JSON object")
    return decoded


Endpoint = Callable[[Call], Awaitable[Json]]
Streaming = Callable[[Call], AsyncGenerator[Event]]


def get(path: str, endpoint: Endpoint) -> Route:
    return Route(PREFIX + path, _answering(endpoint, None), methods=["GET"])


def change(method: str, path: str, endpoint: Endpoint, action: str) -> Route:
    return Route(PREFIX + path, _answering(endpoint, action), methods=[method])


def stream(path: str, events: Streaming) -> Route:
    """Server-sent events. The view stays open as long as somebody listens."""

    async def endpoint(call: Call) -> Response:
        return event_stream(events(call))

    return Route(PREFIX + path, _answering(endpoint, None), methods=["GET"])


def _answering(endpoint: Endpoint, action: str | None) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        console: Console = request.app.state.console
        async with AsyncExitStack() as stack:
            try:
                cluster = cluster_of(console, request)
                session = console.session_of(request)
                if action is not None:
                    check_change(console, request, session)
                view = await stack.enter_async_context(console.views.used(cluster, login_of(cluster, session)))
                call = Call(console, request, cluster, view)
                answered = await _run(endpoint, call, action)
            except ClientDisconnect:
                return Response(status_code=499)
            except ApiError as error:
                return json_answer(error.as_json(), error.status)
            except ClientError as error:
                problem = api_error_of(error)
                return json_answer(problem.as_json(), problem.status)
            if isinstance(answered, StreamingResponse):
                # The view is given back when the last byte is sent.
                answered.body_iterator = _held(answered.body_iterator, stack.pop_all())
            return answered if isinstance(answered, Response) else json_answer(answered)

    return answer


async def _held(pieces: Any, stack: AsyncExitStack) -> AsyncIterator[Any]:
    async with stack:
        try:
            async for piece in pieces:
                yield piece
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()


async def _run(endpoint: Endpoint, call: Call, action: str | None) -> Json:
    if action is None:
        return await endpoint(call)
    outcome = "done"
    try:
        return await endpoint(call)
    except ApiError as error:
        outcome = error.code
        raise
    except ClientError as error:
        outcome = api_error_of(error).code
        raise
    finally:
        if call.details and not call.is_dry_run:
            call.console.audit.write(
                cluster=call.cluster.name,
                user=call.view.user,
                peer=peer_of(call._request),  # noqa: SLF001 - this module's own
                action=action,
                details=call.details,
                result=outcome,
            )


def peer_of(request: Request) -> str:
    return "" if request.client is None else request.client.host


def cluster_of(console: Console, request: Request) -> ClusterOptions:
    name = request.path_params["cluster"]
    cluster = console.clusters.get(name)
    if cluster is None:
        raise not_there(f"this console has no cluster {name!r:.60}")
    return cluster


def login_of(cluster: ClusterOptions, session: Session | None) -> Any:
    """The login of a session to a cluster; None where the cluster needs none."""
    if not cluster.needs_login:
        return None
    login = None if session is None else session.logins.get(cluster.name)
    if login is None:
        raise login_needed(cluster.name)
    return login


def check_change(console: Console, request: Request, session: Session | None, *, is_login: bool = False) -> Session:
    """The session of a request that changes something. ApiError where it may not."""
    if session is None or not is_same_secret(request.headers.get(CSRF_HEADER), session.csrf):
        raise ApiError(
            403,
            "CSRF_TOKEN_MISSING",
            "a change needs the token of its session",
            "load the page again; a script takes it from /api/session and sends it as X-Tidelog-Console",
        )
    if console.options.is_read_only and not is_login:
        raise ApiError(409, "READ_ONLY", "this console only shows: it was started with --read-only")
    return session
