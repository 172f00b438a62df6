"""A client's token on virtual time: got once for all who wait, replaced before it ends, tried for again where that can help."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.scripted_cluster import ScriptedCluster
from tidelog.client.errors import AuthenticationError
from tidelog.client.token_login import TokenLogin
from tidelog.model.slow_work import InlineSlowWork
from tidelog.security.access_token import AccessToken, AccessTokenError
from tidelog.security.token_endpoint import TokenEndpointError
from tidelog.security.token_refresh import TokenRefresh

Outcome = AccessToken | Exception


class Source:
    """Tokens and failures in an order of the test's own; the last one for ever."""

    def __init__(self, *outcomes: Outcome | Callable[[int], Outcome], clock: Callable[[], int]) -> None:
        self._outcomes = list(outcomes)
        self._clock = clock
        self.asked_ms: list[int] = []

    def __call__(self) -> AccessToken:
        now_ms = self._clock()
        self.asked_ms.append(now_ms)
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        made = outcome if isinstance(outcome, (AccessToken, Exception)) else outcome(now_ms)
        if isinstance(made, Exception):
            raise made
        return made


def for_an_hour(now_ms: int) -> AccessToken:
    return AccessToken(f"t{now_ms}", now_ms + 3_600_000)


def a_login(world: ScriptedCluster, *outcomes: Outcome | Callable[[int], Outcome]) -> tuple[TokenLogin, Source]:
    source = Source(*outcomes, clock=world.seams.clock.now_ms)
    refresh = TokenRefresh(window_jitter=0.0)
    return TokenLogin(replace(world.seams, slow_work=InlineSlowWork()), source, refresh), source


async def ready(login: TokenLogin) -> AuthenticationError | None:
    future: asyncio.Future[AuthenticationError | None] = asyncio.get_running_loop().create_future()
    login.when_ready(future.set_result)
    return await future


def test_a_token_is_asked_for_when_it_is_needed_and_once_for_all_who_wait() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        login, source = a_login(world, for_an_hour)
        assert source.asked_ms == []
        assert list(await asyncio.gather(ready(login), ready(login))) == [None, None]
        assert len(source.asked_ms) == 1
        assert login.token() is not None
        login.close()

    world.run(main)


def test_a_token_is_replaced_at_four_fifths_of_its_life_for_as_long_as_the_client_lives() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        login, source = a_login(world, for_an_hour)
        await ready(login)
        await asyncio.sleep(3 * 2880 + 1)
        first = source.asked_ms[0]
        assert [each - first for each in source.asked_ms] == [0, 2_880_000, 5_760_000, 8_640_000]
        login.close()
        await asyncio.sleep(7200)
        assert len(source.asked_ms) == 4

    world.run(main)


def test_an_endpoint_that_is_away_is_asked_again_with_growing_waits_and_then_given_up() -> None:
    world = ScriptedCluster()
    away = TokenEndpointError("the token endpoint x was not reached: refused", is_final=False)

    async def main(world: ScriptedCluster) -> None:
        login, source = a_login(world, away)
        error = await ready(login)
        assert str(error) == "no OAUTHBEARER token: the token endpoint x was not reached: refused"
        assert isinstance(error, AuthenticationError)
        assert not error.retriable
        waits = [after - before for before, after in zip(source.asked_ms, source.asked_ms[1:], strict=False)]
        assert waits == pytest.approx([100, 200, 400, 800, 1600, 3200, 3700], abs=2)
        login.close()

    world.run(main)


def test_what_cannot_get_better_is_not_tried_again() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        for reason in (TokenEndpointError("401", is_final=True), AccessTokenError("no exp")):
            login, source = a_login(world, reason)
            assert str(await ready(login)) == f"no OAUTHBEARER token: {reason}"
            assert len(source.asked_ms) == 1
            login.close()

    world.run(main)


def test_whatever_a_callback_raises_is_named_without_its_words() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        login, _ = a_login(world, KeyError("the secret itself"))
        error = await ready(login)
        assert str(error) == "no OAUTHBEARER token: sasl_oauthbearer_token_callback raised KeyError"
        assert isinstance(error, AuthenticationError)
        assert isinstance(error.__cause__, KeyError)
        login.close()

    world.run(main)


def test_a_token_that_cannot_be_replaced_is_used_while_it_lasts_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ScriptedCluster()
    caplog.set_level(logging.WARNING, "tidelog.client")
    away = TokenEndpointError("the endpoint is away", is_final=True)

    async def main(world: ScriptedCluster) -> None:
        login, source = a_login(world, for_an_hour, away, away, for_an_hour)
        await ready(login)
        await asyncio.sleep(2880 + 5)
        assert login.token() is not None
        assert await ready(login) is None
        await asyncio.sleep(16)
        assert [each - source.asked_ms[0] for each in source.asked_ms] == [0, 2_880_000, 2_890_000, 2_900_000]
        assert login.token() is not None
        login.close()

    world.run(main)
    assert [each.getMessage() for each in caplog.records] == [
        "no new OAUTHBEARER token: the endpoint is away; the old one is used while it lasts",
        "a new OAUTHBEARER token came",
    ]


def test_a_token_that_has_ended_is_no_token() -> None:
    world = ScriptedCluster()
    away = TokenEndpointError("the endpoint is away", is_final=True)

    async def main(world: ScriptedCluster) -> None:
        login, _ = a_login(world, lambda now_ms: AccessToken("x", now_ms + 1000), away)
        await ready(login)
        await asyncio.sleep(1)
        assert login.token() is None
        assert str(await ready(login)) == "no OAUTHBEARER token: the endpoint is away"
        login.close()

    world.run(main)


def test_a_token_that_ended_before_it_came_is_refused_with_a_hint_at_the_clocks() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        login, _ = a_login(world, AccessToken("x", 5))
        assert str(await ready(login)).endswith("has ended already: are the clocks here and at its issuer right?")
        login.close()

    world.run(main)


def test_a_token_that_the_cluster_refused_is_not_sent_again() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        login, source = a_login(world, AccessToken("without an end"))
        await ready(login)
        login.refused()
        assert login.token() is None
        await ready(login)
        assert len(source.asked_ms) == 2
        login.close()

    world.run(main)
