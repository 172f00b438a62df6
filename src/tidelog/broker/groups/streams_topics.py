"""Topics that applications of Kafka Streams need for themselves, created on behalf of a member that has named them (KIP-1071).

Whoever asks is told at once that they are missing, and finds them with a later heartbeat. Until the controller has answered,
nobody else's heartbeat creates the same topic once more; and what it refuses is remembered for a while, so that every member is
told why and none of them asks again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol

from tidelog.broker.requests.caller import Caller
from tidelog.coordination.streams.topology import InternalTopic
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.pending import Pending
from tidelog.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse

logger = logging.getLogger(__name__)

# Nobody waits for the answer; it bounds how long a topic counts as being created. request.timeout.ms is Kafka's bound.
CREATE_TIMEOUT_MS = 30_000
# As in Kafka: beyond it the errors that end first are forgotten.
ERRORS_MAX = 1_000

# KIP-464.
CONTROLLERS_DEFAULT = -1


class Forwarding(Protocol):
    """The part of a node that topics are created through."""

    def forward(
        self, request: CreateTopicsRequest, answer: type[CreateTopicsResponse], caller: Caller
    ) -> Pending[CreateTopicsResponse]: ...


class _Failure(NamedTuple):
    until_ms: int
    reason: str


class StreamsTopics:
    """The internal topics that are being created by one node, and those that could not be."""

    def __init__(self, node: Forwarding, now_ms: Callable[[], int]) -> None:
        """`now_ms` never goes back."""
        self._node = node
        self._now_ms = now_ms
        self._under_way: set[TopicName] = set()
        self._failures: dict[TopicName, _Failure] = {}

    @property
    def under_way(self) -> frozenset[TopicName]:
        return frozenset(self._under_way)

    def create(self, topics: Iterable[InternalTopic], caller: Caller, *, remember_ms: int) -> None:
        """Have topics created that do not exist. Why one cannot be is remembered for this long."""
        wanted = [
            topic for topic in topics if topic.name not in self._under_way and self._failure_of(topic.name) is None
        ]
        if not wanted:
            return
        names = [topic.name for topic in wanted]
        self._under_way.update(names)
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in wanted], timeout_ms=CREATE_TIMEOUT_MS, validate_only=False
        )

        def created(answer: CreateTopicsResponse) -> None:
            self._under_way.difference_update(names)
            for topic in answer.topics:
                error = ErrorCode.of(topic.error_code)
                if error is not ErrorCode.NONE:
                    self._remember(TopicName(topic.name), topic.error_message or error.message, remember_ms)

        self._node.forward(request, CreateTopicsResponse, caller).then(created)

    def failures(self, names: Collection[TopicName]) -> dict[TopicName, str]:
        """Why some of these topics could not be created."""
        known = ((name, self._failure_of(name)) for name in names)
        return {name: failure.reason for name, failure in known if failure is not None}

    def _failure_of(self, name: TopicName) -> _Failure | None:
        failure = self._failures.get(name)
        return failure if failure is not None and failure.until_ms > self._now_ms() else None

    def _remember(self, name: TopicName, reason: str, remember_ms: int) -> None:
        logger.warning("an application needs the topic %s, which cannot be created: %s", name, reason)
        now_ms = self._now_ms()
        self._failures.pop(name, None)
        self._failures[name] = _Failure(now_ms + remember_ms, reason)
        for each in [name for name, failure in self._failures.items() if failure.until_ms <= now_ms]:
            del self._failures[each]
        while len(self._failures) > ERRORS_MAX:
            del self._failures[min(self._failures, key=lambda each: self._failures[each].until_ms)]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or CONTROLLERS_DEFAULT,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )
