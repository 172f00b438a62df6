"""Checks what the directory of `__cluster_metadata` holds beyond a log: its snapshots and the state of the quorum.

<offset>-<epoch>.checkpoint    batches that begin with a snapshot header and end with a footer. Together with the log they hold
                               everything: the log may begin no later than the newest of them ends
quorum-state                   the last epoch that this node voted in: never below an epoch in its log
"""

from __future__ import annotations

import json
import re

from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files
from tidelog.storage.verification.findings import Report
from tidelog.storage.verification.log_scan import LogScan
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.control_records import ControlType, read_control_type
from tidelog.wire.record_batch import HEADER_BYTES
from tidelog.wire.records import decode_batch

METADATA_TOPIC = "__cluster_metadata"
BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
QUORUM_STATE = "quorum-state"

_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)
_QUORUM_STATE_BYTES_MAX = 1024 * 1024
_QUORUM_STATE_VERSIONS = (0, 1)


def is_metadata_file(name: str) -> bool:
    """Whether a file of the metadata partition is checked here."""
    return name == QUORUM_STATE or _SNAPSHOT.fullmatch(name) is not None


def check_snapshots(files: Files, directory: str, shown: str, report: Report, *, log_start_offset: int) -> None:
    """Check every snapshot, and that none of the log's offsets is nowhere."""
    snapshots = {
        name: int(match[1]) for name in files.list_directory(directory) if (match := _SNAPSHOT.fullmatch(name))
    }
    for name in snapshots:
        check_snapshot(files, f"{directory}/{name}", shown + name, report)
    newest = max(snapshots.values(), default=0)
    if log_start_offset > newest:
        report.error(
            shown.rstrip("/") or ".",
            f"the log begins at offset {log_start_offset} and the newest snapshot ends at {newest}: what lies between is lost",
        )


def check_snapshot(files: Files, path: str, shown: str, report: Report) -> None:
    """Check that a snapshot is whole, from its header to its footer."""
    try:
        file = files.open(path, writable=False)
    except StorageError as error:
        if not error.is_missing:
            report.error(shown, str(error))
        return
    try:
        _check_batches(LogScan(file), shown, report)
    except StorageError as error:
        report.error(shown, str(error))
    finally:
        file.close()


def _check_batches(scan: LogScan, shown: str, report: Report) -> None:
    first: ControlType | None = None
    last: ControlType | None = None
    for batch in scan:
        last = None
        if batch.header.is_control:
            try:
                types = [read_control_type(record.key) for record in decode_batch(batch.data, batch.header)]
            except CorruptBatchError as error:
                report.error(shown, f"a control batch does not decode: {error}", batch.position + HEADER_BYTES)
                return
            first = first if scan.batches > 1 or not types else types[0]
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
        version, epoch = state["data_version"], state["leaderEpoch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        report.error(shown, "it is not the JSON object that Kafka writes: a data_version and a leaderEpoch at least")
        return
    if version not in _QUORUM_STATE_VERSIONS:
        report.error(shown, f"it has data_version {version!r}; only 0 and 1 are known")
    elif not isinstance(epoch, int):
        report.error(shown, f"its leaderEpoch, {epoch!r}, is no number")
    elif epoch < last_epoch:
        report.error(shown, f"it says leader epoch {epoch}, and the log has batches of epoch {last_epoch}")
