"""What Spark's Java says on its standard error, kept instead of shown: the last of it tells why Spark has not started.

Java itself, the launcher and Spark's log write there before any level of logging can be set.
"""

from __future__ import annotations

import os
import re
import threading

# Enough for the trace of an error. Spark may run for months.
KEPT_BYTES_MAX = 64 * 1024

_REASON = re.compile(
    r"^(?:Error: |Exception in thread \S+ (?:[\w.$]+: )?|Caused by: (?:[\w.$]+: )?)(.+)$", re.MULTILINE
)


class SparkLog:
    """A pipe that is read as long as somebody writes into it. `descriptor` is for one process, which `hand_over` ends here."""

    def __init__(self) -> None:
        reading, self.descriptor = os.pipe()
        self._kept = b""
        self._thread = threading.Thread(target=self._read, args=(reading,), name="spark-log", daemon=True)
        self._thread.start()

    def hand_over(self) -> None:
        """Close this process's end of the pipe; the log then ends when the other process ends."""
        os.close(self.descriptor)

    def reason(self, timeout_s: float) -> str | None:
        """What a process that has ended says about it, in one sentence."""
        self._thread.join(timeout_s)
        text = self._kept.decode("utf-8", errors="replace")
        found = _REASON.findall(text)
        # The root cause is the last one.
        return str(found[-1]).strip() if found else None

    def _read(self, descriptor: int) -> None:
        while data := os.read(descriptor, KEPT_BYTES_MAX):
            self._kept = (self._kept + data)[-KEPT_BYTES_MAX:]
        os.close(descriptor)
