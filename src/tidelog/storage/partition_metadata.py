"""Which topic a partition's directory belongs to: `partition.metadata`. Names come back after a deletion, ids never.

version: 0
topic_id: F6Q5sCdKR3mLmpUTYTnHrQ            no line end behind it
"""

from __future__ import annotations

from tidelog.model.ids import ZERO_UUID, TopicId, uuid_from_text, uuid_to_text
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.files import TEMPORARY_SUFFIX, Files, parent_of, read_if_present

FILE_NAME = "partition.metadata"
FILE_BYTES_MAX = 4 * 1024
VERSION = 0


def read_partition_metadata(files: Files, directory: str) -> TopicId | None:
    """The topic id of a partition's directory, or None if it has no such file. `DamagedFileError` if it makes no sense."""
    path = f"{directory}/{FILE_NAME}"
    content = read_if_present(files, path, FILE_BYTES_MAX)
    if content is None:
        return None
    lines = content.decode("latin-1").splitlines()
    version = _value(path, lines, 0, "version")
    # A later version only adds lines: Kafka promises it, to be able to go back to an older release.
    if not version.isascii() or not version.isdigit():
        raise DamagedFileError(path, f"it has version {version[:20]!r}; {VERSION} or above is known")
    try:
        topic_id = TopicId(uuid_from_text(_value(path, lines, 1, "topic_id")))
    except ValueError as error:
        raise DamagedFileError(path, f"topic_id: {error}") from None
    if topic_id == ZERO_UUID:
        raise DamagedFileError(path, "the topic id is all zeros, which no topic has")
    return topic_id


def write_partition_metadata(files: Files, directory: str, topic_id: TopicId) -> None:
    """Write the topic id, atomically and durably."""
    files.write_bytes_atomically(f"{directory}/{FILE_NAME}", _content(topic_id))


# The same in steps, so that the disk is waited for by whoever has the time, and for many logs at once.


def begin_partition_metadata(files: Files, directory: str, topic_id: TopicId) -> None:
    """First step: the content, under a name that nobody reads. Nothing waits for the disk."""
    file = files.open(f"{directory}/{FILE_NAME}{TEMPORARY_SUFFIX}", create=True)
    try:
        file.pwritev([_content(topic_id)], 0)
    finally:
        file.close()


def force_partition_metadata(files: Files, directory: str) -> None:
    """Second step: the content reaches the disk. Harmless where somebody else has done that, or the directory is gone."""
    try:
        file = files.open(f"{directory}/{FILE_NAME}{TEMPORARY_SUFFIX}")
    except StorageError as error:
        if error.is_missing:
            return
        raise
    try:
        file.sync()
    finally:
        file.close()


def name_partition_metadata(files: Files, directory: str) -> None:
    """Third step: the content gets its name, which is durable once the directory is. Harmless where it has it already."""
    path = f"{directory}/{FILE_NAME}"
    try:
        files.rename(path + TEMPORARY_SUFFIX, path)
    except StorageError as error:
        if not error.is_missing:
            raise


def settle_partition_metadata(files: Files, directory: str, *, has_topic_id: bool) -> None:
    """All that is left of the steps, at once: what was begun, and the names of the directory and of its files, are on disk."""
    if has_topic_id:
        force_partition_metadata(files, directory)
        name_partition_metadata(files, directory)
    files.sync_directory(directory)
    files.sync_directory(parent_of(directory))


def _content(topic_id: TopicId) -> bytes:
    return f"version: {VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode("ascii")


def _value(path: str, lines: list[str], index: int, key: str) -> str:
    line = lines[index] if index < len(lines) else ""
    found, colon, value = line.partition(":")
    if found != key or not colon:
        raise DamagedFileError(path, f"line {index + 1} is {line[:100]!r}; expected {key}: ...")
    return value.strip()
