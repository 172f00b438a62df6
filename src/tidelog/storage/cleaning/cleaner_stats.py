"""What a cleaning has read, kept and written."""

from __future__ import annotations

from msgspec import Struct


class CleanerStats(Struct):
    """Of one cleaning of one log. `map_*` are of the first pass, the others of the second."""

    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless_records: int = 0
    """Records without a key, which a compacted topic refuses: from a time when it was another one. They go."""
    map_utilization: float = 0.0
    elapsed_ms: int = 0
