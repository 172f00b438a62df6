"""What is decided of one sink or pipeline: the record of the topic of decisions, whole with every change.

    owner               the run that may decide; runs that it or others before it have superseded may not, ever
    finished            the last batch of which every output is known to have ended
    decision            a later batch that is decided, and of whose outputs that is not known yet

A value is JSON, with a version, so that people can read the topic and a later release can tell what it has before it. The key is
query and sink; the prefix is in the value, since another one would look for transactions under other names.

Version 1 had the number of the finished batch without its input, and participants of one topic. It is read as what it means now.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidelog.spark.errors import SinkError
from tidelog.spark.outputs.staged import StagedOutput, Target
from tidelog.spark.sink.audit_entry import AuditEntry
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork, TopicOutput
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity

VERSION = 2
# A run that comes back after so many others have claimed the sink is taken for a new one. That is no harm to what is decided: its
# transactions have ended long ago, and a batch of transactions that are not open is never decided.
SUPERSEDED_MAX = 64
# Of one query, the newest: each is a path in every record. A person has skipped each of them.
SKIPPED_MANIFESTS_MAX = 256
# Every batch asks each of them for open transactions.
CLUSTERS_MAX = 16


class FinishedBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch of which everything is there."""

    batch_id: int
    input: BatchInput | None = None
    """None where version 1 has written it: its number alone is known."""
    manifests: tuple[str, ...] = ()
    """Paths of the staged outputs that it consists of: nobody discards them."""
    skipped: tuple[str, ...] = ()
    """Sinks that `recover` was told to go on without."""
    replayed_with: BatchInput | None = None
    """What a replay had whose rows differed."""


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch counts, and these outputs are all of it."""

    batch_id: int
    input: BatchInput | None = None
    topics: tuple[TopicOutput, ...] = ()
    staged: tuple[StagedOutput, ...] = ()
    skipped: tuple[str, ...] = ()
    audit: AuditEntry | None = None
    """For whoever finishes it."""

    @staticmethod
    def of(work: BatchWork) -> Decision:
        return Decision(work.batch_id, work.input, work.topics, work.staged, audit=work.audit)

    @property
    def participants(self) -> tuple[Participant, ...]:
        return tuple(each for topic in self.topics for each in topic.participants)

    @property
    def finished(self) -> FinishedBatch:
        """What stays of it."""
        manifests = tuple(each.manifest_path for each in self.staged if each.sink not in self.skipped)
        return FinishedBatch(self.batch_id, self.input, manifests, self.skipped)

    @property
    def skipped_manifests(self) -> tuple[str, ...]:
        """Of staged outputs that it counts without."""
        return tuple(each.manifest_path for each in self.staged if each.sink in self.skipped)


class SinkState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sink of a query, after some decision."""

    prefix: str
    owner: str
    superseded: tuple[str, ...] = ()
    finished: FinishedBatch | None = None
    decision: Decision | None = None
    clusters: tuple[Target, ...] = ()
    """Others than that of the decisions, on which transactions may be pinned."""
    skipped_manifests: tuple[str, ...] = ()
    """Of staged outputs that batches count without, the newest last: their rows stay for whoever wants them."""

    @property
    def finished_batch_id(self) -> int | None:
        return None if self.finished is None else self.finished.batch_id

    @property
    def last_batch_id(self) -> int | None:
        """The last batch that is decided, finished or not."""
        return self.finished_batch_id if self.decision is None else self.decision.batch_id

    @property
    def named_ids(self) -> frozenset[str]:
        """Transactional ids that nobody but a commit may touch."""
        return frozenset() if self.decision is None else frozenset(map(_id_of, self.decision.participants))

    @property
    def protected_manifests(self) -> frozenset[str]:
        """Of staged outputs that no upkeep may touch."""
        decided = () if self.decision is None else tuple(each.manifest_path for each in self.decision.staged)
        return frozenset((*self.skipped_manifests, *decided))

    def claimed(self, run: str, others: Iterable[str]) -> SinkState:
        """With another owner; it supersedes the one before, and these."""
        gone = dict.fromkeys([*self.superseded, *([self.owner] if self.owner else []), *others])
        gone.pop(run, None)
        return msgspec.structs.replace(self, owner=run, superseded=tuple(gone)[-SUPERSEDED_MAX:])

    def with_clusters(self, used: Iterable[Target | None], former: Iterable[Target | None] = ()) -> SinkState:
        """With those that are written to, and as many as there is room for of others that are not known to be clean."""
        others = [each for each in used if each is not None]
        if len(others) > CLUSTERS_MAX:
            raise SinkError(f"a query writes to {CLUSTERS_MAX} other clusters at most, and this one to {len(others)}")
        others += [each for each in former if each is not None and each not in others]
        return msgspec.structs.replace(self, clusters=tuple(others[:CLUSTERS_MAX]))

    def decided(self, decision: Decision) -> SinkState:
        """With an open decision, in place of one that came to nothing."""
        return msgspec.structs.replace(self, decision=decision)

    def with_finished(self, finished: FinishedBatch) -> SinkState:
        """Everything up to this batch is there."""
        left = () if self.decision is None else self.decision.skipped_manifests
        skipped = (*self.skipped_manifests, *left)[-SKIPPED_MANIFESTS_MAX:]
        return msgspec.structs.replace(self, finished=finished, decision=None, skipped_manifests=skipped)


