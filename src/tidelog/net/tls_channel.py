# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The way out of a connection with TLS: bytes and pieces of files are encrypted, a little at a time, and sent by another channel.

What is encrypted has to be sent, in this order and whole; so as long as some of it waits, nothing more is encrypted. That is at
most one piece (`PIECE_BYTES`) of a connection, and all that it keeps in memory for its output.

A file is read piece by piece into a buffer that all connections share; what is not in memory is read ahead by `slow_work` first,
as on a plain connection (`file_warmth`).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.net import parts as _parts, receive_buffers as _receive_buffers
from tidelog.net.file_warmth import FileWarmth
from tidelog.net.socket_channel import SocketChannel

if TYPE_CHECKING:
    from tidelog.model.slow_work import SlowWork
    from tidelog.net.channel import WatchedChannel
    from tidelog.net.parts import Bytes
    from tidelog.net.receive_buffers import ReceiveBuffers

_WOULD_BLOCK = _parts.WOULD_BLOCK
_PIECE_BYTES = _receive_buffers.PIECE_BYTES
_RECORD_BYTES_MAX = _receive_buffers.RECORD_BYTES_MAX

# What one call encrypts at most: a tenth of a millisecond, after which others may be due.
ENCRYPTED_BYTES_MAX = 4 * _PIECE_BYTES
_ENCRYPTED_BYTES_MAX = ENCRYPTED_BYTES_MAX

_preadv = os.preadv


def _too_early(_data: Bytes) -> int:
    raise ConnectionError("nothing can be sent before the TLS handshake is done")


class TlsChannel:
    """Encrypts what is sent. `under` takes the encrypted bytes."""

    __slots__ = (
        "_buffers",
        "_end",
        "_is_ending",
        "_on_error",
        "_outgoing",
        "_read",
        "_socket",
        "_under",
        "_unsent",
        "_warmth",
        "_writable",
        "_write",
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
        self._write: Callable[[Bytes], int] = _too_early
        self._outgoing = outgoing
        self._read = outgoing.read
        self._under = under
        self._socket = under if isinstance(under, SocketChannel) else None
        self._buffers = buffers
        self._on_error = on_error
        # Encrypted, and not taken yet by `under`.
        self._unsent: memoryview | None = None
        self._writable: Callable[[], None] | None = None
        self._is_ending = False
        self._warmth = None if slow_work is None else FileWarmth(slow_work, self._warmed)
        self.sends_files = under.sends_files

    def begin(self, end: ssl.SSLObject) -> None:
        """From now on bytes may be sent: the handshake is done."""
        self._end = end
        # What is under Python's own class: a frame of Python less for each record.
        self._write = getattr(end, "_sslobj", end).write

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        if self._unsent is not None and not self._send_unsent():
            return _WOULD_BLOCK
        total = len(data)
        if total <= _RECORD_BYTES_MAX:
            taken = self._write(data)
            if taken < total:
                taken = self._encrypt(memoryview(data), taken, total)
            self._push(more_follows)
            return taken
        view = memoryview(data)
        taken = 0
        while taken < total and taken < _ENCRYPTED_BYTES_MAX:
            taken = self._encrypt(view, taken, min(taken + _PIECE_BYTES, total))
            if not self._push(more_follows or taken < total):
                break
        return taken

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        if self._unsent is not None and not self._send_unsent():
            return _WOULD_BLOCK
        warmth = self._warmth
        if warmth is not None:
            count = warmth.count(descriptor, position, count)
            if not count:
                if self._unsent is None:
                    self._under.unwatch()
                return _WOULD_BLOCK
        taken = 0
        wanted = min(count, _ENCRYPTED_BYTES_MAX)
        while taken < wanted:
            left = wanted - taken
            piece = self._buffers.piece
            read: int = _preadv(descriptor, [piece if left >= _PIECE_BYTES else piece[:left]], position + taken)
            if not read:
                break
            taken += self._encrypt_piece(piece, read)
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
        if not self._is_warming() or self._unsent is not None:
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

    def _encrypt_piece(self, piece: memoryview, count: int) -> int:
        """Encrypts the first `count` bytes of the shared piece, which it returns."""
        done = 0
        if count == _PIECE_BYTES:
            write = self._write
            for record in self._buffers.records:
                taken = write(record)
                done += taken
                if taken != _RECORD_BYTES_MAX:
                    # A client that has asked for smaller records.
                    break
        return self._encrypt(piece, done, count)

    def _encrypt(self, view: memoryview, start: int, stop: int) -> int:
        """Encrypts from `start` to `stop`, which it returns. OpenSSL takes a record of it at a time."""
        write = self._write
        while start < stop:
            start += write(view[start:stop])
        return start

    # Sending.

    def _push(self, more_follows: bool) -> bool:
        """Sends what was encrypted. False: some of it waits."""
        data = self._read()
        sent = self._send_under(data, more_follows)
        if sent == len(data):
            return True
        self._unsent = memoryview(data)[max(sent, 0) :]
        self._under.watch(self._under_writable)
        return False

    def _send_under(self, data: Bytes, more_follows: bool) -> int:
        under = self._socket
        if under is not None:
            return under._send(data, more_follows)  # noqa: SLF001 - without the keyword, which would cost
        return self._under.send(data, more_follows=more_follows)

    def _send_unsent(self) -> bool:
        unsent = self._unsent
        assert unsent is not None
        sent = self._send_under(unsent, False)
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
        if self._writable is not None and not self._is_warming():
            self._writable()
        elif self._unsent is None:
            self._under.unwatch()

    def _is_warming(self) -> bool:
        return self._warmth is not None and self._warmth.is_reading

    def _warmed(self) -> None:
        if self._writable is not None:
            self.watch(self._writable)
