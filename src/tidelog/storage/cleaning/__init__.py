"""Compaction: a log keeps the last record of every key. See README.md."""
