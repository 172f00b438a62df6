"""A scan names the first bad byte of a file of batches, whatever is wrong with it."""

from __future__ import annotations

import struct

import pytest

from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.verification import log_scan
from tidelog.storage.verification.log_scan import BATCH_BYTES_MAX, Damage, LogScan
from tidelog.wire.record_batch import stamp_crc
from tidelog.wire.records import Record, build_batch

PATH = "/00000000000000000010.log"


def batch(base_offset: int, count: int = 2, value: bytes = b"value") -> bytes:
    rows = [Record(base_offset + number, 1000 + number, b"key", value) for number in range(count)]
    return build_batch(rows, base_offset=base_offset, leader_epoch=0)


A, B, C = batch(10), batch(12, 3), batch(15)


def scan(content: bytes, base_offset: int | None = 10) -> LogScan:
    disk = SimulatedDisk()
    file = disk.open(PATH, create=True)
    file.pwritev([content], 0)
    return LogScan(file, base_offset=base_offset)


def scanned(content: bytes, base_offset: int | None = 10) -> tuple[list[int], LogScan]:
    """The base offsets of the whole batches, and the finished scan."""
    finished = scan(content, base_offset)
    return [batch.header.base_offset for batch in finished], finished


def damaged(content: bytes) -> Damage:
    _, finished = scanned(content)
    assert finished.damage is not None
    assert finished.zeros == 0
    return finished.damage


def changed(content: bytes, position: int, layout: str, value: int, *, seal_at: int | None = None) -> bytes:
    """`content` with another number at `position`, and the batch at `seal_at` given the checksum for it."""
    buffer = bytearray(content)
    struct.pack_into(layout, buffer, position, value)
    if seal_at is not None:
        stamp_crc(buffer, seal_at)
    return bytes(buffer)


def test_a_whole_file_is_read_to_its_end() -> None:
    offsets, finished = scanned(A + B + C)

    assert offsets == [10, 12, 15]
    assert (finished.position, finished.next_offset, finished.batches) == (len(A + B + C), 17, 3)
    assert (finished.damage, finished.zeros) == (None, 0)


def test_an_empty_file_has_no_batch_and_no_damage() -> None:
    offsets, finished = scanned(b"")

    assert (offsets, finished.damage, finished.zeros, finished.next_offset) == ([], None, 0, 10)


def test_the_data_of_a_batch_are_its_bytes() -> None:
    assert [bytes(each.data) for each in scan(A + B)] == [A, B]


def test_offsets_may_have_gaps() -> None:
    offsets, finished = scanned(A + batch(100))

    assert offsets == [10, 100]
    assert finished.damage is None


def test_a_tail_of_zeros_is_not_damage() -> None:
    offsets, finished = scanned(A + B + bytes(3_000_000))

    assert offsets == [10, 12]
    assert finished.damage is None
    assert (finished.position, finished.zeros) == (len(A + B), 3_000_000)


def test_a_tail_of_a_few_zeros_is_not_damage_either() -> None:
    _, finished = scanned(A + bytes(7))

    assert (finished.damage, finished.zeros) == (None, 7)


def test_zeros_with_something_behind_them_are_damage() -> None:
    found = damaged(A + bytes(500) + B)

    assert found.position == found.batch_position == len(A)
    assert found.sentence == "zeros stand where a batch should begin, and other bytes follow them"
    assert (found.resumes_at, found.resumes_offset) == (len(A) + 500, 12)


def test_a_short_header_is_named() -> None:
    found = damaged(A + B[:60])

    assert found == Damage(len(A), len(A), "only 60 bytes are left, and the header of a batch takes 61", None, None)


def test_a_batch_that_is_cut_off_is_named_with_its_length() -> None:
    found = damaged(A + B[:-1])

    assert found.position == len(A)
    assert found.sentence == (
        f"the batch at offset 12 is cut off: it claims {len(B)} bytes, and the file ends after {len(B) - 1} of them"
    )


@pytest.mark.parametrize("position", [21, 61, len(B) - 1])
def test_a_flipped_bit_is_found_by_the_checksum(position: int) -> None:
    right = struct.unpack_from(">I", B, 17)[0]
    content = bytearray(A + B + C)
    content[len(A) + position] ^= 0x10

    found = damaged(bytes(content))

    assert (found.position, found.batch_position) == (len(A) + 17, len(A))
    assert found.sentence.startswith("the batch at offset 12 is damaged: its bytes have the CRC 0x")
    assert found.sentence.endswith(f", its header says {right:#010x}")
    assert (found.resumes_at, found.resumes_offset) == (len(A + B), 15)


