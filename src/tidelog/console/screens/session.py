"""Who somebody is to this console and its clusters: session, login, logout."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog import __version__
from tidelog.client.errors import ClientError
from tidelog.console.cluster.views import MECHANISMS
from tidelog.console.console import Console
from tidelog.console.serving.answers import json_answer
from tidelog.console.serving.api_error import ApiError, api_error_of, wrong_question
from tidelog.console.serving.call import check_change, cluster_of, object_of, peer_of
from tidelog.console.serving.sessions import Session

_BODY_BYTES_MAX = 65_536


async def show_session(request: Request) -> Response:
    """A session is begun where the browser has none."""
    console: Console = request.app.state.console
    session = console.session_of(request) or console.sessions.begin()
    return _answer(console, session)


async def log_in(request: Request) -> Response:
    console: Console = request.app.state.console
    try:
        cluster = cluster_of(console, request)
        session = check_change(console, request, console.session_of(request), is_login=True)
        if not cluster.needs_login:
            raise wrong_question(f"nobody has to log in to {cluster.name}")
        body = await _body(request)
        user, password = body.get("username", ""), body.get("password", "")
        mechanism = body.get("mechanism") or cluster.mechanism or MECHANISMS[0]
        if not (isinstance(user, str) and isinstance(password, str) and isinstance(mechanism, str)):
            raise wrong_question("mechanism, username and password of a login are text")
        mechanism = mechanism.upper()
        try:
            login = await console.views.login(cluster, mechanism, user, password)
        except ClientError as error:
            _audit(console, request, user, "log in", api_error_of(error).code)
            raise api_error_of(error) from error
    except ApiError as error:
        return json_answer(error.as_json(), error.status)
    session.logins[cluster.name] = login
    console.sessions.renew(session)
    _audit(console, request, user, "log in", "done")
    return _answer(console, session)


async def log_out(request: Request) -> Response:
    console: Console = request.app.state.console
    try:
        cluster = cluster_of(console, request)
        session = check_change(console, request, console.session_of(request), is_login=True)
    except ApiError as error:
        return json_answer(error.as_json(), error.status)
    login = session.logins.pop(cluster.name, None)
    if login is not None:
        await console.views.forget(cluster, login)
        _audit(console, request, login.user, "log out", "done")
    console.sessions.renew(session)
    return _answer(console, session)


async def show_audit(request: Request) -> Response:
    """Of the clusters that this session may look at; where people log in, what its own user has changed."""
    console: Console = request.app.state.console
    session = console.session_of(request)
    logins = {} if session is None else session.logins
    users = {
        each.name: logins[each.name].user if each.needs_login else None
        for each in console.options.clusters
        if not each.needs_login or each.name in logins
    }
    return json_answer(console.audit.newest(users))


def _audit(console: Console, request: Request, user: str, action: str, outcome: str) -> None:
    console.audit.write(
        cluster=request.path_params["cluster"],
        user=user,
        peer=peer_of(request),
        action=action,
        details={},
        result=outcome,
    )


async def _body(request: Request) -> dict[str, Any]:
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > _BODY_BYTES_MAX:
            raise ApiError(413, "TOO_LARGE", "a login is smaller than that")
    return object_of(bytes(read))


def _answer(console: Console, session: Session) -> Response:
    options = console.options
    answer = json_answer(
        {
            "version": __version__,
            "csrf": session.csrf,
            "read_only": options.is_read_only,
            "clusters": [
                {
                    "name": each.name,
                    "bootstrap": each.bootstrap,
                    "protocol": each.protocol,
                    "needs_login": each.needs_login,
                    "user": session.logins[each.name].user if each.name in session.logins else each.fixed_user,
                    "mechanisms": ([each.mechanism] if each.mechanism else list(MECHANISMS))
                    if each.needs_login
                    else [],
                    "can_play": options.play_fd is not None and each is options.clusters[0],
                }
                for each in options.clusters
            ],
        }
    )
    answer.set_cookie(
        console.cookie,
        session.token,
        httponly=True,
        samesite="strict",
        secure=options.tls_certificate is not None,
        path="/",
    )
    return answer
