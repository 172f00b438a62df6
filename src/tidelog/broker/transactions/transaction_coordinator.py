"""The transaction coordinator of a node: joins the shards of `coordination.transaction` with the node's partitions, the cluster's
metadata and the markers that a decided transaction needs.

With one replica all of a transaction's end happens on one stack: the outcome is recorded, the markers are written, and that they
are is recorded, before the answer to EndTxn leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from tidelog.broker.coordinators.broker_requests import LinkTo
from tidelog.broker.coordinators.coordinator_elections import CoordinatorElections, Hosting
from tidelog.broker.transactions.cluster_markers import ClusterMarkers
from tidelog.broker.transactions.transaction_markers import GroupLogs, LocalMarkers, TransactionMarkers
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.coordination.coordinator_log import CoordinatorPartition
from tidelog.coordination.decision import Decision
from tidelog.coordination.host import CoordinatorHost, HostSeams
from tidelog.coordination.transaction import ending, initialising
from tidelog.coordination.transaction.markers_due import MarkersDue
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.coordination.transaction.transaction_shard import TransactionShard
from tidelog.model import transaction_config as keys
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID, NodeId, TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE
from tidelog.model.java_hash import partition_of
from tidelog.model.pending import Pending
from tidelog.model.timers import Timers
from tidelog.replication.partition import ALL_IN_SYNC
from tidelog.storage.seams import Seams
from tidelog.wire.internal_records import CoordinatorLog
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transactions import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from tidelog.broker.transactions.transaction_trace import TransactionTrace

A = TypeVar("A")

TRANSACTION_VERSION = "transaction.version"


class TransactionCoordinator:
    """The transactional ids whose partition of `__transaction_state` this node leads."""

    def __init__(
        self,
        node: Hosting,
        config: ConfigValues,
        seams: Seams,
        timers: Timers,
        turn: AbstractContextManager[None],
        *,
        groups: GroupLogs,
        next_producer_id: Callable[[], Pending[int]],
        link_to: LinkTo,
    ) -> None:
        self._node = node
        self._next_producer_id = next_producer_id
        self.traces: dict[str, TransactionTrace] = {}
        """Who listens to a transactional id, by that id; empty where nobody does."""
        self.settings = TransactionSettings(
            max_timeout_ms=config[keys.TRANSACTION_MAX_TIMEOUT_MS],
            transactional_id_expiration_ms=config[keys.TRANSACTIONAL_ID_EXPIRATION_MS],
            remove_expired_interval_ms=config[keys.TRANSACTION_REMOVE_EXPIRED_INTERVAL_MS],
            abort_timed_out_interval_ms=config[keys.TRANSACTION_ABORT_TIMED_OUT_INTERVAL_MS],
            is_two_phase_commit_enabled=config[keys.TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
            transaction_version=self.transaction_version,
        )
        self._elections = CoordinatorElections(
            node, TRANSACTION_STATE, config[keys.TRANSACTION_STATE_LOG_NUM_PARTITIONS]
        )
        self._host: CoordinatorHost[TransactionShard] = CoordinatorHost(
            CoordinatorLog.TRANSACTION_STATE,
            self._new_shard,
            HostSeams(seams.clock, timers, seams.slow_work, turn),
            required_acks=ALL_IN_SYNC,
            commit_timeout_ms=config[keys.REQUEST_TIMEOUT_MS],
            load_buffer_bytes=config[keys.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE],
        )
        self.local_markers = LocalMarkers(node, groups, seams.clock)
        self._cluster_markers = ClusterMarkers(node, self.local_markers, link_to, turn)
        self.markers = TransactionMarkers(
            self._cluster_markers, timers, turn, is_wanted=self._is_wanted, written=self._markers_written
        )

    def _new_shard(self, _index: int, leader_epoch: int, _partition: CoordinatorPartition) -> TransactionShard:
        # A loop between the two: a shard decides what is to be written, and is told when it is.
        return TransactionShard(self.settings, leader_epoch, self.markers.send, self.traces)

    def transaction_version(self) -> int:
        """The level of the feature that the cluster has agreed on."""
        return self._node.image.features.get(TRANSACTION_VERSION, 0)

    # --- following the cluster ---------------------------------------------------------------------------------------------

    def follow(self, image: ClusterImage, delta: ImageDelta | None = None) -> None:
        """Lead what the metadata says, after the node's partitions and its group coordinator have followed it."""
        self._elections.follow(self._host, image, delta)
        self._cluster_markers.follow(image)

    def stop(self) -> None:
        """The node stops."""
        self.markers.stop()
        self._cluster_markers.stop()
        self._host.close()

    def partition_of(self, transactional_id: str) -> int:
        return self._elections.partition_of(transactional_id)

    def leader_of(self, transactional_id: str) -> NodeId | None:
        """The broker that coordinates a transactional id at the moment."""
        return self._elections.leader_of(transactional_id)

    def coordinates(self, transactional_id: str) -> bool:
        """Whether this node decides about it at the moment."""
        return self._host.active(self.partition_of(transactional_id)) is not None

    def answers_at_once(self, transactional_id: str) -> bool:
        """Whether this node coordinates it, and what it decides is committed as it is written."""
        active = self._host.active(self.partition_of(transactional_id))
        return active is not None and active.commits_at_once

    # --- producers ---------------------------------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerIdRequest
    ) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
        def decide(fresh_producer_id: int) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
            return self._host.decide(
                index,
                lambda shard, now_ms: shard.init_producer_id(request, fresh_producer_id, now_ms),
                initialising.refused,
            )

        index = self.partition_of(request.transactional_id or "")
        shard = self._host.shard(index)
        is_new = not isinstance(shard, ErrorCode) and shard.needs_producer_id(request)
        return self._with_fresh_producer_id(decide) if is_new else decide(NO_PRODUCER_ID)

    def end(self, request: EndTxnRequest, transaction_version: int) -> EndTxnResponse | Pending[EndTxnResponse]:
        """Commit or abort. `transaction_version` is the one that the client goes by."""

        def decide(fresh_producer_id: int) -> EndTxnResponse | Pending[EndTxnResponse]:
            return self._host.decide(
                index,
                lambda shard, now_ms: shard.end(request, transaction_version, now_ms, fresh_producer_id),
                ending.refused,
            )

        index = self.partition_of(request.transactional_id)
        shard = self._host.shard(index)
        is_new = not isinstance(shard, ErrorCode) and shard.end_needs_producer_id(request, transaction_version)
        return self._with_fresh_producer_id(decide) if is_new else decide(NO_PRODUCER_ID)

    def _with_fresh_producer_id(self, decide: Callable[[int], A | Pending[A]]) -> A | Pending[A]:
        """Decide with a producer id that nobody has had, which the controller may have to be asked for."""
        fresh = self._next_producer_id()
        if fresh.is_complete:
            return decide(fresh.value)
        answer: Pending[A] = Pending()

        def arrived(producer_id: int) -> None:
            decided = decide(producer_id)
            if isinstance(decided, Pending):
                decided.then(answer.complete)
            else:
                answer.complete(decided)

        fresh.then(arrived)
        return answer

    # --- partitions --------------------------------------------------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        transaction_version: int,
    ) -> ErrorCode | Pending[ErrorCode]:
        """Take partitions into the producer's transaction."""

        def decide(shard: TransactionShard, now_ms: int) -> Decision[ErrorCode]:
            return shard.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, transaction_version, now_ms
            )

        return self._host.decide(self.partition_of(transactional_id), decide, lambda error: error)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is part of the producer's transaction."""
        shard = self._host.shard(self.partition_of(transactional_id))
        if isinstance(shard, ErrorCode):
            return dict.fromkeys(partitions, shard)
        return shard.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)

    def has_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> bool:
        """Whether this node coordinates the transaction, and all of the partitions are part of it."""
        active = self._host.active(partition_of(transactional_id, self._elections.partition_count))
        return active is not None and active.shard.has_partitions(
            transactional_id, producer_id, producer_epoch, partitions
        )

    # --- markers -----------------------------------------------------------------------------------------------------------

    def _is_wanted(self, due: MarkersDue) -> bool:
        return self._host.leader_epoch(self.partition_of(due.transactional_id)) == due.coordinator_epoch

    def _markers_written(self, due: MarkersDue) -> None:
        def decide(shard: TransactionShard, now_ms: int) -> Decision[None]:
            return shard.markers_written(due.transactional_id, due.producer_id, due.producer_epoch, now_ms)

        # Where that cannot be written down, the shard tries again.
        self._host.decide(self.partition_of(due.transactional_id), decide, lambda _error: None)

    # --- administration ----------------------------------------------------------------------------------------------------

    def read_committed(
        self,
        transactional_id: str,
        read: Callable[[TransactionShard, int], A],
        refuse: Callable[[ErrorCode], A],
    ) -> A:
        """What the shard of a transactional id knows at the present time, which is what is committed."""
        now_ms = self._host.now_ms()
        return self._host.read_committed(self.partition_of(transactional_id), lambda shard: read(shard, now_ms), refuse)

    @property
    def now_ms(self) -> int:
        """The time that the shards go by."""
        return self._host.now_ms()

    @property
    def is_loading(self) -> bool:
        """Whether some transactional id that belongs here may not be known yet."""
        return self._host.is_loading

    def shards(self) -> Iterator[TransactionShard]:
        return self._host.active_shards()
