"""One partition on two nodes that get the same: one of them in runs, the other one batch at a time.

ways = BothWays(random, quick_node, ordinary_node, "orders")
ways.write()                       # batches of any kind of producer; the quick one takes them as a run
ways.end_transaction(1)            # of a producer
ways.replicate()                   # followers get further, and the high watermark moves
ways.check()                       # both know the same of their log and of its producers

What comes next is drawn from what the log knows, so a transaction is mostly gone on with, and a sequence continued.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.support.appends import checked, coordinated, produced
from tests.support.data_node import OTHER, THIRD, DataNode
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, ProducerId, TopicName
from tidelog.replication.following import take_fetched, truncate_diverged
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Following, Leading
from tidelog.storage.append import AppendInfo, AppendRefused, AppendRule
from tidelog.storage.fetched import Fetched
from tidelog.storage.leader_epochs import EpochEndOffset
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer import NO_TRANSACTION, BatchMetadata, ProducerState
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import read_header
from tidelog.wire.records import Record, build_batch

TIME_MS = 1000

# Some write in transactions, and one never does.
TRANSACTIONAL = (1, 2, 3)
IDEMPOTENT = 7
NO_PRODUCER = -1
# Those whose requests are mostly taken the quick way, and those whose requests have something that is not for it.
QUICK = (1, 1, IDEMPOTENT, NO_PRODUCER)
ORDINARY = (2, 2, 3, 3)

Outcome = int | AppendInfo | AppendRefused


def told(outcome: Outcome) -> object:
    """What a client hears of an append."""
    if isinstance(outcome, AppendRefused):
        return outcome.error
    return outcome if isinstance(outcome, int) else int(outcome.first_offset)


def a_batch(
    random: Random,
    state: ProducerState | None,
    producer_id: int,
    sizes: Sequence[int] = (0, 10, 300),
    *,
    is_orderly: bool = False,
    time_ms: int = TIME_MS,
) -> bytes:
    """A batch that mostly goes on where its producer is, and may repeat, skip, or begin an epoch unless it is orderly."""
    count = random.choice([1, 1, 1, 2, 5])
    epoch, sequence = (0, 0) if state is None else (state.epoch, state.last_sequence + 1)
    chance = 1.0 if is_orderly else random.random()
    if producer_id == NO_PRODUCER:
        epoch = sequence = -1
    elif state is not None and chance < 0.06 and state.batches:
        # Any of those that are remembered, not only the last.
        again = random.choice(state.batches)
        sequence, count = again.first_sequence, again.offset_delta + 1
    elif chance < 0.09:
        sequence += random.choice([1, 5])
    elif chance < 0.12:
        epoch, sequence = epoch + random.choice([1, 1, -1]), 0
    return build_batch(
        [Record(n, time_ms + n, None, b"v" * random.choice(sizes), ()) for n in range(count)],
        producer_id=producer_id,
        producer_epoch=max(epoch, -1 if producer_id == NO_PRODUCER else 0),
        # After the last number comes 0.
        base_sequence=sequence if producer_id == NO_PRODUCER else sequence & 0x7FFFFFFF,
        is_transactional=producer_id in TRANSACTIONAL and (is_orderly or random.random() < 0.97),
    )


def foreseen(state: ProducerState | None, batch: bytes) -> ProducerState:
    """What will be known of a producer once a batch is appended, as far as `a_batch` asks: for the next one of the same read."""
    header = read_header(batch)
    after = ProducerState(ProducerId(header.producer_id), header.producer_epoch)
    if state is not None and state.epoch > header.producer_epoch:
        after.epoch = state.epoch
    if state is not None and state.epoch == after.epoch:
        after.batches = list(state.batches)
    if after.epoch == header.producer_epoch and header.base_sequence == (after.last_sequence + 1) & 0x7FFFFFFF:
        after.batches.append(
            BatchMetadata(
                header.last_sequence,
                after.last_offset + 1 + header.last_offset_delta,
                header.last_offset_delta,
                header.max_timestamp,
            )
        )
    return after


def a_marker(
    log: PartitionLog,
    producer_id: int,
    *,
    commit: bool,
    base_offset: int = 0,
    leader_epoch: int = -1,
    time_ms: int = TIME_MS,
) -> bytes:
    state = log.producers.producer(producer_id)
    return build_end_txn_marker(
        ControlType.COMMIT if commit else ControlType.ABORT,
        producer_id=producer_id,
        producer_epoch=0 if state is None else state.epoch,
        coordinator_epoch=0,
        timestamp=time_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def records_of(fetched: object) -> object:
    """An answer to a read with the bytes that it stands for."""
    if not isinstance(fetched, Fetched):
        return fetched
    return (
        b"".join(region.read() for region in fetched.regions),
        fetched.high_watermark,
        fetched.last_stable_offset,
        fetched.aborted_transactions,
    )


class BothWays:
    """One partition on two nodes, and what happens to it."""

    def __init__(self, random: Random, quick: DataNode, ordinary: DataNode, topic: str, index: int = 0) -> None:
        self._random = random
        self._nodes = (quick, ordinary)
        self._place = (topic, index)

    @property
    def is_there(self) -> bool:
        return TopicName(self._place[0]) in self._nodes[0].image.topic_ids

    @property
    def partitions(self) -> tuple[Partition, Partition]:
        quick, ordinary = self._nodes
        return quick.partition(*self._place), ordinary.partition(*self._place)

    @property
    def log(self) -> PartitionLog:
        log = self.partitions[1].log
        assert log is not None
        return log

    def check(self) -> None:
        """Both know the same."""
        quick, ordinary = (self._known(partition) for partition in self.partitions)
        assert quick == ordinary

    @staticmethod
    def _known(partition: Partition) -> object:
        log = partition.log
        if log is None:
            return None
        producers = {
            each.producer_id: (*each.to_snapshot(), tuple(known.last_offset for known in each.batches))
            for each in log.producers.each_producer()
        }
        offsets = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset)
        return offsets, producers, dict(log.producers.ongoing), dict(log.producers.unreplicated)

    # --- on the leader -----------------------------------------------------------------------------------------------------

    def write(self, producer_id: int | None = None, sizes: Sequence[int] = (0, 10, 300)) -> None:
        """Somebody writes, one batch or several; the quick ways are taken by one node alone."""
        random = self._random
        first = random.choice((*QUICK, *ORDINARY)) if producer_id is None else producer_id
        if random.random() < 0.05:
            self._append_built(a_batch(random, None, NO_PRODUCER, sizes))
        elif (first in QUICK) != (random.random() < 0.1):
            others = random.choices((*QUICK, *ORDINARY), k=random.choice([0, 0, 0, 0, 0, 1, 2]))
            known: dict[int, ProducerState] = {}
            batches = []
            for each in (first, *others):
                state = known.get(each, self.log.producers.producer(each))
                batches.append(a_batch(random, state, each, sizes))
                known[each] = foreseen(state, batches[-1])
            self._append_run(batches)
        else:
            self._append_plainly(self._batch(first, sizes))

    def _batch(self, producer_id: int, sizes: Sequence[int]) -> bytes:
        return a_batch(self._random, self.log.producers.producer(producer_id), producer_id, sizes)

    def _append_run(self, batches: Sequence[bytes]) -> None:
        quick, ordinary = self.partitions
        guards = [self._guard(batch) for batch in batches]
        run = [checked(*each) for each in zip(batches, guards, strict=True)]
        found = quick.append(run, AppendRule.LEADER, 1)
        # Whoever waits sees the run as one.
        wakeups = self._nodes[1].partitions.wakeups
        wakeups.hold()
        expected = [
            ordinary.append([checked(batch, guard)], AppendRule.LEADER, 1)[0]
            for batch, guard in zip(batches, guards, strict=True)
        ]
        wakeups.release()
        assert [told(each) for each in found] == [told(each) for each in expected]

    def _guard(self, batch: bytes) -> int | None:
        """What the coordinator's leave brings; now and then nobody asked for it."""
        header = read_header(batch)
        if not header.is_transactional or self._random.random() < 0.7:
            return None
        raises_epochs = self._random.random() < 0.5
        quick, ordinary = (
            each.begin_verification(
                header.producer_id, header.producer_epoch, header.base_sequence, raises_epochs=raises_epochs
            )
            for each in self.partitions
        )
        assert quick == ordinary
        return 99 if isinstance(quick, ErrorCode) or self._random.random() < 0.05 else quick

    def _append_plainly(self, batch: bytes) -> None:
        """Both by itself."""
        outcomes = [told(produced(each, bytearray(batch), 1)) for each in self.partitions]
        assert outcomes[0] == outcomes[1]

    def _append_built(self, batch: bytes) -> None:
        outcomes = [told(coordinated(each, batch)) for each in self.partitions]
        assert outcomes[0] == outcomes[1]

    def end_transaction(self, producer_id: int) -> None:
        """The marker that commits or aborts what a producer has open; it may have nothing."""
        random, log = self._random, self.log
        commit = random.random() < 0.3
        marker = a_marker(log, producer_id, commit=commit)
        outcomes = [told(coordinated(each, marker)) for each in self.partitions]
        assert outcomes[0] == outcomes[1]

    def interleaved(self) -> list[tuple[str, int]]:
        """What several producers do one after the other, in any order: transactions within and across each other. Steps for
        `step`, with followers that fetch in between."""
        random = self._random
        scripts = [
            # Those that stay open hold the readers of committed records back.
            [("write", producer_id)] * random.choice([1, 1, 1, 2]) + [("end", producer_id)] * random.choice([0, 1])
            for producer_id in (1, *random.choice([(2,), (3,), (2, 3)]))
        ]
        scripts += [[("write", random.choice((IDEMPOTENT, NO_PRODUCER)))]] * random.choice([0, 0, 0, 1])
        scripts += [[("replicate", -1)]] * random.choice([0, 0, 1])
        # Whoever waits has all there is: what comes first is what he is told of, so it mostly is what may be kept for him.
        steps = [scripts[0].pop(0)] if random.random() < 0.6 else []
        while scripts := [each for each in scripts if each]:
            steps.append(random.choice(scripts).pop(0))
        return steps

    def step(self, kind: str, producer_id: int, sizes: Sequence[int] = (0, 10, 300)) -> None:
        """One of `interleaved`. Nothing where this node does not lead."""
        if not self.partitions[0].is_leading:
            return
        if kind == "write":
            self.write(producer_id, sizes)
        elif kind == "end":
            self.end_transaction(producer_id)
        else:
            self.replicate()

    @property
    def _open(self) -> list[int]:
        """Who has a transaction open."""
        states = self.log.producers.each_producer()
        return [each.producer_id for each in states if each.transaction_first_offset != NO_TRANSACTION]

    def settle(self) -> None:
        """All is as usual: this node leads, all are in sync and have everything, and no transaction is open."""
        role = self.partitions[0].role
        if not isinstance(role, Leading) or len(role.isr) < 3:
            self.change(leader=1, isr=[1, 2, 3])
        for producer_id in self._open:
            self.end_transaction(producer_id)
        end = self.log.log_end_offset
        for node in (OTHER, THIRD):
            for each in self.partitions:
                each.read_as_follower(node, end, 1, broker_epoch=1, log_start_offset=0)

    def replicate(self, nodes: Sequence[NodeId] = (OTHER, THIRD)) -> None:
        """Followers fetch, from the log's end or from somewhere before it."""
        random, log = self._random, self.log
        for node in nodes:
            offset = random.choice([log.log_end_offset] * 4 + [random.randint(log.high_watermark, log.log_end_offset)])
            bytes_max = random.choice([1, 200, 1 << 20])
            quick, ordinary = (
                records_of(each.read_as_follower(node, offset, bytes_max, broker_epoch=1, log_start_offset=0))
                for each in self.partitions
            )
            assert quick == ordinary

    # --- the role ----------------------------------------------------------------------------------------------------------

    def change(self, **changes: Any) -> None:
        """What the controller says of the partition."""
        for node in self._nodes:
            node.change(*self._place, **changes)

    def follow(self) -> None:
        """Another one leads for a while: it cuts off what it does not have, and sends what it has written."""
        random = self._random
        self.change(leader=int(OTHER))
        epoch = self.partitions[0].leader_epoch
        if random.random() < 0.5:
            log = self.log
            end = Offset(random.randint(log.high_watermark, log.log_end_offset))
            cut = EpochEndOffset(LeaderEpoch(epoch - 1), end)
            for each in self.partitions:
                assert isinstance(each.role, Following)
                truncate_diverged(each, cut, epoch)
        for _ in range(random.randrange(4)):
            self._fetch(epoch)
        if random.random() < 0.9:
            self.change(leader=1)
            assert isinstance(self.partitions[0].role, Leading)

    def _fetch(self, epoch: int) -> None:
        random, log = self._random, self.log
        end = log.log_end_offset
        if random.random() < 0.5:
            # A leader has refused what is out of order.
            producer_id = random.choice((*TRANSACTIONAL, NO_PRODUCER))
            state = log.producers.producer(producer_id)
            sent = bytearray(a_batch(random, state, producer_id, (0, 10), is_orderly=True))
            sent[:8] = end.to_bytes(8, "big")
            sent[12:16] = epoch.to_bytes(4, "big")
            next_offset = read_header(sent).next_offset
        else:
            producer_id, commit = random.choice(TRANSACTIONAL), random.random() < 0.4
            sent = bytearray(a_marker(log, producer_id, commit=commit, base_offset=end, leader_epoch=epoch))
            next_offset = end + 1
        committed = random.randint(log.high_watermark, next_offset)
        errors = [take_fetched(each, bytes(sent), epoch, committed, log.log_start_offset) for each in self.partitions]
        assert errors[0] == errors[1]
