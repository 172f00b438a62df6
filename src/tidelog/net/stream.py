"""Frames over one transport: what the two ends of a connection have in common.

`FrameStream` is the asyncio protocol. It reads whole frames out of a reused buffer, queues output, stops reading while its owner
is full, and ends exactly once. A subclass says what a frame means:

    _opened()           the transport is there
    _frame(view)        a whole frame, valid until `_read_done` returns; True while another may be taken
    _read_done()        after all the frames of one read
    _is_full()          whether no further frame may be taken now; `resume_if_possible` is called when that may have changed
    _output_moved()     bytes have left
    _closed(error)      the end, whatever the reason; None when the peer or this side closed in good order
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

from tidelog.model.slow_work import SlowWork
from tidelog.net.channel import SocketChannel, TransportChannel, open_channel
from tidelog.net.errors import NetError
from tidelog.net.frames import FrameReader
from tidelog.net.output_queue import OutputQueue, Part
from tidelog.net.receive_buffers import ReceiveBuffers
from tidelog.net.turn import Turn

log = logging.getLogger(__name__)


class FrameStream(asyncio.BufferedProtocol):
    """One end of a connection. All methods are called on the loop's thread."""

    __slots__ = (
        "_channel",
        "_continuing",
        "_discarding",
        "_flush_noted",
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
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffers: ReceiveBuffers,
        turn: Turn,
        frame_bytes_max: int,
        slow_work: SlowWork | None = None,
    ) -> None:
        self._loop = loop
        self._turn = turn
        self._slow_work = slow_work
        self._reader = FrameReader(buffers, frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._channel: SocketChannel | TransportChannel | None = None
        self._output: OutputQueue | None = None
        self.bytes_in = 0
        self.is_closed = False
        # Set by traffic, cleared by whoever looks for idle connections: cheaper than reading a clock for every read.
        self.is_active = True
        self._reading = True
        self._stalled = False
        self._continuing = False
        self._discarding = False
        self._flush_noted = False
        self._waiting_for_channel = False

    # What a subclass adds.

    def _opened(self) -> None: ...

    def _frame(self, frame: memoryview) -> bool:
        raise NotImplementedError

    def _read_done(self) -> None: ...

    def _is_full(self) -> bool:
        return False

    def _output_moved(self) -> None: ...

    def _closed(self, error: BaseException | None) -> None: ...

    # Output.

    @property
    def bytes_out(self) -> int:
        return 0 if self._output is None else self._output.sent_bytes

    @property
    def output_bytes(self) -> int:
        """How much waits to be sent, regions of files included."""
        return 0 if self._output is None else self._output.pending_bytes

    def push(self, parts: Sequence[Part]) -> None:
        """Queues one frame. It leaves at the end of the turn, or at once outside of one. Nothing after the end."""
        if self._output is None or self.is_closed:
            return
        self._output.push(parts)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._turn.is_open:
            if not self._flush_noted:
                self._flush_noted = True
                self._turn.flush_later(self)
        else:
            self.flush()

    def flush(self) -> None:
        """Sends what can be sent now."""
        self._flush_noted = False
        if not self._waiting_for_channel and not self.is_closed:
            self._flush_now()

    def _flush_now(self) -> None:
        channel, output = self._channel, self._output
        if channel is None or output is None or self.is_closed:
            return
        before_bytes = output.sent_bytes
        try:
            is_empty = output.flush()
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
        if not is_empty:
            self._waiting_for_channel = True
            channel.watch(self._flush_now)
        elif self._waiting_for_channel:
            self._waiting_for_channel = False
            channel.unwatch()
        if output.sent_bytes != before_bytes:
            self.is_active = True
            self._output_moved()

    # Input.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - whatever the loop would like, one buffer serves all
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.is_active = True
        self.bytes_in += nbytes
        if self.is_closed or self._discarding:
            return
        if self._reader.received(nbytes):
            with self._turn:
                self._take_frames()

    def _take_frames(self) -> None:
        """Takes whole frames until there is none or the owner is full; keeps what is left for later."""
        reader = self._reader
        full = self._is_full()
        try:
            while True:
                try:
                    while not full and (frame := reader.take()) is not None:
                        full = not self._frame(frame)
                finally:
                    # Also after a failure: the frames before it were taken and are to be finished.
                    self._read_done()
                if not full:
                    break
                # What was answered may leave now and make room, before the peer is made to wait.
                self.flush()
                full = self._is_full()
                if full:
                    break
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
        # Only what has arrived is held back. A peer that waits for a large answer, as every reader of much does, sends nothing
        # meanwhile: to stop reading for it would only cost.
        self._stalled = full and reader.pending_bytes > 0
        self._read_more(not self._stalled)

    def _read_more(self, wanted: bool) -> None:
        if wanted == self._reading or self._transport is None or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def resume_if_possible(self) -> None:
        """Goes on with what has arrived, from the loop, if the owner was full and is no longer."""
        if self._stalled and not self._continuing and not self.is_closed and not self._is_full():
            self._continuing = True
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._continuing = False
        if self.is_closed or self._discarding or not self._stalled:
            return
        with self._turn:
            self._take_frames()

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

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports behave like asyncio's without being of that class.
        self._transport = cast("asyncio.Transport", transport)
        if self.is_closed:
            self._transport.abort()
            return
        try:
            self._channel = open_channel(self._loop, self._transport, self._slow_work)
        except OSError as error:
            log.warning("%s: closed: no descriptor is left for it: %s", self, error)
            self.abort(error)
            return
        self._output = OutputQueue(self._channel)
        self._opened()

    def pause_writing(self) -> None:
        if isinstance(self._channel, TransportChannel):
            self._channel.pause()

    def resume_writing(self) -> None:
        if isinstance(self._channel, TransportChannel):
            self._channel.resume()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

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
        # The transport refers back to us; a closed connection should not have to wait for the collector.
        self._transport = None
        if self._channel is not None:
            self._channel.close()
        if self._output is not None:
            self._output.clear()
        self._reader.close()
        self._closed(error)
