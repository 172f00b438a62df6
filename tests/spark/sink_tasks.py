"""Tasks of a sink without Spark: transactions that are written and left open; and a driver that dies where it is told to."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from uuid import uuid4

import msgspec

from tidelog import Admin, Producer
from tidelog.client.admin import TransactionState
from tidelog.client.seams import ClientSeams
from tidelog.spark.sink.sink_cluster import SinkCluster
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_effects import Answer, Effect, End, Pin
from tidelog.spark.sink.sink_participant import DecidingCluster, Participant, SinkIdentity, attempt_id, transactional_id

# The longest wait for something that the cluster does by itself within milliseconds.
DEADLINE_S = 30


class Tasks:
    """Task attempts of one sink, which write numbers."""

    def __init__(self, bootstrap: str, topic: str, identity: SinkIdentity) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.identity = identity
        self.admin = Admin(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self.admin.close()

    def write(
        self,
        run: str,
        values: Iterable[int],
        *,
        partition: int = 0,
        timeout_ms: int | None = None,
        decided_at: DecidingCluster | None = None,
    ) -> Participant:
        """One task attempt, in a worker of its own."""
        name = transactional_id(self.identity, run, uuid4().hex, 0)
        if decided_at is not None:
            name = attempt_id(self.identity, run, partition, 0, uuid4().int, decided_at)
        producer = Producer(
            bootstrap_servers=self.bootstrap,
            transactional_id=name,
            transaction_timeout_ms=timeout_ms or 60_000,
            linger_ms=0,
        )
        producer.init_transactions()
        producer.begin_transaction()
        rows = [producer.send(self.topic, b"%d" % value, partition=partition) for value in values]
        producer.flush()
        for each in rows:
            each.result(DEADLINE_S)
        found = self.admin.describe_transaction(name)
        # The process of a task may be gone at any time after this; the transaction stays.
        producer.close(timeout_ms=0)
        return Participant.of(
            name, found.producer_id, found.producer_epoch, records=len(rows), partitions=[(self.topic, partition)]
        )

    def state(self, participant: Participant) -> TransactionState:
        return self.admin.describe_transaction(participant.transactional_id).state


class Moment(Enum):
    """Where a driver dies."""

    BEFORE = "before"
    """The effect is not done."""
    WITHIN = "within"
    """Some of it is."""
    AFTER = "after"
    """It is, and nobody hears of it."""


class Died(Exception):  # noqa: N818 - no error of the sink's
    """The driver is no more."""


class MortalCommitter(SinkCommitter):
    """Dies at one moment of one effect: one that is counted from 0 on, or the first of its class. `done` are those that came to
    their end."""

    effect: int | type[Effect] = -1
    moment = Moment.BEFORE

    def dying(self, effect: int | type[Effect], moment: Moment) -> MortalCommitter:
        self.effect, self.moment = effect, moment
        return self

    def dies_at(self, effect: Effect) -> bool:
        return len(self.done) == self.effect if isinstance(self.effect, int) else isinstance(effect, self.effect)

    def _cluster(self, seams: ClientSeams) -> SinkCluster:
        self.done: list[Effect] = []
        return _MortalCluster(seams, self._identity, self._client_settings, self)


class _MortalCluster(SinkCluster):
    def __init__(
        self, seams: ClientSeams, identity: SinkIdentity, client_settings: object, committer: MortalCommitter
    ) -> None:
        assert isinstance(client_settings, dict)
        super().__init__(seams, identity, client_settings)
        self._committer = committer

    async def perform(self, effect: Effect) -> Answer:
        committer = self._committer
        if not committer.dies_at(effect):
            answer = await super().perform(effect)
            committer.done.append(effect)
            return answer
        if committer.moment is Moment.AFTER:
            await super().perform(effect)
        elif committer.moment is Moment.WITHIN and isinstance(effect, End | Pin):
            topic = effect.topics[0]
            await super().perform(type(effect)((msgspec.structs.replace(topic, participants=topic.participants[:1]),)))
        raise Died
