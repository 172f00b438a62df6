"""A connection that keeps what it is answered, for tests that compare two ways of serving the same requests."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.data_node import FakeConnection
from tidelog.net.parts import Part


class Slot:
    """The place of one answer that comes later."""

    def __init__(self, answers: list[bytes | None]) -> None:
        self._answers = answers
        self._place = len(answers)
        answers.append(None)

    def send(self, parts: Sequence[Part]) -> None:
        assert self._answers[self._place] is None
        self._answers[self._place] = b"".join(
            bytes(part)
            if isinstance(part, bytes | bytearray | memoryview)
            else part.file.pread(part.count, part.position)
            for part in parts
        )

    def send_at_once(self, parts: Sequence[Part]) -> None:
        self.send(parts)


class AnsweredConnection(FakeConnection):
    """Keeps the answers in the order of the requests, without their sizes; None for one that is still to come."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes | None] = []
        self.is_exempt = False

    def expect_answer(self) -> Slot:
        return Slot(self.answers)

    def answer_with_frames(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4
            self.answers.append(frame[4:])

    def close_when_sent(self) -> None:
        self.is_closed = True
