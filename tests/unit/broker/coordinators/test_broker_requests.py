"""Questions for other brokers: what goes together, what waits, and what those hear whose broker is gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

import pytest

from tidelog.broker.coordinators import broker_requests
from tidelog.broker.coordinators.broker_requests import BrokerRequests, Words
from tidelog.controller.image import ClusterImage
from tidelog.model.ids import NodeId
from tidelog.replication.leader_link import LeaderLink
from tidelog.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.wire.schema import Request, Response

Then = Callable[[Response | None], None]


class _Link:
    """A broker that answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[list[int]] = []
        self.is_known = True
        self._then: Then | None = None

    def ask(self, request: Request, version: int, then: Then, *, timeout_ms: int) -> bool:
        assert isinstance(request, WriteTxnMarkersRequest)
        assert (version, timeout_ms) == (2, 30_000)
        assert self._then is None, "one request at a time"
        if self.is_known:
            self.requests.append([each.producer_id for each in request.markers])
            self._then = then
        return self.is_known

    def answer(self) -> None:
        markers = [WritableTxnMarkerResult(producer_id=each, topics=[]) for each in self.requests[-1]]
        self._told(WriteTxnMarkersResponse(markers=markers))

    def reset(self) -> None:
        if self._then is not None:
            self._told(None)

    def _told(self, answer: Response | None) -> None:
        then, self._then = self._then, None
        assert then is not None
        then(answer)


class _World:
    def __init__(self) -> None:
        self.links: dict[int, _Link] = {}
        self.answered: list[tuple[int, bool]] = []
        self.requests: BrokerRequests[int] = BrokerRequests(
            self._link_to, nullcontext(), Words("test", lambda number: number % 100, _request, self._answered)
        )

    def _link_to(self, broker: NodeId, purpose: str) -> LeaderLink:
        assert purpose == "test"
        self.links[broker] = _Link()
        return cast("LeaderLink", self.links[broker])

    def _answered(self, numbers: list[int], answer: Response | None) -> None:
        self.answered += [(number, answer is not None) for number in numbers]

    def ask(self, *numbers: int, broker: int = 2) -> _Link:
        for number in numbers:
            self.requests.ask(NodeId(broker), number)
        return self.links[broker]


def _request(numbers: list[int]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=number, producer_epoch=0, transaction_result=True, topics=[], coordinator_epoch=0
            )
            for number in numbers
        ]
    )


def test_what_comes_while_a_request_is_under_way_goes_together_in_the_next_one() -> None:
    world = _World()
    link = world.ask(1, 2, 3)
    assert link.requests == [[1]]
    link.answer()
    assert world.answered == [(1, True)]
    assert link.requests == [[1], [2, 3]]
    link.answer()
    assert world.answered == [(1, True), (2, True), (3, True)]


def test_questions_that_the_answer_cannot_tell_apart_go_one_after_the_other() -> None:
    world = _World()
    link = world.ask(1, 5, 105, 6)
    link.answer()
    link.answer()
    link.answer()
    assert link.requests == [[1], [5, 6], [105]]


def test_a_request_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_requests, "QUESTIONS_MAX", 2)
    world = _World()
    link = world.ask(1, 2, 3, 4)
    link.answer()
    link.answer()
    assert link.requests == [[1], [2, 3], [4]]


def test_brokers_do_not_wait_for_each_other() -> None:
    world = _World()
    world.ask(1, broker=2)
    assert world.ask(2, broker=3).requests == [[2]]


def test_who_asks_a_broker_that_nobody_knows_hears_so_at_once() -> None:
    world = _World()
    link = world.ask(1)
    link.is_known = False
    world.ask(2, 3)
    link.reset()
    assert world.answered == [(1, False), (2, False), (3, False)]


def test_nobody_waits_for_a_broker_that_is_gone() -> None:
    world = _World()
    former = world.ask(1, 2)
    world.requests.follow(ClusterImage())
    assert world.answered == [(1, False), (2, False)]
    assert world.ask(3) is not former


def test_after_the_end_nothing_is_asked_and_all_hear_so() -> None:
    world = _World()
    link = world.ask(1, 2)
    world.requests.stop()
    world.ask(3)
    assert world.answered == [(1, False), (2, False), (3, False)]
    assert link.requests == [[1]]
