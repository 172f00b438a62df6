"""Topics: making, looking at and removing them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.client.admin.outcomes import error_of, no_topic, topic_error, value_of
from tidelog.client.admin.requests import ANYONE, CONTROLLER, Requests
from tidelog.client.errors import ClientError, ConfigError, RefusedError, UnsupportedError
from tidelog.client.given_names import checked_name, names_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from tidelog.model.internal_topics import is_bookkeeping
from tidelog.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from tidelog.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    Cursor,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)

BROKER_DEFAULT = -1
"""As a number of partitions or replicas: what the cluster is configured to give."""

# Partitions in one answer of DescribeTopicPartitions: Kafka's own limit for its clients.
PAGE_PARTITIONS = 2000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made. `replicas` places each partition on brokers, in the order of its partitions.

    >>> NewTopic("orders", partitions=6, configs={"retention.ms": "86400000"})
    """

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    replicas: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was made; None where an old cluster does not tell."""

    name: str
    id: str | None
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class TopicListing:
    name: str
    id: str | None
    is_internal: bool
    """One of Kafka's own, or of those in which Tidelog's programs keep what they do."""
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    index: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    eligible_leaders: tuple[int, ...] | None = None
    """Replicas that may lead although they are not in sync (KIP-966). None where the cluster does not tell."""
    last_known_eligible_leaders: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


class TopicCalls:
    """What an admin does with topics."""

    _requests: Requests

    async def list_topics(self, *, include_internal: bool = True) -> list[TopicListing]:
        """All topics, by name.

        >>> [topic.name for topic in await admin.list_topics(include_internal=False)]
        """
        listed = []
        for topic in await self._requests.topics():
            value_of(topic_error(topic.name or "", topic.error_code))
            described = _described(topic)
            if include_internal or not described.is_internal:
                listed.append(
                    TopicListing(
                        described.name,
                        described.id,
                        described.is_internal,
                        len(described.partitions),
                        described.replication_factor,
                    )
                )
        return sorted(listed, key=lambda topic: topic.name)

    async def describe_topics(
        self, names: Iterable[str] | None = None, *, page_partitions: int = PAGE_PARTITIONS
    ) -> dict[str, TopicDescription | ClientError]:
        """The partitions of these topics, or of all. Large ones come in pages of `page_partitions` (KIP-966)."""
        wanted = None if names is None else names_of(names, "topics")
        if wanted is not None and not wanted:
            return {}
        try:
            pages = await self._pages(wanted, page_partitions)
        except UnsupportedError:
            found = await self._requests.topics(wanted)
            pages = {
                each.name or "": topic_error(each.name or "", each.error_code) or _described(each) for each in found
            }
        return {name: pages.get(name) or no_topic(name) for name in (sorted(pages) if wanted is None else wanted)}

    async def describe_topic(self, name: str) -> TopicDescription:
        """The partitions of one topic. RefusedError where there is none of that name."""
        return value_of((await self.describe_topics([name]))[name])

    async def describe_topics_by_id(self, ids: Iterable[str]) -> dict[str, TopicDescription | ClientError]:
        """Topics by the ids that `list_topics` names them with."""
        wanted = {each: _id(each) for each in names_of(ids, "topics")}
        found = {each.topic_id: each for each in await self._requests.topics([], ids=wanted.values())}
        outcomes: dict[str, TopicDescription | ClientError] = {}
        for written, topic_id in wanted.items():
            topic = found.get(topic_id)
            code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else topic.error_code
            error = error_of(code, None, about=f"topic id {written}")
            outcomes[written] = error if error is not None or topic is None else _described(topic)  # type: ignore[assignment]
        return outcomes

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | ClientError]:
        """Make topics, or only find out what would come of it.

        >>> await admin.create_topics([NewTopic("orders", partitions=6), NewTopic("payments")])
        """
        wanted = [_creatable(each) for each in topics]
        if not wanted:
            return {}
        request = CreateTopicsRequest(
            topics=wanted, timeout_ms=self._requests.options.change_timeout_ms, validate_only=validate_only
        )
        answer = await self._requests.ask(
            CONTROLLER, request, CreateTopicsResponse, codes=lambda each: _codes(each.topics), is_repeatable=False
        )
        return {each.name: error_of(each.error_code, each.error_message) or _created(each) for each in answer.topics}

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Make one topic. RefusedError where the cluster does not, `code` TOPIC_ALREADY_EXISTS where it has it.

        >>> await admin.create_topic("orders", partitions=6, configs={"cleanup.policy": "compact"})
        """
        topic = NewTopic(name, partitions, replication_factor, configs or {})
        (outcome,) = (await self.create_topics([topic], validate_only=validate_only)).values()
        return value_of(outcome)

    async def delete_topics(self, names: Iterable[str]) -> dict[str, ClientError | None]:
        """Delete topics with all their records. The error of each, None where it is gone."""
        wanted = names_of(names, "topics")
        if not wanted:
            return {}

        def request(version: int) -> DeleteTopicsRequest:
            listed = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in wanted] if version >= 6 else []
            return DeleteTopicsRequest(
                topics=listed, topic_names=wanted, timeout_ms=self._requests.options.change_timeout_ms
            )

        answer = await self._requests.ask(
            CONTROLLER, request, DeleteTopicsResponse, codes=lambda each: _codes(each.responses), is_repeatable=False
        )
        found = {each.name or "": each for each in answer.responses}
        return {
            name: topic_error(name, found[name].error_code, found[name].error_message)
            if name in found
            else no_topic(name)
            for name in wanted
        }

    async def delete_topic(self, name: str) -> None:
        """Delete one topic. RefusedError where there is none of that name."""
        value_of((await self.delete_topics([name]))[name])

    async def delete_topics_by_id(self, ids: Iterable[str]) -> dict[str, ClientError | None]:
        """Delete topics by id: never another one that was made under the same name since."""
        wanted = {each: _id(each) for each in names_of(ids, "topics")}
        if not wanted:
            return {}

        def request(version: int) -> DeleteTopicsRequest:
            if version < 6:
                raise UnsupportedError("the cluster is too old to delete topics by their ids")
            listed = [DeleteTopicState(name=None, topic_id=each) for each in wanted.values()]
            return DeleteTopicsRequest(topics=listed, timeout_ms=self._requests.options.change_timeout_ms)

        answer = await self._requests.ask(
            CONTROLLER, request, DeleteTopicsResponse, codes=lambda each: _codes(each.responses), is_repeatable=False
        )
        found = {each.topic_id: each for each in answer.responses}
        return {
            written: error_of(found[each].error_code, found[each].error_message, about=f"topic id {written}")
            for written, each in wanted.items()
            if each in found
        }

    async def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        replicas: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> dict[str, ClientError | None]:
        """Give topics more partitions, up to these totals. `replicas` places the new ones on brokers.

        >>> await admin.create_partitions({"orders": 12})
        """
        if not totals:
            return {}
        placed = replicas or {}
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name,
                    count=total,
                    assignments=[CreatePartitionsAssignment(broker_ids=list(each)) for each in placed[name]]
                    if name in placed
                    else None,
                )
                for name, total in totals.items()
            ],
            timeout_ms=self._requests.options.change_timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._requests.ask(
            CONTROLLER, request, CreatePartitionsResponse, codes=lambda each: _codes(each.results), is_repeatable=False
        )
        return {each.name: topic_error(each.name, each.error_code, each.error_message) for each in answer.results}

    async def _pages(
        self, names: Sequence[str] | None, page_partitions: int
    ) -> dict[str, TopicDescription | RefusedError]:
        found: dict[str, TopicDescription | RefusedError] = {}
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in sorted(names or ())],
                response_partition_limit=page_partitions,
                cursor=cursor,
            )
            answer = await self._requests.ask(ANYONE, request, DescribeTopicPartitionsResponse)
            for topic in answer.topics:
                name = topic.name or ""
                before = found.get(name)
                error = topic_error(name, topic.error_code)
                if error is not None:
                    found[name] = error
                    continue
                known = before.partitions if isinstance(before, TopicDescription) else ()
                partitions = (*known, *map(_partition, topic.partitions))
                found[name] = TopicDescription(
                    name, _id_text(topic.topic_id), topic.is_internal or is_bookkeeping(name), partitions
                )
            after = answer.next_cursor
            if after is None:
                return found
            if cursor is not None and (after.topic_name, after.partition_index) <= (
                cursor.topic_name,
                cursor.partition_index,
            ):
                raise ClientError("the cluster sends the same page of topics again and again")
            cursor = after


