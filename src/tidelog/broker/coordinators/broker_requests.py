"""Questions that this node's coordinators have for other brokers, many of them in one request.

    requests.ask(broker, question)

A question goes at once where no request to its broker is under way; those that come meanwhile go together in the next one. Where
not all of them fit one request, each has its lane: only those of the same one wait for each other. The answers, or that there
are none, come back through one function: a connection that breaks, an answer that makes no sense or does not come in time, and a
broker that nobody knows are all the same to whoever asks, who tries again and may then look elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from tidelog.controller.image import ClusterImage
from tidelog.model.ids import NodeId
from tidelog.replication.leader_link import LeaderLink
from tidelog.wire.apis import api
from tidelog.wire.schema import Request, Response

# As long as any request between brokers may take in Kafka.
REQUEST_TIMEOUT_MS = 30_000

# So that a request to a broker that was away for long stays of a size that is worked off in one go.
QUESTIONS_MAX = 500


class LinkTo(Protocol):
    """Makes a connection to a broker, for one purpose; it comes about with the first request."""

    def __call__(self, broker: NodeId, purpose: str) -> LeaderLink: ...


Q = TypeVar("Q")


class Words(NamedTuple, Generic[Q]):
    """How questions become a request."""

    purpose: str
    key_of: Callable[[Q], Hashable]
    """What the answer tells questions by: of those with the same key, each goes in a request of its own."""
    request_of: Callable[[list[Q]], Request]
    answered: Callable[[list[Q], Response | None], None]
    """Called once for each question. None: nobody knows what became of it."""
    lane_of: Callable[[Q], Hashable] = lambda _question: None
    """What must be the same of questions that go in one request."""


class BrokerRequests(Generic[Q]):
    """One for each kind of question. `stop` answers all that wait with None, and everything that is asked later."""

    def __init__(self, link_to: LinkTo, turn: AbstractContextManager[None], words: Words[Q]) -> None:
        self._link_to = link_to
        self._turn = turn
        self._words = words
        self._brokers: dict[NodeId, _Broker[Q]] = {}
        self._is_stopped = False

    def ask(self, broker: NodeId, question: Q) -> None:
        if self._is_stopped:
            self._words.answered([question], None)
            return
        known = self._brokers.get(broker)
        if known is None:
            known = self._brokers[broker] = _Broker(self._link_to(broker, self._words.purpose))
        lane_key = self._words.lane_of(question)
        lane = known.lanes.get(lane_key)
        if lane is None:
            lane = known.lanes[lane_key] = _Lane(lane_key)
        lane.waiting.append(question)
        self._send(known, lane)

    def follow(self, image: ClusterImage) -> None:
        """Wait no longer for brokers that are gone: one that hangs does not answer, and does not close its connections."""
        for node_id in [*self._brokers]:
            broker = image.brokers.get(node_id)
            if broker is None or broker.fenced:
                self._brokers.pop(node_id).link.reset()

    def stop(self) -> None:
        self._is_stopped = True
        brokers, self._brokers = self._brokers, {}
        for broker in brokers.values():
            broker.link.reset()

    def _send(self, broker: _Broker[Q], lane: _Lane[Q]) -> None:
        while lane.waiting and not lane.is_asked:
            taken = self._take(lane)
            request = self._words.request_of(taken)
            version = api(request.api_key).stable_versions.highest
            lane.is_asked = True
            then = partial(self._arrived, broker, lane, taken)
            if not broker.link.ask(request, version, then, timeout_ms=REQUEST_TIMEOUT_MS):
                lane.is_asked = False
                self._words.answered(taken, None)
        if not lane.is_asked and broker.lanes.get(lane.key) is lane:
            del broker.lanes[lane.key]

    def _take(self, lane: _Lane[Q]) -> list[Q]:
        """What goes in the next request. The others stay, in their order."""
        taken: dict[Hashable, Q] = {}
        left: list[Q] = []
        for question in lane.waiting:
            key = self._words.key_of(question)
            if len(taken) < QUESTIONS_MAX and key not in taken:
                taken[key] = question
            else:
                left.append(question)
        lane.waiting = left
        return [*taken.values()]

    def _arrived(self, broker: _Broker[Q], lane: _Lane[Q], asked: list[Q], answer: Response | None) -> None:
        lane.is_asked = False
        with self._turn:
            self._words.answered(asked, answer)
            if broker in self._brokers.values():
                self._send(broker, lane)
            elif lane.waiting:
                # Nobody looks after this broker any more.
                left, lane.waiting = lane.waiting, []
                self._words.answered(left, None)


class _Broker(Generic[Q]):
    """A broker, and what is asked of it."""

    __slots__ = ("lanes", "link")

    def __init__(self, link: LeaderLink) -> None:
        self.link = link
        self.lanes: dict[Hashable, _Lane[Q]] = {}


class _Lane(Generic[Q]):
    """What is to be asked next, and whether something is being asked."""

    __slots__ = ("is_asked", "key", "waiting")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.waiting: list[Q] = []
        self.is_asked = False
