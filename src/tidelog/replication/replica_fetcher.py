"""Follows one leader: one fetch after another for all partitions that it leads and this node has a replica of.

    -> fetch          everything that is not paused, in an incremental session; the leader holds it until there is something
    <- records        appended as they are, then the high watermark and the leader's log start
    <- diverging      the log is cut where it left the leader's (KIP-595), and fetched again from there
    <- out of range   the leader is asked where its log begins and ends, and the own one cut or begun anew
    <- an error       that partition pauses, first for a moment, then for longer
    throttled         a partition that is not in sync is left out while its throttle says so
    no answer         everything pauses, the session is begun anew

An answer and the request that follows it mostly concern one partition of many. Where nothing is out of the ordinary no other
partition is looked at; all of them are, every `LOOK_AT_ALL_MS` and whenever anything is.

A partition that is to be followed while a fetch is held back by the leader does not wait for it: the connection is given up for a
new one. Leaders learn that a replica is in sync, and commit, by these fetches.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Protocol, Self

import msgspec

from tidelog.model import cluster_config as keys
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicId
from tidelog.model.timers import Timer, Timers
from tidelog.replication.follower_session import FollowerSession, Place, add_asked
from tidelog.replication.following import restart_within, take_fetched, truncate_diverged
from tidelog.replication.leader_link import LeaderLink
from tidelog.replication.offset_lookup import EARLIEST, LATEST
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Following
from tidelog.replication.throttles import ReplicationThrottles
from tidelog.replication.traffic import ReplicationTraffic
from tidelog.replication.waiting import Wakeups
from tidelog.storage.leader_epochs import EpochEndOffset
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.record_batch import BytesLike
from tidelog.wire.schema import Response

logger = logging.getLogger(__name__)

# The first version with the replica's state, and its broker's epoch. Earlier ones have the replica's number alone.
REPLICA_STATE_VERSION = 15

# Leader and follower hear of a change within milliseconds of each other; who is early tries again soon.
PAUSE_MS_MIN = 20
# Beyond so many failures in a row it is not a matter of moments: the partition joins the others' next fetch, whenever that is.
HASTY_FAILURES_MAX = 5

# What nobody tells a fetcher of, such as where its own log starts after old segments went, shows in its requests this soon.
LOOK_AT_ALL_MS = 500

_SESSION_ERRORS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}


class FetchSettings(msgspec.Struct, frozen=True):
    """Names are those of Kafka's keys `replica.fetch.*` and `replica.socket.timeout.ms`."""

    max_bytes: int = keys.REPLICA_FETCH_MAX_BYTES.default
    response_max_bytes: int = keys.REPLICA_FETCH_RESPONSE_MAX_BYTES.default
    min_bytes: int = keys.REPLICA_FETCH_MIN_BYTES.default
    wait_max_ms: int = keys.REPLICA_FETCH_WAIT_MAX_MS.default
    backoff_ms: int = keys.REPLICA_FETCH_BACKOFF_MS.default
    socket_timeout_ms: int = keys.REPLICA_SOCKET_TIMEOUT_MS.default

    @classmethod
    def from_values(cls, values: ConfigValues) -> Self:
        return cls(
            max_bytes=values[keys.REPLICA_FETCH_MAX_BYTES],
            response_max_bytes=values[keys.REPLICA_FETCH_RESPONSE_MAX_BYTES],
            min_bytes=values[keys.REPLICA_FETCH_MIN_BYTES],
            wait_max_ms=values[keys.REPLICA_FETCH_WAIT_MAX_MS],
            backoff_ms=values[keys.REPLICA_FETCH_BACKOFF_MS],
            socket_timeout_ms=values[keys.REPLICA_SOCKET_TIMEOUT_MS],
        )


class ThisBroker(Protocol):
    """Who fetches."""

    @property
    def node_id(self) -> NodeId: ...

    @property
    def broker_epoch(self) -> BrokerEpoch: ...


class FollowingBroker(ThisBroker, Protocol):
    """Who fetches, and how its cluster agreed to."""

    @property
    def fetch_version(self) -> int:
        """The version of Fetch that the cluster's level gives to followers; the next is that of ListOffsets."""
        ...

    @property
    def list_offsets_version(self) -> int: ...


