"""The loops of compaction by themselves: the twins agree, on hostile bytes too, and no key is taken for another."""

from __future__ import annotations

from array import array
from random import Random
from types import ModuleType

import pytest

from tests.support.kernel_twins import TWINS
from tidelog import kernel_choice
from tidelog.kernel_choice import load_twin
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import HEADER_BYTES, read_header
from tidelog.wire.records import Record, build_batch

PACKAGE, NAME = "tidelog.storage.cleaning.kernels", "cleaning_kernel"
SALT = bytes(range(16))


@pytest.fixture(params=TWINS)
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return load_twin(PACKAGE, NAME, request.param)


def batch(base_offset: int, *keys: bytes | None, codec: Compression = Compression.NONE) -> bytes:
    rows = [Record(base_offset + number, 1000 + number, key, b"v") for number, key in enumerate(keys)]
    return build_batch(rows, base_offset=base_offset, codec=codec)


def index(kernel: ModuleType, data: bytes, slots: int = 100, entries_max: int = 90) -> tuple[object, tuple[int, ...]]:
    table = kernel.OffsetTable(slots, SALT)
    return table, kernel.index_run(table, entries_max, data, 0, len(data), 0, -1, array("q", bytes(8 * 50)))


def kept_of(kernel: ModuleType, table: object, latest: int, data: bytes) -> list[int]:
    """The last offsets of the batches that stay."""
    written = array("q", bytes(8 * kernel.WRITTEN_FIELDS * 50))
    out = bytearray(4 * len(data))
    result = kernel.filter_run(table, latest, data, 0, len(data), 0, 0, array("q"), out, written)
    assert result[0] == kernel.AT_END
    return [written[number * kernel.WRITTEN_FIELDS + 3] for number in range(result[3])]


def test_every_key_of_many_is_found_at_its_last_offset(kernel: ModuleType) -> None:
    keys = [b"%d" % (number % 700) for number in range(1400)]
    data = b"".join(batch(number, key) for number, key in enumerate(keys))
    table = kernel.OffsetTable(778, SALT)
    starts = array("q", bytes(8 * 2000))

    status, _, latest, count = kernel.index_run(table, 777, data, 0, len(data), 0, -1, starts)

    assert (status, latest, count, len(table)) == (kernel.AT_END, 1399, 1400, 700)
    written = array("q", bytes(8 * kernel.WRITTEN_FIELDS * 2000))
    out = bytearray(2 * len(data))
    done = kernel.filter_run(table, latest, data, 0, len(data), 0, 0, array("q"), out, written)
    assert [written[number * kernel.WRITTEN_FIELDS + 3] for number in range(done[3])] == list(range(700, 1400))


def test_keys_of_every_length_are_told_apart(kernel: ModuleType) -> None:
    keys = [b"x" * length for length in range(40)]

    table, (status, _, latest, _) = index(kernel, batch(0, *keys))

    assert status == kernel.AT_END
    assert len(table) == 40  # type: ignore[arg-type]
    assert latest == 39


def test_a_full_table_ends_before_the_next_key(kernel: ModuleType) -> None:
    table, (status, at, latest, count) = index(kernel, batch(0, b"a", b"b") + batch(2, b"c", b"d"), 4, 3)

    assert (status, at, latest, count) == (kernel.AT_FULL, len(batch(0, b"a", b"b")), 2, 1)
    assert len(table) == 3  # type: ignore[arg-type]


def test_what_is_not_plain_is_left_to_others(kernel: ModuleType) -> None:
    plain, packed = batch(0, b"a"), batch(1, b"b", codec=Compression.GZIP)

    _, (status, at, latest, _) = index(kernel, plain + packed)

    assert (status, at, latest) == (kernel.AT_SPECIAL, len(plain), 0)


def test_a_batch_that_is_cut_off_is_not_begun(kernel: ModuleType) -> None:
    whole, cut = batch(0, b"a"), batch(1, b"b")

    for missing in range(1, len(cut)):
        _, (status, at, _, _) = index(kernel, whole + cut[:-missing])
        assert (status, at) == (kernel.AT_END, len(whole))


def test_only_the_newer_of_two_stays(kernel: ModuleType) -> None:
    data = batch(0, b"a") + batch(1, b"b") + batch(2, b"a")
    table, (_, _, latest, _) = index(kernel, data)

    assert kept_of(kernel, table, latest, data) == [1, 2]
    # What lies behind the map is not judged by it.
    assert kept_of(kernel, table, -1, data) == [0, 1, 2]


def test_the_twins_say_the_same_of_hostile_bytes() -> None:
    if kernel_choice.choice.twin != "compiled":
        pytest.skip("there is no compiled twin")
    plain, compiled = (load_twin(PACKAGE, NAME, twin) for twin in TWINS)
    random = Random(3)
    whole = batch(0, b"a", b"bb", None, b"a") + batch(4, b"bb", b"ccc")
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(random.choice((1, 1, 2, 5))):
            data[random.randrange(len(data))] = random.randrange(256)
        hostile = bytes(data)
        outcomes = []
        for kernel in (plain, compiled):
            table, found = index(kernel, hostile)
            written = array("q", bytes(8 * kernel.WRITTEN_FIELDS * 50))
            out = bytearray(4 * len(hostile))
            done = kernel.filter_run(table, found[2], hostile, 0, len(hostile), 500, 900, array("q"), out, written)
            outcomes.append((found, done, bytes(out[: done[2]]), written.tobytes()))
        assert outcomes[0] == outcomes[1]


def test_room_that_is_too_small_is_refused(kernel: ModuleType) -> None:
    data = batch(0, b"a", b"b")
    header = read_header(data)
    table = kernel.OffsetTable(10, SALT)

    with pytest.raises(ValueError, match="room"):
        kernel.filter_records(
            table,
            -1,
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


def test_a_table_needs_a_slot_and_a_salt(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="slot"):
        kernel.OffsetTable(0, SALT)
    with pytest.raises(ValueError, match="salt"):
        kernel.OffsetTable(1, b"short")
