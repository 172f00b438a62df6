"""One connection to a database, by as little as an end needs: statements, rows to be staged, and rows to be read.

Every statement that a batch runs goes through `execute`, beginning and commit included: tests cut an end at each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

# Read at once by an audit.
ROWS_READ_MAX = 10_000


class Result(NamedTuple):
    rows: list[tuple[object, ...]]
    changed: int
    """Rows that a statement has changed."""


class Session(Protocol):
    """Nothing is begun unless a statement begins it. `close` takes back what is not committed."""

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Result: ...

    def load(self, table: str, batch: pa.RecordBatch) -> int:
        """Add rows to a table, whose name is quoted; their bytes."""

    def read(self, statement: str) -> Iterator[list[tuple[object, ...]]]:
        """The answer in pieces of `ROWS_READ_MAX` rows."""

    def close(self) -> None: ...
