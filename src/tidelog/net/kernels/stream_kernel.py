# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The way of a frame through a connection, in and out: what every request costs before and after it is handled.

This is one source for two twins: it runs as plain Python, and `setup.py` compiles it to `_stream_kernel`. `_stream_kernel.pxd`
beside it says which attributes, arguments and results are C's, and which methods are called as C functions; the compiler
ignores the annotations here.

    FrameReader     splits what arrives into frames             `net.frames` has its contract
    OutputQueue     what waits to be sent, in order             `net.output_queue`
    Turn            one write for each connection and turn      `net.turn`
    Backlog         connections with more than one round takes  `net.backlog`
    SocketSender    bytes into a socket                         `net.channel`
    StreamCore      what both ends of a connection do per read  `net.stream`, where the rest of it is
    AnswersCore     the end that sends requests, PendingRequest `net.node_connection`
    ConnectionCore  the end that answers them, with AnswerSlot  `net.connection`

The `...Core` classes have a subclass in Python for what happens once in a connection's life. What they call on themselves with
every frame (`_frame`, `_read_done`, `_is_full`, `_output_moved`...) is a C function in the compiled twin: only a class of this
module can override it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from tidelog.net import parts as _parts
from tidelog.net.errors import ConnectionLostError, NetError, RegionLostError, not_a_frame

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.net.kernels.socket_bytes import send_bytes, system_ns
else:
    from tidelog.net.kernels._plain_socket_bytes import send_bytes, system_ns

if TYPE_CHECKING:
    from tidelog.model.slow_work import SlowWork
    from tidelog.net.channel import WatchedChannel
    from tidelog.net.connection import Connection, FrameHandler
    from tidelog.net.limits import BacklogLimits, ConnectionLimits
    from tidelog.net.node_connection import OnAnswer
    from tidelog.net.parts import Bytes, Channel, Part, RegionFile
    from tidelog.net.receive_buffers import ReceiveBuffers

log = logging.getLogger("tidelog.net.stream")

_SENDFILE_BYTES_MIN = _parts.SENDFILE_BYTES_MIN
_JOINED_BYTES_MAX = _parts.JOINED_BYTES_MAX
_APART_BYTES_MIN = _parts.APART_BYTES_MIN
_COPIED_BYTES_MAX = _parts.COPIED_BYTES_MAX
_FLUSHED_BYTES_MAX = _parts.FLUSHED_BYTES_MAX
_LARGE_OUTPUT_BYTES = _parts.LARGE_OUTPUT_BYTES
_FLUSHED_IN_SLICE_BYTES_MAX = _parts.FLUSHED_IN_SLICE_BYTES_MAX
_WOULD_BLOCK = _parts.WOULD_BLOCK

# So many requests, each a sixteenth of a round at most so far, may pass until the clock is looked at again.
_STRIDE_MAX = 8

# No round takes as many, so only the round's own limit counts.
_ANY_NUMBER = 1 << 30

# Linux gathers what follows into the same packet; elsewhere each send is a packet, which is only slower.
_MORE_FOLLOWS: int = getattr(socket, "MSG_MORE", 0)

_INT32 = Struct(">i")
_int32_at = _INT32.unpack_from
_int32_bytes = _INT32.pack


