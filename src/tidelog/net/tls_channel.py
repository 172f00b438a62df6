"""The way out of a connection with TLS: bytes and pieces of files are encrypted, a little at a time, and sent by another channel.

What is encrypted has to be sent, in this order and whole; so as long as some of it waits, nothing more is encrypted. That is at
most one piece (`PIECE_BYTES`) of a connection, and all that it keeps in memory for its output.

A file is read piece by piece into a buffer that all connections share; what is not in memory is read ahead by `slow_work` first,
as on a plain connection.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.net import page_cache
from tidelog.net.channel import WatchedChannel
from tidelog.net.parts import WOULD_BLOCK, Bytes
from tidelog.net.receive_buffers import PIECE_BYTES, ReceiveBuffers
from tidelog.net.socket_channel import WARMED_BYTES_MAX

if TYPE_CHECKING:
    from tidelog.model.slow_work import SlowWork

# What one call encrypts at most: a tenth of a millisecond, after which others may be due.
ENCRYPTED_BYTES_MAX = 4 * PIECE_BYTES

_RECORD_BYTES_MAX = 16 * 1024
_TOO_EARLY = "nothing can be sent before the TLS handshake is done"


class TlsChannel:
    """Encrypts what is sent. `under` takes the encrypted bytes."""

    __slots__ = (
        "_buffers",
        "_end",
        "_is_ending",
        "_on_error",
        "_outgoing",
        "_slow_work",
        "_under",
        "_unsent",
        "_warm_end",
        "_warm_file",
        "_warming",
        "_writable",
        "sends_files",
    )

    def __init__(
        self,
        outgoing: ssl.MemoryBIO,
        under: WatchedChannel,
        buffers: ReceiveBuffers,
        on_error: Callable[[OSError], None],
        slow_work: SlowWork | None = None,
    ) -> None:
        """`on_error` hears of a peer that is gone where nobody is there to be told."""
        self._end: ssl.SSLObject | None = None
        self._outgoing = outgoing
        self._under = under
        self._buffers = buffers
        self._on_error = on_error
        self._slow_work = slow_work
        # Encrypted, and not taken yet by `under`.
        self._unsent: memoryview | None = None
        self._writable: Callable[[], None] | None = None
        self._is_ending = False
        self._warming = False
        self._warm_file = -1
        self._warm_end = 0
        self.sends_files = under.sends_files

    def begin(self, end: ssl.SSLObject) -> None:
        """From now on bytes may be sent: the handshake is done."""
        self._end = end

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        if self._unsent is not None and not self._send_unsent():
            return WOULD_BLOCK
        total = len(data)
        if total <= _RECORD_BYTES_MAX:
            taken = self._write(data)
            if taken < total:
                taken = self._encrypt(memoryview(data), taken, total)
            self._push(more_follows)
            return taken
        view = memoryview(data)
        taken = 0
        while taken < total and taken < ENCRYPTED_BYTES_MAX:
            taken = self._encrypt(view, taken, min(taken + PIECE_BYTES, total))
            if not self._push(more_follows or taken < total):
                break
        return taken

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        if self._unsent is not None and not self._send_unsent():
            return WOULD_BLOCK
        if self._slow_work is not None:
            count = self._warm_count(self._slow_work, descriptor, position, count)
            if not count:
                return WOULD_BLOCK
        piece = self._buffers.piece
        taken = 0
        wanted = min(count, ENCRYPTED_BYTES_MAX)
        while taken < wanted:
            read = os.preadv(descriptor, [piece[: wanted - taken]], position + taken)
            if not read:
                break
            taken += self._encrypt(piece, 0, read)
            if not self._push(taken < count):
                break
        return taken

    def send_protocol(self) -> None:
        """Sends what TLS itself has to say: the handshake, alerts, the end."""
        if not self._outgoing.pending:
            return
        if self._unsent is not None:
            # Behind what waits: there is little of it, and rarely, unless somebody asks for it and does not read.
            if len(self._unsent) > ENCRYPTED_BYTES_MAX:
                raise ConnectionError("the peer does not read what it has asked of TLS")
            self._unsent = memoryview(bytes(self._unsent) + self._outgoing.read())
            self._send_unsent()
        else:
            self._push(False)

    def pause(self) -> None:
        self._under.pause()

    def resume(self) -> None:
        self._under.resume()

    def watch(self, writable: Callable[[], None]) -> None:
        self._writable = writable
        # While a file is read there is nothing to send, unless something is left of what came before.
        if not self._warming or self._unsent is not None:
            self._under.watch(self._under_writable)

    def unwatch(self) -> None:
        self._writable = None
        if self._unsent is None:
            self._under.unwatch()

    def is_broken(self) -> bool:
        return self._under.is_broken()

    def half_close(self) -> None:
        """Says by TLS that nothing more will come, then by the channel below, behind all that was sent."""
        if self._end is not None:
            # Mostly the peer has not said the same yet.
            with suppress(ssl.SSLError):
                self._end.unwrap()
        self.send_protocol()
        if self._unsent is None:
            self._under.half_close()
        else:
            self._is_ending = True

    def close(self) -> None:
        self._writable = None
        self._unsent = None
        self._under.close()

    # Encrypting.

    def _write(self, data: Bytes) -> int:
        if self._end is None:
            raise ConnectionError(_TOO_EARLY)
        return self._end.write(data)

    def _encrypt(self, view: memoryview, start: int, stop: int) -> int:
        """Encrypts from `start` to `stop`, which it returns. OpenSSL takes a record of it at a time."""
        if self._end is None:
            raise ConnectionError(_TOO_EARLY)
        write = self._end.write
        while start < stop:
            start += write(view[start:stop])
        return start

    # Sending.

    def _push(self, more_follows: bool) -> bool:
        """Sends what was encrypted. False: some of it waits."""
        data = self._outgoing.read()
        sent = self._under.send(data, more_follows=more_follows)
        if sent == len(data):
            return True
        self._unsent = memoryview(data)[max(sent, 0) :]
        self._under.watch(self._under_writable)
        return False

    def _send_unsent(self) -> bool:
        unsent = self._unsent
        assert unsent is not None
        sent = self._under.send(unsent, more_follows=False)
        if sent != len(unsent):
            self._unsent = unsent[max(sent, 0) :]
            self._under.watch(self._under_writable)
            return False
        self._unsent = None
        if self._is_ending:
            self._under.half_close()
        return True

    def _under_writable(self) -> None:
        if self._unsent is not None:
            try:
                if not self._send_unsent():
                    return
            except OSError as error:
                self._on_error(error)
                return
        if self._writable is not None and not self._warming:
            self._writable()
        elif self._unsent is None:
            self._under.unwatch()

    # Files that are not in memory.

    def _warm_count(self, slow_work: SlowWork, descriptor: int, position: int, count: int) -> int:
        """How much of the region can be read without waiting for the disk. 0: it is being read now."""
        if self._warming:
            return 0
        if self._warm_file == descriptor and position < self._warm_end:
            return min(count, self._warm_end - position)
        if page_cache.is_warm(descriptor, position) and page_cache.is_warm(descriptor, position + count - 1):
            self._warm_file, self._warm_end = descriptor, position + count
            return count
        self._warming = True
        if self._unsent is None:
            self._under.unwatch()
        self._warm_file = -1
        count = min(count, WARMED_BYTES_MAX)
        # A duplicate, because the region may be dropped, and its file closed, while the thread reads.
        duplicate = os.dup(descriptor)
        slow_work.submit(
            lambda: page_cache.read_ahead(duplicate, position, count),
            lambda _outcome: self._warmed(descriptor, position + count),
        )
        return 0

    def _warmed(self, descriptor: int, end: int) -> None:
        """The region is in memory, or could not be read, which the next attempt will find out and say."""
        self._warming = False
        self._warm_file, self._warm_end = descriptor, end
        if self._writable is not None:
            self.watch(self._writable)