def _id_of(participant: Participant) -> str:
    return participant.transactional_id


class _Key(msgspec.Struct, frozen=True):
    query: str
    sink: str


class _Version(msgspec.Struct, frozen=True):
    version: int


class _Value(msgspec.Struct, frozen=True):
    version: int
    state: SinkState


# Version 1.


class _ParticipantV1(msgspec.Struct, frozen=True):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    records: int = 0
    partitions: tuple[tuple[str, int], ...] = ()
    """All of them."""

    def now(self) -> Participant:
        return Participant(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.records,
            partition_count=len(self.partitions),
            partitions=self.partitions,
        )


class _DecisionV1(msgspec.Struct, frozen=True):
    batch_id: int
    participants: tuple[_ParticipantV1, ...]

    def now(self) -> Decision:
        written = tuple(each.now() for each in self.participants)
        return Decision(self.batch_id, topics=(TopicOutput("", participants=written),))


class _StateV1(msgspec.Struct, frozen=True):
    prefix: str
    owner: str
    superseded: tuple[str, ...] = ()
    finished_batch_id: int | None = None
    decision: _DecisionV1 | None = None

    def now(self) -> SinkState:
        return SinkState(
            self.prefix,
            self.owner,
            self.superseded,
            None if self.finished_batch_id is None else FinishedBatch(self.finished_batch_id),
            None if self.decision is None else self.decision.now(),
        )


class _ValueV1(msgspec.Struct, frozen=True):
    version: int
    state: _StateV1


def encode_key(identity: SinkIdentity) -> bytes:
    """The same bytes for the same query and sink, always."""
    return msgspec.json.encode(_Key(identity.query, identity.sink))


def decode_key(data: bytes) -> tuple[str, str] | None:
    """Query and sink; None for a key of somebody else's."""
    try:
        key = msgspec.json.decode(data, type=_Key)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return key.query, key.sink


def encode_state(state: SinkState) -> bytes:
    return msgspec.json.encode(_Value(VERSION, state))


def decode_state(data: bytes) -> SinkState:
    """SinkError for what this release cannot read: going on without it might write a batch twice."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version == VERSION:
            return msgspec.json.decode(data, type=_Value).state
        if version == 1:
            return msgspec.json.decode(data, type=_ValueV1).state.now()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SinkError(f"a decision of the sink cannot be read, so that nothing is written: {error}") from error
    raise SinkError(
        f"a decision of the sink has version {version}, this release knows 1 to {VERSION}: use the one that wrote it, or a "
        "newer one"
    )