class FrameReader:
    """The receiving side of one connection."""

    __slots__ = (
        "_buffers",
        "_end",
        "_frame_bytes_max",
        "_is_aside",
        "_own",
        "_start",
        "_taken_bytes",
        "_view",
        "_wanted_bytes",
    )

    def __init__(self, buffers: ReceiveBuffers, frame_bytes_max: int) -> None:
        self._buffers = buffers
        self._frame_bytes_max = frame_bytes_max
        self._view = buffers.shared
        # The bytes from _start to _end of the view have arrived and were not taken. Without a buffer of our own there are none
        # between two reads, since other connections use the shared one.
        self._own: memoryview | None = None
        # Our own buffer is just as long as what was put aside, and not one of `buffers`.
        self._is_aside = False
        self._start = 0
        self._end = 0
        # Of the frame that was taken last, and of the one that is incomplete, with its size.
        self._taken_bytes = 0
        self._wanted_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """How many bytes have arrived and were not taken."""
        return self._end - self._start

    @property
    def arrived_bytes(self) -> int:
        """How many bytes of the buffer are in use: those, and what was taken before them."""
        return self._end

    @property
    def held_bytes(self) -> int:
        """The size of the buffer that this connection keeps to itself."""
        return 0 if self._own is None else len(self._own)

    def buffer(self) -> memoryview:
        """Where the next bytes go, never empty. Asking twice does no harm."""
        return self._view if self._own is None else self._own[self._end :]

    def little_buffer(self, bytes_max: int) -> memoryview:
        """`buffer`, but hardly more than the frame that is incomplete: where memory for what comes behind it is short."""
        own = self._own
        if own is None:
            return self._view[:bytes_max]
        return own[self._end : max(self._wanted_bytes, self._end + bytes_max)]

    def received(self, count: int) -> bool:
        """`count` bytes have been put into what `buffer` returned. False: the frame that they belong to goes on after them, and
        there is nothing to take or settle."""
        self._end += count
        return self._own is None or self._end >= self._wanted_bytes

    def take(self) -> memoryview | None:
        """The next whole frame without its size, or None. FrameError for a size that no frame can have."""
        start = self._start
        available = self._end - start
        if available < 4:
            self._wanted_bytes = 4
            return None
        size: int = _int32_at(self._view, start)[0]
        if size < 0 or size > self._frame_bytes_max:
            raise not_a_frame(size, self._frame_bytes_max)
        if available < size + 4:
            self._wanted_bytes = size + 4
            return None
        self._taken_bytes = size
        end = self._start = start + 4 + size
        return self._view[start + 4 : end]

    def has_frame(self) -> bool:
        """Whether `take` would give a frame, or refuse its size."""
        available = self._end - self._start
        if available < 4:
            return False
        size: int = _int32_at(self._view, self._start)[0]
        return size < 0 or size > self._frame_bytes_max or available >= size + 4

    def has_several(self) -> bool:
        """Whether there is a whole frame, and something behind it."""
        available = self._end - self._start
        if available < 4:
            return False
        size: int = _int32_at(self._view, self._start)[0]
        return 0 <= size < available - 4

    def put_aside(self) -> None:
        """Ends a round of `take` that was cut short: what is left stays as it is for the next one, in no more memory than it
        needs. Nothing is read meanwhile; after the next round comes `settle`, or this again."""
        start = self._start
        left_bytes = self._end - start
        own = self._own
        if self._is_aside or (own is not None and left_bytes * 2 > len(own)):
            return
        copied = memoryview(bytearray(self._view[start : self._end]))
        if own is not None:
            self._let_go()
        self._own = self._view = copied
        self._is_aside = True
        self._start = 0
        self._end = left_bytes

    def settle(self) -> None:
        """Ends a round of `take`: what is left is moved to where the next read continues it."""
        start = self._start
        end = self._end
        own = self._own
        self._start = 0
        if start == end:
            self._end = 0
            self._wanted_bytes = 4
            # A connection whose frames come in several reads keeps its buffer for the next one, until `release_idle`.
            if own is not None and (self._is_aside or self._taken_bytes * 4 < len(self._buffers.shared)):
                self._let_go()
            return
        left_bytes = self._end = end - start
        # One byte more than what is left: `buffer` must never be empty.
        needed_bytes = max(self._wanted_bytes, left_bytes + 1)
        if own is None or self._is_aside or len(own) < needed_bytes:
            larger = self._buffers.take(needed_bytes)
            larger[:left_bytes] = self._view[start:end]
            self._let_go()
            self._own = self._view = larger
        elif start:
            own[:left_bytes] = own[start:end]

    def release_idle(self) -> None:
        """Gives up a buffer that waits for nothing. For a connection that has been silent for a while."""
        if self._own is not None and self._start == self._end:
            self._let_go()

    def close(self) -> None:
        """Forgets what arrived and gives up the buffer."""
        self._start = self._end = 0
        if self._own is not None:
            self._let_go()

    def _let_go(self) -> None:
        own = self._own
        if own is not None:
            self._own = None
            self._view = self._buffers.shared
            if self._is_aside:
                self._is_aside = False
            else:
                self._buffers.give_back(own)


class SocketSender:
    """Sends bytes into a socket that does not wait."""

    __slots__ = ("_descriptor", "is_held")

    def __init__(self, descriptor: int) -> None:
        # -1 once it is closed: its number may be another's by then.
        self._descriptor = descriptor
        self.is_held = False
        """Somebody else has bytes for the same socket, and nothing may overtake them."""

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        """How many bytes were taken, or WOULD_BLOCK."""
        return self._send(data, more_follows)

    def _send(self, data: Bytes, more_follows: bool) -> int:
        if self.is_held:
            return _WOULD_BLOCK
        sent: int = send_bytes(self._descriptor, data, _MORE_FOLLOWS if more_follows else 0)
        return sent

    def hand_over(self, data: Bytes) -> int:
        """The socket takes nothing now. How many bytes were left to somebody who waits for it, or WOULD_BLOCK."""
        raise NotImplementedError


