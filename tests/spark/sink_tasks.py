"""Tasks of a sink without Spark: transactions that are written and left open, and what a reader of committed records sees."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

from tidelog import Admin, Consumer, Producer
from tidelog.client.admin.transactions import TransactionState
from tidelog.spark.sink_participant import Participant, SinkIdentity, transactional_id


class Tasks:
    """Task attempts of one sink."""

    def __init__(self, bootstrap: str, topic: str, identity: SinkIdentity) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.identity = identity
        self.admin = Admin(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self.admin.close()

    def write(self, run: str, values: Iterable[int], partition: int = 0) -> Participant:
        """One task attempt, in a worker of its own."""
        name = transactional_id(self.identity, run, uuid4().hex, 0)
        producer = Producer(bootstrap_servers=self.bootstrap, transactional_id=name, linger_ms=0)
        producer.init_transactions()
        producer.begin_transaction()
        rows = [producer.send(self.topic, b"%d" % value, partition=partition) for value in values]
        producer.flush()
        for each in rows:
            each.result(30)
        found = self.admin.describe_transaction(name)
        # A task's process may be gone at any time after this; the transaction stays.
        producer.close(timeout_ms=0)
        return Participant(
            name,
            found.producer_id,
            found.producer_epoch,
            len(rows),
            tuple((each.topic, each.partition) for each in found.partitions),
        )

    def open_ids(self) -> list[str]:
        listed = self.admin.list_transactions(states=[TransactionState.ONGOING])
        return [each.transactional_id for each in listed if each.transactional_id.startswith(self.identity.prefix)]

    def seen(self) -> list[int]:
        """What a reader of committed records sees, up to the end of the log: it must not be held back."""
        with Consumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            partitions = consumer.partitions_for(self.topic)
            consumer.assign(partitions)
            ends = self.admin.list_offsets(dict.fromkeys(partitions, -1))
            stable = self.admin.list_offsets(dict.fromkeys(partitions, -1), read_committed=True)
            assert ends == stable, "an open transaction holds readers back"
            values: list[int] = []
            while records := consumer.poll(timeout_ms=500):
                values += [int(each.value) for each in records]
            return sorted(values)
