"""The topics that a broker keeps its coordinators' state in. They are created when they are first needed.

Kafka tells the first client that there is no coordinator yet, and the client asks again after a while. Here its answer waits
until the topic is there, which takes less time than asking again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from tidelog.broker.requests.caller import Caller
from tidelog.controller.image import ClusterImage
from tidelog.model import group_coordinator_config, share_coordinator_config, transaction_config
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tidelog.model.pending import Pending
from tidelog.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse

logger = logging.getLogger(__name__)

CREATE_TIMEOUT_MS = 30_000

_AS_WANTED = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})


class Creating(Protocol):
    """The part of a node that internal topics are created through."""

    @property
    def config(self) -> ConfigValues: ...

    @property
    def image(self) -> ClusterImage: ...

    def forward(
        self, request: CreateTopicsRequest, answer: type[CreateTopicsResponse], caller: Caller | None
    ) -> Pending[CreateTopicsResponse]: ...


class InternalTopics:
    """The internal topics that a node has asked for."""

    def __init__(self, node: Creating) -> None:
        self._node = node
        self._waiting: dict[TopicName, list[Pending[ErrorCode]]] = {}

    def ensure(self, name: TopicName) -> ErrorCode | Pending[ErrorCode]:
        """NONE where the topic is there, or once it is; COORDINATOR_NOT_AVAILABLE where it cannot be created now.

        The node itself asks for it: whoever needs a coordinator need not be allowed to create topics.
        """
        if name in self._node.image.topic_ids:
            return ErrorCode.NONE
        outcome: Pending[ErrorCode] = Pending()
        if name in self._waiting:
            self._waiting[name].append(outcome)
            return outcome
        self._waiting[name] = [outcome]
        self._node.forward(self._request(name), CreateTopicsResponse, None).then(
            lambda answer: self._done(name, answer)
        )
        return outcome

    def _request(self, name: TopicName) -> CreateTopicsRequest:
        topic = _TOPICS[name](self._node.config)
        return CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TIMEOUT_MS, validate_only=False)

    def _done(self, name: TopicName, answer: CreateTopicsResponse) -> None:
        error = ErrorCode.NONE
        for topic in answer.topics:
            if ErrorCode.of(topic.error_code) not in _AS_WANTED:
                reason = topic.error_message or ErrorCode.of(topic.error_code).message
                logger.warning("the topic %s is needed and cannot be created: %s", name, reason)
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for outcome in self._waiting.pop(name):
            outcome.complete(error)


def _consumer_offsets(config: ConfigValues) -> CreatableTopic:
    keys = group_coordinator_config
    return _topic(
        CONSUMER_OFFSETS,
        config[keys.OFFSETS_TOPIC_NUM_PARTITIONS],
        config[keys.OFFSETS_TOPIC_REPLICATION_FACTOR],
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config[keys.OFFSETS_TOPIC_SEGMENT_BYTES]),
        },
    )


def _transaction_state(config: ConfigValues) -> CreatableTopic:
    keys = transaction_config
    return _topic(
        TRANSACTION_STATE,
        config[keys.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
        config[keys.TRANSACTION_STATE_LOG_REPLICATION_FACTOR],
        {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(config[keys.TRANSACTION_STATE_LOG_MIN_ISR]),
            "segment.bytes": str(config[keys.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
        },
    )


def _share_group_state(config: ConfigValues) -> CreatableTopic:
    keys = share_coordinator_config
    return _topic(
        SHARE_GROUP_STATE,
        config[keys.STATE_TOPIC_NUM_PARTITIONS],
        config[keys.STATE_TOPIC_REPLICATION_FACTOR],
        {
            # The coordinator deletes what it does not need. Time alone must not.
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "compression.type": "producer",
            "min.insync.replicas": str(config[keys.STATE_TOPIC_MIN_ISR]),
            "segment.bytes": str(config[keys.STATE_TOPIC_SEGMENT_BYTES]),
        },
    )


def _topic(name: TopicName, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


_TOPICS: Mapping[TopicName, Callable[[ConfigValues], CreatableTopic]] = {
    CONSUMER_OFFSETS: _consumer_offsets,
    TRANSACTION_STATE: _transaction_state,
    SHARE_GROUP_STATE: _share_group_state,
}
