"""What a client knows of the cluster: its brokers, and who leads which partition of the topics that the client cares for.

    metadata.add_topic("orders")
    topic = await metadata.topic("orders", timeout_ms=60_000)
    metadata.leader_of("orders", 3)                    # Leader(node_id, epoch) or None
    metadata.request_update()                          # after an error that says that this is old

One request is under way at a time. It is made when somebody asks for it, when the last answer is `metadata_max_age_ms` old, and,
with growing waits, as long as a topic or leader of interest is missing. A leader epoch never goes back: brokers learn of an
election one after the other, and an answer from one that is behind must not undo what another one said.

Once no known broker is reached any more the client goes back to its bootstrap servers (KIP-899, KIP-1102).

Where the cluster does not let the client in, whoever waits is told at once, and nobody is asked until somebody wants to know
again: a wrong password does not get better by itself, and may lock its user out.

Read from any thread; changed on the loop's only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.client.connections import Connections
from tidelog.client.errors import AuthenticationError, ClientError, ClosedError, TimedOutError, refusal
from tidelog.client.given_names import checked_name
from tidelog.client.options import ClientOptions
from tidelog.client.retries import RetryBackoff, needs_metadata
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.net.address import Address
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Broker(NamedTuple):
    node_id: int
    address: Address
    rack: str | None


class Leader(NamedTuple):
    node_id: int
    epoch: int
    """-1 from brokers that do not tell."""


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    index: int
    leader: Leader | None
    leader_epoch: int
    """The newest epoch seen, also while there is no leader. -1 where brokers do not tell."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic. `error` is set, and `partitions` empty, where the cluster answers with an error for it."""

    name: str
    id: bytes
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]
    error: ErrorCode = ErrorCode.NONE

    def leader_of(self, partition: int) -> Leader | None:
        return self.partitions[partition].leader if 0 <= partition < len(self.partitions) else None


# Errors that are not retriable.
_FINAL_TOPIC_ERRORS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


