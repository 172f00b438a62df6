"""Fetch sessions (KIP-227): opened, continued, extended, forgotten, mistaken, evicted; followers have them too."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.answer_scenarios.fetch import write
from tests.support.answer_scenarios.fetching import fetch_of, fetched
from tests.support.answer_scenarios.recorder import FIRST, Recorder, a_batch
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from tidelog.wire.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

# Few enough to be used up.
SETTINGS: Mapping[str, str] = {"max.incremental.fetch.session.cache.slots": "4"}
ORDERS, OTHERS, GONE, SPREAD = "orders", "others", "gone", "spread"
LATEST = 18
SESSION_VERSIONS = range(7, LATEST + 1)
OLD_MS = 121_000


class Session:
    """What a client knows of its session."""

    def __init__(self, talk: Recorder, version: int, on: str = FIRST) -> None:
        self._talk = talk
        self.version = version
        self.on = on
        self.session_id = 0
        self.epoch = 0

    def request(self, topics: Mapping[str, Mapping[int, int]], **options: object) -> FetchRequest:
        return fetch_of(self._talk, self.version, topics, session=(self.session_id, self.epoch), **options)  # type: ignore[arg-type]

    def ask(self, label: str, topics: Mapping[str, Mapping[int, int]], **options: object) -> FetchResponse:
        answer = fetched(
            self._talk, f"v{self.version} {label}", self.request(topics, **options), self.version, on=self.on
        )
        self.session_id = answer.session_id or self.session_id
        self.epoch += 1
        return answer

    def park(self, label: str, topics: Mapping[str, Mapping[int, int]], **options: object) -> None:
        request = self.request(topics, max_wait_ms=20_000, **options)
        self._talk.send(f"v{self.version} {label}", self._talk.frame(request, self.version), on=self.on)
        self._talk.settle(f"v{self.version} {label}")
        self.epoch += 1

    def answered(self, label: str) -> FetchResponse:
        return self._talk.answered(f"v{self.version} {label}", FetchResponse, self.version, on=self.on)

    def close(self) -> None:
        self.epoch = -1
        self.ask("close the session", {})


def tell(talk: Recorder) -> None:
    epochs = {broker: talk.register(broker, None) for broker in (2, 3)}
    talk.create(ORDERS, partitions=4, replicas=[1])
    talk.create(OTHERS, partitions=2, replicas=[1])
    talk.create(SPREAD, partitions=2, replicas=[1, 2, 3])
    for index in range(3):
        write(talk, ORDERS, index, a_batch(f"in {index}"))
    ends = {0: 1, 1: 1, 2: 1, 3: 0}
    for version in SESSION_VERSIONS:
        one_session(talk, version, ends)
    mistakes(talk)
    rotation(talk)
    deletion(talk)
    eviction(talk)
    follower_sessions(talk, epochs)


def one_session(talk: Recorder, version: int, ends: dict[int, int]) -> None:
    session = Session(talk, version)
    session.ask("open", {ORDERS: {0: 0, 1: 0, 2: 0, 3: 0}})
    session.ask("nothing changed, all is sent again", {})
    session.ask("offsets move on", {ORDERS: ends})
    session.ask("nothing new", {})
    write(talk, ORDERS, 1, a_batch("news"))
    session.ask("news of one", {})
    ends[1] += 1
    session.ask("behind it", {ORDERS: {1: ends[1]}})
    session.ask("one more topic", {OTHERS: {0: 0, 1: 0}})
    session.ask("unknown ones", {ORDERS: {9: 0}, "nobody": {0: 0}})
    session.ask("unknown ones are told again", {})
    session.ask("forget some", {}, forgotten={ORDERS: [9, 0], "nobody": [0], OTHERS: [7]})
    session.ask("an offset out of range", {ORDERS: {2: 100}})
    session.ask("which is told again", {})
    session.ask("and mended", {ORDERS: {2: ends[2]}})
    session.park("a wait in a session", {})
    write(talk, ORDERS, 3, a_batch("ends it"))
    session.answered("a wait in a session")
    session.park("the same again, since the offset stays", {ORDERS: {3: ends[3] + 1}})
    write(talk, ORDERS, 0, a_batch("forgotten, so nobody is told"))
    write(talk, ORDERS, 1, a_batch("x"))
    session.answered("the same again, since the offset stays")
    ends[0] += 1
    ends[1] += 1
    ends[3] += 1
    session.ask("committed records", {ORDERS: {1: ends[1]}}, isolation=1)
    session.ask("a byte at most", {ORDERS: {1: 0, 2: 0}}, max_bytes=1)
    session.ask("more than there is", {ORDERS: {1: ends[1], 2: ends[2]}}, min_bytes=10_000, max_wait_ms=5)
    other = Session(talk, version, on="elsewhere")
    other.session_id, other.epoch = session.session_id, session.epoch
    write(talk, ORDERS, 2, a_batch("for another connection"))
    other.ask("the session goes on over another connection", {})
    ends[2] += 1
    talk.bent("fetch in a session", other.request({ORDERS: {2: ends[2]}}), version)
    other.close()
    other.epoch = 5
    other.ask("after its end", {})


def mistakes(talk: Recorder) -> None:
    for version in (7, 12, 13, LATEST):
        session = Session(talk, version)
        session.ask("open", {ORDERS: {0: 0}})
        known = session.session_id
        session.epoch = 5
        session.ask("a wrong epoch", {})
        session.epoch = 0
        session.ask("epoch 0 opens another", {ORDERS: {0: 1}})
        session.session_id, session.epoch = 12345, 1
        session.ask("an unknown session", {})
        session.session_id, session.epoch = 0, 1
        session.ask("session 0 with an epoch", {})
        session.session_id, session.epoch = known, -2
        session.ask("a negative epoch", {})
        session.session_id, session.epoch = 0, 0
        session.ask("an empty session", {})
        session.close()
        if version < 13:
            session = Session(talk, version)
            session.ask("open by name", {ORDERS: {0: 0}})
            session.version = LATEST
            session.ask("and go on by id", {})
            session.version = version
            session.close()
        elif version == LATEST:
            session = Session(talk, version)
            session.ask("open by id", {ORDERS: {0: 0}})
            session.version = 12
            session.ask("and go on by name", {})
            session.version = version
            session.close()


def rotation(talk: Recorder) -> None:
    """What had its turn goes to the end of the line."""
    for version in (7, 12, LATEST):
        session = Session(talk, version)
        starts = {0: 0, 1: 0, 2: 0, 3: 0}
        session.ask("open", {ORDERS: starts}, max_bytes=1)
        for number in range(6):
            session.ask(f"in turn {number}", {}, max_bytes=1)
        for number in range(4):
            session.ask(f"two at a time {number}", {ORDERS: {number: 0}}, max_bytes=150)
        session.close()


def deletion(talk: Recorder) -> None:
    for version in (12, LATEST):
        name = f"{GONE}-{version}"
        talk.create(name, replicas=[1])
        session = Session(talk, version)
        session.ask("open", {name: {0: 0}, ORDERS: {0: 1000}})
        session.ask("nothing new", {ORDERS: {0: 1}}, max_bytes=1)
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=bytes(16))], timeout_ms=1_000)
        talk.ask("delete it", gone, 6, DeleteTopicsResponse)
        session.ask("its topic is gone", {}, max_bytes=1)
        session.ask("and stays so", {}, max_bytes=1)
        session.close()


def eviction(talk: Recorder) -> None:
    """There is room for four."""
    sessions = [Session(talk, LATEST) for _ in range(6)]
    for number, session in enumerate(sessions[:4]):
        session.ask(f"session {number} of four", {ORDERS: dict.fromkeys(range(1 + number % 2), 1000)})
    sessions[4].ask("a fifth one gets none", {ORDERS: {0: 1000}})
    sessions[4].session_id = 0
    talk.advance("they grow old", OLD_MS)
    sessions[1].ask("one is used", {})
    sessions[5].ask("a new one takes the place of one unused", {ORDERS: {0: 1000, 1: 1000, 2: 1000}})
    for number in range(4):
        sessions[number].ask(f"whether session {number} is still there", {})
    for session in sessions:
        if session.session_id:
            session.close()


def follower_sessions(talk: Recorder, epochs: Mapping[int, int]) -> None:
    end = 0
    for version in SESSION_VERSIONS:
        session = Session(talk, version, on="follower-2")
        replica = ReplicaState(replica_id=2, replica_epoch=epochs[2])
        session.ask("a follower opens", {SPREAD: {0: end, 1: 0}}, replica=replica)
        session.ask("nothing new", {}, replica=replica)
        write(talk, SPREAD, 0, a_batch("a"))
        session.ask("news", {}, replica=replica)
        end += 1
        session.park("it has them and waits", {SPREAD: {0: end}}, replica=replica)
        write(talk, SPREAD, 0, a_batch("b"))
        session.answered("it has them and waits")
        end += 1
        third = ReplicaState(replica_id=3, replica_epoch=epochs[3])
        request = fetch_of(talk, version, {SPREAD: {0: end}}, replica=third)
        fetched(talk, f"v{version} the third has it all", request, version, on="follower-3")
        session.ask("and the high watermark", {SPREAD: {0: end}}, replica=replica)
        session.ask("an offset too far", {SPREAD: {0: end + 9}}, replica=replica)
        session.ask("and back", {SPREAD: {0: end}}, replica=replica)
        if version >= 12:
            session.ask("diverged", {SPREAD: {0: end}}, replica=replica, last_fetched_epoch=5)
        session.close()