class _Followed(msgspec.Struct):
    """One partition, in one epoch of its leader."""

    partition: Partition
    leader_epoch: int
    failures: int = 0
    not_before_ms: int = 0
    lag: int | None = None
    """How many committed records it lacked after the last answer; None before the first."""

    @property
    def is_in_sync(self) -> bool:
        return self.lag is not None and self.lag <= 0


class ReplicaFetcher:
    """One for each leader. `follow` and `forget` as the metadata says; `stop` ends it."""

    def __init__(
        self,
        leader: NodeId,
        link: LeaderLink,
        settings: FetchSettings,
        me: FollowingBroker,
        wakeups: Wakeups,
        timers: Timers,
        clock: Clock,
        throttles: ReplicationThrottles,
        traffic: ReplicationTraffic,
    ) -> None:
        self.leader = leader
        self._link = link
        self._settings = settings
        self._me = me
        self._wakeups = wakeups
        self._timers = timers
        self._clock = clock
        self._throttles = throttles
        self._traffic = traffic
        self._followed: dict[Place, _Followed] = {}
        self._session = FollowerSession()
        # Counts the fetches: an answer to any but the last is of a connection that was given up.
        self._fetch_number = 0
        # The version of the last fetch; those that go on from its answer have it too.
        self._version = me.fetch_version
        self._is_fetching = False
        self._has_news = False
        # Whether all that is followed is asked for, so that the next request may tell of what the answer has changed alone.
        self._is_steady = False
        self._looked_ms = 0
        self._failures = 0
        self._timer: Timer | None = None
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, partition: Partition) -> None:
        """Fetch this partition from now on. Again, for another epoch of the same leader."""
        place = (partition.topic_id, partition.topic_partition.partition)
        known = self._followed.get(place)
        if known is None or known.partition is not partition or known.leader_epoch != partition.leader_epoch:
            self._followed[place] = _Followed(partition, partition.leader_epoch)
            self._has_news = True
            self._fetch_after(0)

    def forget(self, partition: Partition) -> None:
        """Fetch it no more."""
        self._is_steady = False
        self._followed.pop((partition.topic_id, partition.topic_partition.partition), None)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._link.reset()

    # --- asking ------------------------------------------------------------------------------------------------------------

    def _fetch_after(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_stopped:
            self._timer = self._timers.after(delay_ms, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._is_fetching:
            if not self._has_news:
                return
            # The leader may hold the present fetch for long; the new partition's records must not wait for that.
            self._give_up()
        self._fetch()

    def _give_up(self) -> None:
        self._is_fetching = False
        self._fetch_number += 1
        self._session.failed()
        self._link.reset()

    def _fetch(self) -> None:
        if self._is_fetching or self._is_stopped:
            return
        self._has_news = False
        self._looked_ms = now_ms = self._clock.monotonic_ms()
        wanted: dict[Place, FetchPartition] = {}
        resumes_ms: int | None = None
        is_hasty = False
        is_throttled = False
        for place, followed in list(self._followed.items()):
            if not self._is_current(followed):
                del self._followed[place]
            elif followed.not_before_ms > now_ms:
                resumes_ms = min(resumes_ms or followed.not_before_ms, followed.not_before_ms)
                is_hasty = is_hasty or followed.failures <= HASTY_FAILURES_MAX
            elif not followed.is_in_sync and self._throttles.leaves_out(followed.partition):
                is_throttled = True
            else:
                wanted[place] = self._asked(place, followed.partition)
        if resumes_ms is not None:
            self._fetch_after(resumes_ms - now_ms)
            # What pauses for a moment joins the others when it may, also where the leader holds their fetch back.
            self._has_news = is_hasty
        elif is_throttled:
            self._fetch_after(self._throttles.follower.delay_ms)
        self._is_steady = resumes_ms is None and not is_throttled
        if wanted:
            self._version = self._me.fetch_version
            self._send(*self._session.next_request(wanted))

    def _fetch_on(self, changed: Sequence[tuple[Place, _Followed]]) -> None:
        """`_fetch`, where an answer has changed these partitions and nothing else has happened."""
        session = self._session
        topics: dict[TopicId, FetchTopic] = {}
        for place, followed in changed:
            told = session.told(place)
            if told is None or not _is_at(told, followed.partition):
                asked = self._asked(place, followed.partition)
                session.tell(place, asked)
                add_asked(topics, place, asked)
        self._send(list(topics.values()), [])

    def _send(self, topics: list[FetchTopic], forgotten: list[ForgottenTopic]) -> None:
        settings, session, me = self._settings, self._session, self._me
        request = FetchRequest(
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        if self._version >= REPLICA_STATE_VERSION:
            request.replica_state = ReplicaState(replica_id=me.node_id, replica_epoch=me.broker_epoch)
        else:
            request.replica_id = me.node_id
        self._fetch_number += 1
        self._is_fetching = True
        answered = partial(self._answered, self._fetch_number)
        if not self._link.ask(request, self._version, answered, timeout_ms=settings.socket_timeout_ms):
            self._fetch_failed()

    def _is_current(self, followed: _Followed) -> bool:
        role = followed.partition.role
        return (
            isinstance(role, Following)
            and role.leader == self.leader
            and followed.partition.leader_epoch == followed.leader_epoch
        )

    def _asked(self, place: Place, partition: Partition) -> FetchPartition:
        log = partition.log
        assert log is not None
        return FetchPartition(
            partition=place[1],
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=_last_epoch(log),
            log_start_offset=log.log_start_offset,
            partition_max_bytes=self._settings.max_bytes,
        )

    # --- what comes back ---------------------------------------------------------------------------------------------------

    def _answered(self, number: int, answer: Response | None) -> None:
        if self._is_stopped or number != self._fetch_number:
            return
        self._is_fetching = False
        if not isinstance(answer, FetchResponse):
            self._fetch_failed()
            return
        if answer.error_code:
            self._refused(ErrorCode.of(answer.error_code))
            return
        self._failures = 0
        self._session.answered(answer.session_id)
        changed = self._take_in(answer)
        if changed is not None and self._may_go_on():
            self._fetch_on(changed)
        else:
            self._fetch()

    def _take_in(self, answer: FetchResponse) -> list[tuple[Place, _Followed]] | None:
        """Append what has come. The partitions of the answer, or None where one of them is not as it should be."""
        changed: list[tuple[Place, _Followed]] = []
        is_sound = True
        self._wakeups.hold()
        try:
            for topic in answer.responses:
                for data in topic.partitions:
                    place = (TopicId(topic.topic_id), data.partition_index)
                    followed = self._awaited(place)
                    if followed is None:
                        is_sound = False
                        continue
                    error = self._apply(followed, data)
                    self._note(place, followed, error)
                    is_sound = is_sound and error is ErrorCode.NONE
                    changed.append((place, followed))
        finally:
            self._wakeups.release()
        return changed if is_sound else None

    def _may_go_on(self) -> bool:
        """Whether the partitions of an answer are all that the next request has to look at."""
        return (
            self._is_steady
            and not self._has_news
            and not self._session.is_new
            and not self._throttles.follower.is_limited
            and self._clock.monotonic_ms() - self._looked_ms < LOOK_AT_ALL_MS
        )

    def _refused(self, error: ErrorCode) -> None:
        """The leader answers the fetch as a whole with an error."""
        logger.debug("the fetch from broker %d is refused: %s", self.leader, error.name)
        self._session.failed(is_forgotten=error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if error in _SESSION_ERRORS and not self._failures:
            self._failures = 1
            self._fetch()
        else:
            self._fetch_failed()

    def _fetch_failed(self) -> None:
        self._is_fetching = False
        self._session.failed()
        self._failures += 1
        self._fetch_after(self._pause_ms(self._failures))

    def _pause_ms(self, failures: int) -> int:
        return min(self._settings.backoff_ms, PAUSE_MS_MIN << min(failures - 1, 16))

    def _awaited(self, place: Place) -> _Followed | None:
        """The partition that an answer speaks of, if it is as it was when it was asked for."""
        followed, asked = self._followed.get(place), self._session.told(place)
        if followed is None or asked is None or not self._is_current(followed):
            return None
        log = followed.partition.log
        return followed if log is not None and log.log_end_offset == asked.fetch_offset else None

    def _note(self, place: Place, followed: _Followed, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            followed.failures = 0
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._find_range(place, followed)
        else:
            logger.debug("%s from broker %d: %s", followed.partition.topic_partition, self.leader, error.name)
            self._pause(followed)

    def _apply(self, followed: _Followed, data: PartitionData) -> ErrorCode:
        if data.error_code:
            return ErrorCode.of(data.error_code)
        diverging = data.diverging_epoch
        if diverging.epoch >= 0:
            end = EpochEndOffset(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
            return truncate_diverged(followed.partition, end, followed.leader_epoch)
        records = data.records
        if records is None:
            records = b""
        assert isinstance(records, bytes | memoryview), "records come from a connection"
        return self._append(followed, records, data.high_watermark, data.log_start_offset)

    def _append(self, followed: _Followed, records: BytesLike, high_watermark: int, log_start_offset: int) -> ErrorCode:
        partition = followed.partition
        self._throttles.received(partition, len(records))
        error = take_fetched(partition, records, followed.leader_epoch, high_watermark, log_start_offset)
        if error is ErrorCode.NONE and partition.log is not None:
            followed.lag = high_watermark - partition.log.log_end_offset
            self._traffic.received(partition, len(records))
        return error

    def _pause(self, followed: _Followed) -> None:
        followed.failures += 1
        followed.not_before_ms = self._clock.monotonic_ms() + self._pause_ms(followed.failures)

    # --- out of range ------------------------------------------------------------------------------------------------------

    def _find_range(self, place: Place, followed: _Followed) -> None:
        """Ask the leader where its log ends and begins. Meanwhile the partition pauses; the answer ends the pause, if the log has
        another end by it. If not, the leader would refuse the same again, and is given the pause of any other error."""
        self._pause(followed)
        followed.not_before_ms += self._settings.socket_timeout_ms
        found: dict[int, int] = {}

        def asked(timestamp: int, answer: Response | None) -> None:
            if self._followed.get(place) is not followed or not self._is_current(followed):
                return
            offset = _offset_in(answer)
            if offset is not None:
                found[timestamp] = offset
                if len(found) < 2:
                    return
            followed.not_before_ms = self._clock.monotonic_ms() + self._pause_ms(followed.failures)
            log = followed.partition.log
            if len(found) == 2 and log is not None:
                end = log.log_end_offset
                restarted = restart_within(followed.partition, found[EARLIEST], found[LATEST], followed.leader_epoch)
                if restarted is ErrorCode.NONE and log.log_end_offset != end:
                    followed.not_before_ms = 0
                    self._has_news = True
            # The next fetch was put off for as long as the answer could have taken.
            self._fetch_after(0)

        for timestamp in (EARLIEST, LATEST):
            request = ListOffsetsRequest(
                replica_id=self._me.node_id,
                isolation_level=0,
                topics=[_list_offsets_topic(followed.partition, timestamp)],
                timeout_ms=self._settings.socket_timeout_ms,
            )
            self._link.ask(
                request,
                self._me.list_offsets_version,
                partial(asked, timestamp),
                timeout_ms=self._settings.socket_timeout_ms,
            )


def _is_at(asked: FetchPartition, partition: Partition) -> bool:
    """Whether a replica would be asked for as it was. Its leader's epoch is the same."""
    log = partition.log
    return (
        log is not None
        and asked.fetch_offset == log.log_end_offset
        and asked.log_start_offset == log.log_start_offset
        and asked.last_fetched_epoch == _last_epoch(log)
    )


def _last_epoch(log: PartitionLog) -> int:
    latest = log.leader_epochs.latest_epoch
    return NO_LEADER_EPOCH if latest is None else latest


def _list_offsets_topic(partition: Partition, timestamp: int) -> ListOffsetsTopic:
    name, index = partition.topic_partition
    asked = ListOffsetsPartition(
        partition_index=index, current_leader_epoch=partition.leader_epoch, timestamp=timestamp
    )
    return ListOffsetsTopic(name=name, partitions=[asked])


def _offset_in(answer: Response | None) -> int | None:
    if not isinstance(answer, ListOffsetsResponse) or len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        return None
    partition = answer.topics[0].partitions[0]
    return None if partition.error_code or partition.offset < 0 else partition.offset
