"""The output queue against a string of bytes: whatever the channel takes at a time, the peer gets exactly what was pushed."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidelog.net.errors import RegionLostError
from tidelog.net.frames import SIZE
from tidelog.net.output_queue import OutputQueue
from tidelog.net.parts import SENDFILE_BYTES_MIN, WOULD_BLOCK, Bytes, Part

FILE = bytes(number * 7 % 251 for number in range(300_000))


class FakeFile:
    """A file in memory that may be shorter than promised."""

    def __init__(self, content: bytes = FILE) -> None:
        self.content = content

    def fileno(self) -> int:
        return 99

    def pread(self, count: int, position: int, /) -> bytes:
        return self.content[position : position + count]


class FakeRegion:
    def __init__(self, position: int, count: int, file: FakeFile | None = None) -> None:
        self.file = file or FakeFile()
        self.position = position
        self.count = count

    def __repr__(self) -> str:
        return f"region({self.position}, {self.count})"


class FakeChannel:
    """Takes as many bytes at a time as it is told to; 0 means that it would block."""

    def __init__(self, takes: list[int], *, sends_files: bool, content: bytes = FILE) -> None:
        self.received = bytearray()
        self.sends_files = sends_files
        self.corked = False
        self._takes = takes
        self._calls = 0
        self._content = content

    def _limit(self) -> int:
        self._calls += 1
        return self._takes[self._calls % len(self._takes)]

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        assert len(data) > 0
        count = min(len(data), self._limit())
        if not count:
            return WOULD_BLOCK
        self.corked = more_follows
        self.received += data[:count]
        return count

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        assert self.sends_files
        assert descriptor == 99
        limit = self._limit()
        if not limit:
            return WOULD_BLOCK
        piece = self._content[position : position + min(count, limit)]
        self.corked = False
        self.received += piece
        return len(piece)


regions = st.builds(
    FakeRegion,
    st.integers(0, 150_000),
    st.one_of(
        st.integers(0, 100), st.integers(SENDFILE_BYTES_MIN - 2, SENDFILE_BYTES_MIN + 2), st.integers(0, 150_000)
    ),
)
parts = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 100_000).map(lambda size: FILE[:size]),
    st.binary(max_size=40).map(bytearray),
    st.binary(max_size=40).map(lambda data: memoryview(data)[1:]),
    regions,
)
frames = st.lists(parts, max_size=5)
# At least one that takes something, or the queue would never empty.
takes = st.lists(st.one_of(st.just(0), st.integers(1, 20), st.integers(1, 400_000)), min_size=1, max_size=12).filter(
    any
)


def content(part: Part) -> bytes:
    if isinstance(part, (bytes, bytearray, memoryview)):
        return bytes(part)
    return part.file.pread(part.count, part.position)


@given(
    pushed=st.lists(frames, min_size=1, max_size=6),
    takes=takes,
    sends_files=st.booleans(),
    flush_between=st.booleans(),
)
def test_the_peer_gets_exactly_what_was_pushed(
    pushed: list[list[Part]], takes: list[int], sends_files: bool, flush_between: bool
) -> None:
    channel = FakeChannel(takes, sends_files=sends_files)
    queue = OutputQueue(channel)
    bodies = [b"".join(content(part) for part in frame) for frame in pushed]
    expected = b"".join(SIZE.pack(len(body)) + body for body in bodies)
    pushed_bytes = 0
    for frame, body in zip(pushed, bodies, strict=True):
        queue.push(frame)
        pushed_bytes += 4 + len(body)
        assert queue.pending_bytes + queue.sent_bytes == pushed_bytes
        if flush_between:
            queue.flush()
            assert channel.received == expected[: queue.sent_bytes]

    while not queue.flush():
        assert queue.pending_bytes == len(expected) - len(channel.received)

    assert channel.received == expected
    assert queue.pending_bytes == 0
    assert queue.sent_bytes == len(expected)
    # A packet that waits for more which never comes would be held back by the kernel.
    assert not channel.corked


def flush_until_empty(queue: OutputQueue) -> None:
    while not queue.flush():
        pass


@given(takes=takes, sends_files=st.booleans(), kept=st.integers(0, 99_999), count=st.integers(100_000, 150_000))
def test_a_file_that_got_shorter_is_never_sent_as_something_else(
    takes: list[int], sends_files: bool, kept: int, count: int
) -> None:
    content = FILE[:kept]
    channel = FakeChannel(takes, sends_files=sends_files, content=content)
    queue = OutputQueue(channel)
    queue.push([b"head", FakeRegion(0, count, FakeFile(content)), b"tail"])

    with pytest.raises(RegionLostError):
        flush_until_empty(queue)

    head = SIZE.pack(4 + count + 4) + b"head"
    assert (head + content).startswith(bytes(channel.received))
