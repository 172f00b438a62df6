"""Produce: every version, every way to ask for acknowledgement, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tests.support.answer_scenarios.fetching import fetch_of, fetched
from tests.support.answer_scenarios.recorder import UNKNOWN_ID, Recorder, a_batch, sized, versions_of
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.crc32c import crc32c
from tidelog.wire.messages.fetch import FetchResponse, ReplicaState
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records import Record, build_batch

SETTINGS: Mapping[str, str] = {}
ORDERS, STAMPED, COMPACTED, SMALL, SPREAD, STRICT, ELSEWHERE = (
    "orders",
    "stamped",
    "compacted",
    "small",
    "spread",
    "strict",
    "elsewhere",
)
LATEST = 13
# Where the fields of a batch's header lie.
PARTITION_LEADER_EPOCH, MAGIC, CRC, ATTRIBUTES, COUNT = 12, 16, 17, 21, 57
LENGTH = 8


def produced(
    talk: Recorder,
    version: int,
    topics: Mapping[str, Mapping[int, bytes | None]],
    *,
    acks: int = -1,
    timeout_ms: int = 5_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=name if version < 13 else "",
                topic_id=talk.topic_ids.get(name, UNKNOWN_ID) if version >= 13 else bytes(16),
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index, records in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def changed(batch: bytes, *changes: tuple[int, bytes], seal: bool = True) -> bytes:
    """A batch with other bytes at some places, and with the checksum that belongs to them."""
    made = bytearray(batch)
    for place, data in changes:
        made[place : place + len(data)] = data
    if seal:
        made[CRC : CRC + 4] = struct.pack(">I", crc32c(made[ATTRIBUTES:]))
    return bytes(made)


def bad_records() -> Mapping[str, bytes | None]:
    """What no partition takes, and some that it does."""
    batch = a_batch("one", "two")
    return {
        "no records": None,
        "empty records": b"",
        "one byte": b"\x00",
        "half a header": batch[:40],
        "a batch cut short": batch[:-1],
        "bytes behind a batch": batch + b"\x00\x00",
        "two batches": batch + batch,
        "a wrong checksum": changed(batch, (70, b"\xff"), seal=False),
        "magic 0": changed(batch, (MAGIC, b"\x00")),
        "magic 1": changed(batch, (MAGIC, b"\x01")),
        "magic 3": changed(batch, (MAGIC, b"\x03")),
        "a length too small": changed(batch, (LENGTH, struct.pack(">i", 10)), seal=False),
        "a negative length": changed(batch, (LENGTH, struct.pack(">i", -1)), seal=False),
        "a length too large": changed(batch, (LENGTH, struct.pack(">i", 1 << 20)), seal=False),
        "too few records": changed(batch, (COUNT, struct.pack(">i", 1))),
        "too many records": changed(batch, (COUNT, struct.pack(">i", 3))),
        "a negative count": changed(batch, (COUNT, struct.pack(">i", -1))),
        "a last offset delta that is not the count's": changed(batch, (23, struct.pack(">i", 5))),
        "an unknown codec": changed(batch, (ATTRIBUTES, b"\x00\x07")),
        "gzip that is none": changed(batch, (ATTRIBUTES, b"\x00\x01")),
        "a control batch": bytes(
            build_end_txn_marker(ControlType.COMMIT, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=1)
        ),
        "a base offset that is not 0": build_batch([Record(7, 1, None, b"v", ())], base_offset=7),
        "log append time": changed(batch, (ATTRIBUTES, b"\x00\x08")),
        "an unknown attribute": changed(batch, (ATTRIBUTES, b"\x01\x00")),
        "an own leader epoch": changed(batch, (PARTITION_LEADER_EPOCH, struct.pack(">i", 9))),
        "a producer without an epoch": a_batch("v", producer_id=5),
        "a producer without a sequence": a_batch("v", producer_id=5, epoch=0),
        "transactional without a transactional id": a_batch(
            "v", producer_id=5, epoch=0, sequence=0, is_transactional=True
        ),
        "a time of -1": a_batch("v", time_ms=-1),
        "a time in the far future": a_batch("v", time_ms=1 << 60),
    }


def tell(talk: Recorder) -> None:
    epochs = {broker: talk.register(broker, "far") for broker in (2, 3)}
    talk.create(ORDERS, partitions=3, replicas=[1])
    talk.create(STAMPED, replicas=[1], configs={"message.timestamp.type": "LogAppendTime"})
    talk.create(COMPACTED, replicas=[1], configs={"cleanup.policy": "compact"})
    talk.create(SMALL, replicas=[1], configs={"max.message.bytes": "120"})
    talk.create("recompressed", replicas=[1], configs={"compression.type": "gzip"})
    talk.create("timed", replicas=[1], configs={"message.timestamp.after.max.ms": "1000"})
    talk.create(SPREAD, partitions=2, replicas=[1, 2, 3], configs={"min.insync.replicas": "2"})
    talk.register(4, "far", is_fenced=True)
    talk.create(STRICT, replicas=[1, 4], configs={"min.insync.replicas": "2"})
    talk.create(ELSEWHERE, replicas=[2, 3])
    for version in versions_of(ProduceRequest):
        every_version(talk, version)
    refused(talk)
    sequences(talk)
    pipelined(talk)
    waiting_for_followers(talk, epochs)
    for name, partitions in {
        ORDERS: 3,
        STAMPED: 1,
        COMPACTED: 1,
        SMALL: 1,
        "recompressed": 1,
        "timed": 1,
        SPREAD: 2,
    }.items():
        for index in range(partitions):
            fetched(talk, f"all of {name}-{index}", fetch_of(talk, 17, {name: {index: 0}}), 17)


def every_version(talk: Recorder, version: int) -> None:
    def ask(label: str, topics: Mapping[str, Mapping[int, bytes | None]], **options: int | str) -> None:
        request = produced(talk, version, topics, **options)  # type: ignore[arg-type]
        talk.ask(f"v{version} {label}", request, version, ProduceResponse)

    ask("one batch", {ORDERS: {0: a_batch("v")}})
    ask("one batch, acks=1", {ORDERS: {0: a_batch("v")}}, acks=1)
    ask("several records", {ORDERS: {1: a_batch("a", "b", "c", key=b"k")}})
    ask("several partitions and topics", {ORDERS: {0: a_batch("x"), 2: a_batch("y")}, STAMPED: {0: a_batch("z")}})
    ask("gzip", {ORDERS: {0: a_batch("v" * 50, codec=Compression.GZIP)}})
    ask("zstd", {ORDERS: {0: a_batch("v" * 50, codec=Compression.ZSTD)}})
    ask("log append time", {STAMPED: {0: a_batch("v")}})
    ask("an unknown topic", {"nobody": {0: a_batch("v")}})
    ask("an unknown partition", {ORDERS: {7: a_batch("v")}})
    ask("a negative partition", {ORDERS: {-1: a_batch("v")}})
    ask("a partition that others have", {ELSEWHERE: {0: a_batch("v")}})
    ask("good and bad ones", {ORDERS: {0: a_batch("v"), 9: a_batch("v")}, "nobody": {0: a_batch("v")}})
    ask("no topics", {})
    ask("a topic without partitions", {ORDERS: {}})
    ask("no records", {ORDERS: {0: None}})
    ask("empty records", {ORDERS: {0: b""}})
    ask("a wrong checksum", {ORDERS: {0: changed(a_batch("v"), (65, b"\xff"), seal=False)}})
    ask("acks=5", {ORDERS: {0: a_batch("v")}}, acks=5)
    ask("acks=-2", {ORDERS: {0: a_batch("v")}}, acks=-2)
    ask("too large", {SMALL: {0: a_batch("v" * 200)}})
    ask("no key for a compacted topic", {COMPACTED: {0: a_batch("v")}})
    ask("a key for a compacted topic", {COMPACTED: {0: a_batch("v", key=b"k")}})
    ask("too few in sync", {STRICT: {0: a_batch("v")}})
    ask("too few in sync, acks=1", {STRICT: {0: a_batch("v")}}, acks=1)
    ask("a time too far ahead", {"timed": {0: a_batch("v", time_ms=1_800_000_000_000)}})
    ask("an empty transactional id", {ORDERS: {0: a_batch("v")}}, transactional_id="")
    quiet = talk.frame(produced(talk, version, {ORDERS: {0: a_batch("quiet")}}, acks=0), version)
    asked = talk.frame(produced(talk, version, {ORDERS: {0: a_batch("heard")}}), version)
    talk.send(f"v{version} acks=0, and one that is answered", quiet, asked)
    talk.answered(f"v{version} acks=0, and one that is answered", ProduceResponse, version)
    on = talk.throwaway()
    wrong = talk.frame(
        produced(talk, version, {ORDERS: {0: a_batch("quiet")}, "nobody": {0: a_batch("v")}}, acks=0), version
    )
    talk.send(f"v{version} acks=0, refused", wrong, on=on)
    assert talk.receive(f"v{version} acks=0, refused", on) is None
    for client_id in (None, "", "ü" * 40):
        request = produced(talk, version, {ORDERS: {0: a_batch("v")}})
        talk.ask(f"v{version} client id {client_id!r}", request, version, ProduceResponse, client_id=client_id)
    talk.bent("produce", produced(talk, version, {ORDERS: {0: a_batch("bent")}}), version)


def refused(talk: Recorder) -> None:
    for version in (3, 7, 8, LATEST):
        for label, records in bad_records().items():
            for name in (ORDERS, COMPACTED):
                request = produced(talk, version, {name: {0: records}})
                talk.tell(f"v{version} {label} for {name}", talk.frame(request, version))
    for codec in Compression:
        for name in (ORDERS, "recompressed", STAMPED):
            request = produced(talk, LATEST, {name: {0: a_batch("v" * 30, "w", codec=codec)}})
            talk.ask(f"{codec.name} for {name}", request, LATEST, ProduceResponse)
    repeated = ProduceRequest(
        acks=-1,
        timeout_ms=100,
        topic_data=[
            TopicProduceData(
                name=ORDERS,
                topic_id=bytes(16),
                partition_data=[PartitionProduceData(index=0, records=a_batch("twice"))] * 2,
            )
        ]
        * 2,
    )
    talk.ask("the same partition again and again", repeated, 9, ProduceResponse)
    talk.tell("v2 is no more", sized(struct.pack(">hhih", 0, 2, 1, -1)))
    talk.tell("an unknown version", sized(struct.pack(">hhih", 0, 99, 1, -1)))
    talk.tell("a frame that is too large", struct.pack(">i", 100_001) + b"\0" * 20)
    talk.tell("a negative frame", struct.pack(">i", -5))
    whole = talk.frame(produced(talk, 9, {ORDERS: {0: a_batch("v")}}), 9)
    null_topics = whole[: whole.index(b"\xff\xff\x00\x00\x13\x88") + 6] + b"\x00\x00"
    talk.tell("null instead of topics", sized(null_topics[4:]))
    many = whole[: whole.index(b"\xff\xff\x00\x00\x13\x88") + 6] + b"\xff\xff\xff\xff\x0f"
    talk.tell("four thousand million topics", sized(many[4:]))
    talk.tell(
        "an id of zeros",
        talk.frame(
            ProduceRequest(
                acks=1,
                timeout_ms=1,
                topic_data=[
                    TopicProduceData(
                        topic_id=bytes(16), partition_data=[PartitionProduceData(index=0, records=a_batch("v"))]
                    )
                ],
            ),
            LATEST,
        ),
    )


def sequences(talk: Recorder) -> None:
    def ask(label: str, *batches: bytes, version: int = LATEST, index: int = 1) -> None:
        talk.tell(label, *(talk.frame(produced(talk, version, {ORDERS: {index: each}}), version) for each in batches))

    def numbered(sequence: int, *values: str, producer_id: int = 70, epoch: int = 0) -> bytes:
        return a_batch(*(values or ("n",)), producer_id=producer_id, epoch=epoch, sequence=sequence)

    for version in (3, 9, LATEST):
        ask(f"v{version} a first sequence that is not 0", numbered(3, producer_id=60 + version), version=version)
        ask(f"v{version} again", numbered(3, producer_id=60 + version), version=version)
        ask(f"v{version} a gap", numbered(9, producer_id=60 + version), version=version)
        ask(f"v{version} an older one", numbered(1, producer_id=60 + version), version=version)
    ask("in order", numbered(0), numbered(1, "a", "b"), numbered(3))
    ask("duplicates of all three", numbered(1, "a", "b"), numbered(0), numbered(3))
    ask("a duplicate with another count", numbered(1, "a"))
    ask("duplicates and new ones in one read", numbered(3), numbered(4), numbered(4), numbered(5), numbered(9))
    ask("the five last are known", *(numbered(6 + each) for each in range(6)))
    ask("the sixth before is not", numbered(5), numbered(6), numbered(7))
    ask("a new epoch begins at 0", numbered(4, epoch=1), numbered(0, epoch=1), numbered(1, epoch=1))
    ask("an old epoch", numbered(12), numbered(0))
    ask("the largest sequence", numbered((1 << 31) - 2, "a", "b", producer_id=71), numbered(0, producer_id=71))
    ask(
        "a sequence across the largest",
        numbered((1 << 31) - 2, "a", "b", "c", producer_id=72),
        numbered(1, producer_id=72),
    )
    ask("two producers in turn", *(numbered(each // 2, producer_id=80 + each % 2) for each in range(6)), index=2)


def pipelined(talk: Recorder) -> None:
    """Several requests of one read."""

    def frames(*requests: ProduceRequest, version: int = LATEST) -> list[bytes]:
        return [talk.frame(each, version) for each in requests]

    def one(name: str, index: int, records: bytes | None, **options: int) -> ProduceRequest:
        return produced(talk, LATEST, {name: {index: records}}, acks=options.get("acks", -1))

    talk.tell("five to one partition", *frames(*(one(ORDERS, 0, a_batch(f"p{each}")) for each in range(5))))
    talk.tell("six to three partitions", *frames(*(one(ORDERS, each % 3, a_batch(f"q{each}")) for each in range(6))))
    talk.tell(
        "good and bad ones in turn",
        *frames(
            one(ORDERS, 0, a_batch("good")),
            one(ORDERS, 0, changed(a_batch("bad"), (65, b"\xff"), seal=False)),
            one(ORDERS, 0, a_batch("good")),
            one("nobody", 0, a_batch("v")),
            one(ORDERS, 9, a_batch("v")),
            one(COMPACTED, 0, a_batch("no key")),
            one(STAMPED, 0, a_batch("stamped")),
            one(SMALL, 0, a_batch("v" * 200)),
            one(ORDERS, 0, a_batch("good"), acks=1),
        ),
    )
    label = "acks=0 among others"
    on = talk.throwaway()
    talk.send(
        label,
        *frames(
            one(ORDERS, 0, a_batch("heard")),
            one(ORDERS, 0, a_batch("quiet"), acks=0),
            one(ORDERS, 0, a_batch("heard")),
        ),
        on=on,
    )
    for _ in range(2):
        talk.answered(label, ProduceResponse, LATEST, on=on)
    talk.tell(
        "a fetch between two writes",
        *frames(one(ORDERS, 2, a_batch("before"))),
        talk.frame(fetch_of(talk, 12, {ORDERS: {2: 0}}, max_bytes=10_000), 12),
        *frames(one(ORDERS, 2, a_batch("after"))),
        talk.frame(fetch_of(talk, 12, {ORDERS: {2: 0}}, max_bytes=10_000), 12),
    )
    mixed = [(version, produced(talk, version, {ORDERS: {0: a_batch(f"v{version}")}})) for version in (3, 7, 9, 12, 13)]
    talk.tell("several versions", *(talk.frame(request, version) for version, request in mixed))
    on = talk.throwaway()
    label = "garbage behind a write"
    talk.send(label, *frames(one(ORDERS, 0, a_batch("last"))), sized(b"\x00\x00\x00\x0dgarbage"), on=on)
    talk.answered(label, ProduceResponse, LATEST, on=on)
    assert talk.receive(label, on) is None


def waiting_for_followers(talk: Recorder, epochs: Mapping[int, int]) -> None:
    def follow(label: str, offsets: Mapping[int, Mapping[int, int]], version: int = 17) -> None:
        for broker, partitions in offsets.items():
            request = fetch_of(
                talk,
                version,
                {SPREAD: partitions},
                replica=ReplicaState(replica_id=broker, replica_epoch=epochs[broker]),
                max_wait_ms=0,
            )
            talk.ask(f"{label}: broker {broker}", request, version, FetchResponse, on=f"follower-{broker}")

    for version in (3, 9, LATEST):
        label = f"v{version} nobody has it in time"
        request = produced(talk, version, {SPREAD: {0: a_batch("late")}}, timeout_ms=30)
        talk.ask(label, request, version, ProduceResponse)
        talk.ask(
            f"v{version} acks=1 waits for nobody",
            produced(talk, version, {SPREAD: {0: a_batch("v")}}, acks=1),
            version,
            ProduceResponse,
        )
    end = 6
    follow("catch up", {2: {0: end}, 3: {0: end}})
    for version in versions_of(ProduceRequest):
        label = f"v{version} committed by followers"
        talk.send(
            label, talk.frame(produced(talk, version, {SPREAD: {0: a_batch("w"), 1: a_batch("w")}}), version), on="w"
        )
        talk.settle(label)
        at = version - 3
        follow(label, {2: {0: end + at + 1, 1: at + 1}, 3: {0: end + at}})
        follow(label, {3: {0: end + at + 1, 1: at + 1}})
        talk.answered(label, ProduceResponse, version, on="w")
    label = "several writes that wait, of one read"
    waiting: Sequence[bytes] = [
        talk.frame(produced(talk, LATEST, {SPREAD: {0: a_batch(f"m{each}")}}), LATEST) for each in range(3)
    ]
    plain = talk.frame(produced(talk, LATEST, {ORDERS: {0: a_batch("behind")}}), LATEST)
    talk.send(label, *waiting, plain, on="w")
    talk.settle(label)
    start = end + 11
    follow(label, {2: {0: start + 2}, 3: {0: start + 1}})
    follow(label, {2: {0: start + 3}, 3: {0: start + 3}})
    for _ in range(4):
        talk.answered(label, ProduceResponse, LATEST, on="w")
