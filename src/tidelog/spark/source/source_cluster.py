"""What the driver asks a cluster: which partitions there are, which offsets they have; and what it tells it: a query's progress.

Every question is asked again where it fails for a reason that may pass, as often and with such pauses as `fetchOffset.*` say.
The calls wait; what goes on behind them runs on the client's background loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from tidelog.client.admin.options import AdminOptions
from tidelog.client.admin.records import OffsetSpec, RecordCalls
from tidelog.client.admin.requests import Requests
from tidelog.client.admin.topics import TopicCalls
from tidelog.client.background import Background
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, ConfigError, NotReachedError, RefusedError
from tidelog.client.kafka_properties import in_kafka_names
from tidelog.client.options import parse_options
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.spark.client_settings import PREFIX, client_arguments
from tidelog.spark.errors import OptionError, UnreadableError
from tidelog.spark.source.chosen_topics import Assigned, ChosenPartitions, Matching, Subscribed
from tidelog.spark.source.offset_bounds import OffsetBound, look_up
from tidelog.spark.source.partition_offsets import EARLIEST, LATEST, PartitionOffsets
from tidelog.spark.source.source_options import SourceOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

# A commit is for onlookers: a query does not wait for it any longer than this.
_COMMIT_WAIT_S = 1.0
_ADMIN_OPTIONS = {each.name for each in dataclasses.fields(AdminOptions)}


class _Questions(TopicCalls, RecordCalls):
    """The few admin calls that a driver makes, without an import of the whole client: each query starts a process."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests


class SourceCluster:
    """The cluster that a query reads, as its driver sees it. Connections open with the first question."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        known = {name: each for name, each in options.client.items() if name in _ADMIN_OPTIONS}
        client = parse_options(AdminOptions, client_arguments(known))
        self._background: Background | None = Background.acquire()
        background = self._background

        async def made() -> Requests:
            return Requests(ClientSeams.of(background.loop), client)

        self._servers = client.bootstrap_servers
        self._are_names_known = False
        try:
            self._requests = background.call(made())
        except ConfigError as error:
            background.release()
            raise OptionError(f"an option that begins with {PREFIX} is wrong: {in_kafka_names(str(error))}") from error
        self._admin = _Questions(self._requests)
        self._commit: asyncio.Task[None] | None = None

    def close(self) -> None:
        background, self._background = self._background, None
        if background is not None:
            background.call(self._closed())
            background.release()

    async def _closed(self) -> None:
        self._requests.close()

    def chosen(self, *, missing_ok: bool = False) -> ChosenPartitions:
        """The partitions of the chosen topics, as they are now. UnreadableError for a topic that does not exist, unless that
        is expected."""
        match self._options.topics:
            case Assigned(partitions):
                # Those that are not there are for others to miss: what was assigned is assigned.
                found = self._partitions_of({each.topic for each in partitions}, missing_ok=True)
                return ChosenPartitions(list(partitions), found.topic_ids)
            case Subscribed(topics):
                return self._partitions_of(topics, missing_ok=missing_ok)
            case Matching() as matching:
                listed = self._ask(self._admin.list_topics)
                return self._partitions_of(
                    [each.name for each in listed if matching.has(each.name, is_internal=each.is_internal)],
                    missing_ok=True,
                )
            case None:
                raise OptionError("no topics are chosen")

    def _partitions_of(self, topics: Iterable[str], *, missing_ok: bool) -> ChosenPartitions:
        described = self._ask(lambda: self._admin.describe_topics(topics))
        found: list[TopicPartition] = []
        ids = {}
        for name, topic in described.items():
            if isinstance(topic, ClientError):
                if missing_ok and _is_missing(topic):
                    continue
                raise _error(f"topic {name} cannot be read", topic)
            found += [TopicPartition(name, each.index) for each in topic.partitions]
            if topic.id is not None:
                ids[name] = topic.id
        return ChosenPartitions(sorted(found), ids)

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of a time, or of either end for LATEST and EARLIEST; None where no record is as young as a time."""
        return {
            partition: each for partition, each in self._listed(wanted).items() if not isinstance(each, ClientError)
        }

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Where partitions begin; None for those that are not there any more."""
        listed = self._listed(dict.fromkeys(partitions, EARLIEST), missing_ok=True)
        return {partition: None if isinstance(each, ClientError) else each for partition, each in listed.items()}

    def latest(
        self, partitions: Iterable[TopicPartition], start: PartitionOffsets | None = None
    ) -> dict[TopicPartition, int]:
        """Where partitions end; those that have just gone are left out. An end before `start` is asked for once more, since a
        leader that has just been elected may not know yet how far the log goes."""
        wanted = dict.fromkeys(partitions, LATEST)
        found: dict[TopicPartition, int] = {}
        for attempt in range(self._options.fetch_offset_retries):
            if attempt:
                self._pause()
            listed = self._listed(wanted, missing_ok=True)
            found = {partition: each for partition, each in listed.items() if isinstance(each, int)}
            if all(offset >= (start or {}).get(partition, 0) for partition, offset in found.items()):
                break
        return found

    def resolve(
        self, bound: OffsetBound, partitions: Iterable[TopicPartition], *, is_start: bool
    ) -> dict[TopicPartition, int]:
        """The offsets that a bound stands for. OptionError where it names other partitions, or a time that is too late."""
        return look_up(bound, list(partitions), self.offsets, is_start=is_start, on_no_match=self._options.on_no_match)

    def _listed(
        self, wanted: Mapping[TopicPartition, int], *, missing_ok: bool = False
    ) -> dict[TopicPartition, int | ClientError | None]:
        if not wanted:
            return {}
        reads_committed = self._options.reads_committed
        asked: dict[tuple[str, int], OffsetSpec | int] = {
            (each.topic, each.partition): spec for each, spec in wanted.items()
        }

        async def ask() -> dict[TopicPartition, int | ClientError | None]:
            answers = await self._admin.list_offsets(asked, read_committed=reads_committed)
            found: dict[TopicPartition, int | ClientError | None] = {}
            for partition, answer in answers.items():
                if isinstance(answer, ClientError):
                    if not (missing_ok and _is_missing(answer)):
                        raise answer
                    found[partition] = answer
                else:
                    found[partition] = answer.offset
            return found

        return self._ask(ask)

    # Progress.

    def commit(self, offsets: PartitionOffsets) -> None:
        """Tell the group `kafka.group.id` how far the query is. A failure is only a warning: Spark's checkpoint decides."""
        if self._options.group_id is not None and offsets:
            self._call(self._committed(self._options.group_id, dict(offsets)))

    async def _committed(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        if self._commit is not None and not self._commit.done():
            # The cluster is slow. What is under way ends first; the next trigger tells more.
            return
        self._commit = asyncio.get_running_loop().create_task(self._tell(group_id, offsets))
        await asyncio.wait([self._commit], timeout=_COMMIT_WAIT_S)

    async def _tell(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        # Only some queries have a group.
        from tidelog.spark.source.group_progress import GroupProgress  # noqa: PLC0415

        try:
            outcomes = await GroupProgress(self._requests).alter_group_offsets(
                group_id, {(each.topic, each.partition): offset for each, offset in offsets.items()}
            )
        except ClientError as error:
            log.warning("the progress of the query was not committed to group %s: %s", group_id, error)
            return
        for partition, outcome in outcomes.items():
            if outcome is not None:
                log.warning("the progress of %s was not committed to group %s: %s", partition, group_id, outcome)

    # Asking.

    def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        attempt = 1
        while True:
            try:
                self._check_names()
                return self._call(_awaited(question))
            except NotReachedError as error:
                # A call that ran out of time has asked again and again already.
                raise _error("the cluster does not say what there is to read", self._reason(error)) from error
            except ClientError as error:
                if not error.retriable or attempt >= self._options.fetch_offset_retries:
                    raise _error("the cluster does not say what there is to read", error) from error
                log.warning("offsets were not found, which is tried again: %s", error)
                attempt += 1
                self._pause()

    def _check_names(self) -> None:
        """UnreadableError where none of the bootstrap servers is known by its name: that does not change while one waits."""
        if self._are_names_known:
            return

        async def resolved(host: str, port: int) -> bool:
            try:
                await asyncio.get_running_loop().getaddrinfo(host, port)
            except OSError:
                return False
            return True

        self._are_names_known = any(self._call(resolved(each.host, each.port)) for each in self._servers)
        if not self._are_names_known:
            names = ", ".join(each.host for each in self._servers)
            raise UnreadableError(f"kafka.bootstrap.servers cannot be found: no host is known as {names}")

    def _reason(self, error: NotReachedError) -> ClientError:
        """What is wrong with each of the bootstrap servers, if that is why nobody answers."""
        try:
            self._call(self._requests.connect())
        except NotReachedError as found:
            return found
        return error

    def _pause(self) -> None:
        self.sleep(self._options.fetch_offset_retry_interval_ms)

    def sleep(self, duration_ms: float) -> None:
        self._call(asyncio.sleep(duration_ms / 1000))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._background is not None, "the cluster is closed"
        return self._background.call(work)


async def _awaited(question: Callable[[], Awaitable[T]]) -> T:
    return await question()


def _is_missing(error: ClientError) -> bool:
    return isinstance(error, RefusedError) and error.code in {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }


def _error(what: str, error: ClientError) -> UnreadableError:
    return UnreadableError(f"{what}: {error}")
