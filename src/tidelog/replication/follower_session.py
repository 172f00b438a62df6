"""The follower's side of an incremental fetch session (KIP-227): each request names only what differs from the one before.

A session begins with a full request and goes on by number. Whatever goes wrong ends it, and the next request is full again; it
names the old session, so that the leader forgets that one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model.ids import TopicId
from tidelog.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION = 0
INITIAL_EPOCH = 0
_EPOCH_MAX = 0x7FFFFFFF

Place = tuple[TopicId, int]


class FollowerSession:
    """What the leader knows of this follower's partitions."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._told: dict[Place, FetchPartition] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request begins a session, and names everything."""
        return self.epoch == INITIAL_EPOCH

    def next_request(self, wanted: Mapping[Place, FetchPartition]) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """What the next request names of the partitions that are wanted, and what it takes back."""
        if self.is_new:
            named = dict(wanted)
            forgotten: list[Place] = []
        else:
            named = {place: asked for place, asked in wanted.items() if self._told.get(place) != asked}
            forgotten = [place for place in self._told if place not in wanted]
        self._told = dict(wanted)
        return _topics(named), _forgotten(forgotten)

    def told(self, place: Place) -> FetchPartition | None:
        """What the last request asked for of a partition, or one before it."""
        return self._told.get(place)

    def tell(self, place: Place, asked: FetchPartition) -> None:
        """The next request names this partition, and all others are asked for as before."""
        self._told[place] = asked

    def answered(self, session_id: int) -> None:
        """The leader has answered the request. It need not have made a session of it."""
        if session_id == NO_SESSION:
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        elif self.epoch == INITIAL_EPOCH or session_id != self.session_id:
            self.session_id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def failed(self, *, is_forgotten: bool = False) -> None:
        """The leader's state of the session is unknown. `is_forgotten` where the leader said that it knows of no such session."""
        self.epoch = INITIAL_EPOCH
        if is_forgotten:
            self.session_id = NO_SESSION


def _topics(partitions: Mapping[Place, FetchPartition]) -> list[FetchTopic]:
    topics: dict[TopicId, FetchTopic] = {}
    for place, asked in partitions.items():
        add_asked(topics, place, asked)
    return list(topics.values())


def add_asked(topics: dict[TopicId, FetchTopic], place: Place, asked: FetchPartition) -> None:
    """Name a partition among the topics of a request."""
    topic_id = place[0]
    topic = topics.get(topic_id)
    if topic is None:
        topic = topics[topic_id] = FetchTopic(topic="", topic_id=topic_id, partitions=[])
    topic.partitions.append(asked)


def _forgotten(places: list[Place]) -> list[ForgottenTopic]:
    topics: dict[TopicId, ForgottenTopic] = {}
    for topic_id, index in places:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ForgottenTopic(topic="", topic_id=topic_id, partitions=[])
        topic.partitions.append(index)
    return list(topics.values())
