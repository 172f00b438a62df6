"""The frame reader against a list: whatever the pieces, the frames come out whole, in order, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidelog.net.errors import FrameError
from tidelog.net.frames import SIZE, FrameReader
from tidelog.net.receive_buffers import ReceiveBuffers

# Small, so that frames are larger than it, as large and smaller without being long.
SHARED_BYTES = 256

# Small frames, frames around the size of the shared buffer, and a few large ones. Content is derived from the size.
sizes = st.one_of(
    st.integers(0, 40),
    st.integers(SHARED_BYTES - 10, SHARED_BYTES + 10),
    st.integers(0, 4 * SHARED_BYTES),
)
pieces = st.lists(st.one_of(st.integers(1, 12), st.integers(1, 2 * SHARED_BYTES)), min_size=1, max_size=30)


def content(number: int, size: int) -> bytes:
    return (bytes([number % 251, size % 256, size // 256 % 256]) * (size // 3 + 1))[:size]


def read(reader: FrameReader, stream: bytes, piece_bytes: list[int], take_at_most: list[int]) -> list[bytes]:
    """Feeds a stream in pieces; now and then takes only some of the frames of a read, as a full connection does."""
    taken: list[bytes] = []
    position = round_number = 0
    was_full = False
    while position < len(stream) or reader.pending_bytes:
        before = position, len(taken)
        room = reader.buffer()
        count = min(len(room), piece_bytes[round_number % len(piece_bytes)], len(stream) - position)
        room[:count] = stream[position : position + count]
        position += count
        may_be_whole = reader.received(count)
        round_number += 1
        if not may_be_whole and not was_full and position < len(stream):
            # Nothing to take: the reader has to be ready for the next piece without being settled.
            continue
        # The last rounds take everything, so that the loop ends.
        limit = take_at_most[round_number % len(take_at_most)] if position < len(stream) else None
        was_full = limit is not None
        while (limit is None or limit > 0) and (frame := reader.take()) is not None:
            taken.append(bytes(frame))
            limit = None if limit is None else limit - 1
        reader.settle()
        if (position, len(taken)) == before and position == len(stream):
            break
    return taken


@given(
    frame_sizes=st.lists(sizes, max_size=12), piece_bytes=pieces, take_at_most=st.lists(st.integers(0, 4), min_size=1)
)
def test_frames_come_out_as_they_went_in(
    frame_sizes: list[int], piece_bytes: list[int], take_at_most: list[int]
) -> None:
    frames = [content(number, size) for number, size in enumerate(frame_sizes)]
    stream = b"".join(SIZE.pack(len(frame)) + frame for frame in frames)
    reader = FrameReader(ReceiveBuffers(SHARED_BYTES), 1 << 30)

    assert read(reader, stream, piece_bytes, take_at_most) == frames
    assert reader.pending_bytes == 0
    reader.release_idle()
    assert reader.held_bytes == 0


@given(
    streams=st.lists(st.tuples(st.lists(st.integers(0, 3 * SHARED_BYTES), max_size=8), pieces), min_size=2, max_size=4),
    order=st.lists(st.integers(0, 3), min_size=1, max_size=60),
)
def test_connections_that_share_a_buffer_do_not_mix(
    streams: list[tuple[list[int], list[int]]], order: list[int]
) -> None:
    buffers = ReceiveBuffers(SHARED_BYTES)
    readers = [FrameReader(buffers, 1 << 20) for _ in streams]
    expected = [
        [content(number + 7 * index, size) for number, size in enumerate(each[0])] for index, each in enumerate(streams)
    ]
    left = [b"".join(SIZE.pack(len(frame)) + frame for frame in frames) for frames in expected]
    taken: list[list[bytes]] = [[] for _ in streams]
    turn = 0
    while any(left):
        index = order[turn % len(order)] % len(streams)
        if not left[index]:
            index = next(number for number, each in enumerate(left) if each)
        piece_bytes = streams[index][1]
        turn += 1
        reader = readers[index]
        room = reader.buffer()
        count = min(len(room), piece_bytes[turn % len(piece_bytes)], len(left[index]))
        room[:count] = left[index][:count]
        left[index] = left[index][count:]
        reader.received(count)
        while (frame := reader.take()) is not None:
            taken[index].append(bytes(frame))
        reader.settle()

    assert taken == expected


@given(size=st.one_of(st.integers(-(1 << 31), -1), st.integers(1001, (1 << 31) - 1)), before=st.integers(0, 3))
def test_a_size_that_no_frame_has_is_an_error_and_earlier_frames_are_not_lost(size: int, before: int) -> None:
    reader = FrameReader(ReceiveBuffers(), 1000)
    stream = b"".join(SIZE.pack(1) + b"x" for _ in range(before)) + SIZE.pack(size)
    reader.buffer()[: len(stream)] = stream
    reader.received(len(stream))

    assert [bytes(reader.take() or b"") for _ in range(before)] == [b"x"] * before
    with pytest.raises(FrameError, match="0 to 1000"):
        reader.take()
