"""The simulated disk: what it may lose, what it may not, and how it fails."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tidelog.model.ids import TimestampMs
from tidelog.simulation.disk import CHANGES, SimulatedCrash, SimulatedDisk, crashing
from tidelog.simulation.disk_state import BLOCK_BYTES, StoreIntoHoleError
from tidelog.storage.errors import DirectoryInUseError, StorageError

SEEDS = 200


class FixedClock:
    def now_ms(self) -> TimestampMs:
        return TimestampMs(1234)

    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return 0


def disk_with(name: str, content: bytes) -> SimulatedDisk:
    """A disk with one durable file."""
    disk = SimulatedDisk()
    disk.make_directory("/logs")
    disk.sync_directory("/")
    disk.write_bytes_atomically(f"/logs/{name}", content)
    return disk


def read(disk: SimulatedDisk, path: str) -> bytes:
    return disk.read_bytes(path, 1 << 20)


def outcomes(
    change: Callable[[SimulatedDisk], None], path: str = "/logs/a", before: bytes = b"-" * 8
) -> Counter[bytes | None]:
    """What many crashes after `change` leave of a file; None where it is gone."""
    seen: Counter[bytes | None] = Counter()
    for seed in range(SEEDS):
        disk = disk_with("a", before)
        change(disk)
        disk.crash(Random(seed))
        seen[read(disk, path) if disk.exists(path) else None] += 1
    return seen


def test_what_was_synced_is_never_lost() -> None:
    def change(disk: SimulatedDisk) -> None:
        file = disk.open("/logs/a")
        file.pwritev([b"synced"], 0)
        file.sync()

    assert outcomes(change) == {b"synced--": SEEDS}


def test_an_unsynced_write_is_kept_lost_torn_or_only_as_long() -> None:
    seen = outcomes(lambda disk: void(disk.open("/logs/a").pwritev([b"abcd"], 6)))

    assert seen[b"------abcd"] > SEEDS // 5
    assert seen[b"--------"] > SEEDS // 5
    assert seen[b"------ab"] > 0
    assert seen[b"------\0\0\0\0"] > 0
    assert {content[:6] for content in seen if content is not None} == {b"------"}


def test_writes_are_lost_independently_and_leave_holes() -> None:
    def change(disk: SimulatedDisk) -> None:
        file = disk.open("/logs/a")
        file.pwritev([b"1111"], 8)
        file.pwritev([b"2222"], 12)

    seen = outcomes(change)

    assert seen[b"--------" + b"1111" + b"2222"] > 0
    assert seen[b"--------" + b"1111"] > 0
    assert seen[b"--------" + bytes(4) + b"2222"] > 0


def test_a_long_write_loses_sectors_in_the_middle() -> None:
    seen = outcomes(lambda disk: void(disk.open("/logs/a").pwritev([b"x" * 4096], 0)), before=b"-" * 4096)

    holed = [content for content in seen if content and content.startswith(b"x") and content.endswith(b"x")]
    assert any(b"-" * 512 in content for content in holed)


def test_a_lost_truncation_keeps_what_was_written_behind_it_within_its_block() -> None:
    def change(disk: SimulatedDisk) -> None:
        file = disk.open("/logs/a")
        file.truncate(4000)
        file.pwritev([b"n" * 8000], 4000)

    seen = outcomes(change, before=b"o" * 12000)

    kept_truncation = b"o" * 4000 + b"n" * 8000
    lost_truncation = b"o" * 4000 + b"n" * 96 + b"o" * 7904
    assert seen[kept_truncation] > 0
    assert seen[lost_truncation] > 0
    for content in seen:
        assert content is not None
        # Past the block that was cut in two, the file has its old bytes or its new ones, never both.
        assert not (b"o" in content[4096:] and b"n" in content[4096:])


def test_a_later_size_does_not_survive_an_earlier_one() -> None:
    def change(disk: SimulatedDisk) -> None:
        file = disk.open("/logs/a")
        file.truncate(6)
        file.truncate(2)

    assert outcomes(change).keys() == {b"-" * 8, b"-" * 6, b"-" * 2}


def test_a_new_name_needs_a_sync_of_its_directory() -> None:
    def create(disk: SimulatedDisk) -> None:
        file = disk.open("/logs/new", create=True)
        file.pwritev([b"content"], 0)
        file.sync()

    def create_and_sync(disk: SimulatedDisk) -> None:
        create(disk)
        disk.sync_directory("/logs")

    assert outcomes(create, "/logs/new").keys() == {b"content", None}
    assert outcomes(create_and_sync, "/logs/new") == {b"content": SEEDS}


def test_a_removed_file_may_come_back_until_its_directory_is_synced() -> None:
    def remove(disk: SimulatedDisk) -> None:
        assert disk.remove("/logs/a")

    def remove_and_sync(disk: SimulatedDisk) -> None:
        remove(disk)
        disk.sync_directory("/logs")

    assert outcomes(remove).keys() == {b"-" * 8, None}
    assert outcomes(remove_and_sync) == {None: SEEDS}


def test_an_atomic_replacement_is_old_or_new_and_new_once_it_returns() -> None:
    assert outcomes(lambda disk: disk.write_bytes_atomically("/logs/a", b"new")) == {b"new": SEEDS}
    seen: Counter[bytes] = Counter()
    for seed in range(SEEDS):
        for last in range(1, 7):
            disk = disk_with("a", b"old")
            disk.crash_at(disk.changes + last)
            with crashing():
                disk.write_bytes_atomically("/logs/a", b"new")
            disk.crash(Random(seed))
            seen[read(disk, "/logs/a")] += 1
    assert seen.keys() == {b"old", b"new"}


def test_names_of_one_directory_are_lost_in_the_order_of_their_changes() -> None:
    left = set()
    for seed in range(SEEDS):
        disk = disk_with("a", b"")
        for name in "bcd":
            disk.open(f"/logs/{name}", create=True).close()
        disk.rename("/logs/a", "/logs/e")
        disk.crash(Random(seed))
        left.add("".join(disk.list_directory("/logs")))

    assert left == {"a", "ab", "abc", "abcd", "bcde"}


def test_a_renaming_between_directories_is_kept_or_lost_as_a_whole() -> None:
    for seed in range(50):
        disk = disk_with("a", b"x")
        disk.make_directory("/other")
        disk.sync_directory("/")
        disk.rename("/logs/a", "/other/b")
        if seed % 2:
            disk.sync_directory("/other")

        disk.crash(Random(seed))

        names = disk.list_directory("/logs") + disk.list_directory("/other")
        assert names in (["a"], ["b"])
        assert names == ["b"] or seed % 2 == 0


def test_a_sync_takes_along_what_a_renaming_ties_to_it_and_nothing_later() -> None:
    left = set()
    for seed in range(SEEDS):
        disk = disk_with("a", b"x")
        disk.make_directory("/other")
        disk.sync_directory("/")
        disk.open("/logs/before", create=True).close()
        disk.rename("/logs/a", "/other/b")
        disk.open("/logs/later", create=True).close()
        disk.sync_directory("/other")

        disk.crash(Random(seed))

        left.add(" ".join(disk.list_directory("/logs") + disk.list_directory("/other")))
    assert left == {"before b", "before later b"}


def test_what_is_in_a_lost_directory_is_lost() -> None:
    gone = 0
    for seed in range(20):
        disk = disk_with("a", b"")
        disk.make_directory("/logs/t-0")
        disk.write_bytes_atomically("/logs/t-0/x", b"x")
        disk.crash(Random(seed))
        gone += not disk.exists("/logs/t-0/x")
        assert disk.exists("/logs/t-0/x") == disk.exists("/logs/t-0")
    assert 0 < gone < 20


def test_stores_into_a_mapping_are_writes_that_a_crash_may_lose() -> None:
    def change(disk: SimulatedDisk) -> None:
        mapping = disk.open("/logs/a").map(8)
        mapping.view[2:4] = b"ab"

    def change_and_flush(disk: SimulatedDisk) -> None:
        mapping = disk.open("/logs/a").map(8)
        mapping.view[2:4] = b"ab"
        mapping.flush()
        mapping.view[6:8] = b"cd"

    assert {b"--ab----", b"-" * 8} <= outcomes(change).keys()
    seen = outcomes(change_and_flush)
    assert {b"--ab--cd", b"--ab----"} <= seen.keys()
    assert {content[:6] for content in seen if content is not None} == {b"--ab--"}


def test_only_what_a_file_has_can_be_stored_to() -> None:
    disk = disk_with("a", b"-" * 8)
    file = disk.open("/logs/a")
    mapping = file.map(8)
    mapping.view[7] = 65
    file.truncate(4)
    mapping.view[5] = 66
    mapping.view[0] = 67

    assert read(disk, "/logs/a") == b"C---"
    assert disk.unsynced("/logs/a") == 3


def test_the_same_seed_leaves_the_same_bytes() -> None:
    def once(seed: int) -> tuple[list[str], list[bytes]]:
        disk = disk_with("a", b"-" * 100)
        for number in range(10):
            file = disk.open(f"/logs/{number}", create=True)
            file.pwritev([bytes([number]) * 1000], number)
        disk.crash(Random(seed))
        names = disk.list_directory("/logs")
        return names, [read(disk, f"/logs/{name}") for name in names]

    assert once(5) == once(5)
    assert len({str(once(seed)) for seed in range(10)}) > 5


def test_a_killed_process_leaves_all_that_it_wrote() -> None:
    disk = disk_with("a", b"-" * 8)
    file = disk.open("/logs/a")
    file.pwritev([b"x"], 0)
    file.map(8).view[7] = 65
    disk.rename("/logs/a", "/logs/b")
    held = disk.lock("/logs/.lock")

    disk.kill()

    assert read(disk, "/logs/b") == b"x------A"
    held.release()
    disk.lock("/logs/.lock")
    with pytest.raises(SimulatedCrash):
        file.pread(1, 0)
    disk.crash(Random(1))
    assert read(disk, "/logs/a" if disk.exists("/logs/a") else "/logs/b")[1:7] == b"------"


def test_nothing_reaches_the_disk_of_a_machine_that_is_off() -> None:
    disk = disk_with("a", b"-" * 8)
    file = disk.open("/logs/a")
    mapping = file.map(8)
    held = disk.lock("/logs/.lock")
    disk.crash_at(disk.changes + 2)
    file.pwritev([b"1"], 0)

    with pytest.raises(SimulatedCrash):
        file.sync()

    for attempt in (
        lambda: file.pwritev([b"2"], 0),
        lambda: file.pread(1, 0),
        lambda: disk.open("/logs/b", create=True),
        lambda: disk.remove("/logs/a"),
    ):
        with pytest.raises(SimulatedCrash):
            attempt()
    file.close()
    disk.crash(Random(0))
    mapping.view[7] = 65
    mapping.close()
    held.release()
    with pytest.raises(SimulatedCrash):
        file.size()
    assert disk.list_directory("/logs") in (["a"], [".lock", "a"])
    assert read(disk, "/logs/a")[1:] == b"-" * 7


def test_a_crash_may_come_at_every_change() -> None:
    def work(disk: SimulatedDisk) -> None:
        disk.write_bytes_atomically("/logs/b", b"new")
        disk.make_directory("/logs/t-0")
        disk.open("/logs/t-0/x", create=True).allocate(10)
        disk.remove("/logs/t-0/x")
        disk.remove_directory("/logs/t-0")

    counted = disk_with("a", b"")
    before = counted.changes
    work(counted)
    assert counted.changes - before == 11

    for last in range(1, 12):
        disk = disk_with("a", b"")
        disk.crash_at(before + last)
        with pytest.raises(SimulatedCrash, match=f"at change {before + last}"):
            work(disk)
    with pytest.raises(ValueError, match="is past"):
        counted.crash_at(3)


def test_no_handler_of_ordinary_errors_stops_a_crash() -> None:
    disk = disk_with("a", b"")
    disk.crash_at(disk.changes + 1)
    with crashing():
        try:
            disk.remove("/logs/a")
        except Exception:  # noqa: BLE001 - what is tested
            pytest.fail("an ordinary handler caught the crash")
        pytest.fail("there was no crash")


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.ENOSPC])
def test_calls_fail_as_asked(code: int) -> None:
    disk = disk_with("a", b"-" * 8)
    disk.fail("pwritev", "*/a", code, after=1, times=2)
    file, other = disk.open("/logs/a"), disk.open("/logs/b", create=True)

    file.pwritev([b"1"], 0)
    for _ in range(2):
        other.pwritev([b"x"], 0)
        with pytest.raises(StorageError, match="cannot write /logs/a") as raised:
            file.pwritev([b"2"], 0)
        assert raised.value.errno == code
    file.pwritev([b"3"], 0)

    assert read(disk, "/logs/a") == b"3-------"


def test_a_full_disk_takes_a_part_of_the_write() -> None:
    disk = disk_with("a", b"")
    disk.fail("pwritev", "*", errno.ENOSPC)

    with pytest.raises(StorageError):
        disk.open("/logs/a").pwritev([b"abcd"], 0)

    assert read(disk, "/logs/a") == b"ab"


def test_what_a_failed_sync_was_to_make_durable_is_never_tried_again() -> None:
    for seed in range(20):
        disk = disk_with("a", b"-" * 8)
        file = disk.open("/logs/a")
        file.pwritev([b"abcd"], 0)
        disk.fail("sync", "*", errno.EIO, times=1)
        with pytest.raises(StorageError, match="cannot sync"):
            file.sync()
        assert file.pread(8, 0) == b"abcd----"

        disk.crash(Random(seed))

        assert read(disk, "/logs/a") == b"-" * 8


def test_a_read_only_file_system_refuses_every_change_and_can_be_read() -> None:
    disk = disk_with("a", b"content")
    disk.fail(CHANGES, "*", errno.EROFS)
    file = disk.open("/logs/a")

    for change in (
        lambda: file.pwritev([b"x"], 0),
        lambda: file.truncate(0),
        lambda: file.allocate(100),
        file.sync,
        lambda: disk.open("/logs/b", create=True),
        lambda: disk.make_directory("/logs/t-0"),
        lambda: disk.rename("/logs/a", "/logs/b"),
        lambda: disk.remove("/logs/a"),
        lambda: disk.lock("/logs/.lock"),
        lambda: disk.write_bytes_atomically("/logs/a", b""),
    ):
        with pytest.raises(StorageError) as raised:
            change()
        assert raised.value.errno == errno.EROFS
    assert read(disk, "/logs/a") == b"content"
    disk.heal()
    file.truncate(0)
    assert disk.list_directory("/logs") == ["a"]


def test_an_operation_that_does_not_exist_cannot_fail() -> None:
    with pytest.raises(ValueError, match="no such operation: write"):
        SimulatedDisk().fail("write", "*", errno.EIO)


def test_locks_end_with_the_machine() -> None:
    disk = disk_with("a", b"")
    disk.lock("/logs/.lock")
    with pytest.raises(DirectoryInUseError):
        disk.lock("/logs//.lock")

    disk.crash(Random(0))

    disk.lock("/logs/.lock")


def test_files_know_when_they_were_changed() -> None:
    disk = SimulatedDisk(FixedClock())
    disk.open("/a", create=True).truncate(1)

    assert disk.modified_ms("/a") == 1234


def test_things_are_not_what_they_are_taken_for() -> None:
    disk = disk_with("a", b"")

    for call, code in (
        (lambda: disk.open("/logs"), errno.EISDIR),
        (lambda: disk.open("/nowhere/a", create=True), errno.ENOENT),
        (lambda: disk.make_directory("/logs/a/b"), errno.ENOTDIR),
        (lambda: disk.list_directory("/logs/a"), errno.ENOTDIR),
        (lambda: disk.remove("/logs"), errno.EISDIR),
        (lambda: disk.size_of("/logs"), errno.EISDIR),
    ):
        with pytest.raises(StorageError) as raised:
            call()
        assert raised.value.errno == code
    closed = disk.open("/logs/a")
    closed.close()
    with pytest.raises(StorageError) as raised:
        closed.pread(1, 0)
    assert raised.value.errno == errno.EBADF


def void(_: object) -> None:
    """So that a lambda may do something and return nothing."""


def hollow(disk: SimulatedDisk, blocks: int) -> None:
    """Make `/logs/a` that long, with no space behind it."""
    file = disk.open("/logs/a", create=True)
    file.truncate(0)
    file.truncate(blocks * BLOCK_BYTES)
    file.close()


@pytest.mark.parametrize(
    "end",
    [
        lambda disk: disk.size_of("/logs/a"),
        lambda disk: disk.kill(),
        lambda disk: disk.crash(Random(1)),
    ],
    ids=["look", "kill", "crash"],
)
def test_a_store_needs_space_behind_it(end: Callable[[SimulatedDisk], None]) -> None:
    disk = disk_with("a", b"")
    hollow(disk, 3)
    file = disk.open("/logs/a")
    file.allocate(1, position=BLOCK_BYTES)
    file.pwritev([b"x"], 2 * BLOCK_BYTES)
    file.sync()
    mapping = file.map(3 * BLOCK_BYTES)
    mapping.view[2 * BLOCK_BYTES - 1] = 1
    mapping.view[3 * BLOCK_BYTES - 1] = 1
    assert read(disk, "/logs/a").count(1) == 2

    mapping.view[BLOCK_BYTES - 1] = 1

    with pytest.raises(StoreIntoHoleError, match="at byte 4095 of a file of 12288 bytes"):
        end(disk)


def test_what_a_file_is_cut_to_and_what_a_crash_leaves_of_zeros_is_holes() -> None:
    disk = disk_with("a", b"x" * 2 * BLOCK_BYTES)
    file = disk.open("/logs/a")
    file.truncate(BLOCK_BYTES)
    file.truncate(2 * BLOCK_BYTES)
    cut = file.map(2 * BLOCK_BYTES)
    cut.view[0] = cut.view[BLOCK_BYTES] = 1
    with pytest.raises(StoreIntoHoleError):
        file.size()

    disk = disk_with("a", bytes(BLOCK_BYTES) + b"x")
    disk.crash(Random(1))
    left = disk.open("/logs/a").map(BLOCK_BYTES + 1)
    left.view[BLOCK_BYTES] = 1
    assert read(disk, "/logs/a")[BLOCK_BYTES:] == b"\1"
    left.view[0] = 1
    with pytest.raises(StoreIntoHoleError):
        read(disk, "/logs/a")
