"""Brings what is asked about the state of share partitions to its share coordinator: on this node by a call, to another broker
by a request, together with what else waits for that broker.

Questions about one share partition are asked in their order, each when the one before is answered: a write that has to be tried
again must not overtake a newer one. What may pass by itself (no coordinator yet, one that is loading, a broken connection) is
tried again, less and less often, for as long as Kafka does.
"""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager
from random import Random
from typing import Any, NamedTuple, Protocol, cast

from tidelog.broker.coordinators.broker_requests import BrokerRequests, LinkTo, Words
from tidelog.broker.coordinators.coordinator_elections import Hosting
from tidelog.broker.share.persister import PersisterError, ShareState, StateBatch
from tidelog.broker.share.state_apis import (
    DELETE,
    INITIALISE,
    READ,
    SUMMARY,
    WRITE,
    PartitionAnswer,
    StateApi,
    StateKeeper,
)
from tidelog.controller.image import ClusterImage
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex, TopicId, TopicName
from tidelog.model.internal_topics import SHARE_GROUP_STATE
from tidelog.model.pending import Pending
from tidelog.model.timers import Timers
from tidelog.wire.messages import share_group_state as wire
from tidelog.wire.schema import Request, Response

# Kafka waits 2, 4, 8 and 16 s between five attempts. Half a minute in all it is here too, but an election takes milliseconds.
FIRST_RETRY_MS = 100
RETRIES_MAX = 8
# So that brokers which lost the same coordinator do not all come back at the same time.
RETRY_JITTER = 0.2
# A coordinator that hangs must not have its brokers keep ever more that waits for it. A write of a thousand batches takes some
# 100 KB, and an ordinary one of a few batches less than one.
QUEUED_BYTES_MAX = 64 * 1024 * 1024
_QUESTION_BYTES = 500
_BATCH_BYTES = 100

_MAY_PASS = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class EnsuresTopics(Protocol):
    """Who brings an internal topic into being: `internal_topics.InternalTopics`."""

    def ensure(self, name: TopicName) -> ErrorCode | Pending[ErrorCode]: ...


class StateKeepers(StateKeeper, Protocol):
    """This node's share coordinator, which also knows who is the one of any share partition."""

    def leader_of(self, key: SharePartitionKey) -> NodeId | None: ...


