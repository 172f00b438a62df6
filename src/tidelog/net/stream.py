"""Frames over one transport: what the two ends of a connection have in common.

`FrameStream` is the asyncio protocol. It reads whole frames out of a reused buffer, queues output, stops reading while its owner
is full, and ends exactly once. What it does with every read and every answer is in `StreamCore` of
[stream_kernel](kernels/stream_kernel.py), what happens once in a connection's life is here. A subclass says what a frame means:

    _frame(view)        a whole frame, valid until `_read_done` returns; True while another may be taken
    _read_done()        after all the frames of one read
    _is_full()          whether no further frame may be taken now; `_resume_if_possible` is called when that may have changed
    _output_moved()     bytes have left

    _opened()           the transport is there
    _closed(error)      the end, whatever the reason; None when the peer or this side closed in good order

The first four are in the kernel too, as C functions of a subclass of `StreamCore`; the last two are methods like any other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from tidelog.kernel_choice import load
from tidelog.net.channel import SocketChannel, open_channel
from tidelog.net.output_queue import OutputQueue

if TYPE_CHECKING:
    from tidelog.net.kernels.stream_kernel import StreamCore
else:
    StreamCore = load("tidelog.net.kernels", "stream_kernel").StreamCore


class FrameStream(StreamCore, asyncio.BufferedProtocol):
    """One end of a connection. All methods are called on the loop's thread."""

    # A compiled class cannot have asyncio's as its base, and asyncio wants to see it: hence both, and no room of its own.
    __slots__ = ()

    def _opened(self) -> None: ...

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

    # The transport's side.

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
        if isinstance(self._channel, SocketChannel) and self._channel.is_held:
            # The transport would first wait for the peer to read what it was given.
            self.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