class _Remainder:
    """What is still to be sent of a region."""

    __slots__ = ("count", "file", "position")

    def __init__(self, file: RegionFile, position: int, count: int) -> None:
        self.file = file
        self.position = position
        self.count = count


class OutputQueue:
    """Frames on their way out, strictly in the order of `push`."""

    __slots__ = ("_channel", "_items", "_sender", "_tail", "_tail_bytes", "is_blocked", "pending_bytes", "sent_bytes")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sender = channel if isinstance(channel, SocketSender) else None
        # A list is bytes that are sent as one; small answers are added to the last, so that a flush joins them in one go.
        self._items: deque[list[Bytes] | _Remainder] = deque()
        self._tail: list[Bytes] = []
        self._tail_bytes = _JOINED_BYTES_MAX
        self.pending_bytes = 0
        self.sent_bytes = 0
        self.is_blocked = False
        """Whether the last flush ended because the channel took nothing more."""

    def push(self, parts: Sequence[Part]) -> None:
        """Adds one frame. Its size, the sum of its parts, is put in front of it."""
        tail = self._tail if self._tail_bytes < _JOINED_BYTES_MAX else self._new_tail()
        size_list = tail
        size_index = len(tail)
        tail.append(b"")
        size = 0
        for part in parts:
            if isinstance(part, (bytes, bytearray, memoryview)):
                count = len(part)
                if count <= _APART_BYTES_MIN:
                    tail.append(part)
                    self._tail_bytes += count
                else:
                    self._items.append([part])
                    tail = self._new_tail()
            else:
                count = part.count
                if count:
                    self._items.append(_Remainder(part.file, part.position, count))
                    tail = self._new_tail()
            size += count
        size_list[size_index] = _int32_bytes(size)
        self._tail_bytes += 4
        self.pending_bytes += size + 4

    def push_frames(self, frames: bytes) -> None:
        """Adds whole frames that have their sizes already."""
        count = len(frames)
        if count <= _APART_BYTES_MIN:
            tail = self._tail if self._tail_bytes < _JOINED_BYTES_MAX else self._new_tail()
            tail.append(frames)
            self._tail_bytes += count
        else:
            self._items.append([frames])
            self._tail_bytes = _JOINED_BYTES_MAX
        self.pending_bytes += count

    def flush(self, bytes_max: int = _FLUSHED_BYTES_MAX) -> bool:
        """Sends what the channel takes, and about so much at most. True when nothing is left.

        OSError: the peer is gone. RegionLostError: a file is shorter than the frame says. Both end the connection.
        """
        self.is_blocked = False
        items = self._items
        if len(items) == 1 and type(pieces := items[0]) is list and pieces:
            # One answer, or several small ones that leave together, as mostly.
            items.clear()
            self._tail_bytes = _JOINED_BYTES_MAX
            data = _joined(pieces)
            sent = self._send(data, more_follows=False)
            if sent == len(data):
                self.pending_bytes -= sent
                self.sent_bytes += sent
                return True
            items.append([data if sent <= 0 else memoryview(data)[sent:]])
            if sent == _WOULD_BLOCK:
                self.is_blocked = True
                return False
            self.pending_bytes -= sent
            self.sent_bytes += sent
        budget_bytes = bytes_max
        while items:
            head = items[0]
            region = head if type(head) is _Remainder else None
            if region is not None and self._leaves_by_sendfile(region):
                sent = self._channel.send_file(region.file.fileno(), region.position, min(budget_bytes, region.count))
                if sent == 0:
                    raise RegionLostError(f"a file ends {region.count} bytes before the region that was to be sent")
                if sent != _WOULD_BLOCK:
                    region.position += sent
                    region.count -= sent
                    if not region.count:
                        items.popleft()
            else:
                data = self._gather()
                if not data:
                    continue
                sent = self._send(data, more_follows=self.pending_bytes > len(data))
                if sent < len(data):
                    items.appendleft([data if sent <= 0 else memoryview(data)[sent:]])
            if sent == _WOULD_BLOCK:
                self.is_blocked = True
                return False
            self.pending_bytes -= sent
            self.sent_bytes += sent
            budget_bytes -= sent
            if budget_bytes <= 0:
                break
        return not self.pending_bytes

    def clear(self) -> None:
        """Drops what is left, and with it the files that it held open."""
        self._items.clear()
        self._tail_bytes = _JOINED_BYTES_MAX
        self.pending_bytes = 0

    def _send(self, data: Bytes, more_follows: bool) -> int:
        sender = self._sender
        if sender is not None:
            sent = sender._send(data, more_follows)  # noqa: SLF001 - without the keyword, which would cost
            return sender.hand_over(data) if sent == _WOULD_BLOCK else sent
        return self._channel.send(data, more_follows=more_follows)

    def _new_tail(self) -> list[Bytes]:
        tail: list[Bytes] = []
        self._items.append(tail)
        self._tail = tail
        self._tail_bytes = 0
        return tail

    def _leaves_by_sendfile(self, region: _Remainder) -> bool:
        return region.count >= _SENDFILE_BYTES_MIN and self._channel.sends_files

    def _gather(self) -> Bytes:
        """Takes the next bytes off the queue, several small pieces joined. Empty only if there was an empty list."""
        items = self._items
        # The tail may be among what is taken now, so nothing is added to it any more.
        self._tail_bytes = _JOINED_BYTES_MAX
        head = items[0]
        if isinstance(head, _Remainder):
            data: Bytes = self._read_piece(head)
        else:
            items.popleft()
            data = _joined(head)
        if not items or len(data) > _APART_BYTES_MIN:
            return data
        gathered: list[Bytes] = [data]
        room_bytes = _JOINED_BYTES_MAX - len(data)
        while items and room_bytes > 0:
            item = items[0]
            if isinstance(item, _Remainder):
                region = item
                if self._leaves_by_sendfile(region) or region.count > room_bytes:
                    break
                data = self._read_piece(region)
            elif len(item) == 1 and len(item[0]) > _APART_BYTES_MIN:
                break
            else:
                items.popleft()
                data = _joined(item)
            gathered.append(data)
            room_bytes -= len(data)
        return _joined(gathered)

    def _read_piece(self, region: _Remainder) -> bytes:
        """Reads the next piece of a region. What is left of the region stays at the head of the queue."""
        wanted = min(region.count, _COPIED_BYTES_MAX)
        piece = region.file.pread(wanted, region.position)
        if len(piece) != wanted:
            raise RegionLostError(f"a file ends {wanted - len(piece)} bytes before the region that was to be sent")
        region.position += wanted
        region.count -= wanted
        if not region.count:
            self._items.popleft()
        return piece


