"""What a stream's batch is made of, as Spark itself has written it down: the entry `offsets/N` of the query's checkpoint.

Spark writes it before it runs the batch, and after a crash it runs the batch again by the same file. So equal bytes are the same
batch, and a batch of the same number from other bytes is another one: of a checkpoint that was restored or copied.

A sink's `commit` runs in a process without a JVM. A checkpoint on this machine is read directly, one in an object store through
Arrow; what lies elsewhere (HDFS, a store whose keys only the JVM has) is not to be had here.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

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
    match = _URL.fullmatch(checkpoint)
    scheme = "file" if match is None else match["scheme"]
    if scheme != "file" and scheme not in _OBJECT_STORES:
        raise InputUnreadableError(f"a checkpoint at {scheme}: is out of reach of the process that commits")
    try:
        if scheme == "file":
            entry = _read_here(checkpoint if match is None else match["path"], batch_id)
        else:
            entry = _read_from_store(checkpoint, batch_id)
    except (OSError, OptionError) as error:
        raise InputUnreadableError(
            f"the entry of batch {batch_id} in the checkpoint {checkpoint} cannot be read: {error}"
        ) from None
    return hashlib.sha256(entry).hexdigest()


def _read_here(directory: str, batch_id: int) -> bytes:
    with (Path(directory) / "offsets" / str(batch_id)).open("rb") as file:
        entry = file.read(ENTRY_BYTES_MAX + 1)
    if len(entry) > ENTRY_BYTES_MAX:
        raise OSError(f"it has more than {ENTRY_BYTES_MAX} bytes")
    return entry


def _read_from_store(checkpoint: str, batch_id: int) -> bytes:
    from tidelog.spark.outputs.storage import Storage  # noqa: PLC0415 - Arrow's file systems, only where one is needed

    return Storage.at(checkpoint).read(f"offsets/{batch_id}", bytes_max=ENTRY_BYTES_MAX)
