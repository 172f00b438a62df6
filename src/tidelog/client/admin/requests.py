"""An admin's requests: to whom each goes, and which are tried again.

    answer = await requests.ask(CONTROLLER, request, CreateTopicsResponse, codes=..., is_repeatable=False)

A question is asked again as long as that may help and time is left. A change that may have been made although no answer came is
asked again only where doing it twice is the same as once (`is_repeatable`); any change is asked again where the answer says that
it was not made, as from a node that is no longer the coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tidelog import __version__
from tidelog.client.admin.options import AdminOptions
from tidelog.client.admin.outcomes import each_of, no_topic, topic_error
from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Connections, Versioned
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.coordinators import CoordinatorKind, Coordinators
from tidelog.client.errors import (
    ClientError,
    ClosedError,
    NotReachedError,
    RefusedError,
    TimedOutError,
    UnsupportedError,
    refusal,
)
from tidelog.client.retries import LOST_COORDINATOR, STALE_METADATA, RetryBackoff
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.net.address import Address
from tidelog.wire.apis import ApiKey
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidelog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)
V = TypeVar("V")
X = TypeVar("X")


@dataclass(frozen=True, slots=True)
class Anyone:
    """Whichever broker is there."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The active controller, or a broker that passes requests on to it, as all have since KRaft."""


@dataclass(frozen=True, slots=True)
class OneBroker:
    """A broker that alone can answer."""

    node_id: int


@dataclass(frozen=True, slots=True)
class GroupCoordinator:
    """The broker that keeps a group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class TransactionCoordinator:
    """The broker that keeps a transactional id."""

    transactional_id: str


Route: TypeAlias = Anyone | Controller | OneBroker | GroupCoordinator | TransactionCoordinator

ANYONE = Anyone()
CONTROLLER = Controller()

_NOT_DONE = LOST_COORDINATOR | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Errors that say that nothing was done, and that the same may succeed later."""

_LEADER_MOVED = STALE_METADATA - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def no_codes(_answer: Response) -> Iterable[int]:
    return ()


