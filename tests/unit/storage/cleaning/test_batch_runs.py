"""The loops of compaction by themselves: the twins agree, on hostile bytes too, and no key is taken for another."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.support.kernel_twins import TWINS, module_on
from tidelog.kernel_choice import Twin
from tidelog.storage.cleaning.batch_runs import AT_END, AT_FULL, AT_SPECIAL, WRITTEN_FIELDS
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import HEADER_BYTES, read_header
from tidelog.wire.records import Record, build_batch

SALT = bytes(range(16))


class Loops(NamedTuple):
    """One twin of what compaction compiles."""

    runs: Any
    offset_map: Any

    def map(self, keys_max: int = 100, load_factor: float = 0.9) -> Any:
        return self.offset_map.OffsetMap(1 << 20, load_factor, 0, keys_max, SALT)


def loops_on(twin: Twin) -> Loops:
    return Loops(*(module_on(f"tidelog.storage.cleaning.{name}", twin) for name in ("batch_runs", "offset_map")))


@pytest.fixture(params=TWINS)
def loops(request: pytest.FixtureRequest) -> Loops:
    return loops_on(request.param)


def batch(base_offset: int, *keys: bytes | None, codec: Compression = Compression.NONE) -> bytes:
    rows = [Record(base_offset + number, 1000 + number, key, b"v") for number, key in enumerate(keys)]
    return build_batch(rows, base_offset=base_offset, codec=codec)


def index(loops: Loops, data: bytes, offset_map: Any = None) -> tuple[Any, tuple[int, ...]]:
    taken = loops.map() if offset_map is None else offset_map
    return taken, loops.runs.index_run(taken, data, 0, len(data), 0, array("q", bytes(8 * 50)))


def kept_of(loops: Loops, offset_map: Any, data: bytes) -> list[int]:
    """The last offsets of the batches that stay."""
    written = array("q", bytes(8 * WRITTEN_FIELDS * 50))
    out = bytearray(4 * len(data))
    result = loops.runs.filter_run(offset_map, data, 0, len(data), 0, 0, array("q"), out, written)
    assert result[0] == AT_END
    return [written[number * WRITTEN_FIELDS + 3] for number in range(result[3])]


def test_every_key_of_many_is_found_at_its_last_offset(loops: Loops) -> None:
    keys = [b"%d" % (number % 700) for number in range(1400)]
    data = b"".join(batch(number, key) for number, key in enumerate(keys))
    # Nearly as many slots as keys, so that many of them collide.
    offset_map = loops.map(700, 0.999)
    starts = array("q", bytes(8 * 2000))

    status, _, count = loops.runs.index_run(offset_map, data, 0, len(data), 0, starts)

    assert (status, offset_map.latest_offset, count, len(offset_map)) == (AT_END, 1399, 1400, 700)
    assert offset_map.utilization > 0.99
    written = array("q", bytes(8 * WRITTEN_FIELDS * 2000))
    out = bytearray(2 * len(data))
    done = loops.runs.filter_run(offset_map, data, 0, len(data), 0, 0, array("q"), out, written)
    assert [written[number * WRITTEN_FIELDS + 3] for number in range(done[3])] == list(range(700, 1400))


def test_keys_of_every_length_are_told_apart(loops: Loops) -> None:
    keys = [b"x" * length for length in range(40)]

    offset_map, (status, _, _) = index(loops, batch(0, *keys))

    assert status == AT_END
    assert len(offset_map) == 40
    assert offset_map.latest_offset == 39


def test_a_full_map_ends_before_the_next_key(loops: Loops) -> None:
    # Of 16 slots, which are the fewest.
    small = loops.map(1, 0.2)
    assert small.entries_max == 3

    offset_map, (status, at, count) = index(loops, batch(0, b"a", b"b") + batch(2, b"c", b"d"), small)

    assert (status, at, offset_map.latest_offset, count) == (AT_FULL, len(batch(0, b"a", b"b")), 2, 1)
    assert len(offset_map) == 3


def test_what_is_not_plain_is_left_to_others(loops: Loops) -> None:
    plain, packed = batch(0, b"a"), batch(1, b"b", codec=Compression.GZIP)

    offset_map, (status, at, _) = index(loops, plain + packed)

    assert (status, at, offset_map.latest_offset) == (AT_SPECIAL, len(plain), 0)


def test_a_batch_that_is_cut_off_is_not_begun(loops: Loops) -> None:
    whole, cut = batch(0, b"a"), batch(1, b"b")

    for missing in range(1, len(cut)):
        _, (status, at, _) = index(loops, whole + cut[:-missing])
        assert (status, at) == (AT_END, len(whole))


def test_only_the_newer_of_two_stays(loops: Loops) -> None:
    data = batch(0, b"a") + batch(1, b"b") + batch(2, b"a")
    offset_map, _ = index(loops, data)

    assert kept_of(loops, offset_map, data) == [1, 2]
    # What lies behind the map is not judged by it.
    offset_map.latest_offset = -1
    assert kept_of(loops, offset_map, data) == [0, 1, 2]


@pytest.mark.skipif(len(TWINS) < 2, reason="there is one twin only")
def test_the_twins_say_the_same_of_hostile_bytes() -> None:
    random = Random(3)
    whole = batch(0, b"a", b"bb", None, b"a") + batch(4, b"bb", b"ccc")
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(random.choice((1, 1, 2, 5))):
            data[random.randrange(len(data))] = random.randrange(256)
        hostile = bytes(data)
        outcomes = []
        for twin in TWINS:
            loops = loops_on(twin)
            offset_map, found = index(loops, hostile)
            written = array("q", bytes(8 * WRITTEN_FIELDS * 50))
            out = bytearray(4 * len(hostile))
            done = loops.runs.filter_run(offset_map, hostile, 0, len(hostile), 500, 900, array("q"), out, written)
            outcomes.append((found, offset_map.latest_offset, done, bytes(out[: done[2]]), written.tobytes()))
        assert outcomes[0] == outcomes[1]


def test_room_that_is_too_small_is_refused(loops: Loops) -> None:
    data = batch(0, b"a", b"b")
    header = read_header(data)

    with pytest.raises(ValueError, match="room"):
        loops.runs.filter_records(
            loops.map(),
            data,
            HEADER_BYTES,
            len(data),
            header.record_count,
            0,
            1000,
            1,
            False,
            False,
            None,
            bytearray(3),
            0,
        )


def test_a_map_needs_a_salt(loops: Loops) -> None:
    with pytest.raises(ValueError, match="salt"):
        loops.offset_map.OffsetMap(1 << 20, 0.9, 0, 1, b"short")
