"""The mark of a clean stop: `.kafka_cleanshutdown`, the last file that a node writes and the first that it removes.

    {"version":0,"brokerEpoch":42}

With it, nothing has to be recovered. The broker epoch proves to the controller that this stop was the end of that very
registration (KIP-966); a mark without it, from an older Kafka, still spares the recovery.
"""

from __future__ import annotations

import json

from tidelog.model.ids import BrokerEpoch
from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files

FILE_NAME = ".kafka_cleanshutdown"
FILE_BYTES_MAX = 4 * 1024
VERSION = 0


def was_clean_shutdown(files: Files, directory: str) -> bool:
    """Whether the directory carries the mark, whatever is in it."""
    return files.exists(f"{directory}/{FILE_NAME}")


def read_clean_shutdown_epoch(files: Files, directory: str) -> BrokerEpoch | None:
    """The broker epoch of the mark. None without a mark, or where it cannot be read: then nothing is proven."""
    try:
        content = files.read_bytes(f"{directory}/{FILE_NAME}", FILE_BYTES_MAX)
        mark = json.loads(content)
    except StorageError as error:
        if error.is_missing or error.errno is None:
            return None
        raise
    except (ValueError, RecursionError):
        return None
    epoch = mark.get("brokerEpoch") if isinstance(mark, dict) else None
    return BrokerEpoch(epoch) if type(epoch) is int else None


def write_clean_shutdown(files: Files, directory: str, broker_epoch: BrokerEpoch) -> None:
    """Leave the mark, durably. Everything else must be durable before."""
    content = json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.write_bytes_atomically(f"{directory}/{FILE_NAME}", content.encode("ascii"))


def remove_clean_shutdown(files: Files, directory: str) -> None:
    """Take the mark away, durably: from here on a crash must be found out."""
    if files.remove(f"{directory}/{FILE_NAME}"):
        files.sync_directory(directory)
