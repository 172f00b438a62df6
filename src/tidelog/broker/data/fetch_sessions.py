# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes; the answers leave out what has not.

    full request      session_epoch 0 or -1     closes the session that it names; 0 asks for a new one
    incremental       session_epoch 1, 2, ...   of a session that exists: adds or changes what it names, drops what it forgets

A session is remembered as long as there is room. Where there is none, a new one takes the place of one that was silent for two
minutes, or that is worth less: a consumer's is worth less than a follower's, a smaller one less than a larger one; and none goes
within its first two minutes except for a follower's. Who gets no session is answered all the same, and sends full requests.

Where this differs from Kafka: a session holds at most `SESSION_PARTITIONS_MAX` partitions. Who wants more gets no session.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from tidelog.broker.data.fetch_entry import FetchEntry
from tidelog.broker.data.session_watch import LinkBudget, SessionWatch
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.wire.typed.fetch import FetchRequest

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

# How long a session is safe from others of its kind, and after how long a silent one is taken for gone.
EVICTION_MS = 120_000

# Kafka's own brokers get slow far below this; a client that names more must not take the node's memory.
SESSION_PARTITIONS_MAX = 100_000

_INT32_MAX = 2**31 - 1

# A topic's name, or its id from v13 on; and a partition of it.
FetchKey: TypeAlias = tuple[str | bytes, int]
_EvictableKey: TypeAlias = tuple[bool, int, int]


