"""What the group coordinator has share coordinators do for share groups: begin states, forget them, say where groups are.

A group notes what is asked before it is asked, and what was done afterwards, so that a crash in between is only an attempt to be
made again. Each partition succeeds or fails by itself: where Kafka takes the whole attempt back if one partition failed, what has
a state is noted as such here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.broker.groups.group_coordinator import GroupCoordinator
from tidelog.broker.share.cluster_persister import ClusterPersister
from tidelog.broker.share.partition_ends import PartitionEnds
from tidelog.broker.share.state_apis import PartitionAnswer
from tidelog.coordination.share.administration import Ending, not_begun, not_ended, refusal_of
from tidelog.coordination.share.context import Beginning, Refusal
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.pending import Pending, after, when_all
from tidelog.wire.messages.share_group_state import ReadShareGroupStateSummaryPartitionResult as Summary

Place = tuple[TopicId, int]
Failures = Mapping[Place, Refusal]
"""What went wrong, by partition; a partition that is not in it succeeded."""

NO_START_OFFSET = -1
NO_COUNT = -1
NO_LAG = -1


class Altered(NamedTuple):
    """Why nothing was altered, or of which partitions it was not."""

    refusal: Refusal | None
    failures: Failures


class Deleted(NamedTuple):
    """Why nothing was deleted, or by topic why it was not; the others are forgotten."""

    refusal: Refusal | None
    refused: Mapping[str, Refusal]


class Whereabouts(NamedTuple):
    """Where a group is in a partition, and how many records are before it; or why that is not known."""

    start_offset: int = NO_START_OFFSET
    leader_epoch: int = 0
    lag: int = NO_LAG
    error: ErrorCode = ErrorCode.NONE


class GroupStates:
    """One for each broker. From its start on, share groups of this node get states for the topics that their members read."""

    def __init__(self, groups: GroupCoordinator, persister: ClusterPersister, ends: PartitionEnds) -> None:
        self._groups = groups
        self._persister = persister
        self._ends = ends
        groups.begin_states = self._begin_for_members

    def _begin_for_members(self, beginning: Beginning) -> None:
        """Nobody waits for it: a member is given partitions with a heartbeat after that."""
        self._begin(beginning)

    def _begin(self, beginning: Beginning) -> Failures | Pending[Failures]:
        places = [(topic_id, index) for topic_id, offsets in beginning.offsets.items() for index in offsets]
        answers: list[PartitionAnswer | Pending[PartitionAnswer]] = [
            self._persister.initialise(
                _key(beginning.group_id, place), beginning.state_epoch, beginning.offsets[place[0]][place[1]]
            )
            for place in places
        ]
        return after(when_all(answers, lambda done: _failures(places, done)), lambda done: self._begun(beginning, done))

    def _begun(self, beginning: Beginning, failures: Failures) -> Failures | Pending[Failures]:
        begun = _by_topic(
            (topic_id, index)
            for topic_id, offsets in beginning.offsets.items()
            for index in offsets
            if (topic_id, index) not in failures
        )
        noted = self._groups.decide(
            beginning.group_id,
            lambda shard, now_ms: shard.share.administration.states_begun(
                beginning.group_id, begun, _by_topic(failures), now_ms
            ),
            _nothing,
        )
        return after(noted, lambda _: failures)

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicId, Mapping[int, int]]) -> Altered | Pending[Altered]:
        """Have a group without members begin at these offsets."""
        decided = self._groups.decide(
            group_id,
            lambda shard, now_ms: shard.share.administration.alter_offsets(group_id, offsets, now_ms),
            lambda error: not_begun(group_id, refusal_of(error)),
        )

        def begin(beginning: Beginning) -> Altered | Pending[Altered]:
            if beginning.refusal is not None:
                return Altered(beginning.refusal, {})
            return after(self._begin(beginning), lambda failures: Altered(None, failures))

        return after(decided, begin)

    def delete_offsets(self, group_id: str, names: Collection[str]) -> Deleted | Pending[Deleted]:
        """Have a group without members forget where it is in these topics."""
        decided = self._groups.decide(
            group_id,
            lambda shard, _now_ms: shard.share.administration.delete_offsets(group_id, names),
            lambda error: not_ended(refusal_of(error)),
        )

        def end(ending: Ending) -> Deleted | Pending[Deleted]:
            if ending.refusal is not None:
                return Deleted(ending.refusal, {})
            return after(self._end(group_id, ending), lambda failures: self._ended(group_id, ending, failures))

        return after(decided, end)

    def _ended(self, group_id: str, ending: Ending, failures: Failures) -> Deleted | Pending[Deleted]:
        names = {topic_id: self._groups.topic_name(topic_id) for topic_id in ending.partitions}
        refused = {**ending.refused}
        for (topic_id, _), refusal in failures.items():
            refused.setdefault(names[topic_id], refusal)
        done = [topic_id for topic_id, name in names.items() if name not in refused]
        if not done:
            return Deleted(None, refused)
        noted = self._groups.decide(
            group_id, lambda shard, _now_ms: shard.share.administration.states_ended(group_id, done), _nothing
        )
        return after(noted, lambda _: Deleted(None, refused))

    def delete_group_states(self, group_id: str) -> ErrorCode | Pending[ErrorCode]:
        """Before a group is deleted: all its states. NONE for a group of another kind too, which has none."""
        decided = self._groups.decide(
            group_id,
            lambda shard, _now_ms: shard.share.administration.end_states(group_id),
            lambda error: not_ended(refusal_of(error)),
        )

        def end(ending: Ending) -> ErrorCode | Pending[ErrorCode]:
            if ending.refusal is not None:
                return ending.refusal.error
            return after(self._end(group_id, ending), _first_error)

        return after(decided, end)

    def _end(self, group_id: str, ending: Ending) -> Failures | Pending[Failures]:
        places = [(topic_id, index) for topic_id, partitions in ending.partitions.items() for index in partitions]
        answers: list[PartitionAnswer | Pending[PartitionAnswer]] = [
            self._persister.delete(_key(group_id, place)) for place in places
        ]
        return when_all(answers, lambda done: _failures(places, done))

    def whereabouts(
        self, group_id: str, places: Sequence[tuple[TopicId, TopicName, int]]
    ) -> list[Whereabouts] | Pending[list[Whereabouts]]:
        """Where a group is in each of these partitions. What is not known counts as nowhere, which is no error."""
        return when_all([self._whereabouts(group_id, *place) for place in places], list)

    def _whereabouts(
        self, group_id: str, topic_id: TopicId, name: TopicName, index: int
    ) -> Whereabouts | Pending[Whereabouts]:
        where = TopicPartition(name, PartitionIndex(index))
        summary: Summary | Pending[Summary] = self._persister.summary(
            _key(group_id, (topic_id, index)), NO_LEADER_EPOCH
        )
        return after(summary, lambda found: self._with_lag(where, found))

    def _with_lag(self, where: TopicPartition, summary: Summary) -> Whereabouts | Pending[Whereabouts]:
        if summary.error_code != ErrorCode.NONE:
            return Whereabouts()
        start, settled = summary.start_offset, summary.delivery_complete_count
        if NO_START_OFFSET in (start, settled):
            return Whereabouts(start, summary.leader_epoch)

        def counted(end: int | ErrorCode) -> Whereabouts:
            if isinstance(end, ErrorCode):
                return Whereabouts(0, 0, NO_LAG, end)
            return Whereabouts(start, summary.leader_epoch, end - start - settled)

        return after(self._ends.end_of(where), counted)


def _key(group_id: str, place: Place) -> SharePartitionKey:
    return SharePartitionKey(group_id, place[0], PartitionIndex(place[1]))


def _failures(places: Sequence[Place], answers: Sequence[PartitionAnswer]) -> Failures:
    return {
        place: Refusal(ErrorCode.of(answer.error_code), answer.error_message)
        for place, answer in zip(places, answers, strict=True)
        if answer.error_code != ErrorCode.NONE
    }


def _first_error(failures: Failures) -> ErrorCode:
    return next((each.error for each in failures.values()), ErrorCode.NONE)


def _by_topic(places: Iterable[Place]) -> dict[TopicId, list[int]]:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, index in places:
        topics.setdefault(topic_id, []).append(index)
    return topics


def _nothing(_error: ErrorCode) -> None:
    """It is noted nowhere then, and asked again: the group says that it was about to be done."""
