"""A client's OAUTHBEARER token (`security.held_token`), with the client's errors, and the threads that get it.

login.when_ready(then)          # then(None) once there is a token that is good, then(AuthenticationError) if none came
login.token()                   # the token, None where when_ready has to be waited for
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from tidelog.client.errors import AuthenticationError
from tidelog.client.seams import ClientSeams
from tidelog.model.timers import LoopTimers
from tidelog.security.access_token import AccessToken
from tidelog.security.held_token import HeldToken, NoTokenError, TokenSource
from tidelog.security.token_refresh import TokenRefresh

T = TypeVar("T")

OnLogin = Callable[[AuthenticationError | None], None]


class LoginThread:
    """Slow work on a thread for each piece: there are few, and a program that ends must not wait for one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None:
        threading.Thread(target=self._run, args=(work, then), name="tidelog-login", daemon=True).start()

    def _run(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None) -> None:
        try:
            outcome: T | BaseException = work()
        except BaseException as error:  # noqa: BLE001 - the loop's thread decides what it means
            outcome = error
        if then is not None:
            # The loop may be closed by now, and nobody waits any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(then, outcome)


class TokenLogin:
    """Lives on one loop; `close` ends it. Whoever waits then is told nothing: the client is closed."""

    def __init__(
        self,
        seams: ClientSeams,
        source: TokenSource,
        refresh: TokenRefresh,
        *,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 10_000,
    ) -> None:
        self._held = HeldToken(
            LoopTimers(seams.loop),
            seams.clock,
            seams.random,
            source,
            refresh,
            seams.slow_work or LoginThread(seams.loop),
            source_name="sasl_oauthbearer_token_callback",
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
        )
        self.token: Callable[[], AccessToken | None] = self._held.token
        self.refused = self._held.refused
        self.close = self._held.close

    def when_ready(self, then: OnLogin) -> None:
        """Call `then` once there is a token, or once it is clear that none will come. Never from inside of this call."""
        self._held.when_ready(lambda error: then(None if error is None else _as_the_clients(error)))


def _as_the_clients(error: NoTokenError) -> AuthenticationError:
    told = AuthenticationError(str(error))
    told.__cause__ = error.__cause__
    return told