class FetchSession:
    """What one client fetches. `epoch` is that of the request that comes next."""

    __slots__ = (
        "_next_rank",
        "cached_size",
        "created_ms",
        "entries",
        "epoch",
        "is_old",
        "is_privileged",
        "last_used_ms",
        "session_id",
        "uses_topic_ids",
        "watch",
    )

    def __init__(
        self,
        session_id: int,
        entries: dict[FetchKey, FetchEntry],
        budget: LinkBudget,
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.entries = entries
        self._next_rank = 0
        for entry in entries.values():
            self.move_to_end(entry)
        self.watch = SessionWatch(entries.values(), budget)
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.cached_size = -1
        self.is_old = False

    @property
    def evictable_key(self) -> _EvictableKey:
        return (self.is_privileged, self.cached_size, self.session_id)

    def update(self, request: FetchRequest) -> None:
        """Take in what an incremental request names and forgets."""
        entries, watch = self.entries, self.watch
        for topic in request.topics:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for asked in topic.partitions:
                key = (name, asked.partition)
                entry = entries.get(key)
                if entry is None:
                    entry = entries[key] = FetchEntry(name, asked)
                    self.move_to_end(entry)
                else:
                    entry.asked = asked
                watch.note(entry)
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for partition in forgotten.partitions:
                entry = entries.pop((name, partition), None)
                if entry is not None:
                    watch.forget(entry)

    def move_to_end(self, entry: FetchEntry) -> None:
        """Who has just had records comes last next time, so that a limit on bytes starves nobody."""
        self._next_rank += 1
        entry.rank = self._next_rank


class FetchSessions:
    """The sessions of a node, at most `slots` of them. No answer holds more than `max_bytes`."""

    def __init__(self, slots: int, clock: Clock, random: Random, max_bytes: int = _INT32_MAX) -> None:
        self.max_bytes = max_bytes
        self._slots = slots
        self._clock = clock
        self._random = random
        self._sessions: dict[int, FetchSession] = {}
        self._by_last_use: OrderedDict[int, FetchSession] = OrderedDict()
        # Candidates, least worth first. An entry whose session has changed or gone since is stale, and passed over.
        self._evictable_by_all: list[_EvictableKey] = []
        self._evictable_by_privileged: list[_EvictableKey] = []
        self.evictions = 0
        self.links = LinkBudget()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def cached_partitions(self) -> int:
        return sum(session.cached_size for session in self._sessions.values())

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    # --- requests ----------------------------------------------------------------------------------------------------------

    def session_of(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession | ErrorCode | None:
        """The session that a request goes on with, after what it names and forgets; None for a full request, and where nothing
        is left in the session; or the error of a session that does not fit the request."""
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self.close(request.session_id)
            return None
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.watch.supersede()
        session.update(request)
        if not session.entries:
            self.close(session.session_id)
            return None
        if len(session.entries) > SESSION_PARTITIONS_MAX:
            self.close(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._touch(session, self._clock.monotonic_ms())
        session.epoch = next_epoch(epoch)
        return session

    def begin(self, entries: list[FetchEntry], is_privileged: bool, uses_topic_ids: bool) -> int:
        """A session for what a full request fetches, once it is answered. Its id, or NO_SESSION where there is no room."""
        size = len(entries)
        if size > SESSION_PARTITIONS_MAX:
            return NO_SESSION
        now_ms = self._clock.monotonic_ms()
        if len(self._sessions) >= self._slots and not self._evict_for((is_privileged, size, 0), now_ms):
            return NO_SESSION
        session = FetchSession(
            self._new_id(),
            {(entry.topic, entry.asked.partition): entry for entry in entries},
            self.links,
            is_privileged=is_privileged,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
        )
        self._sessions[session.session_id] = session
        self._touch(session, now_ms)
        return session.session_id

    def close(self, session_id: int) -> None:
        """Forget a session, if there is one of this id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            del self._by_last_use[session_id]
            session.watch.close()

    # --- who has to go -----------------------------------------------------------------------------------------------------

    def _evict_for(self, key: _EvictableKey, now_ms: int) -> bool:
        """Make room for a session of this worth, if one that is there may be taken for it."""
        if not self._by_last_use:
            return False
        oldest = next(iter(self._by_last_use.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self.close(oldest.session_id)
        else:
            candidates = self._evictable_by_privileged if key[0] else self._evictable_by_all
            least = self._least(candidates)
            if least is None or key < least:
                return False
            self.close(least[2])
        self.evictions += 1
        return True

    def _least(self, candidates: list[_EvictableKey]) -> _EvictableKey | None:
        while candidates:
            session = self._sessions.get(candidates[0][2])
            if session is not None and session.evictable_key == candidates[0]:
                return candidates[0]
            heappop(candidates)
        return None

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session_id = session.session_id
        session.last_used_ms = now_ms
        self._by_last_use[session_id] = session
        self._by_last_use.move_to_end(session_id)
        had, size = session.cached_size, len(session.entries)
        session.cached_size = size
        # A session grows old by being used: one that is not is found by its last use.
        was_old = session.is_old
        session.is_old = now_ms - session.created_ms > EVICTION_MS
        if size != had or session.is_old != was_old:
            if session.is_old or not session.is_privileged:
                self._offer(self._evictable_by_privileged, session)
            if session.is_old:
                self._offer(self._evictable_by_all, session)

    def _offer(self, candidates: list[_EvictableKey], session: FetchSession) -> None:
        heappush(candidates, session.evictable_key)
        if len(candidates) > 2 * len(self._sessions) + 64:
            # A session that changes its size with every request leaves a stale entry each time.
            candidates[:] = {
                key: None
                for key in candidates
                if (held := self._sessions.get(key[2])) is not None and held.evictable_key == key
            }
            heapify(candidates)

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, _INT32_MAX)
            if session_id not in self._sessions:
                return session_id


def entries_of(request: FetchRequest, uses_topic_ids: bool) -> list[FetchEntry]:
    """The partitions that a request names, each once: of a repeated one the last counts."""
    topics = request.topics
    entries: dict[FetchKey, FetchEntry] = {}
    for topic in topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        if len(topics) == 1 and len(topic.partitions) == 1:
            return [FetchEntry(name, topic.partitions[0])]
        for asked in topic.partitions:
            entries[name, asked.partition] = FetchEntry(name, asked)
    return list(entries.values())


def next_epoch(epoch: int) -> int:
    """The epoch after this one: after 2147483647 comes 1, since 0 asks for a new session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _INT32_MAX else epoch + 1
