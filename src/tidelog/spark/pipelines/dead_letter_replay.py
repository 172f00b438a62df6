"""Dead letters sent again: back to the topic and partition that they came from, as the records that they were. Clients only.

    report = replay_dead_letters(pipeline, ReplayChoice(reason="the price is not negative"), executes=True)

Letters and what a group has of them (`replay_progress`) count in one transaction, of a transactional id that only a replay of
this pipeline has. So each letter goes once: a replay that was killed leaves a transaction that its successor aborts before it
asks how far the group is, and of two at once the first is fenced. Letters that come meanwhile are for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast

import msgspec

from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.consumer.records import OffsetAndMetadata
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, ProducerFencedError, TransactionAbortableError
from tidelog.client.producer.options import ProducerArguments
from tidelog.client.producer.producer import Producer
from tidelog.spark.client_settings import client_arguments, common_settings
from tidelog.spark.pipelines.dead_letter import DeadLetter, letter_of
from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.errors import ReplayError
from tidelog.spark.pipelines.query_options import cluster_of, dead_letter_options, own_cluster
from tidelog.spark.pipelines.replay_progress import METADATA_CHARACTERS_MAX, Scan, progress_of
from tidelog.spark.pipelines.sinks import ToTopic
from tidelog.spark.sink.sink_options import parse_sink_options
from tidelog.spark.source.chosen_topics import Matching, Subscribed, chosen_topics

# A letter that comes back as often would come back for ever.
REPLAYS_MAX = 3
# Of one transaction: what is done again after a kill, and what readers of the topic wait for.
LETTERS_MAX = 500
_READ_TIMEOUT_MS = 60_000


class ReplayChoice(msgspec.Struct, frozen=True):
    """Which letters go."""

    reason: str | None = None
    """What theirs begins with."""
    since_ms: int | None = None
    """Those that have become letters since."""
    limit: int | None = None
    replays_max: int = REPLAYS_MAX

    def has(self, letter: DeadLetter) -> bool:
        """Without a look at the limit, and at how often it went before."""
        is_late = self.since_ms is None or letter.written_ms >= self.since_ms
        return is_late and (self.reason is None or letter.reason.startswith(self.reason))


class ReasonCount(msgspec.Struct):
    """Letters of one topic and reason that had not gone before."""

    topic: str
    """That they came from."""
    reason: str
    letters: int = 0
    chosen: int = 0
    """Those that go."""
    worn: int = 0
    """Those that stay because they went too often."""
    unread: int = 0
    """Those that stay because the pipeline does not read their topic any more."""


class ReplayReport(msgspec.Struct, frozen=True):
    pipeline: str
    group: str
    counts: tuple[ReasonCount, ...]
    """By topic and reason."""

    @property
    def letters(self) -> int:
        return sum(each.letters for each in self.counts)

    @property
    def chosen(self) -> int:
        return sum(each.chosen for each in self.counts)


def replay_group(pipeline: Pipeline) -> str:
    """What remembers which letters have gone."""
    return f"{pipeline.dead_letters_query}.replay"


def replay_dead_letters(
    pipeline: Pipeline,
    choice: ReplayChoice,
    *,
    executes: bool,
    on_sent: Callable[[int], None] = lambda _count: None,
) -> ReplayReport:
    """What goes, and with `executes` what has gone; `on_sent` is told of each transaction that counts. ReplayError, OptionError;
    ClientError, after which it may be asked again."""
    _check(pipeline)
    settings = parse_sink_options(dead_letter_options(pipeline), is_stream=True).client
    group = replay_group(pipeline)
    options = {
        **common_settings(settings),
        "group_id": group,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "max_poll_records": LETTERS_MAX,
    }
    with Consumer(**options) as consumer:
        if not executes:
            return _Replay(pipeline, choice, consumer).run()
        producer = Producer(**_producer_arguments(settings, group))
        try:
            # What a replay that was killed has left is aborted here, before anybody asks how far the group is.
            producer.init_transactions()
            return _Replay(pipeline, choice, consumer, producer, on_sent).run()
        except (ProducerFencedError, TransactionAbortableError) as error:
            # A leader that has seen the other's epoch only says that this one is too old.
            if _holds(producer):
                raise
            raise ReplayError(
                f"another replay of the dead letters of {pipeline.name} was started, and goes on in place of this one"
            ) from error
        finally:
            with suppress(ClientError):
                producer.close()


class _Replay:
    """One look at all letters that are there now."""

    def __init__(
        self,
        pipeline: Pipeline,
        choice: ReplayChoice,
        consumer: Consumer,
        producer: Producer | None = None,
        on_sent: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._pipeline = pipeline
        self._choice = choice
        self._consumer = consumer
        self._producer = producer
        self._on_sent = on_sent
        self._counts: dict[tuple[str, str], ReasonCount] = {}
        self._scans: dict[TopicPartition, Scan] = {}
        self._partitions: dict[str, int] = {}
        self._chosen = 0

    def run(self) -> ReplayReport:
        for rows in self._rows():
            going = [letter for row in rows if (letter := self._chosen_letter(row)) is not None]
            if going and self._producer is not None:
                self._send(self._producer, going)
            if self._producer is not None and self._chosen == self._choice.limit:
                break
        counts = sorted(self._counts.values(), key=lambda each: (each.topic, each.reason))
        return ReplayReport(self._pipeline.name, replay_group(self._pipeline), tuple(counts))

    def _rows(self) -> Iterator[Sequence[Row]]:
        """Letters from where the group is up to those that are there now, a transaction's worth at a time."""
        consumer = self._consumer
        topics = sorted({each.dead_letters for each in self._pipeline.sources if each.dead_letters is not None})
        places = [place for topic in topics for place in consumer.partitions_for(topic)]
        consumer.assign(places)
        committed, starts = consumer.committed(places), consumer.beginning_offsets(places)
        ends = consumer.end_offsets(places)
        for place in places:
            known = committed[place]
            before = progress_of(
                starts[place] if known is None else known.offset, "" if known is None else known.metadata
            )
            self._scans[place] = Scan(before)
            # What the topic has deleted since is gone, whoever wanted it.
            consumer.seek(place, max(before.offset, starts[place]))
        while unfinished := [each for each in places if consumer.position(each) < ends[each]]:
            before_poll = {each: consumer.position(each) for each in unfinished}
            rows = consumer.poll(_READ_TIMEOUT_MS)
            if not rows and all(consumer.position(each) == at for each, at in before_poll.items()):
                place = unfinished[0]
                raise ReplayError(f"{place} cannot be read beyond offset {before_poll[place]}, and has {ends[place]}")
            yield [row for row in rows if row.offset < ends[TopicPartition(row.topic, row.partition)]]

    def _chosen_letter(self, row: Row) -> DeadLetter | None:
        """The letter of a row if it goes; what becomes of it is noted."""
        scan = self._scans[TopicPartition(row.topic, row.partition)]
        letter = letter_of(row, self._pipeline.name)
        if letter is None:
            scan.passes(row.offset)
            return None
        if scan.has_gone(row.offset):
            scan.goes(row.offset)
            return None
        count = self._counts.setdefault((letter.topic, letter.reason), ReasonCount(letter.topic, letter.reason))
        count.letters += 1
        if not self._goes(letter, row.topic, count):
            scan.stays(row.offset)
            return None
        scan.goes(row.offset)
        count.chosen += 1
        self._chosen += 1
        return letter

    def _goes(self, letter: DeadLetter, lies_in: str, count: ReasonCount) -> bool:
        if not self._choice.has(letter) or self._chosen == self._choice.limit:
            return False
        if not any(each.dead_letters == lies_in and _reads(each, letter.topic) for each in self._pipeline.sources):
            count.unread += 1
            return False
        if letter.replays >= self._choice.replays_max:
            count.worn += 1
            return False
        return True

    def _send(self, producer: Producer, letters: Sequence[DeadLetter]) -> None:
        with producer.transaction():
            for each in letters:
                producer.send(
                    each.topic,
                    each.value,
                    each.key,
                    partition=self._partition(each),
                    timestamp_ms=each.timestamp_ms,
                    headers=each.headers,
                )
            producer.send_offsets_to_transaction(self._progress(), replay_group(self._pipeline))
        self._on_sent(len(letters))

    def _partition(self, letter: DeadLetter) -> int | None:
        """Where it was, so that it is in order with others of its key, whoever has chosen partitions. By its key where that is
        gone, since the topic was made anew with fewer."""
        if letter.topic not in self._partitions:
            self._partitions[letter.topic] = len(self._consumer.partitions_for(letter.topic))
        return letter.partition if letter.partition < self._partitions[letter.topic] else None

    def _progress(self) -> dict[TopicPartition, OffsetAndMetadata]:
        found = {}
        for place, scan in self._scans.items():
            progress = scan.progress
            metadata = progress.metadata()
            if len(metadata) > METADATA_CHARACTERS_MAX:
                raise ReplayError(
                    f"letters that go and letters that stay alternate so often in {place} that no group can remember it: "
                    f"with --limit {self._chosen // 2 or 1} fewer go, and without --reason and --since none stays"
                )
            found[place] = OffsetAndMetadata(progress.offset, metadata)
        return found


