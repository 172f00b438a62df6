"""`tidelog dump-log`: what is in the files of a data directory, down to the record.

A file is known by its name, as Kafka names it; a `.deleted`, `.swap`, `.cleaned` or `.part` behind it changes nothing. A
directory stands for the files in it that are so known: a partition's, a data directory's, all that `tidelog up` has made. What
cannot be read is said on stderr, one sentence a file, and the next file follows. The exit code is 1 if a file is damaged, 2 if
one could not be read at all, else 0.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tidelog.cli.files.dump_batches import each_batch_line, each_record_line
from tidelog.cli.files.dump_entries import (
    SMALL_FILE_BYTES_MAX,
    each_json_file_line,
    each_leader_epoch_line,
    each_offset_checkpoint_line,
    each_offset_index_line,
    each_producer_line,
    each_property_line,
    each_time_index_line,
    each_transaction_index_line,
)
from tidelog.cli.files.dump_lines import DamageLine, FileLine, Line
from tidelog.cli.files.internal_topics import CLUSTER_METADATA, DECODABLE_TOPICS, RecordDecoder, decoder_of
from tidelog.cli.rendering import Json, json_line, printable
from tidelog.storage import checkpoint_file, clean_shutdown, meta_properties, partition_metadata, producer_snapshot
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.files import File, Files
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_directory import parse_name
from tidelog.storage.verification.data_directories import NotADataDirectoryError, directories_at
from tidelog.storage.verification.log_scan import LogScan

EXIT_DAMAGED = 1
EXIT_UNREADABLE = 2


class FileKind(Enum):
    """The files of a data directory. The value is what a person calls them."""

    LOG = "log segment"
    METADATA_SNAPSHOT = "snapshot of the cluster metadata"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "index of aborted transactions"
    PRODUCER_SNAPSHOT = "snapshot of producers"
    OFFSET_CHECKPOINT = "checkpoint of offsets"
    LEADER_EPOCHS = "checkpoint of leader epochs"
    PARTITION_METADATA = "identity of a partition"
    META_PROPERTIES = "identity of a data directory"
    QUORUM_STATE = "state of the quorum"
    CLEAN_SHUTDOWN = "mark of a clean stop"


_BY_NAME = {
    checkpoint_file.RECOVERY_POINT_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    checkpoint_file.LOG_START_OFFSET_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    checkpoint_file.REPLICATION_OFFSET_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    checkpoint_file.CLEANER_OFFSET_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    checkpoint_file.LEADER_EPOCH_CHECKPOINT: FileKind.LEADER_EPOCHS,
    partition_metadata.FILE_NAME: FileKind.PARTITION_METADATA,
    meta_properties.FILE_NAME: FileKind.META_PROPERTIES,
    "quorum-state": FileKind.QUORUM_STATE,
    clean_shutdown.FILE_NAME: FileKind.CLEAN_SHUTDOWN,
}
_BY_SUFFIX = {
    ".log": FileKind.LOG,
    ".checkpoint": FileKind.METADATA_SNAPSHOT,
    ".index": FileKind.OFFSET_INDEX,
    ".timeindex": FileKind.TIME_INDEX,
    ".txnindex": FileKind.TRANSACTION_INDEX,
    producer_snapshot.SUFFIX: FileKind.PRODUCER_SNAPSHOT,
}
_BATCHES = {FileKind.LOG, FileKind.METADATA_SNAPSHOT}
_WITH_OFFSETS = _BATCHES | {FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX}

_SET_ASIDE = re.compile(r"\.(deleted|swap|cleaned|part)\Z")
_NUMBERED = re.compile(r"(?P<offset>[0-9]{20})(-(?P<epoch>[0-9]{10}))?\.[a-z]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What a person asked for. `start_offset` and `limit` hold for each file."""

    as_json: bool = False
    batches_only: bool = False
    start_offset: int | None = None
    limit: int | None = None
    decode_as: str | None = None
    shows_secrets: bool = False
    """Whether passwords and keys in metadata records are shown."""


class WrongOptionError(Exception):
    """Options that make no sense together, or with these files."""


def dump_files(paths: Sequence[str], options: DumpOptions) -> int:
    """Print the files one after the other. The exit code."""
    files = OsFiles()
    damaged = unreadable = False
    wanted: list[str] = []
    for path in paths:
        try:
            wanted += _files_in(files, path, options) if files.is_dir(path) else [path]
        except (NotADataDirectoryError, StorageError) as error:
            _complain(printable(str(error)))
            unreadable = True
    try:
        _check_options(wanted, options)
    except WrongOptionError as error:
        _complain(str(error))
        return EXIT_UNREADABLE
    for path in wanted:
        try:
            damaged |= _dump_file(files, path, options)
        except StorageError as error:
            _complain(_advice(path, error))
            unreadable = True
    return EXIT_DAMAGED if damaged else EXIT_UNREADABLE if unreadable else 0


def kind_of(path: str) -> FileKind | None:
    """What a file is, by its name."""
    name = Path(path).name
    stem, dot, suffix = _SET_ASIDE.sub("", name).rpartition(".")
    return _BY_NAME.get(name) or (_BY_SUFFIX.get(dot + suffix) if stem else None)


def _files_in(files: Files, path: str, options: DumpOptions) -> list[str]:
    """The files of known kinds that a directory stands for, only those that the options are about."""
    about: set[FileKind | None] = set(FileKind)
    if options.batches_only or options.decode_as is not None:
        about &= _BATCHES
    if options.start_offset is not None:
        about &= _WITH_OFFSETS
    found = []
    for directory in directories_at(files, path):
        for name in files.list_directory(directory):
            below = f"{directory}/{name}"
            if not files.is_dir(below):
                found.append(below)
            elif parse_name(name) is not None:
                found += [f"{below}/{each}" for each in files.list_directory(below)]
    wanted = [each for each in found if kind_of(each) in about and not files.is_dir(each)]
    if not wanted:
        raise NotADataDirectoryError(f"{path} holds no file to show: none of the kind that was asked for is in it")
    return wanted


