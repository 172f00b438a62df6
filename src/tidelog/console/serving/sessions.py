"""Who uses the console: a session for each browser, and in it who it is to each cluster.

Passwords are in here and nowhere else: in memory, for as long as the session lives.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.model.clock import Clock

# A browser that nobody has touched for half a day is logged out.
IDLE_MS = 12 * 60 * 60 * 1000
# Each has a few hundred bytes. Whoever floods the console drives out sessions that nobody has logged in with.
SESSIONS_MAX = 1000

_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Login:
    """Who a session is to one cluster."""

    user: str
    settings: Mapping[str, Any] = field(repr=False)
    """Keyword arguments of its clients: mechanism, name and password."""


@dataclass(slots=True)
class Session:
    token: str = field(repr=False)
    csrf: str = field(repr=False)
    last_used_ms: float
    logins: dict[str, Login] = field(default_factory=dict)
    """By cluster."""


class Sessions:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_token: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_token)

    def find(self, token: str | None) -> Session | None:
        """The session of a cookie; None where it is none of this console's, or too old."""
        session = None if token is None else self._by_token.get(token)
        if session is None:
            return None
        now_ms = self._clock.monotonic_ms()
        if now_ms - session.last_used_ms > IDLE_MS:
            del self._by_token[session.token]
            return None
        session.last_used_ms = now_ms
        self._by_token.move_to_end(session.token)
        return session

    def begin(self) -> Session:
        if len(self._by_token) >= SESSIONS_MAX:
            self._make_room()
        session = Session(
            secrets.token_urlsafe(_TOKEN_BYTES), secrets.token_urlsafe(_TOKEN_BYTES), self._clock.monotonic_ms()
        )
        self._by_token[session.token] = session
        return session

    def renew(self, session: Session) -> Session:
        """The same under a new token, as of a login: whoever knew the old one knows nothing."""
        self._by_token.pop(session.token, None)
        session.token = secrets.token_urlsafe(_TOKEN_BYTES)
        session.csrf = secrets.token_urlsafe(_TOKEN_BYTES)
        self._by_token[session.token] = session
        return session

    def _make_room(self) -> None:
        oldest = next((each for each in self._by_token.values() if not each.logins), None)
        if oldest is None:
            oldest = next(iter(self._by_token.values()))
        del self._by_token[oldest.token]


def is_same_secret(given: str | None, expected: str) -> bool:
    return given is not None and secrets.compare_digest(given.encode(), expected.encode())
