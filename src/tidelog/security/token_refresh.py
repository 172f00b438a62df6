"""When a token is replaced: Kafka's `sasl.login.refresh.*`, as its ExpiringCredentialRefreshingLogin reckons.

The next token is asked for after a part of this one's life (0.8, and up to 0.05 more by chance), but not sooner than the shortest
period after this one was got and not later than the buffer before its end. A token too short-lived for both has neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.security.access_token import AccessToken

# Kafka's DELAY_SECONDS_BEFORE_NEXT_RETRY_WHEN_RELOGIN_FAILS.
RETRY_AFTER_FAILURE_MS = 10_000


@dataclass(frozen=True, slots=True)
class TokenRefresh:
    """The four keys."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300

    def at_ms(self, token: AccessToken, now_ms: int, chance: float) -> int | None:
        """When to ask for the next token; None where this one has no end. `chance` is from 0 to 1, and makes the jitter."""
        expires_ms = token.expires_ms
        if expires_ms is None:
            return None
        if now_ms > expires_ms:
            return now_ms + RETRY_AFTER_FAILURE_MS
        part = self.window_factor + self.window_jitter * chance
        if now_ms + 1000 * (self.min_period_s + self.buffer_s) > expires_ms:
            return now_ms + int((expires_ms - now_ms) * part)
        starts_ms = now_ms if token.starts_ms is None else token.starts_ms
        proposed_ms = starts_ms + int((expires_ms - starts_ms) * part)
        return max(min(proposed_ms, expires_ms - 1000 * self.buffer_s), now_ms + 1000 * self.min_period_s)