class ClusterPersister:
    """One for each broker: `persister.Persister` for share partitions, and more for those who coordinate groups."""

    def __init__(
        self,
        node: Hosting,
        coordinator: StateKeepers,
        topics: EnsuresTopics,
        link_to: LinkTo,
        timers: Timers,
        random: Random,
        turn: AbstractContextManager[None],
    ) -> None:
        self._node = node
        self._coordinator = coordinator
        self._topics = topics
        self._timers = timers
        self._random = random
        self._others: BrokerRequests[_Question] = BrokerRequests(
            link_to, turn, Words("share-group-state", _place, _request, self._answered, lane_of=_api_and_group)
        )
        self._turn = turn
        self._queues: dict[SharePartitionKey, _Queue] = {}
        self.queued_bytes = 0
        """About what all questions take that wait for their answer."""
        self._is_stopped = False

    # --- for leaders of share partitions -----------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return self.queued_bytes < QUEUED_BYTES_MAX

    def read(
        self, group_id: str, topic_id: TopicId, partition: PartitionIndex, leader_epoch: int
    ) -> Pending[ShareState | PersisterError]:
        asked = wire.ReadShareGroupStatePartitionData(partition=partition, leader_epoch=leader_epoch)
        state: Pending[ShareState | PersisterError] = Pending()
        self._ask(READ, SharePartitionKey(group_id, topic_id, partition), asked).then(
            lambda answer: state.complete(_persisted(cast("wire.ReadShareGroupStatePartitionResult", answer)))
        )
        return state

    def write(
        self,
        group_id: str,
        topic_id: TopicId,
        partition: PartitionIndex,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: list[StateBatch],
    ) -> Pending[PersisterError | None]:
        asked = wire.WriteShareGroupStatePartitionData(
            partition=partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[
                wire.StateBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.state,
                    delivery_count=each.delivery_count,
                )
                for each in batches
            ],
        )
        outcome: Pending[PersisterError | None] = Pending()
        key = SharePartitionKey(group_id, topic_id, partition)
        self._ask(WRITE, key, asked, _QUESTION_BYTES + _BATCH_BYTES * len(batches)).then(
            lambda answer: outcome.complete(_error(answer))
        )
        return outcome

    # --- for coordinators of groups ----------------------------------------------------------------------------------------

    def initialise(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Pending[PartitionAnswer]:
        """Have the state begin anew, at an offset or (-1) where the group's configuration says."""
        asked = wire.PartitionData(partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)
        return self._ask(INITIALISE, key, asked)

    def delete(self, key: SharePartitionKey) -> Pending[PartitionAnswer]:
        return self._ask(DELETE, key, wire.DeleteShareGroupStatePartitionData(partition=key.partition))

    def summary(
        self, key: SharePartitionKey, leader_epoch: int
    ) -> Pending[wire.ReadShareGroupStateSummaryPartitionResult]:
        """Where the group is in a partition, without what became of single records."""
        asked = wire.ReadShareGroupStateSummaryPartitionData(partition=key.partition, leader_epoch=leader_epoch)
        answer = self._ask(SUMMARY, key, asked)
        return cast("Pending[wire.ReadShareGroupStateSummaryPartitionResult]", answer)

    # --- following the cluster ---------------------------------------------------------------------------------------------

    def follow(self, image: ClusterImage) -> None:
        """Wait no longer for brokers that are gone."""
        self._others.follow(image)

    def stop(self) -> None:
        """The node stops: everybody who waits, and whoever comes, is told so."""
        self._is_stopped = True
        self._others.stop()
        for queue in [*self._queues.values()]:
            while queue.questions:
                self._finish(queue, _refusal(queue.questions[0], ErrorCode.COORDINATOR_NOT_AVAILABLE))

    # --- one question ------------------------------------------------------------------------------------------------------

    def _ask(
        self, api: StateApi, key: SharePartitionKey, asked: Any, size_bytes: int = _QUESTION_BYTES
    ) -> Pending[PartitionAnswer]:
        question = _Question(api, key, asked, size_bytes)
        if self._is_stopped or not self.has_room:
            question.answer.complete(_refusal(question, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return question.answer
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(key)
        queue.questions.append(question)
        self.queued_bytes += size_bytes
        self._go_on(queue)
        return question.answer

    def _go_on(self, queue: _Queue) -> None:
        """Ask what comes next. A coordinator on this node may have answered already when `_send` returns."""
        if queue.is_going_on or self._is_stopped:
            return
        queue.is_going_on = True
        while queue.questions and not queue.is_asked:
            queue.is_asked = True
            self._send(queue)
        queue.is_going_on = False

    def _send(self, queue: _Queue) -> None:
        ensured = self._topics.ensure(SHARE_GROUP_STATE)
        if isinstance(ensured, Pending):
            ensured.then(lambda error: self._ask_coordinator(queue, error))
        else:
            self._ask_coordinator(queue, ensured)

    def _ask_coordinator(self, queue: _Queue, ensured: ErrorCode) -> None:
        if self._is_stopped:
            return
        question = queue.questions[0]
        leader = None if ensured is not ErrorCode.NONE else self._coordinator.leader_of(question.key)
        if leader is None:
            self._arrived(queue, _refusal(question, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif leader == self._node.node_id:
            answer = question.api.ask(self._coordinator, question.key, question.asked)
            if isinstance(answer, Pending):
                answer.then(lambda value: self._arrived(queue, value))
            else:
                self._arrived(queue, answer)
        else:
            self._others.ask(leader, question)

    def _answered(self, asked: list[_Question], response: Response | None) -> None:
        """Another broker has answered, or (None) will not."""
        answers = asked[0].api.answers_in(response)
        for question in asked:
            queue = self._queues.get(question.key)
            if queue is not None and queue.questions and queue.questions[0] is question:
                answer = answers.get((question.key.topic_id, question.key.partition))
                self._arrived(queue, answer or _refusal(question, ErrorCode.NETWORK_EXCEPTION))

    def _arrived(self, queue: _Queue, answer: PartitionAnswer) -> None:
        if self._is_stopped:
            return
        question = queue.questions[0]
        if ErrorCode.of(answer.error_code) not in _MAY_PASS or question.retries == RETRIES_MAX:
            self._finish(queue, answer)
            return
        wait_ms = FIRST_RETRY_MS * 2**question.retries * self._random.uniform(1 - RETRY_JITTER, 1 + RETRY_JITTER)
        question.retries += 1
        self._timers.after(wait_ms, lambda: self._try_again(queue))

    def _try_again(self, queue: _Queue) -> None:
        if not self._is_stopped:
            with self._turn:
                self._send(queue)

    def _finish(self, queue: _Queue, answer: PartitionAnswer) -> None:
        question = queue.questions.popleft()
        queue.is_asked = False
        self.queued_bytes -= question.size_bytes
        if not queue.questions:
            del self._queues[queue.key]
        question.answer.complete(answer)
        self._go_on(queue)


class _Question:
    """Something to be asked about one share partition."""

    __slots__ = ("answer", "api", "asked", "key", "retries", "size_bytes")

    def __init__(self, api: StateApi, key: SharePartitionKey, asked: Any, size_bytes: int) -> None:
        self.api = api
        self.key = key
        self.asked = asked
        self.size_bytes = size_bytes
        self.retries = 0
        self.answer: Pending[PartitionAnswer] = Pending()


class _Queue:
    """The questions about one share partition. The first one is being asked, while `is_asked`."""

    __slots__ = ("is_asked", "is_going_on", "key", "questions")

    def __init__(self, key: SharePartitionKey) -> None:
        self.key = key
        self.questions: deque[_Question] = deque()
        self.is_asked = False
        self.is_going_on = False


class _Lane(NamedTuple):
    """What can go in one request."""

    api: str
    group_id: str


def _api_and_group(question: _Question) -> _Lane:
    return _Lane(question.api.name, question.key.group_id)


def _place(question: _Question) -> tuple[TopicId, PartitionIndex]:
    return question.key.topic_id, question.key.partition


def _request(asked: list[_Question]) -> Request:
    first = asked[0]
    return first.api.to_request(first.key.group_id, [(each.key.topic_id, each.asked) for each in asked])


def _refusal(question: _Question, error: ErrorCode) -> PartitionAnswer:
    return question.api.refuse(question.key, error, error.message)


def _error(answer: PartitionAnswer) -> PersisterError | None:
    code = ErrorCode.of(answer.error_code)
    return None if code is ErrorCode.NONE else PersisterError(code, answer.error_message)


def _persisted(answer: wire.ReadShareGroupStatePartitionResult) -> ShareState | PersisterError:
    error = _error(answer)
    if error is not None:
        return error
    return ShareState(
        answer.state_epoch,
        answer.start_offset,
        tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in answer.state_batches
        ),
    )
