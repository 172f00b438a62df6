"""What a node does for its logs by the clock: retention, flushes, compaction, moves between directories."""
