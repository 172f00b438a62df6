"""The files seam: the same contract for the real disk and for the simulated one, then what only a real one has."""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.storage.disks import Place, simulated_place
from tidelog.storage.errors import DamagedFileError, DirectoryInUseError, StorageError
from tidelog.storage.files import parent_of
from tidelog.storage.os_file import IOV_MAX
from tidelog.storage.os_files import OsFiles


def test_what_is_written_is_read_at_its_position(place: Place) -> None:
    file = place.files.open(place.path("a"), create=True)

    written = file.pwritev([b"hello ", bytearray(b"wide "), memoryview(b"world")], 3)

    assert written == 16
    assert file.size() == 19
    assert file.pread(100, 0) == b"\0\0\0hello wide world"
    assert file.pread(4, 9) == b"wide"
    assert file.pread(4, 19) == b""
    file.close()
    file.close()


def test_preadv_fills_buffers_in_order_and_says_how_far(place: Place) -> None:
    place.write("a", b"0123456789")
    file = place.files.open(place.path("a"))
    first, second = bytearray(4), memoryview(mmap.mmap(-1, 16))

    assert file.preadv([first, second], 2) == 8

    assert first == b"2345"
    assert bytes(second[:4]) == b"6789"
    file.close()


def test_more_buffers_than_the_kernel_takes_at_once_are_written_and_read_whole(place: Place) -> None:
    pieces = [bytes([index % 251]) * 3 for index in range(2 * IOV_MAX + 5)]
    file = place.files.open(place.path("a"), create=True)

    file.pwritev(pieces, 0)
    back = [bytearray(3) for _ in pieces]

    assert file.preadv(back, 0) == 3 * len(pieces)
    assert b"".join(back) == b"".join(pieces) == file.pread(1 << 20, 0)
    file.close()


def test_truncation_cuts_and_extends_with_zeros(place: Place) -> None:
    place.write("a", b"abcdef")
    file = place.files.open(place.path("a"))

    file.truncate(2)
    file.truncate(4)
    file.allocate(3, position=3)

    assert file.pread(10, 0) == b"ab\0\0\0\0"
    file.close()


def test_room_that_is_reserved_moves_no_end(place: Place) -> None:
    file = place.files.open(place.write("a", b"abc"))

    file.reserve(100_000, 3)

    assert file.size() == 3
    assert file.pread(10, 0) == b"abc"
    file.close()


def test_a_mapping_and_the_file_are_one(place: Place) -> None:
    path = place.write("a", bytes(100))
    file = place.files.open(path)
    mapping = file.map(100)
    file.close()

    mapping.view[10:13] = b"xyz"
    place.files.open(path).pwritev([b"!"], 11)

    assert bytes(mapping.view[10:13]) == b"x!z"
    assert place.read("a")[9:14] == b"\0x!z\0"
    mapping.flush()
    mapping.close()
    mapping.close()
    assert place.read("a")[9:14] == b"\0x!z\0"


def test_two_mappings_of_a_file_see_each_other(place: Place) -> None:
    path = place.write("a", bytes(8))
    writer, reader = place.files.open(path).map(8), place.files.open(path, writable=False).map(8)

    writer.view[0:2] = b"ab"
    place.files.open(path).pwritev([b"z"], 7)

    assert place.read("a") == b"ab\0\0\0\0\0z"
    assert bytes(reader.view) == bytes(writer.view) == b"ab\0\0\0\0\0z"
    writer.close()
    reader.close()


def test_a_file_that_is_opened_for_reading_is_not_written(place: Place) -> None:
    path = place.write("a", b"abc")
    file = place.files.open(path, writable=False)
    mapping = file.map(3)

    with pytest.raises(StorageError, match="cannot write"):
        file.pwritev([b"x"], 0)
    with pytest.raises(TypeError):
        mapping.view[0] = 1

    mapping.close()
    file.close()
    assert place.read("a") == b"abc"


def test_a_mapping_longer_than_the_file_is_refused(place: Place) -> None:
    file = place.files.open(place.write("a", b"abc"))

    with pytest.raises(DamagedFileError, match="shorter than the 4 bytes"):
        file.map(4)
    file.close()


def test_a_missing_file_is_an_error_that_says_so(place: Place) -> None:
    with pytest.raises(StorageError) as raised:
        place.files.open(place.path("nowhere"))

    assert raised.value.is_missing
    assert raised.value.errno == errno.ENOENT
    assert str(raised.value) == f"cannot open {place.path('nowhere')}: No such file or directory (ENOENT)"
    for ask in (place.files.size_of, place.files.modified_ms, place.files.list_directory):
        with pytest.raises(StorageError, match=r"cannot (stat|list) .*nowhere"):
            ask(place.path("nowhere"))


