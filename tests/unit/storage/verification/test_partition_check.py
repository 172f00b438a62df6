"""Every file of a partition is compared with every other: damage of each kind, and the sentence for it."""

from __future__ import annotations

import struct

import pytest

from tests.support.data_directory import (
    ABORTING,
    END,
    FIRST,
    IDEMPOTENT,
    LAST,
    OPEN,
    SECOND,
    DataDirectory,
    error,
    log_file,
    warning,
)
from tests.support.log_builder import START_MS
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.producer_snapshot import decode_snapshot, encode_snapshot
from tidelog.storage.verification.findings import Finding, Severity
from tidelog.wire.control_records import ControlType, build_end_txn_marker

# Logs


def test_a_flipped_bit_in_the_middle_of_the_log_is_an_error_clean_or_not() -> None:
    for clean in (True, False):
        directory = DataDirectory(SimulatedDisk())
        directory.write(clean=clean)
        name = log_file(LAST)
        (_, _), (position, header), (resumes_at, resumes) = directory.batches(name)[:3]
        directory.flip(name, position + 65)

        (found,) = directory.findings()

        assert (found.severity, found.path, found.position) == (Severity.ERROR, name, position + 17)
        assert found.sentence.startswith(
            f"the batch at offset {header.base_offset} is damaged: its bytes have the CRC "
        )
        assert found.sentence.endswith(
            f"; the file is whole up to byte {position}, offset {header.base_offset}, "
            f"and whole batches go on at byte {resumes_at}, offset {resumes.base_offset}"
        )


def test_a_torn_tail_after_a_kill_is_a_warning(killed: DataDirectory) -> None:
    name = log_file(LAST)
    position, header = killed.batches(name)[-1]
    killed.truncate(name, position + 80)

    assert killed.findings() == [
        warning(
            name,
            position,
            f"the batch at offset 35 is cut off: it claims {header.size_bytes} bytes, and the file ends after 80 of them; "
            f"recovery will cut the log at byte {position}, offset 35",
        ),
        warning(
            "orders-0",
            None,
            f"the replication-offset-checkpoint says {END}, and the log ends at 35; recovery sees to it",
        ),
    ]


def test_a_torn_tail_after_a_clean_stop_is_an_error(stopped: DataDirectory) -> None:
    name = log_file(LAST)
    position, _ = stopped.batches(name)[-1]
    stopped.truncate(name, position + 30)

    found = stopped.findings()

    assert found[0] == error(
        name,
        position,
        "only 30 bytes are left, and the header of a batch takes 61; "
        f"the file is whole up to byte {position}, offset 35, and no whole batch follows in it",
    )
    assert {each.severity for each in found} == {Severity.ERROR}


def test_a_lost_tail_below_the_recovery_point_is_an_error(killed: DataDirectory) -> None:
    name = log_file(LAST)
    position, _ = killed.batches(name)[-1]
    killed.write_file("recovery-point-offset-checkpoint", b"0\n1\norders 0 37\n")
    killed.truncate(name, position)

    assert (
        error("orders-0", None, "the recovery-point-offset-checkpoint says 37, and the log ends at 35")
        in killed.findings()
    )


def test_a_damaged_tail_below_the_recovery_point_is_an_error(killed: DataDirectory) -> None:
    name = log_file(LAST)
    position, _ = killed.batches(name)[-1]
    killed.write_file("recovery-point-offset-checkpoint", b"0\n1\norders 0 37\n")
    killed.flip(name, position + 61)

    assert killed.findings()[0].severity is Severity.ERROR


def test_a_tail_of_zeros_is_a_note(killed: DataDirectory) -> None:
    name = log_file(LAST)
    size = len(killed.read(name))
    killed.append(name, bytes(1000))

    assert killed.report().findings == [
        Finding(
            Severity.NOTE,
            name,
            size,
            "1000 zero bytes to the end: preallocated space, or a write that a crash swallowed",
        )
    ]


def test_damage_in_an_earlier_segment_does_not_hide_a_later_one(stopped: DataDirectory) -> None:
    stopped.flip(log_file(FIRST), 70)
    stopped.flip(log_file(SECOND), 70)
    stopped.flip(log_file(LAST, ".index"), 7)

    found = stopped.findings()

    assert [each.path for each in found] == [log_file(FIRST), log_file(SECOND), log_file(LAST, ".index")]


