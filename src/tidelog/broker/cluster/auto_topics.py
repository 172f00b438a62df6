"""Topics that come into being because a client asked for them (`auto.create.topics.enable`).

The client that asks first is told that there is no such topic, asks again a moment later and finds it, as with Kafka. Until
the controller has answered, nobody else's question creates the same topic once more.

Kafka's own topics are made by those who write them, with settings that only they know: not here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from tidelog.broker.requests.caller import Caller
from tidelog.controller.topic_names import name_problem
from tidelog.model import controller_config as keys
from tidelog.model.config import ConfigKey, ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

log = logging.getLogger(__name__)

# Nobody waits for the answer; it bounds how long a topic counts as being created. request.timeout.ms is Kafka's bound.
CREATE_TIMEOUT_MS = 30_000

# KIP-464.
CONTROLLERS_DEFAULT = -1

# The name of the metadata log belongs to no topic, although it is a legal one.
_NEVER_CREATED = INTERNAL_TOPICS | {TopicName("__cluster_metadata")}


class Forwarding(Protocol):
    """The part of a node that topics are created through."""

    @property
    def config(self) -> ConfigValues: ...

    def forward(
        self, request: CreateTopicsRequest, answer: type[CreateTopicsResponse], caller: Caller
    ) -> Pending[CreateTopicsResponse]: ...


class AutoTopics:
    """The topics that are being created on demand by one node."""

    def __init__(self, node: Forwarding) -> None:
        self._node = node
        self._under_way: set[TopicName] = set()

    @property
    def under_way(self) -> frozenset[TopicName]:
        return frozenset(self._under_way)

    def create(self, names: Iterable[TopicName], caller: Caller) -> dict[TopicName, ErrorCode]:
        """Have topics created that do not exist, on the caller's behalf; what to tell the caller of each of them now."""
        answers: dict[TopicName, ErrorCode] = {}
        wanted: list[TopicName] = []
        for name in names:
            if name_problem(name) is not None:
                answers[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
                continue
            answers[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if name not in self._under_way and name not in _NEVER_CREATED:
                wanted.append(name)
        if wanted:
            self._create(wanted, caller)
        return answers

    def _create(self, names: list[TopicName], caller: Caller) -> None:
        num_partitions = self._if_set(keys.NUM_PARTITIONS)
        replication_factor = self._if_set(keys.DEFAULT_REPLICATION_FACTOR)
        self._under_way.update(names)
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=num_partitions,
                replication_factor=replication_factor,
                assignments=[],
                configs=[],
            )
            for name in names
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=CREATE_TIMEOUT_MS, validate_only=False)

        def created(answer: CreateTopicsResponse) -> None:
            self._under_way.difference_update(names)
            for topic in answer.topics:
                # A topic that another node has created meanwhile is what was wanted.
                if topic.error_code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                    reason = topic.error_message or ErrorCode.of(topic.error_code).message
                    log.warning("topic %s was asked for and could not be created: %s", topic.name, reason)

        self._node.forward(request, CreateTopicsResponse, caller).then(created)

    def _if_set(self, key: ConfigKey[int]) -> int:
        """What this broker is configured with. Where it is not, the controller's own setting or default counts."""
        config = self._node.config
        return config[key] if key.name in config.given else CONTROLLERS_DEFAULT
