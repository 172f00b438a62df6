"""The application: routes, the gate around them, and the answers of last resort."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog.console.console import Console
from tidelog.console.screens import ROUTES
from tidelog.console.screens.metrics import show_metrics
from tidelog.console.screens.session import log_in, log_out, show_audit, show_session
from tidelog.console.serving.answers import json_answer
from tidelog.console.serving.api_error import ApiError
from tidelog.console.serving.gate import Gate
from tidelog.console.serving.static_files import StaticFiles


def application(console: Console) -> Starlette:
    static = StaticFiles()
    app = Starlette(
        routes=[
            Route("/api/session", show_session, methods=["GET"]),
            Route("/api/session/{cluster}/login", log_in, methods=["POST"]),
            Route("/api/session/{cluster}/logout", log_out, methods=["POST"]),
            Route("/api/audit", show_audit, methods=["GET"]),
            Route("/metrics", show_metrics, methods=["GET"]),
            *ROUTES,
            Route("/", static.answer, methods=["GET"]),
            Route("/{name}", static.answer, methods=["GET"]),
        ],
        middleware=[Middleware(Gate, host=console.options.host, allowed_hosts=console.options.allowed_hosts)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.state.console = console
    return app


async def _refused(_request: Request, error: Exception) -> Response:
    """No such path, or not with this method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = "the console has no such path" if status == 404 else "this path is not asked for so"
    return json_answer(ApiError(status, "NOT_FOUND" if status == 404 else "BAD_REQUEST", what).as_json(), status)


async def _failed(_request: Request, _error: Exception) -> Response:
    """A bug: the log has its traceback, whoever asked gets none of it."""
    problem = ApiError(500, "UNKNOWN_SERVER_ERROR", "the console has failed here", "its log says where")
    return json_answer(problem.as_json(), 500)