def test_both_checksums_are_given() -> None:
    right = struct.unpack_from(">I", B, 17)[0]

    found = damaged(A + changed(B, 17, ">I", 0x12345678))

    assert found.sentence == (
        f"the batch at offset 12 is damaged: its bytes have the CRC {right:#010x}, its header says 0x12345678"
    )


@pytest.mark.parametrize(
    ("position", "layout", "value", "sentence"),
    [
        (16, ">b", 1, "a batch with magic 1; only magic 2 is supported"),
        (8, ">i", 48, "a batch that claims a length of 48, less than its own header takes"),
        (8, ">i", -5, "a batch that claims a length of -5, less than its own header takes"),
        (
            8,
            ">i",
            2**31 - 1,
            f"a batch that claims 2147483659 bytes; more than {BATCH_BYTES_MAX} is taken for damage",
        ),
        (22, ">b", 5, "a batch with codec 5, which does not exist"),
        (23, ">i", -1, "a batch that claims a last offset delta of -1"),
        (57, ">i", -2, "a batch that claims -2 records"),
    ],
)
def test_a_field_that_cannot_be_is_pointed_at(position: int, layout: str, value: int, sentence: str) -> None:
    found = damaged(A + changed(B, position, layout, value) + C)

    assert (found.position, found.batch_position, found.sentence) == (len(A) + position, len(A), sentence)
    assert found.resumes_at == len(A + B)


def test_offsets_that_go_back_are_damage() -> None:
    found = damaged(A + C + B)

    assert found == Damage(
        len(A + C), len(A + C), "offsets go back: a batch at offset 12 where 17 or more must follow", None, None
    )


def test_a_batch_twice_is_damage() -> None:
    assert damaged(A + A).sentence == "offsets go back: a batch at offset 10 where 12 or more must follow"


def test_a_batch_from_before_the_files_name_is_damage() -> None:
    found = damaged(batch(9) + A)

    assert (found.position, found.sentence) == (0, "a batch at offset 9, before the 10 that the file's name says")
    assert found.resumes_at == len(A)


def test_without_a_name_any_offset_may_come_first() -> None:
    assert scanned(batch(3), None)[0] == [3]


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 1])
def test_an_impossible_offset_is_damage(base_offset: int) -> None:
    _, finished = scanned(changed(B, 0, ">q", base_offset), None)

    assert finished.damage is not None
    assert finished.damage.sentence == f"a batch at the impossible offset {base_offset}"


def test_garbage_is_damage() -> None:
    found = damaged(A + b"\x55" * 4000)

    assert (found.position, found.sentence) == (len(A) + 16, "a batch with magic 85; only magic 2 is supported")
    assert found.resumes_at is None


def test_the_search_behind_damage_finds_a_batch_in_another_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan, "WINDOW_BYTES", 256)

    for garbage in range(900, 1300, 7):
        found = damaged(A + b"\x02" * garbage + B)
        assert (found.resumes_at, found.resumes_offset) == (len(A) + garbage, 12)


def test_the_search_gives_up_on_a_file_made_to_mislead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan, "_SEARCH_CHECKED_BYTES_MAX", 10_000)
    bait = struct.pack(">qiib", 12, 5000, 0, 2)

    found = damaged(A + b"\x55" * 61 + bait * 1000 + B)

    assert found.resumes_at is None


def test_batches_larger_than_the_window_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan, "WINDOW_BYTES", 256)
    large = batch(12, 4, b"x" * 1000)

    offsets, finished = scanned(A + large + batch(16))

    assert offsets == [10, 12, 16]
    assert finished.damage is None


def test_a_file_is_read_once_in_windows() -> None:
    disk = SimulatedDisk()
    file = disk.open(PATH, create=True)
    big = [batch(10 + number, 1, bytes(100_000)) for number in range(50)]
    file.pwritev(big, 0)
    reads: list[int] = []
    pread = file.pread

    class Counting:
        path = PATH
        size = staticmethod(file.size)

        @staticmethod
        def pread(count: int, position: int) -> bytes:
            reads.append(count)
            return pread(count, position)

    finished = LogScan(Counting())  # type: ignore[arg-type]

    assert sum(1 for _ in finished) == 50
    assert max(reads) == log_scan.WINDOW_BYTES
    assert sum(reads) < 1.2 * sum(map(len, big))