def _holds(producer: Producer) -> bool:
    try:
        return producer.holds_transactional_id()
    except ClientError:
        return False


def _producer_arguments(settings: Mapping[str, object], group: str) -> ProducerArguments:
    return cast("ProducerArguments", {**client_arguments(settings), "transactional_id": f"tidelog-replay.{group}"})


def _check(pipeline: Pipeline) -> None:
    """ReplayError for what cannot be done in one transaction."""
    sources = [each for each in pipeline.sources if each.dead_letters is not None]
    if not sources:
        raise ReplayError(f"{pipeline.name} has no dead letters: no source says dead_letters=")
    first = next((each for each in pipeline.sinks if isinstance(each, ToTopic)), None)
    letters_at = own_cluster(pipeline) if first is None else cluster_of(pipeline, first)
    for each in sources:
        came_from = each.bootstrap or own_cluster(pipeline)
        if came_from != letters_at:
            raise ReplayError(
                f"the dead letters of {pipeline.name} lie at {letters_at} and came from {came_from}: no transaction is on both, "
                "so that they could not be sent again exactly once"
            )


def _reads(source: FromTopic, topic: str) -> bool:
    given = {"subscribe": source.topic, "subscribepattern": source.pattern}
    match chosen_topics({name: text for name, text in given.items() if text is not None}):
        case Subscribed(topics):
            return topic in topics
        case Matching() as matching:
            return matching.has(topic, is_internal=False)
    return False
