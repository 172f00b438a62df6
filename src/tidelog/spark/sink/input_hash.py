"""What a stream's batch is made of, as Spark itself has written it down: the entry `offsets/N` of the query's checkpoint.

Spark writes it before it runs the batch, and after a crash it runs the batch again by the same file. So equal bytes are the same
batch, and a batch of the same number from other bytes is another one: of a checkpoint that was restored or copied. The checkpoint
also says whose it is: `metadata` has the query's id.

A sink's `commit` runs in a process without a JVM. A checkpoint on this machine is read directly, one in an object store through
Arrow; what lies elsewhere (HDFS, a store whose keys only the JVM has) is not to be had here.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from tidelog.spark.errors import OptionError

# Some hundred thousand partitions; what is larger is no entry of Spark's.
ENTRY_BYTES_MAX = 64 * 1024 * 1024

# As Spark reads it: nothing in a path is escaped.
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(//[^/]*)?(?P<path>/.*)", re.ASCII | re.DOTALL)
_OBJECT_STORES = frozenset({"s3", "s3a"})


class InputUnreadableError(Exception):
    """The entry of a batch cannot be had, for a reason that is one sentence."""


def input_hash(checkpoint: str, batch_id: int) -> str:
    """The SHA-256 of a batch's entry, in hexadecimal digits. InputUnreadableError where it cannot be read."""
    return hashlib.sha256(_read(checkpoint, f"offsets/{batch_id}")).hexdigest()


def query_id(checkpoint: str) -> str:
    """The id of the query that a checkpoint belongs to. InputUnreadableError where it cannot be read."""
    try:
        found = msgspec.json.decode(_read(checkpoint, "metadata"), type=_Metadata)
    except msgspec.DecodeError as error:
        raise InputUnreadableError(
            f"metadata in the checkpoint {checkpoint} is not as Spark writes it: {error}"
        ) from None
    return found.id


class _Metadata(msgspec.Struct):
    id: str


def _read(checkpoint: str, name: str) -> bytes:
    match = _URL.fullmatch(checkpoint)
    scheme = "file" if match is None else match["scheme"]
    if scheme != "file" and scheme not in _OBJECT_STORES:
        raise InputUnreadableError(f"a checkpoint at {scheme}: is out of reach of the process that commits")
    try:
        if scheme == "file":
            return _read_here(checkpoint if match is None else match["path"], name)
        return _read_from_store(checkpoint, name)
    except (OSError, OptionError) as error:
        raise InputUnreadableError(f"{name} in the checkpoint {checkpoint} cannot be read: {error}") from None


def _read_here(directory: str, name: str) -> bytes:
    with (Path(directory) / name).open("rb") as file:
        content = file.read(ENTRY_BYTES_MAX + 1)
    if len(content) > ENTRY_BYTES_MAX:
        raise OSError(f"it has more than {ENTRY_BYTES_MAX} bytes")
    return content


def _read_from_store(checkpoint: str, name: str) -> bytes:
    from tidelog.spark.outputs.storage import Storage  # noqa: PLC0415 - Arrow's file systems, only where one is needed

    return Storage.at(checkpoint).read(name, bytes_max=ENTRY_BYTES_MAX)