def test_two_segments_swapped_are_found(stopped: DataDirectory) -> None:
    stopped.swap(log_file(SECOND), log_file(LAST))

    sentences = {each.path: each.sentence for each in stopped.findings() if each.path.endswith(".log")}

    assert sentences[log_file(SECOND)] == "it reaches offset 36, and the next segment begins at 26"
    assert sentences[log_file(LAST)].startswith("a batch at offset 12, before the 26 that the file's name says")


def test_a_lost_segment_leaves_a_gap(stopped: DataDirectory) -> None:
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        stopped.remove(log_file(SECOND, suffix))

    assert stopped.findings() == [
        warning(
            log_file(LAST),
            None,
            "offsets 12 to 25 are missing: compaction leaves such gaps, and so does a lost file",
        )
    ]


def test_a_gap_where_compaction_has_been_is_none(stopped: DataDirectory) -> None:
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        stopped.remove(log_file(SECOND, suffix))
    stopped.write_file("cleaner-offset-checkpoint", b"0\n1\norders 0 26\n")

    assert stopped.findings() == []


def test_more_records_than_offsets_are_found(stopped: DataDirectory) -> None:
    name = log_file(FIRST)
    stopped.put(name, 57, struct.pack(">i", 4))
    stopped.reseal(name, 0)

    assert stopped.findings() == [error(name, 0, "the batch at offset 0 says it has 4 records in 3 offsets")]


def test_records_that_do_not_decode_are_found_on_request(stopped: DataDirectory) -> None:
    name = log_file(FIRST)
    stopped.put(name, 61, b"\x7f")
    stopped.reseal(name, 0)

    assert stopped.findings() == []
    (found,) = stopped.findings(decodes_records=True)
    assert (found.severity, found.path, found.position) == (Severity.ERROR, name, 61)
    assert found.sentence.startswith("the checksum of the batch at offset 0 is right, but its records do not decode: ")


def test_a_wrong_largest_timestamp_is_found_on_request(stopped: DataDirectory) -> None:
    name = log_file(FIRST)
    stopped.put(name, 35, struct.pack(">q", START_MS + 1001))
    stopped.reseal(name, 0)

    assert stopped.findings() == []
    assert stopped.findings(decodes_records=True) == [
        error(
            name,
            0,
            f"the batch at offset 0 says its largest timestamp is {START_MS + 1001}, and its records say {START_MS + 1002}",
        )
    ]


# Indexes


def test_an_index_entry_must_point_at_a_batch(stopped: DataDirectory) -> None:
    position = stopped.batches(log_file(FIRST))[2][0]
    stopped.put(log_file(FIRST, ".index"), 4, struct.pack(">i", position + 1))

    assert stopped.findings() == [
        error(
            log_file(FIRST, ".index"),
            0,
            f"the entry for offset 8 points at byte {position + 1}, where no batch begins",
        )
    ]


def test_an_index_entry_must_name_the_last_offset_of_its_batch(stopped: DataDirectory) -> None:
    position = stopped.batches(log_file(FIRST))[2][0]
    stopped.put(log_file(FIRST, ".index"), 0, struct.pack(">i", 7))

    assert stopped.findings() == [
        error(log_file(FIRST, ".index"), 0, f"the entry for byte {position} says offset 7; the batch there ends with 8")
    ]


def test_an_index_entry_may_name_the_last_offset_of_what_was_appended_together(stopped: DataDirectory) -> None:
    stopped.put(log_file(FIRST, ".index"), 0, struct.pack(">i", 10))
    assert stopped.findings() == []

    stopped.put(log_file(FIRST, ".index"), 0, struct.pack(">i", 9))
    (found,) = stopped.findings()
    assert found.sentence.endswith("says offset 9, which ends no batch")


def test_an_index_entry_beyond_the_log_is_an_error_after_a_clean_stop(stopped: DataDirectory) -> None:
    size = len(stopped.read(log_file(LAST)))
    stopped.append(log_file(LAST, ".index"), struct.pack(">ii", 20, size))

    assert stopped.findings() == [
        error(
            log_file(LAST, ".index"),
            16,
            f"the entry for offset 46 points at byte {size}, and the log ends at byte {size} with offset 36",
        )
    ]