def _joined(pieces: list[Bytes]) -> Bytes:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Flushable(Protocol):
    """A connection with something to send."""

    def flush(self) -> None: ...

    def abort(self, error: BaseException | None = None) -> None: ...


class Turn:
    """One for all connections of an event loop. Turns nest; the outermost counts."""

    __slots__ = ("_depth", "_waiting", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._depth = 0
        self._waiting: list[Flushable] = []

    def flush_later(self, connection: Flushable) -> None:
        """Notes a connection for the end of the turn. It may be closed by then."""
        self._waiting.append(connection)

    def __enter__(self) -> None:
        self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _begin(self) -> None:
        self._depth += 1
        self.is_open = True

    def _end(self) -> None:
        try:
            if self._depth == 1:
                # Still inside of the turn: whatever a flush brings about is part of it.
                while self._waiting:
                    waiting = self._waiting
                    self._waiting = []
                    for connection in waiting:
                        try:
                            connection.flush()
                        except Exception as error:
                            # Those behind it count on this flush, and are not to be left out for it.
                            log.exception("%s: closed: what was answered could not be sent", connection)
                            connection.abort(error)
        finally:
            self._depth -= 1
            self.is_open = self._depth > 0


class Backlog:
    """One for all connections of an event loop."""

    __slots__ = (
        "_bytes_max",
        "_clock_ns",
        "_elapsed_max_ns",
        "_elapsed_ns",
        "_is_scheduled",
        "_loop",
        "_queue",
        "_requests",
        "_requests_max",
        "_slice_requests_max",
        "_stride",
        "_turn",
        "held_bytes",
        "is_full",
        "is_spent",
        "little_bytes",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, turn: Turn, now_ns: Callable[[], int], limits: BacklogLimits
    ) -> None:
        self._loop = loop
        self._turn = turn
        # Asked after every one of many requests: the system's own clock without a call of Python's.
        self._clock_ns = None if now_ns is time.monotonic_ns else now_ns
        self._requests_max = limits.round_requests_max
        self._elapsed_max_ns = limits.round_us_max * 1000
        self._slice_requests_max = limits.slice_requests_max
        self._bytes_max = limits.bytes_max
        self.little_bytes = limits.little_read_bytes
        self._queue: deque[StreamCore] = deque()
        self._is_scheduled = False
        # What connections with more than one request have used since the round began.
        self._requests = 0
        self._elapsed_ns = 0
        # After so many requests the clock is looked at: fewer where they take long.
        self._stride = 1
        self.is_spent = False
        """Whether whoever has more than one request is to wait for a later round."""
        self.held_bytes = 0
        """What has arrived on the connections that wait."""
        self.is_full = False
        """Whether no more of it than needs be is to be read."""

    def __len__(self) -> int:
        return len(self._queue)

    def _now_ns(self) -> int:
        clock_ns = self._clock_ns
        return system_ns() if clock_ns is None else clock_ns()

    def _add(self, connection: StreamCore) -> None:
        if not connection._is_queued:  # noqa: SLF001 - a connection's place is a part of it
            connection._is_queued = True  # noqa: SLF001
            self._queue.append(connection)
            self._schedule()

    def _hold(self, added_bytes: int) -> None:
        self.held_bytes += added_bytes
        self.is_full = self.held_bytes >= self._bytes_max

    def _charge(self, requests: int, elapsed_ns: int) -> None:
        self._requests += requests
        self._elapsed_ns += elapsed_ns
        # To ask the clock after each of many small requests would take a tenth of their time, where it is a system call.
        if elapsed_ns * 16 > self._elapsed_max_ns:
            self._stride = 1
        elif elapsed_ns and self._stride < _STRIDE_MAX:
            self._stride *= 2
        if self._requests >= self._requests_max or self._elapsed_ns >= self._elapsed_max_ns:
            self.is_spent = True
        # A little may add up over several rounds: to note the end of each would cost more.
        if self._requests * 8 >= self._requests_max or self._elapsed_ns * 8 >= self._elapsed_max_ns:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._run_round()

    def _run_round(self) -> None:
        """The loop has looked at all sockets once: those that wait are next, then the sockets again."""
        self._begin_round()
        queue = self._queue
        turn = self._turn
        try:
            if queue:
                turn._begin()  # noqa: SLF001
                try:
                    while queue and not self.is_spent:
                        connection = queue.popleft()
                        connection._is_queued = False  # noqa: SLF001
                        try:
                            connection._proceed()  # noqa: SLF001
                        except Exception as error:
                            # Those behind it are not to be left out for it.
                            log.exception("%s: closed: what has arrived could not be handled", connection)
                            connection.abort(error)
                finally:
                    turn._end()  # noqa: SLF001
        finally:
            self._begin_round()
            self._is_scheduled = False
            if queue:
                self._schedule()

    def _begin_round(self) -> None:
        self._requests = 0
        self._elapsed_ns = 0
        self.is_spent = False


class StreamCore:
    """What `FrameStream` does with every read and every answer."""

    __slots__ = (
        "_backlog",
        "_channel",
        "_discarding",
        "_flush_noted",
        "_held_bytes",
        "_is_put_off",
        "_is_queued",
        "_loop",
        "_output",
        "_reader",
        "_reading",
        "_slow_work",
        "_stalled",
        "_transport",
        "_turn",
        "_waiting_for_channel",
        "bytes_in",
        "is_active",
        "is_closed",
        "is_exempt",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffers: ReceiveBuffers,
        turn: Turn,
        frame_bytes_max: int,
        slow_work: SlowWork | None = None,
        backlog: Backlog | None = None,
    ) -> None:
        """`backlog` is for connections that may be made to wait for others."""
        self._loop = loop
        self._turn = turn
        self._backlog = backlog
        self._slow_work = slow_work
        self._reader = FrameReader(buffers, frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._channel: WatchedChannel | None = None
        self._output: OutputQueue | None = None
        self.bytes_in = 0
        self.is_closed = False
        # Set by traffic, cleared by whoever looks for idle connections: cheaper than reading a clock for every read.
        self.is_active = True
        self.is_exempt = False
        """Whether it never waits for others, whatever it sends."""
        self._reading = True
        # Frames were put aside, and nothing is read: because the owner is full, or because others are to have their turn.
        self._is_put_off = False
        self._stalled = False
        # It has a place in the backlog; how many bytes of its own are counted there.
        self._is_queued = False
        self._held_bytes = 0
        self._discarding = False
        self._flush_noted = False
        self._waiting_for_channel = False

    # What a subclass says. The first four are asked with every frame, and so are for classes of this module alone.

    def _frame(self, frame: memoryview) -> bool:
        raise NotImplementedError

    def _read_done(self) -> None: ...

    def _is_full(self) -> bool:
        return False

    def _output_moved(self) -> None: ...

    def _closed(self, error: BaseException | None) -> None: ...

    # Output.

    def push(self, parts: Sequence[Part]) -> None:
        """Queues one frame. It leaves at the end of the turn, or at once outside of one. Nothing after the end."""
        output = self._output
        if output is None or self.is_closed:
            return
        output.push(parts)
        self._flush_soon()

    def flush(self) -> None:
        """Sends what can be sent now."""
        self._flush()

    def _flush_soon(self) -> None:
        if self._turn.is_open:
            if not self._flush_noted:
                self._flush_noted = True
                self._turn.flush_later(self)
        else:
            self._flush()

    def _flush(self) -> None:
        self._flush_noted = False
        if not self._waiting_for_channel and not self.is_closed:
            self._flush_output()

    def _writable(self) -> None:
        """The channel takes bytes again."""
        self._flush_output()

    def _flush_output(self) -> None:
        output = self._output
        if output is None or self._channel is None or self.is_closed:
            return
        backlog = self._backlog
        bytes_max = _FLUSHED_BYTES_MAX
        begun_ns = 0
        if backlog is not None and output.pending_bytes > _LARGE_OUTPUT_BYTES and not self.is_exempt:
            # As long as many requests take, and so it waits like them.
            if backlog.is_spent:
                self._flush_in_backlog(backlog)
                return
            if backlog._queue:  # noqa: SLF001
                bytes_max = _FLUSHED_IN_SLICE_BYTES_MAX
            begun_ns = backlog._now_ns()  # noqa: SLF001
        before_bytes = output.sent_bytes
        try:
            is_empty = output.flush(bytes_max)
        except OSError as error:
            self.abort(error)
            return
        except NetError as error:
            log.warning("%s: closed: %s", self, error)
            self.abort(error)
            return
        except Exception as error:
            log.exception("%s: closed: a file to be sent cannot be read", self)
            self.abort(error)
            return
        if begun_ns and backlog is not None:
            backlog._charge(1, backlog._now_ns() - begun_ns)  # noqa: SLF001
        if not is_empty:
            if backlog is not None and not output.is_blocked:
                self._flush_in_backlog(backlog)
            else:
                self._waiting_for_channel = True
                self._channel.watch(self._writable)
        elif self._waiting_for_channel:
            self._waiting_for_channel = False
            self._channel.unwatch()
        if output.sent_bytes != before_bytes:
            self.is_active = True
            self._output_moved()

    def _flush_in_backlog(self, backlog: Backlog) -> None:
        if self._waiting_for_channel and self._channel is not None:
            self._waiting_for_channel = False
            self._channel.unwatch()
        backlog._add(self)  # noqa: SLF001

    # Input.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - whatever the loop would like, one buffer serves all
        if self._backlog is not None and self._backlog.is_full:
            return self._reader.little_buffer(self._backlog.little_bytes)
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._received(nbytes)

    def _received(self, count: int) -> None:
        self.is_active = True
        self.bytes_in += count
        if self.is_closed or self._discarding or not self._reader.received(count):
            return
        backlog = self._backlog
        if backlog is not None and backlog.is_spent and not self.is_exempt and self._reader.has_several():
            # Those with a single request go first.
            self._put_off(backlog)
        else:
            self._take_frames_in_turn()

    def _take_frames_in_turn(self) -> None:
        self._turn._begin()  # noqa: SLF001 - `with` looks both ends up by name
        try:
            self._take_frames(_ANY_NUMBER, 0)
        finally:
            self._turn._end()  # noqa: SLF001

    def _take_frames(self, requests_max: int, since_ns: int) -> None:
        """Takes whole frames until there is none, the owner is full or others are to have their turn; keeps what is left.

        `since_ns`: from when the time counts. 0: from the end of the first frame, which is everybody's right.
        """
        reader = self._reader
        backlog = None if self.is_exempt else self._backlog
        full = self._is_full()
        cut = False
        taken = 0
        uncharged = 0
        try:
            while True:
                try:
                    while not full and not cut and (frame := reader.take()) is not None:
                        full = not self._frame(frame)
                        if reader._start == reader._end:  # noqa: SLF001
                            break
                        if backlog is not None:
                            taken += 1
                            uncharged += 1
                            if uncharged >= backlog._stride:  # noqa: SLF001
                                now_ns = backlog._now_ns()  # noqa: SLF001
                                backlog._charge(uncharged, now_ns - since_ns if since_ns else 0)  # noqa: SLF001
                                uncharged = 0
                                since_ns = now_ns
                                cut = backlog.is_spent
                            if taken >= requests_max:
                                cut = True
                finally:
                    # Also after a failure: the frames before it were taken and are to be finished.
                    self._read_done()
                if not full:
                    break
                # What was answered may leave now and make room, before the peer is made to wait.
                self._flush()
                full = self._is_full()
                if full or cut:
                    break
            # Only what has arrived is held back. A peer that waits for a large answer, as every reader of much does, sends
            # nothing meanwhile: to stop reading for it would only cost.
            self._stalled = full and reader.pending_bytes > 0
            put_off = self._stalled or (cut and reader.has_frame())
            if put_off:
                reader.put_aside()
            else:
                reader.settle()
        except NetError as error:
            log.warning("%s: closed: the peer sent %s", self, error)
            self.abort(error)
            return
        except MemoryError as error:
            log.warning("%s: closed: %s", self, error)
            self.abort(error)
            return
        except Exception as error:
            log.exception("%s: closed: handling a request failed", self)
            self.abort(error)
            return
        if backlog is not None and since_ns:
            # What the end of the read took: the appends of all its requests, for one.
            backlog._charge(uncharged + 1, backlog._now_ns() - since_ns)  # noqa: SLF001
        elif backlog is not None and uncharged:
            backlog._charge(uncharged, 0)  # noqa: SLF001
        if self.is_closed:
            return
        if put_off != self._is_put_off or self._held_bytes:
            self._set_put_off(put_off)
        if put_off and not self._stalled and self._backlog is not None:
            self._backlog._add(self)  # noqa: SLF001
        if put_off == self._reading:
            self._read_more(not put_off)

    def _put_off(self, backlog: Backlog) -> None:
        """Leaves what has arrived to the backlog, all of it."""
        try:
            self._reader.put_aside()
        except MemoryError as error:
            log.warning("%s: closed: %s", self, error)
            self.abort(error)
            return
        self._set_put_off(True)
        backlog._add(self)  # noqa: SLF001
        self._read_more(False)

    def _set_put_off(self, put_off: bool) -> None:
        self._is_put_off = put_off
        backlog = self._backlog
        if backlog is not None:
            held_bytes = self._reader.arrived_bytes if put_off else 0
            backlog._hold(held_bytes - self._held_bytes)  # noqa: SLF001
            self._held_bytes = held_bytes

    def _read_more(self, wanted: bool) -> None:
        if wanted == self._reading or self._transport is None or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _resume_if_possible(self) -> None:
        """Goes on with what has arrived, from the backlog, if the owner was full and is no longer."""
        backlog = self._backlog
        if backlog is not None and self._stalled and not self._is_queued and not self.is_closed and not self._is_full():
            backlog._add(self)  # noqa: SLF001

    def _proceed(self) -> None:
        """A slice of the backlog's round: sends some of what is to be sent, and takes some of what has arrived."""
        backlog = self._backlog
        if backlog is None or self.is_closed:
            return
        if not self._waiting_for_channel:
            self._flush_output()
        if not self._is_put_off or self._discarding or self.is_closed or self._channel is None:
            return
        if self._channel.is_broken():
            # Nobody is there for the answers.
            self.abort(ConnectionResetError("the peer has reset the connection"))
            return
        self._take_frames(backlog._slice_requests_max, backlog._now_ns())  # noqa: SLF001

    # The end.

    def abort(self, error: BaseException | None = None) -> None:
        """Ends the connection now. What was not sent is lost."""
        transport = self._transport
        self._end(error)
        if transport is not None:
            transport.abort()

    def _end(self, error: BaseException | None) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._stalled = False
        self._set_put_off(False)
        # The transport refers back to us; a closed connection should not have to wait for the collector.
        self._transport = None
        if self._channel is not None:
            self._channel.close()
        if self._output is not None:
            self._output.clear()
        self._reader.close()
        self._closed(error)


class PendingRequest:
    """A request to another node whose `on_answer` has not been called."""

    __slots__ = ("correlation_id", "deadline_s", "on_answer", "parts")

    def __init__(self, parts: Sequence[Bytes], correlation_id: int, deadline_s: float, on_answer: OnAnswer) -> None:
        self.parts = parts
        self.correlation_id = correlation_id
        self.deadline_s = deadline_s
        self.on_answer = on_answer


class AnswersCore(StreamCore):
    """Answers come in the order of the requests; each is given to whoever sent the request."""

    __slots__ = ("_on_bug", "_unanswered")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffers: ReceiveBuffers,
        turn: Turn,
        frame_bytes_max: int,
        unanswered: deque[PendingRequest],
        on_bug: Callable[[Exception], None],
    ) -> None:
        """`unanswered` is the owner's, who adds to it. `on_bug` hears of what a receiver of an answer raised."""
        super().__init__(loop, buffers, turn, frame_bytes_max)
        self._unanswered = unanswered
        self._on_bug = on_bug

    def _frame(self, frame: memoryview) -> bool:
        unanswered = self._unanswered
        if not unanswered:
            raise ConnectionLostError("an answer that is not the expected one (correlation id None)")
        pending = unanswered[0]
        if len(frame) < 4 or _int32_at(frame)[0] != pending.correlation_id:
            raise ConnectionLostError(
                f"an answer that is not the expected one (correlation id {pending.correlation_id})"
            )
        unanswered.popleft()
        try:
            pending.on_answer(frame)
        except Exception as error:  # noqa: BLE001 - whose bug it is decides what stops for it
            self._on_bug(error)
        return not self.is_closed


class AnswerSlot:
    """The place of one answer in the order of a connection's answers."""

    __slots__ = ("_connection", "_parts")

    def __init__(self, connection: ConnectionCore) -> None:
        self._connection = connection
        self._parts: Sequence[Part] | None = None

    @property
    def connection(self) -> Connection:
        return self._connection  # type: ignore[return-value] # the only subclass there is

    def send(self, parts: Sequence[Part]) -> None:
        """Gives the answer, without its size. Once; after the connection has ended it is dropped."""
        self._connection._answered(self, parts, False)  # noqa: SLF001 - a slot is a part of its connection

    def send_at_once(self, parts: Sequence[Part]) -> None:
        """`send`, without waiting for the end of the turn: for what a peer is woken by, while there is more to do here."""
        self._connection._answered(self, parts, True)  # noqa: SLF001

    def close_connection(self) -> None:
        """For a request that allows no answer. Answers to earlier requests that were not sent yet are lost."""
        self._connection.abort()


class ConnectionCore(StreamCore):
    """Answers in the order of the requests, and the limits of what may be unanswered or unsent."""

    __slots__ = (
        "_frames_done",
        "_handle",
        "_on_quiet",
        "_output_bytes_max",
        "_parked_bytes",
        "_slots",
        "_unanswered_requests_max",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: FrameHandler,
        limits: ConnectionLimits,
        buffers: ReceiveBuffers,
        turn: Turn,
        backlog: Backlog,
        slow_work: SlowWork | None,
    ) -> None:
        super().__init__(loop, buffers, turn, limits.request_bytes_max, slow_work, backlog)
        self._handle = handler.frame
        self._frames_done = handler.frames_done
        self._unanswered_requests_max = limits.unanswered_requests_max
        self._output_bytes_max = limits.output_bytes_max
        self._on_quiet: Callable[[], None] | None = None
        self._slots: deque[AnswerSlot] = deque()
        # Answers that wait for an earlier one.
        self._parked_bytes = 0

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
            raise NetError(f"{self}: a request was answered twice")
        slot._parts = parts  # noqa: SLF001
        if self.is_closed:
            return
        slots = self._slots
        output = self._output
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
            if not at_once and not self._flush_noted:
                self._flush_soon()
        if at_once:
            self._flush()
        if self._stalled:
            self._resume_if_possible()

    def _frame(self, frame: memoryview) -> bool:
        self._handle(self, frame)  # type: ignore[arg-type] # the only subclass there is
        output = self._output
        if self._slots or output is None or output.pending_bytes > self._output_bytes_max:
            return not self._is_full()
        return not self.is_closed

    def _read_done(self) -> None:
        self._frames_done(self)  # type: ignore[arg-type]

    def _is_full(self) -> bool:
        output = self._output
        return (
            len(self._slots) >= self._unanswered_requests_max
            or output is None
            or output.pending_bytes + self._parked_bytes > self._output_bytes_max
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


def _parts_bytes(parts: Sequence[Part]) -> int:
    return sum([len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.count for part in parts])
