"""What can go wrong between Spark and a topic. The text is one sentence for a person; Spark shows it above its own trace.

SourceError
├── OptionError       an option that does not exist, cannot have this value, or contradicts another one
├── DataLossError     records that were to be read are gone, and `failOnDataLoss` is true
└── UnreadableError   the cluster or a file does not give what it says that it has

SinkError
├── UnwritableError        a row that cannot be a record, or records that the cluster did not take
├── UndecidedError         a batch that is not decided: nothing of it counts, and the same batch may be tried again
├── UnfinishedError        a batch that is decided and not all there yet: the next run goes on with it
├── SupersededError        another run of the query has taken over
├── BatchOrderError        a batch from before the last one that counts, as from an old checkpoint
├── BatchInputError        a batch under the number of the last one that counts, made from other input
├── OutputStoppedError     a table or database refuses rows of a batch that is decided
└── LostTransactionError   part of a batch that was decided has been aborted, and cannot be had back
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


class SinkError(Exception):
    """Anything that keeps Spark from writing to a topic."""


class UnwritableError(SinkError):
    """A row that cannot be a record, or records that the cluster did not take."""


class UndecidedError(SinkError):
    """A batch could not be decided, and nothing of it will ever be seen."""


class UnfinishedError(SinkError):
    """A batch is decided, or may be; not all of its transactions are known to be committed. The next run sees to it."""


class SupersededError(SinkError):
    """A newer run of the query has taken over: this one may decide nothing more."""


class BatchOrderError(SinkError):
    """A batch that is older than the last one that was decided."""


class BatchInputError(SinkError):
    """A batch has the number of the last one that was finished, and is another one: its rows are not there."""


class OutputStoppedError(SinkError):
    """A batch is decided, and a table or database does not take its rows as things are: somebody has to see to it."""


class LostTransactionError(SinkError):
    """Some transactions of a decided batch were aborted, and others may be committed: the query cannot go on by itself."""