def test_names_come_and_go(place: Place) -> None:
    files = place.files
    files.make_directory(place.path("x/y"))
    files.make_directory(place.path("x/y"))
    place.write("x/y/2", b"two")
    place.write("x/y/1", b"one")

    assert files.list_directory(place.path("x/y")) == ["1", "2"]
    assert files.is_dir(place.path("x"))
    assert not files.is_dir(place.path("x/y/1"))
    assert files.exists(place.path("x/y/1"))
    assert not files.exists(place.path("x/y/1/z"))
    assert files.size_of(place.path("x/y/1")) == 3

    files.rename(place.path("x/y/1"), place.path("x/y/2"))

    assert files.list_directory(place.path("x/y")) == ["2"]
    assert place.read("x/y/2") == b"one"
    files.sync_directory(place.path("x/y"))
    assert files.remove(place.path("x/y/2"))
    assert not files.remove(place.path("x/y/2"))
    files.remove_directory(place.path("x/y"))
    assert files.list_directory(place.path("x")) == []


def test_a_directory_goes_with_all_that_is_in_it(place: Place) -> None:
    place.files.make_directory(place.path("x/y"))
    place.write("x/1", b"")
    place.write("x/y/2", b"")

    with pytest.raises(StorageError, match="cannot remove"):
        place.files.remove_directory(place.path("x"))
    place.files.remove_tree(place.path("x"))
    place.files.remove_tree(place.path("x"))

    assert place.files.list_directory(place.directory) == []


def test_a_renamed_directory_takes_its_files_along_and_open_files_stay_open(place: Place) -> None:
    place.files.make_directory(place.path("t-0"))
    file = place.files.open(place.write("t-0/1", b"abc"))

    place.files.rename(place.path("t-0"), place.path("t-0.f00-delete"))
    file.pwritev([b"d"], 3)
    file.close()

    assert place.read("t-0.f00-delete/1") == b"abcd"
    assert not place.files.exists(place.path("t-0"))


@pytest.mark.parametrize("target", ["file", "full"])
def test_a_directory_does_not_replace_what_it_cannot(place: Place, target: str) -> None:
    place.write("file", b"")
    place.files.make_directory(place.path("full/x"))
    place.files.make_directory(place.path("d"))

    with pytest.raises(StorageError, match="cannot rename"):
        place.files.rename(place.path("d"), place.path(target))
    with pytest.raises(StorageError, match="cannot rename"):
        place.files.rename(place.path("file"), place.path("full"))
    with pytest.raises(StorageError, match="cannot rename"):
        place.files.rename(place.path("nowhere"), place.path("d"))


def test_a_small_file_is_replaced_as_a_whole(place: Place) -> None:
    place.files.write_bytes_atomically(place.path("c"), b"longer than what follows")
    place.files.write_bytes_atomically(place.path("c"), b"short")

    assert place.read("c") == b"short"
    assert place.files.list_directory(place.directory) == ["c"]


def test_the_left_over_of_an_interrupted_replacement_does_not_leak_into_the_next(place: Place) -> None:
    place.write("c.tmp", b"half of something long")

    place.files.write_bytes_atomically(place.path("c"), b"short")

    assert place.read("c") == b"short"


def test_a_file_beyond_its_limit_is_damaged(place: Place) -> None:
    place.write("c", b"12345")

    assert place.files.read_bytes(place.path("c"), 5) == b"12345"
    with pytest.raises(DamagedFileError, match="longer than the 4 bytes"):
        place.files.read_bytes(place.path("c"), 4)


def test_a_locked_directory_is_refused_until_it_is_released(place: Place) -> None:
    held = place.files.lock(place.path(".lock"))

    with pytest.raises(DirectoryInUseError, match=r"\.lock: .* uses the directory"):
        place.files.lock(place.path(".lock"))

    held.release()
    held.release()
    place.files.lock(place.path(".lock")).release()


def test_a_directory_is_locked_under_every_name_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "logs")
    files = OsFiles()
    held = files.lock(str(tmp_path / "logs" / ".lock"))

    with pytest.raises(DirectoryInUseError, match="a node in this process"):
        files.lock(str(tmp_path / "alias" / ".lock"))
    held.release()


HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_of_another_process_is_seen_and_seen_to_end(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        with pytest.raises(
            DirectoryInUseError, match=r"another process uses the directory .* stop it \(Apache Kafka included\)"
        ):
            OsFiles().lock(path)

        holder.communicate()
    OsFiles().lock(path).release()


def test_a_real_file_has_a_descriptor_and_a_simulated_one_has_none(tmp_path: Path) -> None:
    real = OsFiles().open(str(tmp_path / "a"), create=True)
    assert os.fstat(real.fileno()).st_size == 0
    real.close()

    simulated = simulated_place()
    with pytest.raises(OSError, match="has no descriptor"):
        simulated.files.open(simulated.path("a"), create=True).fileno()


@pytest.mark.skipif(sys.platform != "linux", reason="tells how memory is read ahead in /proc")
def test_a_store_into_a_mapping_reads_no_more_than_its_page(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(4096))

    mapping = OsFiles().open(str(path)).map(4096)

    regions = Path("/proc/self/smaps").read_text().partition(f" {path}\n")[2]
    flags = next(line for line in regions.splitlines() if line.startswith("VmFlags:"))
    assert "rr" in flags.split()
    mapping.close()


def test_a_file_that_was_never_opened_closes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = OsFiles().open(str(tmp_path / "a"), create=True)
    closed: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", closed.append)
        # What is left where something interrupts its making.
        unmade = type(opened).__new__(type(opened))
        del unmade

    assert closed == []
    opened.close()


def test_a_system_that_takes_no_advice_still_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123")
    file = OsFiles().open(str(path))
    # No advice that any system knows.
    monkeypatch.setattr("tidelog.storage.os_file._MADV_RANDOM", 2**20)

    mapping = file.map(4)

    assert bytes(mapping.view) == b"0123"
    mapping.close()
    file.close()


def test_short_reads_and_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, pwritev, preadv, pread = os.pwrite, os.pwritev, os.preadv, os.pread
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, memoryview(data)[:3], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: pwritev(fd, [memoryview(buffers[0])[:3]], at))
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: preadv(fd, [memoryview(buffers[0])[:3]], at))
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 3), at))
    file = OsFiles().open(str(tmp_path / "a"), create=True)

    assert file.pwritev([b"0123456789", b"abcdefg"], 0) == 17

    back = [bytearray(4), bytearray(20)]
    assert file.preadv(back, 0) == 17
    assert bytes(back[0]) + bytes(back[1][:13]) == b"0123456789abcdefg"
    assert file.pread(100, 1) == b"123456789abcdefg"
    assert file.pwritev([b"ABCDEFGH"], 2) == 8
    assert file.pread(100, 0) == b"01ABCDEFGHabcdefg"
    file.close()


def test_a_file_system_without_reservations_still_gives_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, position: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    file = OsFiles().open(str(tmp_path / "a"), create=True)
    file.allocate(100)
    file.allocate(10)
    assert file.size() == 100

    def fill(descriptor: int, position: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", fill)
    with pytest.raises(StorageError, match="cannot allocate") as raised:
        file.allocate(200)
    assert raised.value.is_disk_full
    file.close()


def test_room_that_is_reserved_is_given_back_by_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "a"
    file = OsFiles().open(str(path), create=True)
    file.pwritev([bytes(4096)], 0)
    file.sync()
    before = path.stat().st_blocks

    file.reserve(1 << 20, 4096)
    if path.stat().st_blocks == before:
        pytest.skip("this file system reserves nothing")
    assert path.stat().st_blocks >= before + 2048
    file.truncate(4096)

    assert path.stat().st_blocks == before
    file.close()


def test_what_cannot_be_reserved_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    file = OsFiles().open(str(path), writable=False)

    file.reserve(100, 3)
    file.close()
    file.reserve(100, 3)

    assert path.read_bytes() == b"abc"


def test_errors_of_a_closed_or_read_only_place_are_storage_errors(tmp_path: Path) -> None:
    files = OsFiles()
    file = files.open(str(tmp_path / "a"), create=True)
    file.close()
    for call in (
        file.size,
        file.sync,
        lambda: file.pread(1, 0),
        lambda: file.preadv([bytearray(1)], 0),
        lambda: file.pwritev([b"x"], 0),
        lambda: file.truncate(0),
        lambda: file.allocate(1),
        lambda: file.map(1),
    ):
        with pytest.raises(StorageError):
            call()
    with pytest.raises(StorageError, match="cannot lock"):
        files.lock(str(tmp_path / "nowhere" / ".lock"))
    with pytest.raises(StorageError, match="cannot remove"):
        files.remove_tree(str(tmp_path / "a"))
    with pytest.raises(StorageError, match="cannot sync"):
        files.sync_directory(str(tmp_path / "a"))
    with pytest.raises(StorageError, match="cannot create"):
        files.make_directory(str(tmp_path / "a"))


@pytest.mark.parametrize(
    "error",
    [
        StorageError("/logs/a", "write", errno.ENOSPC),
        StorageError("/logs/a", "write", None),
        DamagedFileError("/logs/a", "it ends too early"),
        DirectoryInUseError("/logs/.lock", "another process uses it"),
    ],
)
def test_errors_cross_process_borders(error: StorageError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert (copy.path, copy.operation, copy.errno) == (error.path, error.operation, error.errno)


def test_the_parent_of_a_bare_name_is_the_working_directory() -> None:
    assert parent_of("/logs/t-0/a") == "/logs/t-0"
    assert parent_of("a") == "."


def test_a_lock_is_seen_without_being_touched(place: Place) -> None:
    path = place.path(".lock")
    assert not place.files.is_locked(path)
    place.write(".lock", b"")
    assert not place.files.is_locked(path)

    lock = place.files.lock(path)

    assert place.files.is_locked(path)
    lock.release()
    assert not place.files.is_locked(path)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells of the locks of others")
def test_the_lock_of_another_process_is_seen(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    script = f"from tidelog.storage.os_files import OsFiles; lock = OsFiles().lock({str(path)!r}); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"
        seen = OsFiles().is_locked(str(path))
        other.communicate(b"\n")

    assert seen
    assert not OsFiles().is_locked(str(path))


def test_where_the_system_lists_no_locks_none_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.storage.os_lock._LOCKS", str(tmp_path / "none"))
    (tmp_path / ".lock").touch()

    assert not OsFiles().is_locked(str(tmp_path / ".lock"))
