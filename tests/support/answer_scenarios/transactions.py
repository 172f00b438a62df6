"""Transactions: of both protocols, request by request, with all that can be late, fenced or unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.answer_scenarios.fetching import fetch_of, fetched
from tests.support.answer_scenarios.groups import Member, offsets_of
from tests.support.answer_scenarios.produce import produced
from tests.support.answer_scenarios.recorder import FIRST, GROUP, TRANSACTION, Recorder, a_batch, versions_of
from tidelog.wire.messages.group_offsets import OffsetFetchResponse
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

SETTINGS: Mapping[str, str] = {}
ORDERS, OTHERS, MARKED = "orders", "others", "marked"
TIMEOUT_MS = 60_000


class Producer:
    """A transactional producer that a scenario drives step by step."""

    def __init__(self, talk: Recorder, name: str, version: int = 5) -> None:
        self._talk = talk
        self.name = name
        # Sequences by topic and partition, of the epoch that is current.
        self._sequences: dict[tuple[str, int], int] = {}
        found = talk.ask_until(f"init {name}", self.initialising(), version, InitProducerIdResponse)
        self.producer_id, self.epoch = found.producer_id, found.producer_epoch

    def initialising(self, **changes: object) -> InitProducerIdRequest:
        fields = {"transactional_id": self.name, "transaction_timeout_ms": TIMEOUT_MS, **changes}
        return InitProducerIdRequest(**fields)  # type: ignore[arg-type]

    def adding(
        self, version: int, topics: Mapping[str, Sequence[int]], *, verify_only: bool = False, **changes: object
    ) -> AddPartitionsToTxnRequest:
        named = [AddPartitionsToTxnTopic(name=name, partitions=list(each)) for name, each in topics.items()]
        fields: dict[str, object] = {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            **changes,
        }
        if version < 4:
            return AddPartitionsToTxnRequest(
                transactions=[],
                v3_and_below_topics=named,
                **{f"v3_and_below_{key}": value for key, value in fields.items()},  # type: ignore[arg-type]
            )
        transaction = AddPartitionsToTxnTransaction(verify_only=verify_only, topics=named, **fields)  # type: ignore[arg-type]
        return AddPartitionsToTxnRequest(transactions=[transaction])

    def add(self, version: int, label: str, topics: Mapping[str, Sequence[int]], **changes: object) -> None:
        request = self.adding(version, topics, **changes)  # type: ignore[arg-type]
        self._talk.ask(f"v{version} add partitions, {label}", request, version, AddPartitionsToTxnResponse)

    def producing(
        self, version: int, places: Mapping[str, Sequence[int]], *, epoch: int | None = None
    ) -> ProduceRequest:
        batches: dict[str, dict[int, bytes]] = {}
        for name, indexes in places.items():
            for index in indexes:
                sequence = self._sequences.get((name, index), 0)
                self._sequences[name, index] = sequence + 1
                batches.setdefault(name, {})[index] = a_batch(
                    f"{self.name} {sequence}",
                    producer_id=self.producer_id,
                    epoch=self.epoch if epoch is None else epoch,
                    sequence=sequence,
                    is_transactional=True,
                )
        return produced(self._talk, version, batches, transactional_id=self.name)

    def produce(
        self, version: int, label: str, places: Mapping[str, Sequence[int]], *, epoch: int | None = None
    ) -> None:
        request = self.producing(version, places, epoch=epoch)
        self._talk.ask(f"v{version} produce, {label}", request, version, ProduceResponse)

    def ending(self, *, commits: bool = True, **changes: object) -> EndTxnRequest:
        fields: dict[str, object] = {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "committed": commits,
            **changes,
        }
        return EndTxnRequest(**fields)  # type: ignore[arg-type]

    def end(self, version: int, label: str, *, commits: bool = True, **changes: object) -> None:
        request = self.ending(commits=commits, **changes)
        answer = self._talk.ask(f"v{version} end, {label}", request, version, EndTxnResponse)
        if not answer.error_code and version >= 5 and not changes:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self._sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def adding_offsets(self, group_id: str, **changes: object) -> AddOffsetsToTxnRequest:
        fields: dict[str, object] = {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "group_id": group_id,
            **changes,
        }
        return AddOffsetsToTxnRequest(**fields)  # type: ignore[arg-type]

    def add_offsets(self, version: int, label: str, group_id: str, **changes: object) -> None:
        request = self.adding_offsets(group_id, **changes)
        self._talk.ask(f"v{version} add offsets, {label}", request, version, AddOffsetsToTxnResponse)

    def committing(
        self,
        version: int,
        group_id: str,
        topics: Mapping[str, Mapping[int, int]],
        *,
        member: Member | None = None,
        **changes: object,
    ) -> TxnOffsetCommitRequest:
        fields: dict[str, object] = {
            "transactional_id": self.name,
            "group_id": group_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata="note"
                        )
                        for index, offset in each.items()
                    ],
                )
                for name, each in topics.items()
            ],
        }
        if member is not None and version >= 3:
            fields |= {"member_id": member.member_id, "generation_id": member.generation}
        return TxnOffsetCommitRequest(**{**fields, **changes})  # type: ignore[arg-type]

    def commit(
        self, version: int, label: str, group_id: str, topics: Mapping[str, Mapping[int, int]], **options: object
    ) -> None:
        request = self.committing(version, group_id, topics, **options)  # type: ignore[arg-type]
        self._talk.ask(f"v{version} commit offsets, {label}", request, version, TxnOffsetCommitResponse)


def tell(talk: Recorder) -> None:
    talk.create(ORDERS, partitions=3)
    talk.create(OTHERS)
    talk.create(MARKED, partitions=2)
    # One in either partition of the offsets' topic.
    for group_id in ("readers", "members-3", "members-4"):
        talk.coordinate(GROUP, group_id)
    talk.coordinate(TRANSACTION, "first")
    initialisation(talk)
    for version in versions_of(AddPartitionsToTxnRequest):
        partitions(talk, version)
    for version in versions_of(EndTxnRequest):
        ends(talk, version)
    for version in versions_of(TxnOffsetCommitRequest):
        offsets(talk, version)
    writes(talk)
    for version in versions_of(WriteTxnMarkersRequest):
        markers(talk, version)
    everything(talk)


def initialisation(talk: Recorder) -> None:
    for version in versions_of(InitProducerIdRequest):
        initialise(talk, version)


def initialise(talk: Recorder, version: int) -> None:
    """Ids that are new, known, too old and none."""

    def ask(label: str, request: InitProducerIdRequest) -> InitProducerIdResponse:
        return talk.ask(f"v{version} init, {label}", request, version, InitProducerIdResponse)

    ask("idempotent", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS))
    producer = Producer(talk, f"init-{version}", version)
    ask("again", producer.initialising())
    ask("no id", producer.initialising(transactional_id=""))
    ask("a time-out of 0", producer.initialising(transaction_timeout_ms=0))
    ask("a time-out too long", producer.initialising(transaction_timeout_ms=2_000_000_000))
    if version >= 3:
        ask("with an old epoch", producer.initialising(producer_id=producer.producer_id, producer_epoch=0))
        ask("with the current one", producer.initialising(producer_id=producer.producer_id, producer_epoch=1))
        ask("with another id", producer.initialising(producer_id=99_999, producer_epoch=1))
        ask("with an id alone", producer.initialising(producer_id=producer.producer_id))
    talk.bent("init", producer.initialising(transaction_timeout_ms=0), version)


def partitions(talk: Recorder, version: int) -> None:
    producer = Producer(talk, f"adds-{version}")
    producer.add(version, "one", {ORDERS: [0]})
    producer.add(version, "again", {ORDERS: [0]})
    producer.add(version, "several", {ORDERS: [0, 1], OTHERS: [0]})
    producer.add(version, "unknown ones", {ORDERS: [2, 9], "nobody": [0]})
    producer.add(version, "none", {})
    producer.add(version, "an old epoch", {ORDERS: [0]}, producer_epoch=-1)
    producer.add(version, "an epoch to come", {ORDERS: [0]}, producer_epoch=7)
    producer.add(version, "another producer", {ORDERS: [0]}, producer_id=99_999)
    producer.add(version, "an unknown id", {ORDERS: [0]}, transactional_id="nobody's")
    producer.add(version, "no id", {ORDERS: [0]}, transactional_id="")
    if version >= 4:
        producer.add(version, "verified", {ORDERS: [0, 1]}, verify_only=True)
        producer.add(version, "verified, but not part of it", {ORDERS: [2], MARKED: [0]}, verify_only=True)
        several = (
            producer.adding(version, {ORDERS: [0]}).transactions
            + producer.adding(version, {ORDERS: [0]}, transactional_id="nobody's").transactions
        )
        talk.ask(
            f"v{version} several transactions",
            AddPartitionsToTxnRequest(transactions=several),
            version,
            AddPartitionsToTxnResponse,
        )
        talk.ask(
            f"v{version} no transaction",
            AddPartitionsToTxnRequest(transactions=[]),
            version,
            AddPartitionsToTxnResponse,
        )
    talk.bent("add partitions", producer.adding(version, {ORDERS: [0]}), version)
    producer.end(min(version, 5), "an empty transaction with partitions", commits=False)
    producer.add(version, "after the end", {ORDERS: [0]})


def ends(talk: Recorder, version: int) -> None:
    producer = Producer(talk, f"ends-{version}")
    producer.end(version, "nothing begun")
    producer.end(version, "nothing begun, abort", commits=False)
    for commits in (True, False, True):
        if version < 5:
            producer.add(3, "for a transaction", {ORDERS: [0, 1]})
            producer.produce(11, "in a transaction", {ORDERS: [0, 1]})
        else:
            producer.produce(12, "in a transaction", {ORDERS: [0, 1]})
        before = producer.producer_id, producer.epoch
        producer.end(version, "commit" if commits else "abort", commits=commits)
        producer.end(version, "again", commits=commits, producer_id=before[0], producer_epoch=before[1])
        producer.end(version, "the other way", commits=not commits, producer_id=before[0], producer_epoch=before[1])
    producer.end(version, "an old epoch", producer_epoch=-1)
    producer.end(version, "an epoch to come", producer_epoch=90)
    producer.end(version, "another producer", producer_id=99_999)
    producer.end(version, "an unknown id", transactional_id="nobody's")
    producer.end(version, "no id", transactional_id="")
    talk.bent("end", producer.ending(producer_epoch=90), version)
    fenced = Producer(talk, f"fenced-{version}")
    if version < 5:
        fenced.add(3, "of one to be fenced", {ORDERS: [2]})
        fenced.produce(11, "of one to be fenced", {ORDERS: [2]})
    else:
        fenced.produce(12, "of one to be fenced", {ORDERS: [2]})
    successor = Producer(talk, fenced.name)
    fenced.end(version, "of the one before")
    fenced.produce(11 if version < 5 else 12, "of the one before", {ORDERS: [2]})
    successor.end(version, "of the one after")


def offsets(talk: Recorder, version: int) -> None:
    producer = Producer(talk, f"offsets-{version}")
    implied = version >= 5
    if not implied:
        producer.commit(version, "before the group was added", "readers", {ORDERS: {0: 1}})
        for each in range(5):
            producer.add_offsets(each, "a group", "readers")
        version_of_adding = min(version, 4)
        producer.add_offsets(version_of_adding, "an old epoch", "readers", producer_epoch=-1)
        producer.add_offsets(version_of_adding, "another producer", "readers", producer_id=99_999)
        producer.add_offsets(version_of_adding, "an unknown id", "readers", transactional_id="nobody's")
        producer.add_offsets(version_of_adding, "no group", "")
        talk.bent("add offsets", producer.adding_offsets("readers"), min(version, 4))
    producer.commit(version, "one", "readers", {ORDERS: {0: version}})
    producer.commit(version, "several", "readers", {ORDERS: {0: 2, 1: 3}, OTHERS: {0: 4}})
    producer.commit(version, "unknown ones", "readers", {ORDERS: {0: 2, 9: 3}, "nobody": {0: 4}})
    producer.commit(version, "none", "readers", {})
    producer.commit(version, "no group", "", {ORDERS: {0: 1}})
    producer.commit(version, "an old epoch", "readers", {ORDERS: {0: 1}}, producer_epoch=-1)
    producer.commit(version, "an unknown id", "readers", {ORDERS: {0: 1}}, transactional_id="nobody's")
    members = f"members-{version}"
    member = Member(talk, members, FIRST)
    if version >= 3:
        producer.commit(version, "an unknown member", "readers", {ORDERS: {0: 1}}, member_id="who", generation_id=1)
        producer.commit(version, "a generation alone", "readers", {ORDERS: {0: 1}}, generation_id=1)
        member.join(9)
        member.sync(5, [member])
        if not implied:
            producer.add_offsets(4, "a group with members", members)
        producer.commit(version, "of a member", members, {ORDERS: {0: 1}}, member=member)
        producer.commit(version, "of another generation", members, {ORDERS: {0: 1}}, member=member, generation_id=99)
    for stable in (False, True):
        for group_id in ("readers", members):
            request = offsets_of(talk, 8, group_id, {ORDERS: [0, 1]}, require_stable=stable)
            talk.ask(f"offsets of {group_id} while it is open", request, 8, OffsetFetchResponse)
    talk.bent("commit offsets", producer.committing(version, "readers", {ORDERS: {0: 9}}), version)
    producer.end(5 if implied else 4, "with offsets", commits=version % 2 == 0)
    for group_id in ("readers", members):
        request = offsets_of(talk, 8, group_id, {ORDERS: [0, 1]}, require_stable=True)
        talk.ask(f"offsets of {group_id} at the end", request, 8, OffsetFetchResponse)


def writes(talk: Recorder) -> None:
    """Produce in transactions, in every version."""
    for version in versions_of(ProduceRequest):
        producer = Producer(talk, f"writes-{version}")
        producer.produce(version, "not added", {ORDERS: [0]})
        implied = version >= 12
        if implied:
            producer.produce(version, "and another partition", {ORDERS: [1], OTHERS: [0]})
        else:
            producer = Producer(talk, f"writes-{version}")
            producer.add(3, "", {ORDERS: [0, 1]})
            producer.produce(version, "added", {ORDERS: [0, 1]})
            producer.produce(version, "of two, one is added", {ORDERS: [0], OTHERS: [0]})
        producer.produce(version, "an old epoch", {ORDERS: [0]}, epoch=-1)
        label = f"v{version} a transaction's writes of one read"
        frames = [talk.frame(producer.producing(version, {ORDERS: [1]}), version) for _ in range(3)]
        talk.tell(label, *frames)
        talk.bent("transactional produce", producer.producing(version, {ORDERS: [1]}), version)
        producer.end(5 if implied else 4, f"of v{version}", commits=version % 2 == 0)
        reading = fetch_of(talk, 12, {ORDERS: {0: 0}, OTHERS: {0: 0}}, isolation=1, partition_max_bytes=300)
        fetched(talk, f"what is committed after v{version}", reading, 12)


def markers(talk: Recorder, version: int) -> None:
    def marker(
        producer_id: int, epoch: int, topics: Mapping[str, Sequence[int]], **changes: object
    ) -> WritableTxnMarker:
        fields: dict[str, object] = {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transaction_result": True,
            "topics": [
                WritableTxnMarkerTopic(name=name, partition_indexes=list(each)) for name, each in topics.items()
            ],
            "coordinator_epoch": 0,
            **changes,
        }
        return WritableTxnMarker(**fields)  # type: ignore[arg-type]

    def ask(label: str, *given: WritableTxnMarker) -> None:
        request = WriteTxnMarkersRequest(markers=list(given))
        talk.ask(f"v{version} markers, {label}", request, version, WriteTxnMarkersResponse)

    producer_id = 500 + version
    ask("one", marker(producer_id, 0, {MARKED: [0]}))
    ask("several", marker(producer_id, 0, {MARKED: [0, 1]}), marker(producer_id + 10, 0, {MARKED: [1], OTHERS: [0]}))
    ask("unknown ones", marker(producer_id, 0, {MARKED: [0, 9], "nobody": [0]}))
    ask("none")
    ask("no topics", marker(producer_id, 0, {}))
    ask("an abort", marker(producer_id, 1, {MARKED: [0]}, transaction_result=False))
    ask("an old epoch", marker(producer_id, 0, {MARKED: [0]}))
    ask("a coordinator of later", marker(producer_id, 1, {MARKED: [0]}, coordinator_epoch=3))
    ask("a coordinator of before", marker(producer_id, 1, {MARKED: [0]}, coordinator_epoch=2))
    if version >= 2:
        ask("of the second protocol", marker(producer_id, 2, {MARKED: [1]}, transaction_version=2))
        ask("of the second protocol again", marker(producer_id, 2, {MARKED: [1]}, transaction_version=2))
    talk.bent(
        "markers", WriteTxnMarkersRequest(markers=[marker(producer_id, 1, {MARKED: [0]}, coordinator_epoch=2)]), version
    )


def everything(talk: Recorder) -> None:
    """All that was written; the coordinators' own records have times in them that pass."""
    places = {ORDERS: 3, OTHERS: 1, MARKED: 2}
    for name, count in places.items():
        for index in range(count):
            request = fetch_of(talk, 12, {name: {index: 0}}, max_bytes=200_000, partition_max_bytes=200_000)
            fetched(talk, f"all of {name}-{index}", request, 12)
            request = fetch_of(talk, 12, {name: {index: 0}}, isolation=1, partition_max_bytes=1_000)
            fetched(talk, f"committed of {name}-{index}", request, 12)
