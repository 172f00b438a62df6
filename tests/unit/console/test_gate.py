"""Under which names a console may be asked for."""

from __future__ import annotations

import pytest

from tests.support.log_builder import ManualClock
from tidelog.console.serving.gate import Gate
from tidelog.console.serving.sessions import IDLE_MS, SESSIONS_MAX, Login, Sessions


async def nobody(*_: object) -> None: ...


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "10.1.2.3", "LocalHost:80"]
)
def test_loopback_names_and_addresses_are_its_own(host: str) -> None:
    assert Gate(nobody, "127.0.0.1").is_ours(host)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "user@evil.example", ":80"]
)
def test_any_other_name_is_not(host: str) -> None:
    assert not Gate(nobody, "127.0.0.1").is_ours(host)
    assert not Gate(nobody, "0.0.0.0").is_ours(host)


def test_names_that_were_allowed_are_its_own() -> None:
    assert Gate(nobody, "0.0.0.0", ["kafka.corp.example"]).is_ours("KAFKA.corp.example:8443")


def test_a_session_ends_when_nobody_uses_it() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    session = sessions.begin()
    assert sessions.find(session.token) is session
    clock.ms += IDLE_MS + 1
    assert sessions.find(session.token) is None
    assert sessions.find("guessed") is None
    assert len(sessions) == 0


def test_a_login_gets_a_token_that_nobody_has_seen() -> None:
    sessions = Sessions(ManualClock())
    session = sessions.begin()
    token, csrf = session.token, session.csrf
    sessions.renew(session)
    assert sessions.find(token) is None
    assert sessions.find(session.token) is session
    assert csrf != session.csrf


def test_a_flood_of_sessions_drives_out_no_one_who_is_logged_in() -> None:
    sessions = Sessions(ManualClock())
    mine = sessions.begin()
    mine.logins["cluster"] = Login("alice", {})
    for _ in range(2 * SESSIONS_MAX):
        sessions.begin()
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(mine.token) is mine
    assert "secret" not in repr(Login("alice", {"sasl_password": "secret"}))
