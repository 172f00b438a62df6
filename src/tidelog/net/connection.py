# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""One accepted connection: requests in, answers out in the order of the requests.

A handler gets every whole frame of a read, then one call to finish them together, and opens a slot for each answer that it owes:

    def frame(self, connection, frame):
        slot = connection.expect_answer()
        self._batch.append((slot, decode(frame)))          # the frame itself is gone when this returns

    def frames_done(self, connection):
        for slot, request in self._batch: ...              # one write per partition
            slot.send([header, region])                    # now, or from a later event, in any order

A slot may be filled at any time. Its answer leaves once those of all earlier requests have. A request that gets no answer
(`acks=0`) opens no slot.

A peer that sends more than it reads is made to wait: no further frame is taken while `unanswered_requests_max` slots are open or
more than `output_bytes_max` is queued. One that sends many requests at once waits for others (`net.backlog`): then `frames_done`
comes after some of its frames, and again after the rest.

A connection can be muted for a while, as where a client is above its quota or its login is being looked at: answers leave, but
no further frame is taken, not even one that was read together with those before it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.model.bugs import BugError
from tidelog.model.principal import ANONYMOUS
from tidelog.net.address import NO_ADDRESS, Address, address_of, java_host
from tidelog.net.backlog import Backlog
from tidelog.net.stream import FrameStream
from tidelog.net.turn import Turn

if TYPE_CHECKING:
    from tidelog.model.slow_work import SlowWork
    from tidelog.net.limits import ConnectionLimits
    from tidelog.net.parts import Part
    from tidelog.net.receive_buffers import ReceiveBuffers
    from tidelog.net.tls import TlsSession

log = logging.getLogger(__name__)

# Why a connection is muted, which may be for both at once.
OVER_QUOTA = 1
LOGIN_PENDING = 2

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


class ClientSoftware(NamedTuple):
    """What a client calls itself in ApiVersions."""

    name: str
    version: str

    @property
    def is_valid(self) -> bool:
        """Whether both are words that logs and metrics can hold."""
        return _SOFTWARE.fullmatch(self.name) is not None and _SOFTWARE.fullmatch(self.version) is not None


UNKNOWN_SOFTWARE = ClientSoftware("unknown", "unknown")


class FrameHandler(Protocol):
    """What requests mean. An exception is a bug of the handler: it is logged and ends that connection alone.

    `BugError`, which is none, passes: what the handler called cannot go on.
    """

    def connection_opened(self, connection: Connection) -> None: ...

    def frame(self, connection: Connection, frame: memoryview) -> None:
        """One request. The view, and any slice of it, is valid during this call and `frames_done` of the same read."""
        ...

    def frames_done(self, connection: Connection) -> None:
        """After the last request of a read, and whenever no further one is taken now.

        Always, also when the connection has ended meanwhile or `frame` has failed.
        """
        ...

    def connection_closed(self, connection: Connection) -> None:
        """The end. Slots that are still open may be filled or forgotten; nothing leaves any more."""
        ...


