"""Who is open: one view for each cluster and user, within a bound, for no longer than it is used. No cluster answers here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from tidelog.console.cluster import views as module
from tidelog.console.cluster.views import Views
from tidelog.console.options import ClusterOptions
from tidelog.console.serving.api_error import ApiError
from tidelog.console.serving.sessions import Login

CLUSTER = ClusterOptions("cluster", "127.0.0.1:1", {"security_protocol": "SASL_PLAINTEXT"})
OPEN = ClusterOptions("open", "127.0.0.1:1", {})


def login(user: str, password: str = "secret") -> Login:
    settings = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": password}
    return Login(user, {**CLUSTER.settings, **settings})


def with_views(work: Callable[[Views], Awaitable[None]]) -> None:
    async def run() -> None:
        views = Views()
        try:
            await work(views)
        finally:
            await views.close()

    asyncio.run(run())


def test_the_sessions_of_a_user_share_a_view_and_others_do_not() -> None:
    async def work(views: Views) -> None:
        async with views.used(CLUSTER, login("alice")) as first, views.used(CLUSTER, login("alice")) as second:
            assert first is second
        async with views.used(CLUSTER, login("bob")) as other:
            assert other is not first
        # Who knows another password for the name is somebody else until the cluster has said.
        async with views.used(CLUSTER, login("alice", "guessed")) as guessed:
            assert guessed is not first
        assert len(views) == 3

    with_views(work)


def test_one_user_does_not_take_the_streams_of_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "USES_MAX", 2)

    async def work(views: Views) -> None:
        async with views.used(CLUSTER, login("alice")), views.used(CLUSTER, login("alice")):
            with pytest.raises(ApiError, match="2 pages and streams of this user"):
                async with views.used(CLUSTER, login("alice")):
                    pass
            async with views.used(CLUSTER, login("bob")):
                pass
        async with views.used(CLUSTER, login("alice")) as view:
            assert view.uses == 1

    with_views(work)


def test_what_nobody_uses_is_closed_but_not_what_everybody_sees() -> None:
    async def work(views: Views) -> None:
        async with views.used(CLUSTER, login("alice")) as alice, views.used(OPEN, None) as everybody:
            await views.close_idle(time.monotonic() + 1)
            assert not alice.is_closed
        await views.close_idle(time.monotonic() + 1)
        assert (alice.is_closed, everybody.is_closed) == (True, False)
        assert views.everybody(OPEN) is everybody

    with_views(work)


def test_a_logout_closes_the_view_unless_another_session_uses_it() -> None:
    async def work(views: Views) -> None:
        async with views.used(CLUSTER, login("alice")) as alice:
            await views.forget(CLUSTER, login("alice"))
            assert not alice.is_closed
        await views.forget(CLUSTER, login("alice"))
        assert alice.is_closed

    with_views(work)


def test_one_more_user_than_there_is_room_for_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VIEWS_MAX", 2)

    async def work(views: Views) -> None:
        async with views.used(CLUSTER, login("alice")), views.used(CLUSTER, login("bob")) as bob:
            with pytest.raises(ApiError, match="2 users look at clusters already"):
                async with views.used(CLUSTER, login("carol")):
                    pass
        async with views.used(CLUSTER, login("alice")), views.used(CLUSTER, login("carol")):
            assert bob.is_closed

    with_views(work)


def test_a_page_that_finds_all_readers_taken_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.console.cluster.view.READERS_MAX", 1)
    monkeypatch.setattr("tidelog.console.cluster.view._READER_WAIT_S", 0.01)

    async def work(views: Views) -> None:
        async with views.used(OPEN, None) as view, view.reader():
            with pytest.raises(ApiError, match="read records already"):
                async with view.reader():
                    pass
        async with view.reader():
            pass

    with_views(work)
