"""Unit tests of compaction."""
