"""When what is answered in a turn leaves: at its end, once for each connection."""

from __future__ import annotations

import pytest

from tidelog.net.turn import Turn


@pytest.fixture
def turn() -> Turn:
    return Turn()


class Noted:
    """A connection that says when it is flushed."""

    def __init__(self, name: str, flushed: list[str]) -> None:
        self._name = name
        self._flushed = flushed

    def flush(self) -> None:
        self._flushed.append(self._name)

    def abort(self, error: BaseException | None = None) -> None:
        self._flushed.append(f"{self._name} is closed for {error}")


def test_leaves_when_the_outermost_turn_ends(turn: Turn) -> None:
    flushed: list[str] = []
    with turn:
        with turn:
            turn.flush_later(Noted("a", flushed))
        turn.flush_later(Noted("b", flushed))
        assert flushed == []
    assert flushed == ["a", "b"]
    assert not turn.is_open


def test_what_a_flush_brings_about_is_part_of_the_turn(turn: Turn) -> None:
    flushed: list[str] = []

    class Answering(Noted):
        def flush(self) -> None:
            super().flush()
            turn.flush_later(Noted("later", flushed))

    with turn:
        turn.flush_later(Answering("first", flushed))
    assert flushed == ["first", "later"]


def test_a_flush_that_fails_ends_its_connection_alone(turn: Turn, caplog: pytest.LogCaptureFixture) -> None:
    flushed: list[str] = []

    class Broken(Noted):
        def flush(self) -> None:
            raise OSError("no such peer")

    with turn:
        turn.flush_later(Broken("broken", flushed))
        turn.flush_later(Noted("behind", flushed))
    assert flushed == ["broken is closed for no such peer", "behind"]
    assert "could not be sent" in caplog.text
    assert not turn.is_open
    with turn:
        turn.flush_later(Noted("next", flushed))
    assert flushed[-1] == "next"
