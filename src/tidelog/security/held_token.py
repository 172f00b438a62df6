"""An OAUTHBEARER token that its holder logs in with: got when it is first needed, replaced before it ends.

    held = HeldToken(timers, clock, random, source, TokenRefresh(), slow_work)
    held.when_ready(then)           # then(None) once there is a token that is good, then(NoTokenError) if none came
    held.token()                    # the token, None where when_ready has to be waited for

    from \\ event   needed      came               failed                               its time has come
    None           Asking      -                  -                                    -
    Asking         waits       Held               None: whoever waits is told          -
    Held           at once     -                  -                                    Renewing
    Renewing       at once     Held               Held, tried again in 10 s, one line  None, if it ended meanwhile

Where tokens come from may block, and so is slow work. A failure that may pass is tried again for
`sasl.login.retry.backoff.max.ms`, as Kafka does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

from tidelog.model.clock import Clock
from tidelog.model.slow_work import SlowWork
from tidelog.model.timers import Timer, Timers
from tidelog.security.access_token import AccessToken, AccessTokenError
from tidelog.security.token_endpoint import TokenEndpointError
from tidelog.security.token_refresh import RETRY_AFTER_FAILURE_MS, TokenRefresh

log = logging.getLogger(__name__)

TokenSource = Callable[[], AccessToken]
"""Gets a token, and may block. AccessTokenError and TokenEndpointError say why not; anything else is a bug of the caller's."""

# A timer of a year or so is as good as none, and some loops take no longer ones.
_TIMER_MS_MAX = 30 * 86_400_000.0


class NoTokenError(Exception):
    """No token came, in one sentence. Its cause is what went wrong."""


OnToken = Callable[[NoTokenError | None], None]


class HeldToken:
    """Lives on one loop; `close` ends it. Whoever waits then is told nothing: there is nobody to log in any more."""

    def __init__(
        self,
        timers: Timers,
        clock: Clock,
        random: Random,
        source: TokenSource,
        refresh: TokenRefresh,
        slow_work: SlowWork,
        *,
        source_name: str = "the source of tokens",
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 10_000,
    ) -> None:
        """`source_name` is what to call whatever raises what it should not."""
        self._timers = timers
        self._clock = clock
        self._random = random
        self._source = source
        self._refresh = refresh
        self._slow_work = slow_work
        self._source_name = source_name
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._held: AccessToken | None = None
        self._waiting: list[OnToken] = []
        self._is_asking = False
        self._asked_since_ms = 0
        self._failures = 0
        self._is_failing = False
        self._timer: Timer | None = None
        self._is_closed = False

    def token(self) -> AccessToken | None:
        """A token that has not ended."""
        held = self._held
        if held is None or (held.expires_ms is not None and held.expires_ms <= self._clock.now_ms()):
            return None
        return held

    def when_ready(self, then: OnToken) -> None:
        """Call `then` once there is a token, or once it is clear that none will come. Never from inside of this call."""
        if self._is_closed:
            return
        if self.token() is not None:
            self._timers.after(0, lambda: then(None))
            return
        self._waiting.append(then)
        if not self._is_asking:
            self._begin()

    def refused(self) -> None:
        """The cluster did not take the token: the next attempt brings a new one."""
        if not self._is_asking:
            self._held = None

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._cancel()

    # Asking.

    def _begin(self) -> None:
        self._cancel()
        self._is_asking = True
        self._failures = 0
        self._asked_since_ms = self._clock.monotonic_ms()
        self._ask()

    def _ask(self) -> None:
        self._timer = None
        self._slow_work.submit(self._source, self._outcome)

    def _outcome(self, outcome: AccessToken | BaseException) -> None:
        if self._is_closed:
            return
        if isinstance(outcome, AccessToken):
            self._came(outcome)
            return
        if isinstance(outcome, TokenEndpointError) and not outcome.is_final and self._try_again():
            return
        self._gave_up(outcome)

    def _try_again(self) -> bool:
        """Whether there is time left for another attempt, which then is under way."""
        self._failures += 1
        left_ms = self._retry_backoff_max_ms - (self._clock.monotonic_ms() - self._asked_since_ms)
        wait_ms = min(self._retry_backoff_ms * 2.0 ** min(self._failures - 1, 32), left_ms)
        if wait_ms <= 0:
            return False
        self._timer = self._timers.after(wait_ms, self._ask)
        return True

    def _came(self, token: AccessToken) -> None:
        now_ms = self._clock.now_ms()
        if token.expires_ms is not None and token.expires_ms <= now_ms:
            self._gave_up(AccessTokenError("the token has ended already: are the clocks here and at its issuer right?"))
            return
        self._is_asking = False
        self._held = token
        if self._is_failing:
            log.warning("a new OAUTHBEARER token came")
            self._is_failing = False
        refresh_ms = self._refresh.at_ms(token, now_ms, self._random.random())
        if refresh_ms is not None:
            self._renew_after(refresh_ms - now_ms)
        self._tell(None)

    def _gave_up(self, reason: BaseException) -> None:
        self._is_asking = False
        sentence = self._sentence(reason)
        error = NoTokenError(f"no OAUTHBEARER token: {sentence}")
        error.__cause__ = reason
        if self.token() is not None:
            if not self._is_failing:
                log.warning("no new OAUTHBEARER token: %s; the old one is used while it lasts", sentence)
                self._is_failing = True
            self._renew_after(RETRY_AFTER_FAILURE_MS)
        self._tell(error)

    def _renew_after(self, wait_ms: float) -> None:
        self._timer = self._timers.after(min(max(wait_ms, 0), _TIMER_MS_MAX), self._renew)

    def _renew(self) -> None:
        self._timer = None
        if not self._is_asking:
            self._begin()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, error: NoTokenError | None) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            # Not on the stack of whoever asked.
            self._timers.after(0, lambda: _call_all(waiting, error))

    def _sentence(self, reason: BaseException) -> str:
        if isinstance(reason, (AccessTokenError, TokenEndpointError)):
            return str(reason)
        # The words of somebody else's exception may be anything, and so may hold the token: its kind is enough, it is the cause.
        return f"{self._source_name} raised {type(reason).__name__}"


def _call_all(waiting: list[OnToken], error: NoTokenError | None) -> None:
    for then in waiting:
        then(error)