def test_an_index_entry_beyond_the_log_is_a_warning_after_a_kill(killed: DataDirectory) -> None:
    size = len(killed.read(log_file(LAST)))
    killed.put(log_file(LAST, ".index"), 16, struct.pack(">ii", 20, size))

    (found,) = killed.findings()

    assert found == warning(
        log_file(LAST, ".index"),
        16,
        f"the entry for offset 46 points at byte {size}, and the log ends at byte {size} with offset 36; "
        "recovery builds the index again",
    )


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_a_warning(stopped: DataDirectory, suffix: str) -> None:
    stopped.remove(log_file(SECOND, suffix))

    assert stopped.findings() == [
        warning(log_file(SECOND, suffix), None, "the file is missing; the next start builds it again")
    ]


def test_an_index_of_another_segment_is_found(stopped: DataDirectory) -> None:
    stopped.swap(log_file(FIRST, ".timeindex"), log_file(SECOND, ".timeindex"))

    assert [finding.path for finding in stopped.findings()] == [
        log_file(FIRST, ".timeindex"),
        log_file(SECOND, ".timeindex"),
    ]


def test_a_cut_index_is_found(stopped: DataDirectory) -> None:
    stopped.truncate(log_file(FIRST, ".index"), 13)

    assert stopped.findings() == [
        error(log_file(FIRST, ".index"), 8, "5 bytes are left at the end, and an entry takes 8")
    ]


def test_zeros_behind_a_finished_index_are_a_note(stopped: DataDirectory) -> None:
    stopped.append(log_file(FIRST, ".index"), bytes(80))

    assert stopped.report().findings == [
        Finding(
            Severity.NOTE,
            log_file(FIRST, ".index"),
            16,
            "80 zero bytes to the end: preallocated space that nobody trimmed",
        )
    ]


def test_a_time_must_be_the_largest_so_far(stopped: DataDirectory) -> None:
    stopped.put(log_file(FIRST, ".timeindex"), 0, struct.pack(">q", START_MS + 1))

    assert stopped.findings() == [
        error(
            log_file(FIRST, ".timeindex"),
            0,
            f"the entry for offset 8 says time {START_MS + 1}; the largest timestamp up to there is {START_MS + 3003}",
        )
    ]


def test_a_time_beyond_the_log_is_found(stopped: DataDirectory) -> None:
    stopped.append(log_file(LAST, ".timeindex"), struct.pack(">qi", START_MS + 99999, 20))

    assert stopped.findings() == [
        error(
            log_file(LAST, ".timeindex"),
            36,
            f"the entry for time {START_MS + 99999} says offset 46, and the log ends before {END}",
        )
    ]


def test_the_largest_time_must_be_in_the_index_of_a_finished_segment(stopped: DataDirectory) -> None:
    stopped.truncate(log_file(FIRST, ".timeindex"), 12)

    assert stopped.findings() == [
        warning(
            log_file(FIRST, ".timeindex"),
            None,
            f"the segment's largest timestamp, {START_MS + 5000}, is not in it (its last is {START_MS + 3003}): "
            "a search by time may miss records",
        )
    ]


# Transactions and producers


def test_an_aborted_transaction_must_be_in_the_index(stopped: DataDirectory) -> None:
    stopped.remove(log_file(FIRST, ".txnindex"))

    assert stopped.findings() == [
        error(
            log_file(FIRST, ".txnindex"),
            None,
            f"an aborted transaction is not in it: producer {ABORTING} from offset 9 to 11, last stable offset 12",
        )
    ]


def test_a_transaction_that_was_not_aborted_must_not_be_in_the_index(stopped: DataDirectory) -> None:
    stopped.write_file(log_file(SECOND, ".txnindex"), struct.pack(">hqqqq", 0, IDEMPOTENT, 12, 14, 15))

    assert stopped.findings() == [
        error(
            log_file(SECOND, ".txnindex"),
            None,
            f"it says producer {IDEMPOTENT} from offset 12 to 14, last stable offset 15; the log has no such abort",
        )
    ]


def test_an_aborted_transaction_must_be_told_as_it_was(stopped: DataDirectory) -> None:
    stopped.put(log_file(LAST, ".txnindex"), 34 + 26, struct.pack(">q", 35))

    assert stopped.findings() == [
        error(
            log_file(LAST, ".txnindex"),
            None,
            f"it says producer {ABORTING} from offset 32 to 34, last stable offset 35; "
            f"the log says producer {ABORTING} from offset 32 to 34, last stable offset 30",
        )
    ]