class ClusterMetadata:
    """One for each client, shared by its parts."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        options: ClientOptions,
        *,
        allow_auto_topic_creation: bool = True,
    ) -> None:
        self._loop = seams.loop
        self._connections = connections
        self._options = options
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.names_by_id: dict[bytes, str] = {}
        self.cluster_id: str | None = None
        self.controller_id: int | None = None
        self.version = 0
        """Counts what has changed; an equal number means that nothing has."""
        self.error: ClientError | None = None
        """Why the last attempt failed; None after a success."""
        self._wanted: dict[str, None] = {}
        self._wants_all = False
        # Topics that are only looked for: while there are any, no request may create one.
        self._looked_for: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._not_let_in: AuthenticationError | None = None
        self._in_flight = False
        self._again = False
        # Topics that were added since the last request; None once everything is to be asked for.
        self._new_topics: dict[str, None] | None = {}
        self._failures = 0
        # Brokers that were asked in vain since the last answer.
        self._silent: set[int] = set()
        self._asked = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last_success_s = self._loop.time()
        self._is_closed = False
        # Partitions may have gone to other brokers; and where there are none, this is what leads back to one that was down.
        connections.when_down(self.request_update)

    # What the client cares for.

    @property
    def wanted_topics(self) -> Sequence[str]:
        return tuple(self._wanted)

    def add_topic(self, name: str) -> None:
        """Care for a topic from now on, and ask for it soon."""
        self.add_topics((name,))

    def add_topics(self, names: Iterable[str]) -> None:
        new = [name for name in (checked_name(name, "topics") for name in names) if name not in self._wanted]
        if not new:
            return
        self._wanted.update(dict.fromkeys(new))
        if self._new_topics is not None:
            self._new_topics.update(dict.fromkeys(new))
        self._ask_soon()

    def set_topics(self, names: Iterable[str]) -> None:
        """Care for these topics, and no others."""
        wanted = dict.fromkeys(names)
        for name in [name for name in self._wanted if name not in wanted]:
            self.remove_topic(name)
        self.add_topics(wanted)

    def remove_topic(self, name: str) -> None:
        """No longer care for a topic, and forget it."""
        self._wanted.pop(name, None)
        if not self._wants_all:
            self._forget(name)

    def want_all_topics(self, wanted: bool = True) -> None:
        """Ask for every topic that there is, for those who choose by a pattern."""
        if wanted != self._wants_all:
            self._wants_all = wanted
            if wanted:
                self.request_update()

    # What is known.

    def leader_of(self, topic: str, partition: int) -> Leader | None:
        known = self.topics.get(topic)
        return None if known is None else known.leader_of(partition)

    def partition_of(self, topic: str, partition: int) -> PartitionMetadata | None:
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        return known.partitions[partition]

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop after each answer, and after each leader that was learned otherwise."""
        self._listeners.append(listener)

    def off_change(self, listener: Callable[[], None]) -> None:
        """Call it no more."""
        self._listeners.remove(listener)

    # Asking.

    def request_update(self) -> None:
        """Ask for everything anew, soon: at once, or after a wait where asking has just failed or been done."""
        self._new_topics = None
        self._ask_soon()

    def take_authentication_error(self) -> AuthenticationError | None:
        """Why the cluster does not let the client in, told once; the next attempt is then under way."""
        error, self._not_let_in = self._not_let_in, None
        if error is not None:
            self.request_update()
        return error

    async def updated(self, timeout_ms: float) -> None:
        """Wait for the next answer. TimedOutError says why there was none, as far as known; AuthenticationError comes at once."""
        if self._is_closed:
            raise ClosedError("the client is closed")
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError:
            reason = self._connections.because(self.error)
            raise TimedOutError(f"the cluster's metadata did not come within {timeout_ms:g} ms{reason}") from self.error

    async def topic(self, name: str, timeout_ms: float) -> TopicMetadata:
        """A topic that exists, waiting for it where needed. TimedOutError where it does not in time, RefusedError at once
        where waiting cannot help."""
        deadline_s = self._loop.time() + timeout_ms / 1000
        self.add_topic(name)
        while True:
            known = self.topics.get(name)
            if known is not None and known.partitions:
                return known
            if known is not None and known.error in _FINAL_TOPIC_ERRORS:
                raise refusal(known.error, None, about=f"topic {name}")
            remaining_ms = (deadline_s - self._loop.time()) * 1000
            if remaining_ms <= 0:
                raise _no_topic(name, timeout_ms, known)
            self._new_topic(name)
            try:
                await self.updated(remaining_ms)
            except TimedOutError as error:
                if self.error is not None or not self._connections.reachability.was_reached:
                    raise
                raise _no_topic(name, timeout_ms, self.topics.get(name)) from error

    async def find(self, name: str, timeout_ms: float) -> TopicMetadata | None:
        """A topic that exists, and None as soon as the cluster says that it does not. Creates none, whatever the client may.
        TimedOutError where nothing is said in time, RefusedError for a topic that nobody can have or this client not see."""
        known = self.topics.get(name)
        if known is not None and known.partitions:
            return known
        was_wanted = name in self._wanted
        deadline_s = self._loop.time() + timeout_ms / 1000
        self._looked_for.add(name)
        try:
            while True:
                self.add_topic(name)
                self._new_topic(name)
                await self.updated(max(0.0, (deadline_s - self._loop.time()) * 1000))
                known = self.topics.get(name)
                if known is not None and known.partitions:
                    return known
                if known is not None and known.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    return None
                if known is not None and known.error in _FINAL_TOPIC_ERRORS:
                    raise refusal(known.error, None, about=f"topic {name}")
        finally:
            self._looked_for.discard(name)
            if not was_wanted and (known is None or not known.partitions):
                self.remove_topic(name)

    def learn_leader(
        self, topic: str, partition: int, leader: Leader, endpoints: Iterable[tuple[int, Address]] = ()
    ) -> bool:
        """A leader that an answer named beside its error (KIP-951). Whether it was news."""
        known = self.topics.get(topic)
        current = self.partition_of(topic, partition)
        if known is None or current is None or leader.node_id < 0 or leader.epoch <= current.leader_epoch:
            return False
        for node_id, address in endpoints:
            self._connections.learn(node_id, address)
            self.brokers.setdefault(node_id, Broker(node_id, address, None))
        if leader.node_id not in self.brokers:
            return False
        changed = PartitionMetadata(partition, leader, leader.epoch, current.replicas, current.in_sync, current.offline)
        partitions = (*known.partitions[:partition], changed, *known.partitions[partition + 1 :])
        self.topics[topic] = TopicMetadata(known.name, known.id, known.is_internal, partitions)
        self._tell()
        return True

    def close(self) -> None:
        """Ask no more; whoever waits gets ClosedError."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(ClosedError("the client is closed"))

    # One request at a time.

    def _new_topic(self, name: str) -> None:
        if self._new_topics is not None:
            self._new_topics[name] = None
        self._ask_soon()

    def _ask_soon(self) -> None:
        if self._is_closed:
            return
        if self._in_flight:
            self._again = True
        elif self._failures == 0:
            self._ask_after(0)
        elif self._timer is None:
            self._ask_after(self._backoff.after(self._failures))
        # Otherwise the wait after a failure is under way, and asking sooner would not help.

    def _ask_after(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_ms / 1000, self._ask)

    def _ask(self) -> None:
        self._timer = None
        node_id = self._connections.least_loaded()
        silent_ms = (self._loop.time() - self._last_success_s) * 1000
        may_rebootstrap = (
            self._options.metadata_recovery_strategy == "rebootstrap" and self._connections.is_bootstrapped
        )
        if may_rebootstrap and (
            node_id is None
            or self._silent.issuperset(self.brokers)
            or silent_ms > self._options.metadata_recovery_rebootstrap_trigger_ms + self._age_ms()
        ):
            self._rebootstrap()
            node_id = self._connections.least_loaded()
        if node_id is None:
            self._failed(None)
            return
        names = None if self._wants_all else self._wanted
        if self._new_topics is not None and self.version and not self._wants_all:
            names = self._new_topics
        self._new_topics = {}
        self._in_flight, self._again = True, False
        self._asked = node_id
        self._connections.send(node_id, self._request(names), MetadataResponse, self._answered)

    def _age_ms(self) -> int:
        """Silence is normal until the metadata is due again."""
        return self._options.metadata_max_age_ms

    def _request(self, names: Iterable[str] | None) -> Callable[[int], MetadataRequest]:
        listed = None if names is None else list(names)

        def request(version: int) -> MetadataRequest:
            # In v0 an empty list stands for all topics, and there is no way to ask for none.
            topics = [] if listed is None and version == 0 else listed
            return MetadataRequest(
                topics=None
                if topics is None
                else [MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in topics],
                allow_auto_topic_creation=(self._allow_auto_topic_creation and not self._looked_for) or version < 4,
                include_topic_authorized_operations=False,
            )

        return request

    def _answered(self, answer: MetadataResponse | ClientError) -> None:
        self._in_flight = False
        if self._is_closed:
            return
        if isinstance(answer, AuthenticationError):
            self._refused_entry(answer)
        elif isinstance(answer, ClientError):
            self._silent.add(self._asked)
            self._failed(answer)
        elif answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._rebootstrap()
            self._failed(refusal(answer.error_code, None))
        elif answer.error_code:
            self._failed(refusal(answer.error_code, None))
        elif not answer.brokers:
            # A node that is still starting. Without brokers there is nobody to ask next time.
            self._failed(refusal(ErrorCode.BROKER_NOT_AVAILABLE, "the answer names no broker"))
        else:
            self._succeeded(answer)

    def _rebootstrap(self) -> None:
        self._connections.rebootstrap()
        self.brokers = {}
        self._silent.clear()
        self._new_topics = None
        self._last_success_s = self._loop.time()

    def _failed(self, error: ClientError | None) -> None:
        if error is not None:
            self.error = error
        self._new_topics = None
        self._failures += 1
        # Another node is tried sooner than the same one again.
        self._ask_after(self._backoff.after(self._failures))

    def _refused_entry(self, error: AuthenticationError) -> None:
        self.error = self._not_let_in = error
        self._new_topics = None
        self._failures += 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
        for listener in self._listeners:
            listener()

    def _succeeded(self, answer: MetadataResponse) -> None:
        self.error = self._not_let_in = None
        self._silent.clear()
        self._last_success_s = self._loop.time()
        is_complete = self._apply(answer)
        self._failures = 0 if is_complete else self._failures + 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._tell()
        if not is_complete:
            self._new_topics = None
            self._ask_after(self._backoff.after(self._failures))
        elif self._again:
            # At once would ask as often as answers come, where somebody complains about each of them.
            self._ask_after(0 if self._new_topics else self._backoff.after(1))
        elif self._timer is None:
            self._new_topics = None if self._new_topics is None else self._new_topics
            self._timer = self._loop.call_later(self._options.metadata_max_age_ms / 1000, self._grown_old)

    def _grown_old(self) -> None:
        self._new_topics = None
        self._ask()

    def _tell(self) -> None:
        self.version += 1
        for listener in self._listeners:
            listener()

    # What an answer says.

    def _apply(self, answer: MetadataResponse) -> bool:
        """Whether the answer covers every topic that is of interest."""
        self.brokers = {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack) for each in answer.brokers
        }
        self._connections.update_brokers({each.node_id: each.address for each in self.brokers.values()})
        self.controller_id = answer.controller_id if answer.controller_id in self.brokers else None
        self.cluster_id = answer.cluster_id
        is_complete = True
        for topic in answer.topics:
            name = topic.name
            if name is None or not (self._wants_all or name in self._wanted):
                continue
            if topic.error_code:
                is_complete = self._apply_topic_error(name, topic) and is_complete
            else:
                is_complete = self._apply_topic(name, topic) and is_complete
        if self._wants_all:
            there = {topic.name for topic in answer.topics}
            for name in [name for name in self.topics if name not in there]:
                self._forget(name)
        return is_complete

    def _apply_topic_error(self, name: str, topic: MetadataResponseTopic) -> bool:
        code = ErrorCode.of(topic.error_code)
        known = self.topics.get(name)
        if known is None or not known.partitions or not code.retriable or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._forget(name)
            self.topics[name] = TopicMetadata(name, ZERO_UUID, False, (), code)
        return not code.retriable

    def _apply_topic(self, name: str, topic: MetadataResponseTopic) -> bool:
        before = self.topics.get(name)
        is_same = before is not None and (before.id == topic.topic_id or ZERO_UUID in {before.id, topic.topic_id})
        known = before.partitions if before is not None and is_same else ()
        partitions: list[PartitionMetadata] = []
        is_complete = True
        for index, each in enumerate(sorted(topic.partitions, key=lambda partition: partition.partition_index)):
            if each.partition_index != index:
                # A hole would put every later partition in a wrong place; the next answer may be whole.
                is_complete = False
                break
            newest = known[index] if index < len(known) else None
            partition = _partition(each)
            if newest is not None and 0 <= partition.leader_epoch < newest.leader_epoch:
                partition = newest
            partitions.append(partition)
            is_complete = is_complete and partition.leader is not None and not needs_metadata(each.error_code)
        if before is not None and before.id != topic.topic_id:
            self.names_by_id.pop(before.id, None)
        self.topics[name] = TopicMetadata(name, topic.topic_id, topic.is_internal, tuple(partitions))
        if topic.topic_id != ZERO_UUID:
            self.names_by_id[topic.topic_id] = name
        return is_complete

    def _forget(self, name: str) -> None:
        known = self.topics.pop(name, None)
        if known is not None:
            self.names_by_id.pop(known.id, None)


def _partition(each: MetadataResponsePartition) -> PartitionMetadata:
    leader = Leader(each.leader_id, each.leader_epoch) if each.leader_id >= 0 else None
    return PartitionMetadata(
        each.partition_index,
        leader,
        each.leader_epoch,
        tuple(each.replica_nodes),
        tuple(each.isr_nodes),
        tuple(each.offline_replicas),
    )


def _no_topic(name: str, timeout_ms: float, known: TopicMetadata | None) -> TimedOutError:
    why = (
        "it does not exist"
        if known is not None and known.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else (known.error.message if known is not None and known.error else "there is no answer about it")
    )
    return TimedOutError(f"topic {name} was not found within {timeout_ms:g} ms: {why}")
