"""Producer ids: a broker takes a block of them from the controller and hands them out one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID
from tidelog.model.pending import Pending
from tidelog.wire.messages.producers import AllocateProducerIdsResponse


class ProducerIds:
    """The block that is in use. Ids that are left when the node stops are never used: there are enough."""

    def __init__(self, allocate: Callable[[], Pending[AllocateProducerIdsResponse]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._waiting: deque[Pending[int]] = deque()

    def next(self) -> Pending[int]:
        """An id that no producer has had; -1 where the controller gives none."""
        answer: Pending[int] = Pending()
        if self._next < self._end and not self._waiting:
            self._next += 1
            answer.complete(self._next - 1)
            return answer
        self._waiting.append(answer)
        if len(self._waiting) == 1:
            self._allocate().then(self._allocated)
        return answer

    def _allocated(self, block: AllocateProducerIdsResponse) -> None:
        if block.error_code != ErrorCode.NONE:
            waiting, self._waiting = self._waiting, deque()
            for answer in waiting:
                answer.complete(NO_PRODUCER_ID)
            return
        self._next = block.producer_id_start
        self._end = block.producer_id_start + block.producer_id_len
        while self._waiting and self._next < self._end:
            self._next += 1
            self._waiting.popleft().complete(self._next - 1)
        if self._waiting:
            self._allocate().then(self._allocated)
