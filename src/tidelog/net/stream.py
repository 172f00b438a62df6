# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Frames over one transport: what the two ends of a connection have in common.

`FrameStream` is a protocol of the event loop. It reads whole frames out of a reused buffer, queues output, stops reading while
its owner is full, and ends exactly once. A subclass, which has to be compiled too, says what a frame means:

    _frame(view)        a whole frame, valid until `_read_done` returns; True while another may be taken
    _read_done()        after all the frames of one read
    _is_full()          whether no further frame may be taken now; `_resume_if_possible` is called when that may have changed
    _output_moved()     bytes have left

    _opened()           the transport is there
    _closed(error)      the end, whatever the reason; None when the peer or this side closed in good order
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tidelog.net import parts as _parts
from tidelog.net.backlog import Backlog, Waiting
from tidelog.net.channel import open_channel
from tidelog.net.errors import NetError
from tidelog.net.frames import FrameReader
from tidelog.net.output_queue import OutputQueue
from tidelog.net.turn import Turn

if TYPE_CHECKING:
    from tidelog.model.slow_work import SlowWork
    from tidelog.net.channel import WatchedChannel
    from tidelog.net.parts import Part
    from tidelog.net.receive_buffers import ReceiveBuffers

log = logging.getLogger(__name__)

_FLUSHED_BYTES_MAX = _parts.FLUSHED_BYTES_MAX
_LARGE_OUTPUT_BYTES = _parts.LARGE_OUTPUT_BYTES
_FLUSHED_IN_SLICE_BYTES_MAX = _parts.FLUSHED_IN_SLICE_BYTES_MAX

# No round takes as many, so only the round's own limit counts.
_ANY_NUMBER = 1 << 30


class FrameStream(Waiting):
    """One end of a connection. All methods are called on the loop's thread."""

    __slots__ = (
        "_backlog",
        "_channel",
        "_discarding",
        "_flush_noted",
        "_held_bytes",
        "_is_put_off",
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
        super().__init__()
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
        # How many bytes of its own are counted in the backlog.
        self._held_bytes = 0
        self._discarding = False
        self._flush_noted = False
        self._waiting_for_channel = False

    # What a subclass says.

    def _frame(self, frame: memoryview) -> bool:
        raise NotImplementedError

    def _read_done(self) -> None: ...

    def _is_full(self) -> bool:
        return False

    def _output_moved(self) -> None: ...

    def _opened(self) -> None: ...

    def _closed(self, error: BaseException | None) -> None: ...

    @property
    def bytes_out(self) -> int:
        return 0 if self._output is None else self._output.sent_bytes

    @property
    def output_bytes(self) -> int:
        """How much waits to be sent, regions of files included."""
        return 0 if self._output is None else self._output.pending_bytes

    def release_idle_buffer(self) -> None:
        """For a connection that has been silent for a while: gives up the buffer that it keeps for its next large frame."""
        self._reader.release_idle()

    def stop_taking(self) -> None:
        """Takes no further frame, neither what has arrived nor what will. Output goes on."""
        self._discarding = True
        self._stalled = False
        self._read_more(False)

    def half_close(self) -> None:
        """After `stop_taking`, and once everything is sent: says so to the peer, and waits for it to close its side.

        Closing at once would reset the connection where the peer's next request is on its way, and a reset can overtake the
        answers that the peer has not read yet.
        """
        if self._channel is None or self.is_closed:
            return
        self._reader.close()
        try:
            self._channel.half_close()
        except OSError as error:
            self.abort(error)
            return
        self._read_more(True)

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

    # The transport's side.

    def connection_opening(self, transport: asyncio.BaseTransport) -> None:
        """A transport that is not ready, as before a TLS handshake is done: it can be aborted meanwhile, and no more.

        `connection_made` follows, or `connection_lost`.
        """
        self._transport = cast("asyncio.Transport", transport)
        if self.is_closed:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports behave like asyncio's without being of that class.
        self._transport = cast("asyncio.Transport", transport)
        if self.is_closed:
            self._transport.abort()
            return
        self._channel = open_channel(self._loop, self._transport, self._slow_work)
        self._output = OutputQueue(self._channel)
        self._opened()

    def pause_writing(self) -> None:
        if self._channel is not None:
            self._channel.pause()

    def resume_writing(self) -> None:
        if self._channel is not None:
            self._channel.resume()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
