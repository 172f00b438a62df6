"""Heartbeats of a member whose coordinator does the sharing out, by a timer: to the coordinator, wherever that is by now.

The member is a pure machine that makes the requests and reads the answers. Here is when they are sent, whom they go to, and what
happens where no answer comes. What an answer asks of the host is told by `on_outcome`, after what can be done here was done.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tidelog.client.connections import Channel, Connections
from tidelog.client.consumer.membership import Failed, Next
from tidelog.client.coordinators import CoordinatorKind, Coordinators
from tidelog.client.errors import AuthenticationError, ClientError, ClosedError, UnsupportedError
from tidelog.client.options import ClientOptions
from tidelog.client.retries import RetryBackoff
from tidelog.wire.schema import Request, Response

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Response)
Heard_contra = TypeVar("Heard_contra", bound=Response, contravariant=True)

# Until the coordinator has said how often it wants to hear from its members.
_HEARTBEAT_INTERVAL_MS = 5_000
_LEAVE_TIMEOUT_MS = 5_000


class HeartbeatingMember(Protocol[Heard_contra]):
    """A membership as a pure machine, as its heartbeats are made and read."""

    heartbeat_interval_ms: int

    @property
    def has_news(self) -> bool:
        """Whether a heartbeat should not wait for its time."""

    @property
    def is_in_group(self) -> bool: ...
    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to say at the moment: it has left, or has to give up what it had first."""

    def leave_request(self) -> Request: ...
    def answered(self, answer: Heard_contra) -> Next | Failed: ...
    def unanswered(self) -> None: ...


class HeartbeatParts(NamedTuple):
    """What heartbeats are sent with."""

    loop: asyncio.AbstractEventLoop
    random: random.Random
    connections: Connections
    coordinators: Coordinators
    options: ClientOptions
    group_id: str
    find_timeout_ms: int
    max_poll_interval_ms: int


class Heartbeats(Generic[A]):
    """The heartbeats of one member."""

    def __init__(
        self,
        parts: HeartbeatParts,
        member: HeartbeatingMember[A],
        answer: type[A],
        request: Callable[[int], Request],
        on_outcome: Callable[[Next | Failed], None],
        on_away: Callable[[], None],
    ) -> None:
        """`request` makes a heartbeat for a version. `on_away`: the application has not polled for too long, and the coordinator
        was told that this member leaves."""
        self._parts = parts
        self._member = member
        self._answer: type[Any] = answer
        self._request = request
        self._on_outcome = on_outcome
        self._on_away = on_away
        self._last_poll_s = parts.loop.time()
        options = parts.options
        self._backoff = RetryBackoff(parts.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight = False
        self._failures = 0
        self._finding: asyncio.Task[None] | None = None
        self._is_stopped = False

    def begin(self) -> None:
        """There is something to be in the group for, perhaps again."""
        self._is_stopped = False
        self.send_soon()

    def polled(self) -> None:
        """The application is alive."""
        self._last_poll_s = self._parts.loop.time()

    def send_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._parts.loop.call_soon(self._send)

    def _send_after(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._parts.loop.call_later(delay_ms / 1000, self._send)

    def _send(self) -> None:
        parts = self._parts
        self._timer = None
        if self._in_flight or self._is_stopped or self._member.is_silent:
            return
        if (parts.loop.time() - self._last_poll_s) * 1000 > parts.max_poll_interval_ms:
            log.warning(
                "group %s: nothing was polled for %d ms (max_poll_interval_ms), so this member leaves",
                parts.group_id,
                parts.max_poll_interval_ms,
            )
            self.send_leave()
            self._on_away()
            return
        node_id = parts.coordinators.known(CoordinatorKind.GROUP, parts.group_id)
        if node_id is None:
            self._find_coordinator()
            return
        self._in_flight = True
        parts.connections.send(
            node_id,
            self._request,
            self._answer,
            self._answered,
            channel=Channel.COORDINATOR,
            timeout_ms=parts.options.request_timeout_ms,
        )

    def _find_coordinator(self) -> None:
        if self._finding is not None:
            return

        async def find() -> None:
            parts = self._parts
            try:
                await parts.coordinators.find(CoordinatorKind.GROUP, parts.group_id, timeout_ms=parts.find_timeout_ms)
            except ClientError as error:
                if not error.retriable and not isinstance(error, ClosedError):
                    self._on_outcome(Failed(error))
                    return
                log.debug("group %s: %s", parts.group_id, error)
            finally:
                self._finding = None
            self.send_soon()

        self._finding = self._parts.loop.create_task(find())

    def _answered(self, answer: A | ClientError) -> None:
        self._in_flight = False
        if self._is_stopped:
            return
        if isinstance(answer, ClientError):
            self._member.unanswered()
            if isinstance(answer, (AuthenticationError, UnsupportedError)):
                self._on_outcome(Failed(answer))
            elif not isinstance(answer, ClosedError):
                self._coordinator_lost()
                self._retry()
            return
        outcome = self._member.answered(answer)
        match outcome:
            case Next.FIND_COORDINATOR:
                self._coordinator_lost()
                self._retry()
            case Next.RETRY:
                self._retry()
            case Next.GO_ON:
                self._failures = 0
                if self._member.has_news:
                    self.send_soon()
                else:
                    self._send_after(self._member.heartbeat_interval_ms or _HEARTBEAT_INTERVAL_MS)
        self._on_outcome(outcome)

    def _coordinator_lost(self) -> None:
        self._parts.coordinators.lost(CoordinatorKind.GROUP, self._parts.group_id)

    def _retry(self) -> None:
        self._failures += 1
        self._send_after(self._backoff.after(self._failures))

    # The end.

    def send_leave(self) -> asyncio.Future[None] | None:
        """The last heartbeat, done once it is answered or not; None where there is nobody to tell, or nothing to leave."""
        parts = self._parts
        node_id = parts.coordinators.known(CoordinatorKind.GROUP, parts.group_id)
        if node_id is None or not self._member.is_in_group:
            return None
        done: asyncio.Future[None] = parts.loop.create_future()

        def answered(_answer: A | ClientError) -> None:
            if not done.done():
                done.set_result(None)

        parts.connections.send(
            node_id,
            self._member.leave_request(),
            self._answer,
            answered,
            channel=Channel.COORDINATOR,
            timeout_ms=_LEAVE_TIMEOUT_MS,
        )
        return done

    async def leave(self, timeout_ms: float) -> None:
        """Stop, and tell the coordinator, as far as it is reached in time."""
        self.stop()
        left = self.send_leave()
        if left is not None:
            await asyncio.wait({left}, timeout=timeout_ms / 1000)

    def stop(self) -> None:
        """No more timers and tasks."""
        self._is_stopped = True
        if self._finding is not None:
            self._finding.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