class AnswerSlot:
    """The place of one answer in the order of a connection's answers."""

    __slots__ = ("_parts", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._parts: Sequence[Part] | None = None

    def send(self, parts: Sequence[Part]) -> None:
        """Gives the answer, without its size. Once; after the connection has ended it is dropped."""
        self.connection._answered(self, parts, False)  # noqa: SLF001 - a slot is a part of its connection

    def send_at_once(self, parts: Sequence[Part]) -> None:
        """`send`, without waiting for the end of the turn: for what a peer is woken by, while there is more to do here."""
        self.connection._answered(self, parts, True)  # noqa: SLF001

    def close_connection(self) -> None:
        """For a request that allows no answer. Answers to earlier requests that were not sent yet are lost."""
        self.connection.abort()


class Connection(FrameStream):
    """The server's end. `principal` and `client_software` are the handler's to set; everything else is fixed at accept."""

    __slots__ = (
        "_frames_done",
        "_handle",
        "_handler",
        "_muted_for",
        "_on_closed",
        "_on_quiet",
        "_output_bytes_max",
        "_parked_bytes",
        "_request_bytes_max",
        "_slots",
        "_unanswered_requests_max",
        "client_software",
        "connection_id",
        "host",
        "idle_since_ms",
        "listener_name",
        "local_address",
        "peer_address",
        "principal",
        "throttle",
        "tls",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: FrameHandler,
        limits: ConnectionLimits,
        buffers: ReceiveBuffers,
        turn: Turn,
        backlog: Backlog,
        *,
        listener_name: str,
        connection_id: int,
        peer_address: Address,
        on_closed: Callable[[Connection], None],
        slow_work: SlowWork | None = None,
        is_exempt: bool = False,
    ) -> None:
        """`is_exempt`: it never waits in the backlog. The handler may say so later."""
        super().__init__(loop, buffers, turn, limits.request_bytes_max, slow_work, backlog)
        self._handler = handler
        self._handle = handler.frame
        self._frames_done = handler.frames_done
        self._request_bytes_max = limits.request_bytes_max
        self._unanswered_requests_max = limits.unanswered_requests_max
        self._output_bytes_max = limits.output_bytes_max
        self._on_quiet: Callable[[], None] | None = None
        self._slots: deque[AnswerSlot] = deque()
        # Answers that wait for an earlier one.
        self._parked_bytes = 0
        # Reasons, added up.
        self._muted_for = 0
        self._on_closed = on_closed
        self.listener_name = listener_name
        self.connection_id = connection_id
        self.peer_address = peer_address
        self.host = java_host(peer_address.host)
        """The peer's address in Java's form, by which ACLs name it."""
        self.local_address = NO_ADDRESS
        self.is_exempt = is_exempt
        self.principal = ANONYMOUS
        self.tls: TlsSession | None = None
        """What was agreed on with the peer; None without TLS."""
        self.client_software = UNKNOWN_SOFTWARE
        self.throttle: object = None
        """What the handler keeps of this client's quotas, once it has any."""
        self.idle_since_ms = 0.0

    def __str__(self) -> str:
        return f"{self.listener_name} connection {self.connection_id} from {self.peer_address}"

    @property
    def handler(self) -> FrameHandler:
        """Who takes the next request: another one, from the next request on, once a peer has authenticated.

        Whoever gives way has finished the requests that it took; of the read at hand only the new one hears the end.
        """
        return self._handler

    @handler.setter
    def handler(self, handler: FrameHandler) -> None:
        self._handler = handler
        self._handle = handler.frame
        self._frames_done = handler.frames_done

    def limit_requests(self, bytes_max: int | None) -> None:
        """How large a request may be, from the next one on. None: as large as on any connection."""
        self._reader.limit(self._request_bytes_max if bytes_max is None else min(bytes_max, self._request_bytes_max))

    @property
    def unanswered_requests(self) -> int:
        """Slots whose answer has not been queued: open, or waiting for an earlier one."""
        return len(self._slots)

    @property
    def owes_answers(self) -> bool:
        """Whether the peer waits for this side and there is nothing that it could do about it."""
        return bool(self._slots) and not self.output_bytes

    def expect_answer(self) -> AnswerSlot:
        """Opens the slot of the next answer. In the order of the requests."""
        slot = AnswerSlot(self)
        self._slots.append(slot)
        return slot

    def answer_with_frames(self, frames: Sequence[bytes]) -> None:
        """Answers requests for which no slot was opened, and which came after all that have one. Each frame has its size."""
        if self._slots:
            for frame in frames:
                self.expect_answer().send((memoryview(frame)[4:],))
            return
        output = self._output
        if output is None or self.is_closed:
            return
        output.push_frames(frames[0] if len(frames) == 1 else b"".join(frames))
        if not self._flush_noted:
            self._flush_soon()

    def _answered(self, slot: AnswerSlot, parts: Sequence[Part], at_once: bool) -> None:
        if slot._parts is not None:  # noqa: SLF001 - a slot is a part of its connection
            raise BugError(f"{self}: a request was answered twice")
        slot._parts = parts  # noqa: SLF001
        if self.is_closed:
            return
        slots = self._slots
        output = self._output
        if not slots:
            raise BugError(f"{self}: an answer has no place among the others")
        if slots[0] is not slot or output is None:
            self._parked_bytes += _parts_bytes(parts)
        else:
            slots.popleft()
            output.push(parts)
            while slots:
                slot = slots[0]
                parts_or_none = slot._parts  # noqa: SLF001
                if parts_or_none is None:
                    break
                slots.popleft()
                self._parked_bytes -= _parts_bytes(parts_or_none)
                output.push(parts_or_none)
            if self._parked_bytes < 0 or (self._parked_bytes and not slots):
                raise BugError(f"{self}: {len(slots)} answers wait, of {self._parked_bytes} bytes")
            if not at_once and not self._flush_noted:
                self._flush_soon()
        if at_once:
            self._flush()
        if self._stalled:
            self._resume_if_possible()

    def mute(self, reason: int = OVER_QUOTA) -> None:
        """Takes no further frame until `unmute` for the same reason. What is owed leaves, and what arrives waits."""
        self._muted_for |= reason

    def unmute(self, reason: int = OVER_QUOTA) -> None:
        self._muted_for &= ~reason
        if self._stalled:
            self._resume_if_possible()

    def _frame(self, frame: memoryview) -> bool:
        self._handle(self, frame)
        output = self._output
        if self._muted_for or self._slots or output is None or output.pending_bytes > self._output_bytes_max:
            return not self._is_full()
        return not self.is_closed

    def _read_done(self) -> None:
        self._frames_done(self)

    def _is_full(self) -> bool:
        output = self._output
        return (
            len(self._slots) >= self._unanswered_requests_max
            or output is None
            or output.pending_bytes + self._parked_bytes > self._output_bytes_max
            or self._muted_for != 0
            or self.is_closed
        )

    def _output_moved(self) -> None:
        if self._stalled:
            self._resume_if_possible()
        if self._on_quiet is not None:
            self._tell_if_quiet()

    def _tell_if_quiet(self) -> None:
        on_quiet = self._on_quiet
        output = self._output
        if on_quiet is None or self._slots or self.is_closed or (output is not None and output.pending_bytes):
            return
        self._on_quiet = None
        on_quiet()

    def close_when_sent(self) -> None:
        """Ends the connection for a request that cannot be answered. Answers to those before it that are complete leave first."""
        self.flush()
        self.abort()

    def finish(self, on_quiet: Callable[[], None]) -> None:
        """Takes no further request, sends the answers that are owed, then calls `on_quiet`."""
        self._on_quiet = on_quiet
        self.stop_taking()
        self._tell_if_quiet()

    def _opened(self) -> None:
        transport = self._transport
        if transport is not None:
            self.local_address = address_of(transport.get_extra_info("sockname"))
        try:
            with self._turn:
                self._handler.connection_opened(self)
        except Exception as error:
            log.exception("%s: closed: its handler failed at the start", self)
            self.abort(error)

    def _closed(self, error: BaseException | None) -> None:  # noqa: ARG002 - whoever ended it has said why
        self._slots.clear()
        self._parked_bytes = 0
        self._on_closed(self)
        if self._output is None:
            # The handler has never heard of it.
            return
        try:
            self._handler.connection_closed(self)
        except Exception:
            log.exception("%s: its handler failed at the end", self)


def _parts_bytes(parts: Sequence[Part]) -> int:
    return sum([len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.count for part in parts])
