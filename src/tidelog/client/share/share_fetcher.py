"""Fetching and acknowledging: one request at a time to each broker that leads a partition of this member.

    fetch            ShareFetch to every leader, over and over until one of them has given records; what was said rides along
    acknowledge      ShareAcknowledge, as soon as the broker is free

Nothing is fetched ahead: the lock of a record begins when it is acquired, not when the application gets it. With `record_limit`
only one broker at a time is asked, since each would give as many as were asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.client.cluster_metadata import ClusterMetadata, Leader
from tidelog.client.connections import Connections
from tidelog.client.errors import ClientError, ClosedError, TimedOutError, UnsupportedError, refusal
from tidelog.client.retries import RetryBackoff, needs_metadata
from tidelog.client.seams import ClientSeams
from tidelog.client.share.acknowledgements import Acknowledgements
from tidelog.client.share.acquired_partition import AcquiredPartition
from tidelog.client.share.errors import acknowledgement_refused
from tidelog.client.share.options import ACQUIRE_MODES, ShareOptions
from tidelog.client.share.places import Place
from tidelog.client.share.records_in_hand import Origin, Said
from tidelog.client.share.share_broker import Saying, ShareBroker
from tidelog.model.errors import ErrorCode
from tidelog.net.address import Address
from tidelog.wire.messages.share_fetch import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

log = logging.getLogger(__name__)

# Errors of a partition after which the next fetch may succeed, with nothing to be told to anyone.
_RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
_INVALID_ANSWER = "the broker's answer says nothing of them"
_MOVED = "the partition's leader is another one by now, which knows nothing of the locks"
_RENEWING_VERSION = 2


class Outcome(NamedTuple):
    """What became of acknowledgements."""

    origin: Origin
    said: Acknowledgements
    error: ClientError | None


class ShareFetcher:
    """The requests of one member to the leaders of its partitions."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        metadata: ClusterMetadata,
        options: ShareOptions,
        member_id: str,
        on_news: Callable[[], None],
    ) -> None:
        """`on_news` is called when there is something in `acquired`, `outcomes` or `errors`."""
        self._loop = seams.loop
        self._connections = connections
        self._metadata = metadata
        self._options = options
        self._member_id = member_id
        self._on_news = on_news
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._brokers: dict[int, ShareBroker] = {}
        self._places: list[Place] = []
        self._wants_more = False
        self._limited_to: int | None = None
        self._last_limited = -1
        self._is_closed = False
        self._answered_one: asyncio.Future[None] | None = None
        self.acquired: deque[AcquiredPartition] = deque()
        self.outcomes: deque[Outcome] = deque()
        self.errors: deque[ClientError] = deque()
        self.lock_timeout_ms: int | None = None
        """How long the group's locks last, as the brokers have said last."""
        self.bytes_fetched = 0
        self.fetches_sent = 0
        self.records_acknowledged = 0

    # What the consumer asks for.

    def set_places(self, places: list[Place]) -> None:
        """The partitions of this member are these now."""
        self._places = places
        self.pump()

    def fetch(self, said: Said) -> None:
        """Get records, until there are some. What was said rides along."""
        self._wants_more = True
        for origin, each in said.items():
            self._enqueue(origin, each, self._options.default_api_timeout_ms, self._told, may_ride=True)
        self.pump()

    def acknowledge(self, said: Said) -> None:
        """Say this soon; what becomes of it is in `outcomes`."""
        for origin, each in said.items():
            self._enqueue(origin, each, self._options.default_api_timeout_ms, self._told)
        self.pump()

    async def acknowledged_within(self, said: Said, timeout_ms: float) -> dict[Origin, ClientError | None]:
        """Say this, and wait until it is heard. TimedOutError where that takes too long; it goes on all the same."""
        heard: dict[Origin, ClientError | None] = {}
        done: asyncio.Future[None] = self._loop.create_future()

        def told(saying: Saying, origin: Origin, error: ClientError | None) -> None:
            self._told(saying, origin, error)
            heard[origin] = error
            if len(heard) == len(said) and not done.done():
                done.set_result(None)

        for origin, each in said.items():
            self._enqueue(origin, each, timeout_ms, told)
        self.pump()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await done
        except TimeoutError as error:
            reason = self._connections.because(None)
            raise TimedOutError(f"acknowledgements were not heard within {timeout_ms:g} ms{reason}") from error
        return heard

    def _enqueue(
        self,
        origin: Origin,
        said: Acknowledgements,
        timeout_ms: float,
        told: Callable[[Saying, Origin, ClientError | None], None],
        *,
        may_ride: bool = False,
    ) -> None:
        broker = self._broker(origin.node_id)
        saying = Saying(
            origin.place,
            said,
            lambda saying, error: told(saying, origin, error),
            self._loop.time() + timeout_ms / 1000,
            may_ride,
        )
        if broker.session.is_new or self._has_moved(origin):
            self._moved(saying)
        else:
            broker.waiting.append(saying)

    def _has_moved(self, origin: Origin) -> bool:
        leader = self._metadata.leader_of(*origin.place.partition)
        if leader is None:
            self._metadata.request_update()
            return False
        return leader.node_id != origin.node_id

    def _moved(self, saying: Saying) -> None:
        saying.told(saying, refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, _MOVED, about=str(saying.place.partition)))

    def _told(self, saying: Saying, origin: Origin, error: ClientError | None) -> None:
        if error is None:
            self.records_acknowledged += len(saying.said.offsets)
        self.outcomes.append(Outcome(origin, saying.said, error))
        self._on_news()

    def _broker(self, node_id: int) -> ShareBroker:
        broker = self._brokers.get(node_id)
        if broker is None:
            broker = self._brokers[node_id] = ShareBroker(node_id)
        return broker

    # Sending.

    def pump(self) -> None:
        """Send what can be sent now. Cheap where nothing can."""
        if self._is_closed:
            return
        wanted = self._wanted() if self._wants_more else {}
        for broker in list(self._brokers.values()):
            if broker.waiting and not broker.is_busy and not broker.is_closing:
                self._say(broker, will_fetch=broker.node_id in wanted)
        for node_id, places in wanted.items():
            broker = self._broker(node_id)
            if not broker.is_busy:
                self._fetch(broker, places)

    def _wanted(self) -> dict[int, list[Place]]:
        """The partitions to fetch by their leaders."""
        by_node: dict[int, list[Place]] = {}
        for place in self._places:
            leader = self._metadata.leader_of(*place.partition)
            if leader is None:
                self._metadata.request_update()
            else:
                by_node.setdefault(leader.node_id, []).append(place)
        now_s = self._loop.time()
        ready = {
            node_id: places
            for node_id, places in by_node.items()
            if self._broker(node_id).retry_at_s <= now_s and not self._broker(node_id).is_closing
        }
        if not self._options.limits_records or not ready:
            return ready
        if self._limited_to is not None:
            return {}
        # In turn, so that a broker that has nothing does not keep the others from being asked.
        turn = min(ready, key=lambda node_id: (node_id <= self._last_limited, node_id))
        return {turn: ready[turn]}

    def _say(self, broker: ShareBroker, *, will_fetch: bool) -> None:
        """Send a ShareAcknowledge, unless all that waits rides on a fetch that is sent now."""
        if broker.retry_at_s > self._loop.time() and broker.failures:
            return
        if will_fetch and all(saying.may_ride for saying in broker.waiting):
            return
        said = self._without_moved(broker, broker.take(for_fetch=False))
        if said:
            self._send_acknowledgements(broker, said)

    def _without_moved(self, broker: ShareBroker, said: dict[Place, Saying]) -> dict[Place, Saying]:
        """Leaders that have changed since hear nothing: they would refuse it."""
        for place, saying in list(said.items()):
            if broker.session.is_new or self._has_moved(Origin(broker.node_id, place)):
                del said[place]
                self._moved(saying)
        return said

    def _send_acknowledgements(
        self, broker: ShareBroker, said: Mapping[Place, Saying], *, is_last: bool = False
    ) -> None:
        broker.is_busy = True
        is_renewing = any(saying.said.renewed for saying in said.values())
        if is_last:
            broker.session.close()

        def request(version: int) -> ShareAcknowledgeRequest:
            _check_renewing(is_renewing, version)
            return ShareAcknowledgeRequest(
                group_id=self._options.group_id,
                member_id=self._member_id,
                share_session_epoch=broker.session.epoch,
                is_renew_ack=is_renewing,
                topics=broker.session.acknowledge({place: each.said.batches() for place, each in said.items()}),
            )

        def answered(answer: ShareAcknowledgeResponse | ClientError) -> None:
            broker.is_busy = False
            self._heard(broker, said, answer)
            if is_last:
                self._brokers.pop(broker.node_id, None)
            self._answered()

        self._connections.send(
            broker.node_id, request, ShareAcknowledgeResponse, answered, timeout_ms=self._options.request_timeout_ms
        )

    def _fetch(self, broker: ShareBroker, places: list[Place]) -> None:
        options = self._options
        said = self._without_moved(broker, broker.take(for_fetch=True))
        is_renewing = any(saying.said.renewed for saying in said.values())
        broker.is_busy = True
        self.fetches_sent += 1
        if options.limits_records:
            self._limited_to = self._last_limited = broker.node_id

        def request(version: int) -> ShareFetchRequest:
            _check_renewing(is_renewing, version)
            epoch = broker.session.epoch
            topics, forgotten = broker.session.fetch(
                places, {place: each.said.batches() for place, each in said.items()}
            )
            # A request that renews fetches nothing: the broker would have it no other way.
            return ShareFetchRequest(
                group_id=options.group_id,
                member_id=self._member_id,
                share_session_epoch=epoch,
                max_wait_ms=0 if is_renewing else options.fetch_max_wait_ms,
                min_bytes=0 if is_renewing else options.fetch_min_bytes,
                max_bytes=0 if is_renewing else options.fetch_max_bytes,
                max_records=0 if is_renewing else options.max_poll_records,
                batch_size=0 if is_renewing else options.max_poll_records,
                share_acquire_mode=ACQUIRE_MODES[options.share_acquire_mode],
                is_renew_ack=is_renewing,
                topics=topics,
                forgotten_topics_data=forgotten,
            )

        def answered(answer: ShareFetchResponse | ClientError) -> None:
            broker.is_busy = False
            if self._limited_to == broker.node_id:
                self._limited_to = None
            self._take_in(broker, places, said, answer)
            self._answered()

        timeout_ms = options.request_timeout_ms + options.fetch_max_wait_ms
        self._connections.send(broker.node_id, request, ShareFetchResponse, answered, timeout_ms=timeout_ms)

    # Answers.

    def _take_in(
        self,
        broker: ShareBroker,
        places: list[Place],
        said: dict[Place, Saying],
        answer: ShareFetchResponse | ClientError,
    ) -> None:
        if self._has_failed(broker, answer):
            for saying in said.values():
                saying.told(saying, self._failure(answer, saying))
            return
        assert isinstance(answer, ShareFetchResponse)
        self._has_answered(broker, answer.acquisition_lock_timeout_ms)
        left = dict(said)
        asked = {(place.topic_id, place.partition.partition): place for place in (*said, *places)}
        for topic in answer.responses:
            for data in topic.partitions:
                place = asked.get((topic.topic_id, data.partition_index))
                if place is None:
                    continue
                if (heard := left.pop(place, None)) is not None:
                    self._hear(heard, data.acknowledge_error_code, data.acknowledge_error_message)
                self._take_in_partition(broker, place, data, answer)
        for saying in left.values():
            saying.told(saying, self._unheard(saying))

    def _has_answered(self, broker: ShareBroker, lock_timeout_ms: int) -> None:
        broker.failures = 0
        if lock_timeout_ms > 0:
            self.lock_timeout_ms = lock_timeout_ms

    def _take_in_partition(
        self, broker: ShareBroker, place: Place, data: PartitionData, answer: ShareFetchResponse
    ) -> None:
        if data.error_code != ErrorCode.NONE:
            self._refused(
                broker, place, data.error_code, data.error_message, data.current_leader, answer.node_endpoints
            )
        if not data.acquired_records or self._is_closed or broker.is_closing:
            return
        self.bytes_fetched += len(data.records or b"")  # type: ignore[arg-type]  # bytes of an answer, never a region
        self.acquired.append(AcquiredPartition(broker.node_id, place, data, check_crcs=self._options.check_crcs))
        self._wants_more = False
        self._on_news()

    def _hear(self, saying: Saying, error_code: int, message: str | None) -> None:
        about = str(saying.place.partition)
        saying.told(saying, acknowledgement_refused(error_code, message, about) if error_code else None)

    def _unheard(self, saying: Saying) -> ClientError:
        return acknowledgement_refused(ErrorCode.INVALID_RECORD_STATE, _INVALID_ANSWER, str(saying.place.partition))

    def _failure(
        self, answer: ShareFetchResponse | ShareAcknowledgeResponse | ClientError, saying: Saying
    ) -> ClientError:
        """Why nothing was heard at all."""
        if isinstance(answer, ClientError):
            return answer
        return acknowledgement_refused(answer.error_code, answer.error_message, str(saying.place.partition))

    def _has_failed(
        self, broker: ShareBroker, answer: ShareFetchResponse | ShareAcknowledgeResponse | ClientError
    ) -> bool:
        """Whether there is no answer, or it is an error of the whole request: then the broker is left alone for a while."""
        if isinstance(answer, ClientError):
            broker.session.restart()
            if not isinstance(answer, ClosedError):
                if not answer.retriable:
                    self.errors.append(answer)
                    self._on_news()
                self._metadata.request_update()
                self._leave_alone(broker)
            return True
        if broker.session.answered(answer.error_code):
            return False
        code = ErrorCode.of(answer.error_code)
        if needs_metadata(code):
            self._metadata.request_update()
        elif not broker.session.is_new and not code.retriable:
            self.errors.append(refusal(code, answer.error_message, about=f"broker {broker.node_id}"))
            self._on_news()
        self._leave_alone(broker)
        return True

    def _heard(
        self, broker: ShareBroker, said: Mapping[Place, Saying], answer: ShareAcknowledgeResponse | ClientError
    ) -> None:
        if self._has_failed(broker, answer):
            is_passing = not isinstance(answer, ClientError) and ErrorCode.of(answer.error_code).retriable
            self._again([each for each in said.values() if is_passing and self._may_repeat(broker, each)], broker)
            for saying in said.values():
                if not is_passing or not self._may_repeat(broker, saying):
                    saying.told(saying, self._failure(answer, saying))
            return
        assert isinstance(answer, ShareAcknowledgeResponse)
        self._has_answered(broker, answer.acquisition_lock_timeout_ms)
        told = {(topic.topic_id, data.partition_index): data for topic in answer.responses for data in topic.partitions}
        repeated: list[Saying] = []
        for place, saying in said.items():
            data = told.get((place.topic_id, place.partition.partition))
            if data is None:
                saying.told(saying, self._unheard(saying))
            elif self._is_passing(place, data, answer) and self._may_repeat(broker, saying):
                repeated.append(saying)
            else:
                self._hear(saying, data.error_code, data.error_message)
        self._again(repeated, broker)

    def _is_passing(self, place: Place, data: ShareAcknowledgePartitionData, answer: ShareAcknowledgeResponse) -> bool:
        """Whether the same leader may take it later."""
        code = ErrorCode.of(data.error_code)
        if needs_metadata(code):
            self._learn(place, data.current_leader, answer.node_endpoints)
            return False
        return code is not ErrorCode.NONE and code.retriable

    def _may_repeat(self, broker: ShareBroker, saying: Saying) -> bool:
        return not broker.session.is_new and not broker.is_closing and self._loop.time() < saying.deadline_s

    def _again(self, sayings: list[Saying], broker: ShareBroker) -> None:
        if sayings:
            for saying in sayings:
                saying.failures += 1
            broker.put_back(sayings)
            self._leave_alone(broker)

    def _refused(
        self,
        broker: ShareBroker,
        place: Place,
        error_code: int,
        message: str | None,
        leader: LeaderIdAndEpoch,
        endpoints: list[NodeEndpoint],
    ) -> None:
        code = ErrorCode.of(error_code)
        if needs_metadata(code):
            if self._learn(place, leader, endpoints):
                return
        elif code not in _RETRIED and not code.retriable:
            self.errors.append(refusal(code, message, about=str(place.partition)))
            self._on_news()
        self._leave_alone(broker)

    def _learn(self, place: Place, leader: LeaderIdAndEpoch, endpoints: list[NodeEndpoint]) -> bool:
        """Whether the answer itself names the leader."""
        known = [(each.node_id, Address(each.host, each.port)) for each in endpoints]
        hint = Leader(leader.leader_id, leader.leader_epoch)
        if self._metadata.learn_leader(place.partition.topic, place.partition.partition, hint, known):
            return True
        self._metadata.request_update()
        return False

    def _leave_alone(self, broker: ShareBroker) -> None:
        broker.failures += 1
        wait_s = self._backoff.after(broker.failures) / 1000
        broker.retry_at_s = self._loop.time() + wait_s
        # A little later, so that the clock has surely passed it.
        self._loop.call_later(wait_s + 0.001, self.pump)

    # The end.

    async def close(self, said: Said, timeout_ms: float) -> None:
        """Say what was said, and end the sessions, so that all else that is held is released at once."""
        for origin, each in said.items():
            self._enqueue(origin, each, timeout_ms, self._told)
        self._wants_more = False
        self.acquired.clear()
        for broker in self._brokers.values():
            broker.is_closing = True
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._brokers:
                    self._answered_one = self._loop.create_future()
                    for broker in list(self._brokers.values()):
                        if not broker.is_busy:
                            self._end(broker)
                    if self._brokers:
                        await self._answered_one
        except TimeoutError:
            log.warning(
                "not every broker heard within %d ms that this member goes; locks end by themselves", timeout_ms
            )
        finally:
            self.stop()

    def _end(self, broker: ShareBroker) -> None:
        """The next request of those that end a session: what is said of a partition twice takes two."""
        said = self._without_moved(broker, broker.take(for_fetch=False))
        if broker.session.is_new:
            del self._brokers[broker.node_id]
        else:
            self._send_acknowledgements(broker, said, is_last=not broker.waiting)

    def _answered(self) -> None:
        if self._answered_one is not None and not self._answered_one.done():
            self._answered_one.set_result(None)
        self.pump()

    def stop(self) -> None:
        """No more requests; what was not heard by now is lost, and the locks end by themselves."""
        self._is_closed = True
        for broker in self._brokers.values():
            for saying in broker.waiting:
                saying.told(saying, ClosedError("the consumer was closed before its acknowledgements were heard"))
            broker.waiting.clear()


def _check_renewing(is_renewing: bool, version: int) -> None:
    if is_renewing and version < _RENEWING_VERSION:
        raise UnsupportedError("the broker cannot renew locks: that takes Apache Kafka 4.2 or newer, or Tidelog")