def test_a_torn_transaction_index_is_repaired_after_a_kill_only(stopped: DataDirectory, killed: DataDirectory) -> None:
    for directory in (stopped, killed):
        directory.truncate(log_file(LAST, ".txnindex"), 50)
    sentence = "16 bytes are left at the end, and an entry takes 34"

    assert stopped.findings() == [error(log_file(LAST, ".txnindex"), 34, sentence)]
    assert killed.findings() == [
        warning(log_file(LAST, ".txnindex"), 34, f"{sentence}; recovery builds the index again")
    ]


def edit_snapshot(directory: DataDirectory, name: str, who: int, /, **changes: int) -> None:
    entries = decode_snapshot(name, directory.read(name))
    directory.write_file(
        name,
        encode_snapshot(entry._replace(**changes) if entry.producer_id == who else entry for entry in entries),
    )


@pytest.mark.parametrize(
    ("producer_id", "changes", "sentence"),
    [
        (IDEMPOTENT, {"last_sequence": 4}, "the snapshot says last sequence 4, the log says 7"),
        (IDEMPOTENT, {"last_offset": 22}, "the snapshot says last offset 22, the log says 23"),
        (IDEMPOTENT, {"epoch": 1}, "the snapshot says epoch 1, the log says 0"),
        (ABORTING, {"coordinator_epoch": 9}, "the snapshot says coordinator epoch 9, the log says 3"),
        (OPEN, {"transaction_first_offset": -1}, "the snapshot says transaction first offset -1, the log says 30"),
    ],
)
def test_a_producer_must_be_told_as_it_was(
    stopped: DataDirectory, producer_id: int, changes: dict[str, int], sentence: str
) -> None:
    name = log_file(END, ".snapshot")
    edit_snapshot(stopped, name, producer_id, **changes)

    assert stopped.findings() == [error(name, None, f"producer {producer_id}: {sentence}")]


def test_a_producer_that_the_log_does_not_know_is_found(stopped: DataDirectory) -> None:
    name = log_file(SECOND, ".snapshot")
    edit_snapshot(stopped, name, IDEMPOTENT, producer_id=70)

    assert stopped.findings() == [
        error(name, None, "producer 70 has its last batch at offset 8, and the log has none of it")
    ]


def test_a_producer_from_behind_the_snapshot_is_found(stopped: DataDirectory) -> None:
    name = log_file(SECOND, ".snapshot")
    edit_snapshot(stopped, name, IDEMPOTENT, last_offset=12)

    assert stopped.findings() == [
        error(name, None, f"producer {IDEMPOTENT} has its last batch at offset 12, and the snapshot is of offset 12")
    ]


def test_a_producer_may_have_expired_unless_it_has_a_transaction_open(stopped: DataDirectory) -> None:
    name = log_file(END, ".snapshot")
    entries = decode_snapshot(name, stopped.read(name))

    stopped.write_file(name, encode_snapshot(entry for entry in entries if entry.producer_id != IDEMPOTENT))
    assert stopped.findings() == []

    stopped.write_file(name, encode_snapshot(entry for entry in entries if entry.producer_id != OPEN))
    assert stopped.findings() == [
        error(name, None, f"producer {OPEN} is not in it, and has a transaction open from offset 30 on")
    ]


def test_a_damaged_snapshot_is_found(stopped: DataDirectory) -> None:
    name = log_file(END, ".snapshot")
    stopped.flip(name, 20)

    (found,) = stopped.findings()

    assert (found.severity, found.path) == (Severity.ERROR, name)
    assert found.sentence.startswith("its checksum is wrong: the header says 0x")


def test_a_snapshot_beyond_the_log_is_found(stopped: DataDirectory, killed: DataDirectory) -> None:
    name = log_file(50, ".snapshot")
    sentence = f"the snapshot is of offset 50, and the log ends at {END}"
    for directory in (stopped, killed):
        directory.write_file(name, encode_snapshot([]))

    assert stopped.findings() == [error(name, None, sentence)]
    assert killed.findings() == [warning(name, None, f"{sentence}; recovery sees to it")]


def test_a_clean_stop_leaves_a_snapshot_at_the_end(stopped: DataDirectory) -> None:
    stopped.remove(log_file(END, ".snapshot"))

    (found,) = stopped.findings()

    assert (found.severity, found.path) == (Severity.WARNING, log_file(END, ".snapshot"))
    assert found.sentence.startswith("the file is missing after a clean stop")


