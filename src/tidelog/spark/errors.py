"""What can go wrong between Spark and a topic. The text is one sentence for a person; Spark shows it above its own trace.

SourceError
├── OptionError       an option that does not exist, cannot have this value, or contradicts another one
├── DataLossError     records that were to be read are gone, and `failOnDataLoss` is true
└── UnreadableError   the cluster or a file does not give what it says that it has
"""

from __future__ import annotations


class SourceError(Exception):
    """Anything that keeps Spark from reading a topic."""


class OptionError(SourceError, ValueError):
    """Found before any job starts."""


class DataLossError(SourceError):
    """Records were deleted, or their topic was, before they were read."""


class UnreadableError(SourceError):
    """Records that should be there did not come in time, or are damaged."""