class _Coded(Protocol):
    error_code: int


def _codes(results: Iterable[_Coded]) -> list[int]:
    return [each.error_code for each in results]


def _check(topic: NewTopic) -> None:
    """TypeError for what cannot be sent."""
    checked_name(topic.name, "topics")
    for what, count in (("partitions", topic.partitions), ("replication_factor", topic.replication_factor)):
        if not isinstance(count, int):
            raise TypeError(f"{what} of topic {topic.name} is a number, not {count!r}")
    if not isinstance(topic.configs, Mapping):
        raise TypeError(f'configs of topic {topic.name} is a dictionary of texts, as in {{"retention.ms": "1000"}}')
    for key, value in topic.configs.items():
        if not isinstance(value, str):
            raise TypeError(f"{key} of topic {topic.name} is given as text, as in {str(value)!r}, not as {value!r}")


def _creatable(topic: NewTopic) -> CreatableTopic:
    _check(topic)
    if topic.replicas and (topic.partitions, topic.replication_factor) != (BROKER_DEFAULT, BROKER_DEFAULT):
        raise ConfigError(
            f"topic {topic.name} has replicas placed, which say how many partitions and replicas there are"
        )
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(topic.replicas)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )


def _created(result: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        result.name,
        _id_text(result.topic_id),
        result.num_partitions if result.num_partitions >= 0 else None,
        result.replication_factor if result.replication_factor >= 0 else None,
        {each.name: each.value for each in result.configs or ()},
    )


def _id(written: str) -> bytes:
    try:
        return uuid_from_text(written)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _id_text(topic_id: bytes) -> str | None:
    return uuid_to_text(topic_id) if topic_id and topic_id != ZERO_UUID else None


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(
        topic.name or "",
        _id_text(topic.topic_id),
        topic.is_internal or is_bookkeeping(topic.name or ""),
        tuple(map(_partition, partitions)),
    )


def _partition(each: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    eligible = last_known = None
    if isinstance(each, DescribeTopicPartitionsResponsePartition):
        eligible, last_known = each.eligible_leader_replicas, each.last_known_elr
    return PartitionDescription(
        each.partition_index,
        each.leader_id if each.leader_id >= 0 else None,
        each.leader_epoch,
        tuple(each.replica_nodes),
        tuple(each.isr_nodes),
        tuple(each.offline_replicas),
        None if eligible is None else tuple(eligible),
        None if last_known is None else tuple(last_known),
    )
