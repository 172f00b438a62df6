"""The views that are open: one for each cluster and user, shared by the user's sessions, closed when nobody uses it."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tidelog.client.admin.async_admin import AsyncAdmin
from tidelog.client.admin.options import AdminOptions
from tidelog.client.errors import ConfigError
from tidelog.client.kafka_properties import in_kafka_names
from tidelog.console.cluster.view import CALL_TIMEOUT_MS, CLIENT_ID, CONNECT_TIMEOUT_MS, ClusterView
from tidelog.console.options import ClusterOptions
from tidelog.console.serving.api_error import ApiError, wrong_question
from tidelog.console.serving.sessions import Login

# Each has connections to all nodes and samples of its own.
VIEWS_MAX = 32
# Requests and streams under way of one user: others have connections to the console left.
USES_MAX = 200
IDLE_S = 15 * 60.0
_LOOK_S = 30.0

# Logins under way at a time: each is a connection that somebody unknown has asked for.
LOGINS_MAX = 8
_TEXT_MAX = 1_024
_TOKEN_MAX = 16_384

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")

_Key = tuple[str, str, bytes]


class Views:
    def __init__(self) -> None:
        self._views: dict[_Key, ClusterView] = {}
        # Two logins with one name share a view only if they know the same password.
        self._pepper = secrets.token_bytes(32)
        self._logins = asyncio.Semaphore(LOGINS_MAX)

    def __len__(self) -> int:
        return len(self._views)

    def everybody(self, cluster: ClusterOptions) -> ClusterView | None:
        """The view of a cluster that needs no login, if it is open."""
        return self._views.get((cluster.name, cluster.fixed_user or "", b""))

    @asynccontextmanager
    async def used(self, cluster: ClusterOptions, login: Login | None) -> AsyncIterator[ClusterView]:
        """A user's view, open for as long as it is used."""
        view = await self._open(cluster, login)
        if view.uses >= USES_MAX:
            raise ApiError(
                503, "TOO_MANY_STREAMS", f"{USES_MAX} pages and streams of this user are under way", "close some"
            )
        view.uses += 1
        try:
            yield view
        finally:
            view.uses -= 1
            view.last_used_s = time.monotonic()

    async def _open(self, cluster: ClusterOptions, login: Login | None) -> ClusterView:
        key = self._key(cluster, login)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= VIEWS_MAX:
                await self._make_room()
            user = cluster.fixed_user if login is None else login.user
            try:
                view = ClusterView(cluster, user, cluster.settings if login is None else login.settings)
            except ConfigError as error:
                raise wrong_question(in_kafka_names(str(error))) from error
            self._views[key] = view
            view.start()
        view.last_used_s = time.monotonic()
        view.sampler.asked()
        return view

    def _key(self, cluster: ClusterOptions, login: Login | None) -> _Key:
        if login is None:
            return cluster.name, cluster.fixed_user or "", b""
        secret = repr(sorted((name, str(value)) for name, value in login.settings.items())).encode()
        return cluster.name, login.user, hashlib.blake2b(secret, key=self._pepper).digest()

    async def login(self, cluster: ClusterOptions, mechanism: str, user: str, password: str) -> Login:
        """Who somebody is to a cluster, as it says itself. ClientError where it does not let them in."""
        if mechanism not in MECHANISMS:
            raise wrong_question(f"mechanism is {mechanism!r:.60}: one of {', '.join(MECHANISMS)}")
        if cluster.mechanism not in {None, mechanism}:
            raise wrong_question(f"people log in to {cluster.name} with {cluster.mechanism}")
        is_token = mechanism == "OAUTHBEARER"
        if not user or not password or len(user) > _TEXT_MAX or len(password) > (_TOKEN_MAX if is_token else _TEXT_MAX):
            raise wrong_question("a login has a name and a password, each of at most 1024 characters")
        settings: dict[str, Any] = {**cluster.settings, "sasl_mechanism": mechanism}
        if is_token:
            settings["sasl_oauthbearer_token"] = password
        else:
            settings |= {"sasl_username": user, "sasl_password": password}
        login = Login(user, settings)
        async with self._logins:
            await _check(cluster, settings)
        return login

    async def forget(self, cluster: ClusterOptions, login: Login) -> None:
        """A session has logged out: the view goes with the last who uses it."""
        key = self._key(cluster, login)
        view = self._views.get(key)
        if view is not None and not view.uses:
            del self._views[key]
            await view.close()

    async def watch(self) -> None:
        """Close what nobody uses, until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.close_idle(time.monotonic() - IDLE_S)

    async def close_idle(self, before_s: float) -> None:
        """Close the views of people that nobody has used since a time. Those of everybody stay, for the history."""
        for key, view in list(self._views.items()):
            if key[2] and not view.uses and view.last_used_s < before_s:
                del self._views[key]
                await view.close()

    async def _make_room(self) -> None:
        idle = [(view.last_used_s, key) for key, view in self._views.items() if not view.uses and key[2]]
        if not idle:
            raise ApiError(503, "TOO_MANY_USERS", f"{VIEWS_MAX} users look at clusters already", "try again later")
        _, key = min(idle)
        await self._views.pop(key).close()

    async def close(self) -> None:
        views, self._views = list(self._views.values()), {}
        for view in views:
            await view.close()


async def _check(cluster: ClusterOptions, settings: Mapping[str, Any]) -> None:
    names = AdminOptions.__dataclass_fields__
    options: Any = {
        "client_id": CLIENT_ID,
        "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS,
        "request_timeout_ms": CALL_TIMEOUT_MS,
        "default_api_timeout_ms": CALL_TIMEOUT_MS,
        **{name: value for name, value in settings.items() if name in names},
        "bootstrap_servers": cluster.bootstrap,
    }
    try:
        async with AsyncAdmin(**options) as admin:
            await admin.connect()
    except ConfigError as error:
        raise wrong_question(in_kafka_names(str(error))) from error
