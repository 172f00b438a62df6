"""Checks what the directory of `__cluster_metadata` holds beyond a log: its snapshots and the state of the quorum.

    <offset>-<epoch>.checkpoint    batches that begin with a snapshot header and end with a footer. Together with the log they
                                   hold everything: the log may begin no later than the newest of them ends
    quorum-state                   the last epoch that this node voted in: never below an epoch in its log

On the way it learns which topics the cluster knows, for the other partitions to be compared with.
"""

from __future__ import annotations

import json
import re

from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files
from tidelog.storage.verification.findings import Report
from tidelog.storage.verification.log_scan import LogScan, ScannedBatch
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.control_records import ControlType, read_control_type
from tidelog.wire.errors import UnknownRecordError, WireError
from tidelog.wire.internal_records import decode_metadata_record
from tidelog.wire.messages.internal.cluster_metadata import TopicRecord
from tidelog.wire.record_batch import HEADER_BYTES
from tidelog.wire.records import decode_batch

METADATA_TOPIC = "__cluster_metadata"
# The same in every cluster: no record can name the topic of the records.
METADATA_TOPIC_ID = bytes(15) + b"\x01"
BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
QUORUM_STATE = "quorum-state"

_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)
_QUORUM_STATE_BYTES_MAX = 1024 * 1024
# The numbers that a quorum-state of each version must have.
_QUORUM_STATE_NUMBERS = {
    0: ("leaderId", "leaderEpoch", "votedId", "appliedOffset"),
    1: ("leaderId", "leaderEpoch", "votedId"),
}


class KnownTopics:
    """The topics that the cluster metadata name, deleted ones among them, with every id that a name has had."""

    def __init__(self, report: Report) -> None:
        self.ids: dict[str, set[bytes]] = {}
        self._report = report

    def add(self, shown: str, batch: ScannedBatch) -> None:
        """Take in a batch of the metadata log or of a snapshot. Reports the first record of it that makes no sense."""
        if batch.header.is_control:
            return
        offset = batch.header.base_offset
        try:
            for record in decode_batch(batch.data, batch.header):
                offset = record.offset
                message = decode_metadata_record(record.value or b"").message
                if isinstance(message, TopicRecord):
                    self.ids.setdefault(message.name, set()).add(message.topic_id)
        except UnknownRecordError as error:
            self._report.warning(shown, f"the record at offset {offset} is of a later release: {error}", batch.position)
        except (CorruptBatchError, WireError) as error:
            self._report.error(shown, f"the record at offset {offset} does not decode: {error}", batch.position)


def is_metadata_file(name: str) -> bool:
    """Whether a file of the metadata partition is checked here."""
    return name == QUORUM_STATE or _SNAPSHOT.fullmatch(name) is not None


def check_snapshots(
    files: Files, directory: str, shown: str, report: Report, topics: KnownTopics, *, log_start_offset: int
) -> None:
    """Check every snapshot, and that none of the log's offsets is nowhere."""
    newest = 0
    for name in files.list_directory(directory):
        if (match := _SNAPSHOT.fullmatch(name)) is not None:
            newest = max(newest, int(match[1]))
            check_snapshot(files, f"{directory}/{name}", shown + name, report, topics, epoch=int(match[2]))
    if log_start_offset > newest:
        report.error(
            shown.rstrip("/") or ".",
            f"the log begins at offset {log_start_offset} and the newest snapshot ends at {newest}: "
            "what lies between is lost",
        )


def check_snapshot(
    files: Files, path: str, shown: str, report: Report, topics: KnownTopics, *, epoch: int | None = None
) -> None:
    """Check that a snapshot is whole, from its header to its footer. `epoch` is the one of its name."""
    try:
        file = files.open(path, writable=False)
    except StorageError as error:
        if not error.is_missing:
            report.error(shown, str(error))
        return
    try:
        _check_batches(LogScan(file), shown, report, topics, epoch)
    except StorageError as error:
        report.error(shown, str(error))
    finally:
        file.close()


def _check_batches(scan: LogScan, shown: str, report: Report, topics: KnownTopics, epoch: int | None) -> None:
    first: ControlType | None = None
    last: ControlType | None = None
    for batch in scan:
        header = batch.header
        if epoch is not None and header.partition_leader_epoch != epoch:
            sentence = f"a batch of leader epoch {header.partition_leader_epoch} in a snapshot of epoch {epoch}"
            report.error(shown, sentence, batch.position)
            return
        topics.add(shown, batch)
        last = None
        if header.is_control:
            try:
                types = [read_control_type(record.key) for record in decode_batch(batch.data, header)]
            except CorruptBatchError as error:
                report.error(shown, f"a control batch does not decode: {error}", batch.position + HEADER_BYTES)
                return
            first = types[0] if types and batch.position == 0 else first
            last = types[-1] if types else None
    report.batches += scan.batches
    report.bytes_checked += scan.size
    if scan.damage is not None:
        report.error(shown, scan.damage.sentence, scan.damage.position)
    elif scan.zeros:
        report.error(shown, f"{scan.zeros} zero bytes to the end, where a snapshot has none", scan.position)
    elif first is not ControlType.SNAPSHOT_HEADER:
        report.error(shown, "it does not begin with a snapshot's header", 0)
    elif last is not ControlType.SNAPSHOT_FOOTER:
        report.error(shown, "it does not end with a snapshot's footer: it was not written to its end", scan.size)


def check_quorum_state(files: Files, directory: str, shown: str, report: Report, *, last_epoch: int) -> None:
    """Check the file, if there is one, against the last epoch in the log."""
    shown += QUORUM_STATE
    try:
        content = files.read_bytes(f"{directory}/{QUORUM_STATE}", _QUORUM_STATE_BYTES_MAX)
    except StorageError as error:
        if not error.is_missing:
            report.error(shown, error.reason)
        return
    try:
        state = json.loads(content)
    except (ValueError, RecursionError):
        state = None
    if not isinstance(state, dict):
        report.error(shown, "it is not the JSON object that Kafka writes")
        return
    version = state.get("data_version")
    if type(version) is not int or version not in _QUORUM_STATE_NUMBERS:
        report.error(shown, f"it has data_version {version!r}; only 0 and 1 are known")
        return
    wrong = [name for name in _QUORUM_STATE_NUMBERS[version] if type(state.get(name)) is not int]
    if wrong:
        report.error(shown, f"{wrong[0]} is missing, or no number")
    elif state["leaderEpoch"] < last_epoch:
        report.error(
            shown, f"it says leader epoch {state['leaderEpoch']}, and the log has batches of epoch {last_epoch}"
        )
