# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""One established connection to another node: requests out, answers back in the same order, each to whoever sent the request.

`NodeConnection` owns it, and makes another when it breaks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from tidelog.net.address import NO_ADDRESS, address_of
from tidelog.net.errors import ConnectionLostError
from tidelog.net.stream import FrameStream

if TYPE_CHECKING:
    from tidelog.net.errors import RequestFailedError
    from tidelog.net.parts import Bytes
    from tidelog.net.receive_buffers import ReceiveBuffers
    from tidelog.net.turn import Turn

    OnAnswer = Callable[[memoryview | RequestFailedError], None]

# An answer may be as large as a fetch of all that a client asks for; this is what no honest node sends.
ANSWER_BYTES_MAX = 1 << 30

_int32_at = Struct(">i").unpack_from


class PendingRequest:
    """A request to another node whose `on_answer` has not been called."""

    __slots__ = ("correlation_id", "deadline_s", "on_answer", "parts")

    def __init__(self, parts: Sequence[Bytes], correlation_id: int, deadline_s: float, on_answer: OnAnswer) -> None:
        self.parts = parts
        self.correlation_id = correlation_id
        self.deadline_s = deadline_s
        self.on_answer = on_answer


class NodeStream(FrameStream):
    """One established connection. The requests that wait for an answer on it are the owner's to add and to fail."""

    __slots__ = ("_on_bug", "_on_closed", "_title", "_unanswered", "peer_address")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffers: ReceiveBuffers,
        turn: Turn,
        title: str,
        unanswered: deque[PendingRequest],
        on_bug: Callable[[Exception], None],
        on_closed: Callable[[NodeStream, BaseException | None], None],
    ) -> None:
        """`unanswered` is the owner's, who adds to it. `on_bug` hears of what a receiver of an answer raised."""
        super().__init__(loop, buffers, turn, ANSWER_BYTES_MAX)
        self._title = title
        self._unanswered = unanswered
        self._on_bug = on_bug
        self._on_closed = on_closed
        self.peer_address = NO_ADDRESS

    def __str__(self) -> str:
        return self._title

    def _opened(self) -> None:
        if self._transport is not None:
            self.peer_address = address_of(self._transport.get_extra_info("peername"))

    def _closed(self, error: BaseException | None) -> None:
        self._on_closed(self, error)

    def _frame(self, frame: memoryview) -> bool:
        unanswered = self._unanswered
        if not unanswered:
            raise ConnectionLostError("an answer that is not the expected one (correlation id None)")
        pending = unanswered[0]
        if len(frame) < 4 or _int32_at(frame)[0] != pending.correlation_id:
            raise ConnectionLostError(
                f"an answer that is not the expected one (correlation id {pending.correlation_id})"
            )
        unanswered.popleft()
        try:
            pending.on_answer(frame)
        except Exception as error:  # noqa: BLE001 - whose bug it is decides what stops for it
            self._on_bug(error)
        return not self.is_closed