def test_a_log_that_begins_later_is_judged_from_its_first_snapshot(stopped: DataDirectory) -> None:
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        stopped.remove(log_file(FIRST, suffix))

    assert stopped.findings() == []

    stopped.remove(log_file(SECOND, ".snapshot"))
    assert stopped.findings() == []


def test_a_marker_that_cannot_be_read_is_found(stopped: DataDirectory) -> None:
    name = log_file(LAST)
    marker = bytearray(
        build_end_txn_marker(ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0)
    )
    position = stopped.batches(name)[0][0]
    assert len(marker) == stopped.batches(name)[0][1].size_bytes
    # The type in the marker's key: a snapshot's header, which ends no transaction.
    stopped.put(name, position + 61 + 8, b"\x03")
    stopped.reseal(name, position)

    found = stopped.findings()

    assert (found[0].path, found[0].position) == (name, 61)
    assert found[0].sentence.startswith("the marker in the control batch at offset 26 cannot be read: ")


# Leader epochs


def test_a_batch_must_lie_in_the_range_of_its_epoch(stopped: DataDirectory) -> None:
    stopped.write_file("orders-0/leader-epoch-checkpoint", b"0\n2\n0 0\n1 18\n")

    assert stopped.findings() == [
        error(
            "orders-0/leader-epoch-checkpoint",
            None,
            "offset 15 was written in leader epoch 1, and the checkpoint says epoch 0",
        )
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"0\n2\n1 0\n0 15\n", "epoch 0 from offset 15 follows epoch 1 from offset 0: both must rise"),
        (b"0\n1\n1 15\n", "offset 0 was written in leader epoch 0, and the checkpoint says none"),
        (b"0\n1\n0 1\n", "offset 0 was written in leader epoch 0, and the checkpoint says none"),
        (b"0\n3\n0 0\n1 15\n2 99\n", f"epoch 2 begins at offset 99, and the log ends at {END}"),
        (b"0\n3\n0 0\n1 15\n", "it announces 3 entries but has 2"),
    ],
)
def test_a_wrong_epoch_checkpoint_is_found(stopped: DataDirectory, content: bytes, sentence: str) -> None:
    stopped.write_file("orders-0/leader-epoch-checkpoint", content)

    assert stopped.findings() == [error("orders-0/leader-epoch-checkpoint", None, sentence)]


EPOCHS = "orders-0/leader-epoch-checkpoint"
MISSING = warning(EPOCHS, None, "the file is missing: leader and followers cannot tell where their logs part")


@pytest.mark.parametrize(
    ("recovery_point", "content", "findings"),
    [
        # Tidelog writes the file when the recovery point moves, Apache Kafka makes an empty one with the log.
        (0, None, []),
        (0, b"", []),
        (1, None, [MISSING]),
        (0, b"0\n1\n0 0\n", []),
        (15, b"0\n1\n0 0\n", []),
        (
            16,
            b"0\n1\n0 0\n",
            [error(EPOCHS, None, "offset 15 was written in leader epoch 1, and the checkpoint says epoch 0")],
        ),
        # What the file does say is held against the log anywhere.
        (
            0,
            b"0\n2\n0 0\n1 5\n",
            [error(EPOCHS, None, "offset 5 was written in leader epoch 0, and the checkpoint says epoch 1")],
        ),
    ],
)
def test_epochs_must_be_known_before_the_recovery_point(
    killed: DataDirectory, recovery_point: int, content: bytes | None, findings: list[Finding]
) -> None:
    killed.write_file("recovery-point-offset-checkpoint", b"0\n1\norders 0 %d\n" % recovery_point)
    killed.remove(EPOCHS)
    if content is not None:
        killed.write_file(EPOCHS, content)

    assert [each for each in killed.findings() if each.path == EPOCHS] == findings


def test_a_log_without_records_needs_no_epochs(stopped: DataDirectory) -> None:
    for name in stopped.files.list_directory("/data/orders-0"):
        if name != "partition.metadata":
            stopped.remove(f"orders-0/{name}")
    stopped.write_file(log_file(0), b"")

    assert [each for each in stopped.findings() if each.path == EPOCHS] == []


def test_the_first_epoch_may_begin_where_records_were_deleted_to(stopped: DataDirectory) -> None:
    stopped.write_file("orders-0/leader-epoch-checkpoint", b"0\n2\n0 1\n1 15\n")
    stopped.write_file("log-start-offset-checkpoint", b"0\n1\norders 0 1\n")

    assert stopped.findings() == []
