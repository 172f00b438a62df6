"""What of a file is in memory, and how to get it there: a read of a cold file would make every connection of the loop wait."""

from __future__ import annotations

import os

# Reads only what is in memory already, or fails; Linux. Where it is missing, a read of a cold file is waited for.
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)

_ONE_BYTE = [bytearray(1)]


def is_warm(descriptor: int, position: int) -> bool:
    """Whether a byte can be read without waiting for the disk."""
    if _NO_WAIT is None:
        return True
    try:
        os.preadv(descriptor, _ONE_BYTE, position, _NO_WAIT)
    except BlockingIOError:
        return False
    except OSError:
        # The file system cannot tell, as memory-backed ones cannot.
        return True
    return True


def read_ahead(duplicate: int, position: int, count: int) -> None:
    """Reads a region, for a thread that may wait. The descriptor is closed."""
    try:
        buffer = bytearray(min(count, 128 * 1024))
        end = position + count
        while position < end:
            read = os.preadv(duplicate, [memoryview(buffer)[: end - position]], position)
            if not read:
                return
            position += read
    finally:
        os.close(duplicate)