def _check_options(paths: Sequence[str], options: DumpOptions) -> None:
    kinds = {kind_of(path) for path in paths}
    if options.decode_as is not None and options.decode_as not in DECODABLE_TOPICS:
        raise WrongOptionError(
            f"--decode-as takes one of {', '.join(DECODABLE_TOPICS)}, and {printable(options.decode_as)} is none of them"
        )
    if options.decode_as is not None and options.batches_only:
        raise WrongOptionError("--decode-as is about records and --batches leaves them out: use one of the two")
    for name, given, has_use in (
        ("--batches", options.batches_only, _BATCHES),
        ("--decode-as", options.decode_as is not None, _BATCHES),
        ("--offset", options.start_offset is not None, _WITH_OFFSETS),
    ):
        if given and paths and not kinds & has_use and kinds != {None}:
            raise WrongOptionError(f"{name} has no meaning for {printable(paths[0])}: {_name_of(kind_of(paths[0]))}")


def _name_of(kind: FileKind | None) -> str:
    return kind.value if kind is not None else "file of no known kind"


def _dump_file(files: Files, path: str, options: DumpOptions) -> bool:
    """Print one file. Whether it is damaged."""
    kind = kind_of(path)
    if files.exists(path) and not Path(path).is_file():
        # To open a pipe is to wait for who writes into it.
        raise StorageError(path, "dump", None, "it is no regular file")
    file = files.open(path, writable=False)
    try:
        if kind is None:
            raise StorageError(
                path,
                "dump",
                None,
                "its name is none that Kafka gives to a file in a data directory, such as 00000000000000000000.log",
            )
        for line in _lines_of(files, file, kind, options):
            if isinstance(line, DamageLine):
                if options.as_json:
                    _print(json_line(line.as_json()))
                sys.stdout.flush()
                _complain(f"{printable(path)}: {line.as_text()}")
                return True
            _print(json_line(line.as_json()) if options.as_json else line.as_text())
    finally:
        file.close()
    return False


def _lines_of(files: Files, file: File, kind: FileKind, options: DumpOptions) -> Iterator[Line]:
    path = file.path
    name = _NUMBERED.match(_SET_ASIDE.sub("", Path(path).name))
    base_offset = int(name["offset"]) if name is not None else None
    facts: dict[str, Json] = {}
    if kind is FileKind.METADATA_SNAPSHOT and name is not None:
        facts = {"end_offset": base_offset, "epoch": int(name["epoch"] or 0)}
    elif base_offset is not None:
        facts = {"offset" if kind is FileKind.PRODUCER_SNAPSHOT else "base_offset": base_offset}
    yield FileLine(path, kind.value, file.size(), facts)
    start_offset = options.start_offset if options.start_offset is not None else -1
    limit = options.limit
    match kind:
        case FileKind.LOG | FileKind.METADATA_SNAPSHOT:
            scan = LogScan(file, base_offset=base_offset if kind is FileKind.LOG else None)
            if options.batches_only:
                yield from each_batch_line(scan, start_offset=start_offset, limit=limit)
            else:
                decoder = _decoder_for(path, kind, options)
                yield from each_record_line(scan, decoder, start_offset=start_offset, limit=limit)
        case FileKind.OFFSET_INDEX:
            yield from each_offset_index_line(file, base_offset or 0, start_offset, limit)
        case FileKind.TIME_INDEX:
            yield from each_time_index_line(file, base_offset or 0, start_offset, limit)
        case FileKind.TRANSACTION_INDEX:
            yield from each_transaction_index_line(file, base_offset or 0, start_offset, limit)
        case _:
            yield from _small_file_lines(files, file, kind, limit)


def _small_file_lines(files: Files, file: File, kind: FileKind, limit: int | None) -> Iterator[Line]:
    try:
        content = files.read_bytes(file.path, SMALL_FILE_BYTES_MAX)
    except DamagedFileError as error:
        yield DamageLine(SMALL_FILE_BYTES_MAX, error.reason)
        return
    directory = str(Path(file.path).parent)
    match kind:
        case FileKind.PRODUCER_SNAPSHOT:
            yield from each_producer_line(content, limit)
        case FileKind.OFFSET_CHECKPOINT:
            yield from each_offset_checkpoint_line(content, limit)
        case FileKind.LEADER_EPOCHS:
            yield from each_leader_epoch_line(content, limit)
        case FileKind.PARTITION_METADATA:
            yield from each_property_line(lambda: partition_metadata.read_partition_metadata(files, directory), content)
        case FileKind.META_PROPERTIES:
            yield from each_property_line(lambda: meta_properties.read_meta_properties(files, directory), content)
        case _:
            yield from each_json_file_line(content)


def _decoder_for(path: str, kind: FileKind, options: DumpOptions) -> RecordDecoder | None:
    if options.decode_as is not None:
        return decoder_of(options.decode_as, shows_secrets=options.shows_secrets)
    if kind is FileKind.METADATA_SNAPSHOT:
        return decoder_of(CLUSTER_METADATA, shows_secrets=options.shows_secrets)
    directory = parse_name(Path(path).absolute().parent.name)
    if directory is None:
        return None
    return decoder_of(directory.topic_partition.topic, shows_secrets=options.shows_secrets)


def _advice(path: str, error: StorageError) -> str:
    if error.is_missing:
        return f"{printable(path)} does not exist"
    return printable(str(error))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def _complain(sentence: str) -> None:
    sys.stderr.write(f"tidelog dump-log: {sentence}\n")
