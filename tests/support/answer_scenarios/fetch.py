"""Fetch without a session: every version, limits, long polls, followers, committed reads, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tests.support.answer_scenarios.fetching import fetch_of, fetched
from tests.support.answer_scenarios.produce import produced
from tests.support.answer_scenarios.recorder import Recorder, a_batch, sized, versions_of
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from tidelog.wire.messages.produce import ProduceResponse
from tidelog.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

SETTINGS: Mapping[str, str] = {
    "broker.rack": "near",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Transactions are written here without a coordinator, as producers did before there was one to ask.
    "transaction.partition.verification.enable": "false",
}
ORDERS, CUT, EMPTY, COMMITTED, SPREAD, ELSEWHERE, POLLED = (
    "orders",
    "cut",
    "empty",
    "committed",
    "spread",
    "elsewhere",
    "polled",
)
LATEST = 18
PRODUCE = 9


def write(talk: Recorder, name: str, index: int, records: bytes, *, transactional_id: str | None = None) -> None:
    request = produced(talk, PRODUCE, {name: {index: records}}, acks=1, transactional_id=transactional_id)
    talk.ask(f"write to {name}-{index}", request, PRODUCE, ProduceResponse, on="writer")


def mark(talk: Recorder, producer_id: int, *, commits: bool) -> None:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=commits,
        topics=[WritableTxnMarkerTopic(name=COMMITTED, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    talk.ask("end a transaction", WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse, on="writer")


def transactional(talk: Recorder, producer_id: int, sequence: int, *values: str) -> None:
    batch = a_batch(*values, producer_id=producer_id, epoch=0, sequence=sequence, is_transactional=True)
    write(talk, COMMITTED, 0, batch, transactional_id=f"transaction-{producer_id}")


def tell(talk: Recorder) -> None:
    epochs = {broker: talk.register(broker, "far") for broker in (2, 3)}
    talk.create(ORDERS, partitions=3, replicas=[1])
    for name in (CUT, EMPTY, COMMITTED):
        talk.create(name, replicas=[1])
    talk.create(POLLED, partitions=2, replicas=[1])
    talk.create(SPREAD, partitions=2, replicas=[1, 2, 3])
    talk.create(ELSEWHERE, replicas=[2, 3])
    for number in range(4):
        write(talk, ORDERS, 0, a_batch(f"value {number}", f"other {number}"))
    write(talk, ORDERS, 1, a_batch("a" * 300))
    write(talk, ORDERS, 1, a_batch("b" * 300))
    for number in range(3):
        write(talk, CUT, 0, a_batch(f"{number}"))
    deletion = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=CUT, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])],
        timeout_ms=1_000,
    )
    talk.ask("move the start of a log", deletion, 2, DeleteRecordsResponse)
    write_transactions(talk)
    for version in versions_of(FetchRequest):
        every_version(talk, version)
    limits(talk)
    refused(talk)
    long_polls(talk)
    followers(talk, epochs)


def write_transactions(talk: Recorder) -> None:
    """Two that are aborted, within and across each other, one that is committed, and one that stays open."""
    write(talk, COMMITTED, 0, a_batch("plain"))
    transactional(talk, 1, 0, "first of 1")
    transactional(talk, 2, 0, "first of 2")
    transactional(talk, 1, 1, "second of 1")
    mark(talk, 1, commits=False)
    transactional(talk, 3, 0, "first of 3", "second of 3")
    mark(talk, 3, commits=True)
    mark(talk, 2, commits=False)
    write(talk, COMMITTED, 0, a_batch("plain again"))
    transactional(talk, 4, 0, "stays open")
    write(talk, COMMITTED, 0, a_batch("behind it"))


def every_version(talk: Recorder, version: int) -> None:
    def ask(label: str, topics: Mapping[str, Mapping[int, int]], **options: int | str) -> None:
        fetched(talk, f"v{version} {label}", fetch_of(talk, version, topics, **options), version)  # type: ignore[arg-type]

    ask("from the start", {ORDERS: {0: 0}})
    ask("from within a batch", {ORDERS: {0: 3}})
    ask("at the end", {ORDERS: {0: 8}})
    ask("several partitions and topics", {ORDERS: {0: 6, 1: 0, 2: 0}, CUT: {0: 2}, EMPTY: {0: 0}})
    ask("beyond the end", {ORDERS: {0: 9}})
    ask("before the start", {CUT: {0: 1}})
    ask("a negative offset", {ORDERS: {0: -1}})
    ask("an unknown topic", {"nobody": {0: 0}})
    ask("an unknown partition", {ORDERS: {7: 0}})
    ask("a partition that others have", {ELSEWHERE: {0: 0}})
    ask("good and bad ones", {ORDERS: {0: 7, 7: 0}, "nobody": {0: 0, 1: 0}, EMPTY: {0: 5}})
    ask("no topics", {})
    ask("no partitions", {ORDERS: {}})
    ask("one byte of everything", {ORDERS: {0: 0, 1: 0}, CUT: {0: 2}}, max_bytes=1)
    ask("one byte of a partition", {ORDERS: {0: 0, 1: 0}}, partition_max_bytes=1)
    ask("no byte", {ORDERS: {0: 0}}, max_bytes=0, partition_max_bytes=0)
    ask("uncommitted", {COMMITTED: {0: 0}})
    ask("committed", {COMMITTED: {0: 0}}, isolation=1)
    ask("committed from within", {COMMITTED: {0: 3}}, isolation=1)
    ask("committed of what has no transactions", {ORDERS: {0: 6}}, isolation=1)
    ask("committed at the last stable offset", {COMMITTED: {0: 10}}, isolation=1)
    ask("an old leader epoch", {ORDERS: {0: 0}}, leader_epoch=0)
    ask("a leader epoch to come", {ORDERS: {0: 0}}, leader_epoch=5)
    ask("nothing in time", {EMPTY: {0: 0}}, max_wait_ms=5)
    ask("less than it asks for", {ORDERS: {0: 7}}, max_wait_ms=5, min_bytes=40_000)
    ask("a rack with a replica", {SPREAD: {0: 0}}, rack_id="far")
    ask("a rack without one", {SPREAD: {0: 0}}, rack_id="further")
    ask("an unknown isolation", {COMMITTED: {0: 0}}, isolation=3)
    if version >= 12:
        ask("an epoch that diverged", {ORDERS: {0: 3}}, last_fetched_epoch=4)
        ask("an epoch that is the log's", {ORDERS: {0: 7}}, last_fetched_epoch=0)
    talk.bent("fetch", fetch_of(talk, version, {ORDERS: {0: 6}}), version)


def limits(talk: Recorder) -> None:
    for version in (4, 12, LATEST):
        for max_bytes in (50, 99, 100, 400, 700, 2_000):
            for partition_max_bytes in (60, 200, 100_000):
                request = fetch_of(
                    talk,
                    version,
                    {ORDERS: {0: 0, 1: 0}, CUT: {0: 2}, COMMITTED: {0: 0}},
                    max_bytes=max_bytes,
                    partition_max_bytes=partition_max_bytes,
                )
                fetched(talk, f"v{version} {max_bytes} bytes, {partition_max_bytes} of a partition", request, version)
    requests = [fetch_of(talk, version, {ORDERS: {0: version % 8}}) for version in range(4, 19)]
    frames = [talk.frame(each, version) for version, each in enumerate(requests, 4)]
    talk.tell("all versions in one read", *frames)


def refused(talk: Recorder) -> None:
    twice = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            FetchTopic(
                topic=ORDERS,
                topic_id=bytes(16),
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000) for offset in (0, 6)
                ],
            )
        ]
        * 2,
        forgotten_topics_data=[],
    )
    for version in (4, 6, 12):
        fetched(talk, f"v{version} the same partition again and again", twice, version)
    talk.tell("v3 is no more", sized(struct.pack(">hhih", 1, 3, 1, -1)))
    talk.tell("an unknown version", sized(struct.pack(">hhih", 1, 99, 1, -1)))
    zeros = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            FetchTopic(
                topic_id=bytes(16), partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)]
            )
        ],
        forgotten_topics_data=[],
    )
    fetched(talk, "an id of zeros", zeros, LATEST)
    for wait_ms, least, most in ((-1, 1, 100), (0, -1, 100), (0, 1, -1), (0, 0, 0)):
        request = fetch_of(talk, LATEST, {ORDERS: {0: 7}}, max_wait_ms=wait_ms, min_bytes=least, max_bytes=most)
        fetched(talk, f"waits {wait_ms}, at least {least}, at most {most}", request, LATEST)


def long_polls(talk: Recorder) -> None:
    ends = {0: 0, 1: 0}

    def parked(label: str, version: int, min_bytes: int = 1, *, isolation: int = 0) -> None:
        request = fetch_of(
            talk,
            version,
            {POLLED: ends},
            max_wait_ms=20_000,
            min_bytes=min_bytes,
            max_bytes=10_000,
            isolation=isolation,
        )
        talk.send(label, talk.frame(request, version), on="reader")
        talk.settle(label)

    for version in versions_of(FetchRequest):
        for index in (0, 1):
            label = f"v{version} a write to partition {index} ends the wait"
            parked(label, version)
            write(talk, POLLED, index, a_batch("news"))
            talk.answered(label, FetchResponse, version, on="reader")
            ends[index] += 1
        label = f"v{version} of committed records"
        parked(label, version, isolation=1)
        write(talk, POLLED, 0, a_batch("a", "b"))
        talk.answered(label, FetchResponse, version, on="reader")
        ends[0] += 2
    for least in (100, 150, 300):
        label = f"waits for {least} bytes"
        parked(label, LATEST, least)
        size = 0
        while size < least:
            batch = a_batch(f"for {least}")
            write(talk, POLLED, 0, batch)
            size += len(batch)
            ends[0] += 1
        talk.answered(label, FetchResponse, LATEST, on="reader")
    label = "a request behind one that waits"
    parked(label, LATEST)
    behind = fetch_of(talk, 12, {ORDERS: {0: 7}})
    talk.send(label, talk.frame(behind, 12), on="reader")
    talk.settle(label)
    write(talk, POLLED, 1, a_batch("ends both"))
    ends[1] += 1
    talk.answered(label, FetchResponse, LATEST, on="reader")
    talk.answered(label, FetchResponse, 12, on="reader")
    label = "several readers of one write"
    request = fetch_of(talk, LATEST, {POLLED: ends}, max_wait_ms=20_000)
    for number in range(3):
        talk.send(label, talk.frame(request, LATEST), on=f"reader-{number}")
    talk.settle(label)
    write(talk, POLLED, 1, a_batch("to all"))
    for number in range(3):
        talk.answered(label, FetchResponse, LATEST, on=f"reader-{number}")


def followers(talk: Recorder, epochs: Mapping[int, int]) -> None:
    """Brokers 2 and 3 copy a partition; readers see what all have."""
    end = 0

    def follow(label: str, version: int, broker: int, offsets: Mapping[int, int], **options: int) -> None:
        replica = ReplicaState(replica_id=broker, replica_epoch=epochs.get(broker, -1))
        request = fetch_of(talk, version, {SPREAD: offsets}, replica=replica, **options)  # type: ignore[arg-type]
        fetched(talk, f"v{version} {label}: broker {broker}", request, version, on=f"follower-{broker}")

    for version in versions_of(FetchRequest):
        write(talk, SPREAD, 0, a_batch(f"v{version}"))
        follow("new records", version, 2, {0: end})
        follow("it has them", version, 2, {0: end + 1})
        fetched(talk, f"v{version} not all have it", fetch_of(talk, version, {SPREAD: {0: end}}), version)
        follow("the other", version, 3, {0: end + 1, 1: 0})
        fetched(talk, f"v{version} all have it", fetch_of(talk, version, {SPREAD: {0: end}}), version)
        end += 1
        follow("beyond the end", version, 2, {0: end + 5})
        follow("not a replica", version, 9, {0: 0})
        follow("an epoch to come", version, 2, {0: end}, leader_epoch=9)
        if version >= 12:
            follow("diverged", version, 3, {0: end}, last_fetched_epoch=7)
        label = f"v{version} a follower waits for a write"
        replica = ReplicaState(replica_id=2, replica_epoch=epochs[2])
        waiting = fetch_of(talk, version, {SPREAD: {0: end, 1: 0}}, replica=replica, max_wait_ms=20_000)
        talk.send(label, talk.frame(waiting, version), on="follower-2")
        talk.settle(label)
        write(talk, SPREAD, 0, a_batch("copied"))
        talk.answered(label, FetchResponse, version, on="follower-2")
        label = f"v{version} a reader waits for the followers"
        reading = fetch_of(talk, version, {SPREAD: {0: end}}, max_wait_ms=20_000)
        talk.send(label, talk.frame(reading, version), on="reader")
        talk.settle(label)
        end += 1
        follow("the first", version, 2, {0: end})
        follow("the last", version, 3, {0: end})
        talk.answered(label, FetchResponse, version, on="reader")
