# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The ordered output of one connection: bytes, and regions of files that leave by `sendfile`.

    queue.push([header_bytes, region, more_bytes])      # one frame; its size goes in front
    is_empty = queue.flush()                            # sends until nothing is left or the channel would block

Small things are joined into one send. The channel is told when more follows, so that a header and the first bytes of the file
behind it share a packet. Below `SENDFILE_BYTES_MIN`, and on a channel that cannot send
files, a region is read when its turn comes, a piece at a time: what waits in the queue holds no copy of it.

No socket, no loop: those are behind `Channel`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from tidelog.model.bugs import BugError
from tidelog.net import parts as _parts
from tidelog.net.errors import RegionLostError
from tidelog.net.socket_channel import SocketChannel

if TYPE_CHECKING:
    from tidelog.net.parts import Bytes, Channel, Part, RegionFile

_SENDFILE_BYTES_MIN = _parts.SENDFILE_BYTES_MIN
_JOINED_BYTES_MAX = _parts.JOINED_BYTES_MAX
_APART_BYTES_MIN = _parts.APART_BYTES_MIN
_COPIED_BYTES_MAX = _parts.COPIED_BYTES_MAX
_FLUSHED_BYTES_MAX = _parts.FLUSHED_BYTES_MAX
_WOULD_BLOCK = _parts.WOULD_BLOCK

_int32_bytes = Struct(">i").pack


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
        self._sender = channel if isinstance(channel, SocketChannel) else None
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
            count = len(data)
            if count != self.pending_bytes:
                raise BugError(f"{count} bytes are to be sent of frames of {self.pending_bytes}")
            sent = self._send(data, count, False)
            if sent == count:
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
                if sent > region.count:
                    raise BugError(f"{sent} bytes were sent of a region of {region.count}")
                if sent != _WOULD_BLOCK:
                    region.position += sent
                    region.count -= sent
                    if not region.count:
                        items.popleft()
            else:
                data = self._gather()
                if not data:
                    continue
                count = len(data)
                if count > self.pending_bytes:
                    raise BugError(f"{count} bytes are to be sent of frames of {self.pending_bytes}")
                sent = self._send(data, count, self.pending_bytes > count)
                if sent < count:
                    items.appendleft([data if sent <= 0 else memoryview(data)[sent:]])
            if sent == _WOULD_BLOCK:
                self.is_blocked = True
                return False
            self.pending_bytes -= sent
            self.sent_bytes += sent
            budget_bytes -= sent
            if budget_bytes <= 0:
                break
        if not items and self.pending_bytes:
            raise BugError(f"nothing is left to send, and of the frames {self.pending_bytes} bytes are")
        return not self.pending_bytes

    def clear(self) -> None:
        """Drops what is left, and with it the files that it held open."""
        self._items.clear()
        self._tail_bytes = _JOINED_BYTES_MAX
        self.pending_bytes = 0

    def _send(self, data: Bytes, count: int, more_follows: bool) -> int:
        sender = self._sender
        if sender is not None:  # noqa: SIM108 - one expression of both would make an object of the number
            sent = sender._send(data, more_follows)  # noqa: SLF001 - without the keyword, which would cost
        else:
            sent = self._channel.send(data, more_follows=more_follows)
        if sent > count:
            raise BugError(f"{sent} bytes were sent of {count}")
        return sent

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
