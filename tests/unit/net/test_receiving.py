"""What frames that are arriving cost: buffers are shared, reused, and never larger than what has come asks for."""

from __future__ import annotations

from pathlib import Path

from tidelog.net.frames import SIZE, FrameReader
from tidelog.net.receive_buffers import RETAINED_BYTES_MAX, SHARED_BYTES, ReceiveBuffers


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    frames = []
    while data:
        room = reader.buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        reader.received(count)
        while (frame := reader.take()) is not None:
            frames.append(bytes(frame))
        reader.settle()
    return frames


def test_between_whole_frames_a_connection_holds_no_memory() -> None:
    buffers = ReceiveBuffers()
    readers = [FrameReader(buffers, 1000) for _ in range(100)]
    for reader in readers:
        assert feed(reader, SIZE.pack(3) + b"abc") == [b"abc"]
    assert [reader.held_bytes for reader in readers] == [0] * 100


def test_a_frame_is_a_writable_view_of_where_it_arrived() -> None:
    reader = FrameReader(ReceiveBuffers(), 1000)
    data = SIZE.pack(3) + b"abc"
    reader.buffer()[: len(data)] = data
    reader.received(len(data))
    frame = reader.take()
    assert frame is not None
    frame[0] = ord("X")
    assert bytes(reader.buffer()[4:7]) == b"Xbc"


def test_a_small_piece_of_a_frame_takes_a_buffer_until_the_frame_is_whole() -> None:
    buffers = ReceiveBuffers()
    reader = FrameReader(buffers, 1000)
    assert feed(reader, SIZE.pack(3) + b"a") == []
    assert reader.held_bytes == SHARED_BYTES
    assert feed(reader, b"bc") == [b"abc"]
    assert reader.held_bytes == 0
    assert buffers.retained_bytes == SHARED_BYTES
    # The next one gets the same memory.
    feed(reader, SIZE.pack(3))
    assert buffers.retained_bytes == 0


def test_the_buffer_of_large_frames_stays_until_the_connection_falls_silent() -> None:
    reader = FrameReader(ReceiveBuffers(), 1 << 30)
    large = bytes(3 * SHARED_BYTES)
    assert feed(reader, SIZE.pack(len(large)) + large) == [large]
    held_bytes = reader.held_bytes
    assert held_bytes >= len(large)
    assert feed(reader, SIZE.pack(len(large)) + large) == [large]
    assert reader.held_bytes == held_bytes

    reader.release_idle()

    assert reader.held_bytes == 0


def test_a_silent_connection_keeps_what_it_is_in_the_middle_of() -> None:
    reader = FrameReader(ReceiveBuffers(), 1000)
    feed(reader, SIZE.pack(3) + b"a")
    reader.release_idle()
    assert feed(reader, b"bc") == [b"abc"]


def test_what_is_kept_for_later_is_bounded() -> None:
    buffers = ReceiveBuffers()
    taken = [buffers.take(1 << 20) for _ in range(100)]
    for each in taken:
        buffers.give_back(each)
    assert buffers.retained_bytes <= RETAINED_BYTES_MAX


def test_a_closed_reader_returns_its_buffer() -> None:
    buffers = ReceiveBuffers()
    reader = FrameReader(buffers, 1000)
    feed(reader, SIZE.pack(3) + b"a")
    reader.close()
    assert (reader.held_bytes, reader.pending_bytes) == (0, 0)
    assert buffers.retained_bytes == SHARED_BYTES


def test_an_announced_size_costs_nothing_until_bytes_come() -> None:
    reader = FrameReader(ReceiveBuffers(), 1 << 30)
    before_bytes = resident_bytes()
    feed(reader, SIZE.pack(500_000_000) + b"only this")
    assert reader.held_bytes >= 500_000_000
    assert resident_bytes() - before_bytes < 50_000_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
