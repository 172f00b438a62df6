"""What is read of a node's transactions when somebody asks.

Under the names of Kafka's ReplicaManager, TransactionMarkerChannelManager and AddPartitionsToTxnManager.
"""

from __future__ import annotations

from tidelog.broker.transactions.transaction_admission import TransactionAdmission
from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
from tidelog.model.clock import Clock
from tidelog.model.metrics import Kind, Registry
from tidelog.replication.partitions import Partitions
from tidelog.replication.roles import Leading

# A transaction that is open for this much longer than any may be has nobody left who would end it.
LATE_MS = 5 * 60 * 1000


def register_transactions(
    registry: Registry,
    transactions: TransactionCoordinator,
    admission: TransactionAdmission,
    partitions: Partitions,
    clock: Clock,
) -> None:
    """Transactions that hang, markers that wait, and records that were not let in."""

    def late_count() -> int:
        oldest_ms = clock.now_ms() - transactions.settings.max_timeout_ms - LATE_MS
        return sum(
            isinstance(each.role, Leading)
            and (opened_ms := each.role.log.producers.oldest_transaction_ms) is not None
            and opened_ms < oldest_ms
            for each in partitions
        )

    registry.gauge(
        "kafka_server_replica_manager_partitions_with_late_transactions_count",
        "Partitions that this node leads with a transaction that should have timed out long ago.",
        late_count,
    )
    registry.gauge(
        "kafka_coordinator_transaction_transaction_marker_channel_manager_unknown_destination_queue_size",
        "Partitions that wait for the marker of a transaction whose outcome is decided.",
        lambda: transactions.markers.waiting_count,
    )
    registry.counted(
        "kafka_server_add_partitions_to_txn_manager_verification_failure_total",
        "Partitions that transactional records were kept out of, since their coordinator said no.",
        lambda: admission.failure_count,
    )
    registry.family(
        Kind.HISTOGRAM,
        "kafka_server_add_partitions_to_txn_manager_verification_time_ms",
        "How long coordinators took to say whether transactional records may be let in.",
        (),
        lambda: [((), admission.verification_ms)],
    )