class Requests:
    """The connections of one admin, and how it uses them."""

    def __init__(self, seams: ClientSeams, options: AdminOptions) -> None:
        self._loop = seams.loop
        self.clock = seams.clock
        self.options = options
        self._connections = Connections(seams, options)
        # Only for the way back to the bootstrap servers: what an admin wants to know it asks for when it is asked.
        self._metadata = ClusterMetadata(seams, self._connections, options, allow_auto_topic_creation=False)
        self._coordinators = Coordinators(seams, self._connections, self._metadata, options)
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._brokers: tuple[int, ...] = ()
        self._controller_id = -1

    def close(self) -> None:
        self._metadata.close()
        self._connections.close()

    async def connect(self) -> None:
        """Reach one of the bootstrap servers, each tried once. NotReachedError says what was wrong with each of them."""
        problems: list[str] = []
        for index in range(len(self.options.bootstrap_servers)):
            try:
                self._learn(await self._connections.ask(-1 - index, metadata_request([]), MetadataResponse))
            except ClosedError:
                raise
            except NotReachedError as error:
                problems.append(str(error))
            else:
                return
        raise NotReachedError("; ".join(problems))

    async def broker_ids(self) -> Sequence[int]:
        """The brokers that are there now."""
        self._learn(
            await self.ask(ANYONE, metadata_request([]), MetadataResponse, codes=lambda each: [each.error_code])
        )
        return self._brokers

    def coordinator_of(self, group_id: str) -> int | None:
        """The broker that answered last for a group."""
        return self._coordinators.known(CoordinatorKind.GROUP, group_id)

    def transaction_coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that answered last for a transactional id."""
        return self._coordinators.known(CoordinatorKind.TRANSACTION, transactional_id)

    def feature_level(self, name: str) -> int:
        """The level of a feature that the cluster has agreed on, as nodes that were asked have told; 0 for none."""
        return self._connections.feature_level(name)

    # One request.

    async def ask(
        self,
        route: Route,
        request: Request | Versioned,
        answer: type[R],
        *,
        codes: Callable[[R], Iterable[int]] = no_codes,
        is_repeatable: bool = True,
        version_max: Callable[[], int | None] | None = None,
    ) -> R:
        """The answer, in which `codes` finds the errors. Those that remain are the caller's to read. `version_max` is asked
        for once the node has said what it speaks.

        NotReachedError or TimedOutError where there is no answer; UnsupportedError; ClientError for a broker that is not there.
        """
        attempts = self._attempts()
        while True:
            try:
                node_id = await self._node(route, attempts)
                if not is_repeatable or version_max is not None:
                    await self._greet(node_id, attempts)
            except NotReachedError as error:
                await self._again(attempts, route, error)
                continue
            try:
                answered = await self._connections.ask(
                    node_id,
                    request,
                    answer,
                    timeout_ms=attempts.request_timeout_ms,
                    version_max=None if version_max is None else version_max(),
                )
            except NotReachedError as error:
                if not is_repeatable:
                    raise
                await self._again(attempts, route, error)
                continue
            problem = next((code for code in map(ErrorCode.of, codes(answered)) if code in _NOT_DONE), None)
            if problem is None:
                return answered
            await self._again(attempts, route, refusal(problem, None))

    async def _again(self, attempts: Attempts, route: Route, reason: ClientError) -> None:
        match route:
            case Controller():
                self._controller_id = -1
            case GroupCoordinator(group_id):
                self._coordinators.lost(CoordinatorKind.GROUP, group_id)
            case TransactionCoordinator(transactional_id):
                self._coordinators.lost(CoordinatorKind.TRANSACTION, transactional_id)
        await attempts.again_after(reason)

    async def _greet(self, node_id: int, attempts: Attempts) -> None:
        """Before a change that cannot be repeated: a node that has been heard of is not likely to be out of reach."""
        if self._connections.version_of(node_id, ApiKey.API_VERSIONS) is None:
            request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
            await self._connections.ask(node_id, request, ApiVersionsResponse, timeout_ms=attempts.request_timeout_ms)

    async def _node(self, route: Route, attempts: Attempts) -> int:
        match route:
            case Anyone():
                return self._anyone()
            case Controller():
                if self._controller_id < 0:
                    await self._refresh(attempts)
                return self._controller_id if self._controller_id >= 0 else self._anyone()
            case OneBroker(node_id):
                if node_id not in self._brokers:
                    await self._refresh(attempts)
                if node_id not in self._brokers:
                    raise RefusedError(
                        ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {node_id} at the moment"
                    )
                return node_id
            case GroupCoordinator(group_id):
                return await self._coordinators.find(
                    CoordinatorKind.GROUP, group_id, timeout_ms=max(1, attempts.remaining_ms)
                )
            case TransactionCoordinator(transactional_id):
                return await self._coordinators.find(
                    CoordinatorKind.TRANSACTION, transactional_id, timeout_ms=max(1, attempts.remaining_ms)
                )

    def _anyone(self) -> int:
        node_id = self._connections.least_loaded()
        if node_id is None:
            # Asking for the metadata is what leads back to the bootstrap servers.
            self._metadata.request_update()
            raise self._connections.not_reached()
        return node_id

    async def _refresh(self, attempts: Attempts) -> None:
        answer = await self._connections.ask(
            self._anyone(), metadata_request([]), MetadataResponse, timeout_ms=attempts.request_timeout_ms
        )
        if answer.error_code:
            raise refusal(answer.error_code, None)
        self._learn(answer)

    def _learn(self, answer: MetadataResponse) -> None:
        if not answer.brokers:
            return
        addresses = {each.node_id: Address(each.host, each.port) for each in answer.brokers}
        self._connections.update_brokers(addresses)
        self._brokers = tuple(sorted(addresses))
        self._controller_id = answer.controller_id if answer.controller_id in addresses else -1

    def _attempts(self) -> Attempts:
        return Attempts(self._loop, self.options, self._backoff, self._connections)

    # Topics, and the leaders of their partitions.

    async def topics(
        self, names: Iterable[str] | None = None, *, ids: Iterable[bytes] = ()
    ) -> list[MetadataResponseTopic]:
        """What the cluster says of topics, errors included: those of these names or ids, or all."""
        wanted = None if names is None else list(names)
        by_id = list(ids)
        if wanted is not None and not wanted and not by_id:
            return []
        request = metadata_request(wanted, by_id)
        answer = await self.ask(ANYONE, request, MetadataResponse, codes=lambda each: [each.error_code])
        if answer.error_code:
            raise refusal(answer.error_code, None)
        self._learn(answer)
        return answer.topics

    async def ask_leaders(
        self,
        wanted: Mapping[TopicPartition, X],
        request: Callable[[Mapping[TopicPartition, X]], Request | Versioned],
        answer: type[R],
        read: Callable[[R], Iterable[tuple[TopicPartition, int, V]]],
    ) -> dict[TopicPartition, V | ClientError]:
        """Ask each partition's leader, and again where it has moved. `read` gives the code and the value of each partition.

        What is asked has to be such that asking twice does no harm.
        """
        outcomes: dict[TopicPartition, V | ClientError] = {}
        pending = dict(wanted)
        attempts = self._attempts()
        while pending:
            leaders = await self._leaders(pending)
            reason: ClientError | None = None
            by_node: dict[int, dict[TopicPartition, X]] = {}
            for partition, leader in leaders.items():
                if isinstance(leader, int):
                    by_node.setdefault(leader, {})[partition] = pending[partition]
                elif leader.code in _LEADER_MOVED:
                    reason = leader
                else:
                    outcomes[partition] = leader
            answers = await each_of(
                by_node,
                lambda node_id: self._connections.ask(
                    node_id,
                    request(by_node[node_id]),  # noqa: B023 - awaited within this round
                    answer,
                    timeout_ms=attempts.request_timeout_ms,
                ),
            )
            for node_id, answered in answers.items():
                if isinstance(answered, NotReachedError):
                    reason = answered
                elif isinstance(answered, ClientError):
                    outcomes.update(dict.fromkeys(by_node[node_id], answered))
                else:
                    for partition, code, value in read(answered):
                        if ErrorCode.of(code) in _LEADER_MOVED:
                            reason = refusal(code, None, about=str(partition))
                        else:
                            outcomes[partition] = value if not code else refusal(code, None, about=str(partition))
            pending = {partition: asked for partition, asked in pending.items() if partition not in outcomes}
            if pending:
                try:
                    await attempts.again_after(reason or NotReachedError("the leader's answer leaves it out"))
                except TimedOutError as error:
                    outcomes.update(dict.fromkeys(pending, error))
                    break
        return {partition: outcomes[partition] for partition in wanted}

    async def _leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | RefusedError]:
        wanted = list(partitions)
        topics = {each.name: each for each in await self.topics({each.topic for each in wanted})}
        leaders: dict[TopicPartition, int | RefusedError] = {}
        for partition in wanted:
            topic = topics.get(partition.topic)
            error = no_topic(partition.topic) if topic is None else topic_error(partition.topic, topic.error_code)
            if error is not None or topic is None:
                leaders[partition] = error or no_topic(partition.topic)
                continue
            found = next((each for each in topic.partitions if each.partition_index == partition.partition), None)
            if found is None:
                sentence = f"topic {partition.topic} has no partition {partition.partition}"
                leaders[partition] = RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence)
            elif found.leader_id < 0:
                leaders[partition] = refusal(ErrorCode.LEADER_NOT_AVAILABLE, None, about=str(partition))
            else:
                leaders[partition] = found.leader_id
        return leaders


class Attempts:
    """The attempts at one call: how long it may still take, and how long to wait between two of them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: AdminOptions,
        backoff: RetryBackoff,
        connections: Connections,
    ) -> None:
        self._loop = loop
        self._options = options
        self._backoff = backoff
        self._connections = connections
        self._deadline_s = loop.time() + options.default_api_timeout_ms / 1000
        self._failures = 0

    @property
    def remaining_ms(self) -> int:
        return max(0, int((self._deadline_s - self._loop.time()) * 1000))

    @property
    def request_timeout_ms(self) -> int:
        return max(1, min(self._options.request_timeout_ms, self.remaining_ms))

    async def again_after(self, reason: ClientError) -> None:
        """Wait before the next attempt. TimedOutError, with the reason, where there is no time for one."""
        self._failures += 1
        wait_ms = self._backoff.after(self._failures)
        remaining_ms = self.remaining_ms
        if wait_ms >= remaining_ms:
            limit_ms = self._options.default_api_timeout_ms
            raise TimedOutError(
                f"there was no good answer in {limit_ms - remaining_ms} ms, and the {limit_ms} ms of default_api_timeout_ms "
                f"leave no time to try again{self._connections.because(reason)}"
            ) from reason
        await asyncio.sleep(wait_ms / 1000)


def metadata_request(names: Iterable[str] | None, ids: Iterable[bytes] = ()) -> Callable[[int], MetadataRequest]:
    """Ask for topics by name and by id, or for all; for none with an empty list. Creates none."""
    by_name = None if names is None else list(names)
    by_id = list(ids)

    def request(version: int) -> MetadataRequest:
        if by_id and version < 12:
            raise UnsupportedError("the cluster is too old to be asked for topics by their ids")
        topics = None
        if by_name is not None or version == 0:
            topics = [MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in by_name or ()]
            topics += [MetadataRequestTopic(topic_id=each, name=None) for each in by_id]
        return MetadataRequest(
            topics=topics, allow_auto_topic_creation=version < 4, include_topic_authorized_operations=False
        )

    return request
